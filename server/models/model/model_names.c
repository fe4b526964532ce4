/* SPDX-License-Identifier: Apache-2.0 */
/* model_names.c - the table of score functions, and names with the number of their layer. */
#include "models/model/model_names.h"

#include "base/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const PROJECTIONS[MODEL_PARAMETER_COUNT] = {
    "q_proj", "k_proj", "v_proj", "o_proj", "concat_proj", "score",
};

const char *model_names_projection(enum model_projection projection)
{
    return PROJECTIONS[projection];
}

void model_names_write(char name[MODEL_NAMES_BYTES], int64_t layer, int64_t layers,
                       enum model_projection projection, bool is_bias)
{
    const char *kind = is_bias ? "bias" : "weight";
    if (layers > 1)
        snprintf(name, MODEL_NAMES_BYTES, "layers.%" PRId64 ".%s.%s", layer,
                 PROJECTIONS[projection], kind);
    else
        snprintf(name, MODEL_NAMES_BYTES, "%s.%s", PROJECTIONS[projection], kind);
}

/* The length of a leading "layers.N." of name, where N is below layers and has no leading zero; 0:
 * name has none. */
static size_t layer_prefix(const char *name, int64_t layers)
{
    int64_t layer = 0;
    int digits = 0;
    if (layers <= 1 || strncmp(name, "layers.", 7) != 0)
        return 0;
    const char *p = name + 7;
    for (; *p >= '0' && *p <= '9' && digits < 6; p++, digits++)
        layer = layer * 10 + (*p - '0');
    const bool is_plain = digits == 1 || (digits > 1 && name[7] != '0');
    return is_plain && *p == '.' && layer < layers ? (size_t)(p + 1 - name) : 0;
}

bool model_names_known(const char *name, int64_t layers, unsigned allowed,
                       char buffer[MODEL_NAMES_BYTES], const char **nearest)
{
    char names[2 * MODEL_PARAMETER_COUNT][MODEL_NAMES_BYTES];
    const char *known[2 * MODEL_PARAMETER_COUNT];
    int count = 0;
    const size_t prefix = layer_prefix(name, layers);
    for (int i = 0; i < 2 * MODEL_PARAMETER_COUNT; i++) {
        const enum model_projection projection = (enum model_projection)(i / 2);
        const bool is_bias = i % 2 != 0;
        if (!(allowed >> projection & 1u) || (projection == MODEL_SCORE && is_bias))
            continue;
        model_names_write(names[count], 0, 1, projection, is_bias);
        known[count] = names[count];
        if ((layers <= 1 || prefix > 0) && strcmp(name + prefix, known[count]) == 0)
            return true;
        count++;
    }
    *nearest = nearest_name(name + prefix, known, count);
    if (*nearest) {
        snprintf(buffer, MODEL_NAMES_BYTES, "%.*s%s", (int)prefix, name, *nearest);
        if (layers > 1 && prefix == 0)
            snprintf(buffer, MODEL_NAMES_BYTES, "layers.0.%s", *nearest);
        *nearest = buffer;
    }
    return false;
}

/* --------------------------------------------------------- score functions -- */

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
