/* model_attention.c - see model_attention.h. */
#include "model/model_attention.h"

#include <string.h>

enum {
    Q = 1u << MODEL_Q,
    K = 1u << MODEL_K,
    V = 1u << MODEL_V,
    O = 1u << MODEL_O,
    CONCAT = 1u << MODEL_CONCAT,
    SCORE = 1u << MODEL_SCORE,
};

static const struct model_attention KINDS[] = {
    { "scaled_dot_product", 0, Q | K | V | O, true, true, "" },
    { "dot", 0, Q | K | V | O, true, false, "" },
    { "general", SCORE, SCORE | V | O, false, false, "score.weight [d_query, d_key]" },
    { "additive", Q | K | SCORE, Q | K | SCORE | V | O, false, false,
      "q_proj.weight [p, d_query], k_proj.weight [p, d_key] and score.weight [p]" },
    { "concat", CONCAT | SCORE, CONCAT | SCORE | V | O, false, false,
      "concat_proj.weight [p, d_key + d_query] and score.weight [p]" },
};

enum { KIND_COUNT = sizeof KINDS / sizeof KINDS[0] };

const struct model_attention *model_attention_find(const char *name)
{
    for (int i = 0; i < KIND_COUNT; i++)
        if (strcmp(KINDS[i].name, name) == 0)
            return &KINDS[i];
    return NULL;
}

const char *model_attention_names(void)
{
    return "scaled_dot_product, dot, general, additive or concat";
}
