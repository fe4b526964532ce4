/* checkpoint_hybrids.c - the table of decoders some of whose layers are no attention but keep a
 * state of a fixed size.
 *
 * checkpoint_family.h says how a family is added, checkpoint_recurrence.h what its other layers
 * are. */
#include "models/checkpoint/checkpoint_family_rows.h"

#include "models/checkpoint/checkpoint_recurrence.h"

#include <string.h>

/* The string of a list of config.json at an index; NULL: there is none. */
static const char *string_at(const cJSON *section, const char *list, int64_t index)
{
    const cJSON *types = cJSON_GetObjectItemCaseSensitive(section, list);
    return cJSON_IsArray(types) && index < INT32_MAX
               ? cJSON_GetStringValue(cJSON_GetArrayItem(types, (int)index))
               : NULL;
}

/* Whether a list of numbers has one; a field that is no list: *is_there is false. */
static bool is_listed(const struct checkpoint_run *run, const char *list, int64_t number,
                      bool *is_there)
{
    const struct json_numbers *numbers =
        json_numbers_of(run->document, cJSON_GetObjectItemCaseSensitive(run->section, list));
    *is_there = numbers != NULL;
    for (int64_t i = 0; numbers && i < numbers->count; i++)
        if (numbers->values[i] == (float)number)
            return true;
    return false;
}

/* Lfm2Config: layer_types, or full_attn_idxs, or all are attention. */
static const char *other_kind_lfm2(const struct checkpoint_run *run, int64_t index)
{
    const char *type = string_at(run->section, "layer_types", index);
    bool is_there;
    if (type)
        return strcmp(type, "conv") == 0 ? "convolution" : NULL;
    return !is_listed(run, "full_attn_idxs", index, &is_there) && is_there ? "convolution" : NULL;
}

const struct checkpoint_stack checkpoint_hybrids[] = {
    /* The width of the feed-forward is that of its tensors, so what config.json makes it of is not
     * read. */
    { .model_type = "lfm2",
      SELF("model.|", "layers.%.", "self_attn."),
      .projections = PROJECTIONS("q_proj", "k_proj", "v_proj", "out_proj"),
      .causal = "=true",
      SIZES(32, 2560, 32),
      .kv_heads = "num_key_value_heads=8",
      .head_dim = "head_dim",
      .norms = { "q_layernorm", "k_layernorm" },
      .norm_eps = "norm_eps=0.00001",
      .theta = "theta|rope_theta=1000000",
      .other_kind = other_kind_lfm2,
      .reads = "layer_types|full_attn_idxs",
      .ignored = "block_*|conv_dim|conv_dim_out|conv_use_xavier_init|num_heads|use_pos_enc",
      .pass = { .tokens = "embed_tokens",
                .final_norm = "embedding_norm",
                LM_HEAD("tie_embedding|tie_word_embeddings=true"),
                NORMS_BEFORE("operator_norm", "ffn_norm"),
                .gate = "feed_forward.w1",
                .up = "feed_forward.w3",
                .down = "feed_forward.w2",
                .activation = "=silu",
                .norm_eps = "norm_eps=0.00001",
                .recurrent = "conv.",
                .recurrence = checkpoint_recurrence_short_convolution,
                .reads = CHECKPOINT_SHORT_CONVOLUTION_FIELDS } },

    { .model_type = NULL }
};
