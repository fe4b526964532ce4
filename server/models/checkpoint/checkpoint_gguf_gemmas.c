/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_gguf_gemmas.c - the table of architectures of checkpoint_gemmas.c.
 *
 * Source: src/models/gemma3n.cpp and gemma4.cpp of llama.cpp. Of Gemma 4 layers of the same type
 * may have another number of heads of keys than the others, and their rotary embedding is divided
 * by a list of numbers, of which all are 1 or so large that nothing turns: the proportional one of
 * config.json. */
#include "models/checkpoint/checkpoint_gguf_names.h"
#include "models/checkpoint/checkpoint_gguf_row.h"

#include "base/dtype.h"
#include "models/model/model_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ layers -- */

static bool has_window(const struct checkpoint_gguf_file *file, int64_t layer)
{
    return checkpoint_gguf_number_of_layer(file, "attention.sliding_window_pattern", layer, 0) != 0;
}

/* The first layer of a type; -1: there is none. */
static int64_t first_of(const struct checkpoint_gguf_file *file, bool is_windowed)
{
    const double layers = checkpoint_gguf_number(file, "block_count", 0);
    for (int64_t i = 0; (double)i < layers && i < MODEL_LAYERS_MAX; i++)
        if (has_window(file, i) == is_windowed)
            return i;
    return -1;
}

/* The heads of keys that all layers of a type have. */
static bool add_heads(const struct checkpoint_gguf_file *file, const char *field, bool is_windowed)
{
    static const char KEY[] = "attention.head_count_kv";
    const double layers = checkpoint_gguf_number(file, "block_count", 0);
    const int64_t first = first_of(file, is_windowed);
    if (first < 0)
        return true;
    const double count = checkpoint_gguf_number_of_layer(file, KEY, first, 0);
    for (int64_t i = first; (double)i < layers && i < MODEL_LAYERS_MAX; i++)
        if (has_window(file, i) == is_windowed
            && checkpoint_gguf_number_of_layer(file, KEY, i, 0) != count)
            return checkpoint_gguf_refuse(file, field, KEY,
                                          "has no single number for layers of a type under");
    return checkpoint_gguf_add_number(file, file->config, field, count);
}

/* --------------------------------------------------------------------- rope -- */

/* The part of pairs that turn. */
static bool count_pairs(const struct checkpoint_gguf_file *file, const struct model_entry *entry,
                        double *fraction)
{
    static const float NOTHING = 1e20F;
    const double pairs = checkpoint_gguf_number(file, "attention.key_length", 0) / 2;
    enum attn_dtype dtype;
    uint64_t turned = 0;
    bool good = entry->rank == 1 && dtype_find(entry->dtype, &dtype) && dtype == ATTN_F32
                && (double)entry->number_count == pairs;
    for (uint64_t i = 0; good && i < entry->number_count; i++) {
        float value;
        memcpy(&value, (const char *)entry->data + i * sizeof value, sizeof value);
        good = value == 1 ? turned == i : value >= NOTHING;
        turned += value == 1;
    }
    *fraction = turned > 0 ? (double)turned / pairs : 0;
    return (good && turned > 0)
           || fault_set_at(file->fault, "/config/rope_parameters", FAULT_OPTION,
                           "tensor '%.60s' is no list of %g numbers of F32 that are 1 first and "
                           "then 1e20 or more, as a proportional rotary embedding has it",
                           entry->name, pairs);
}

static bool add_type(const struct checkpoint_gguf_file *file, cJSON *parameters, const char *name,
                     const char *theta, double fraction)
{
    cJSON *type = cJSON_AddObjectToObject(parameters, name);
    return (type || fault_no_memory(file->fault))
           && (cJSON_AddStringToObject(type, "rope_type", fraction > 0 ? "proportional" : "default")
               || fault_no_memory(file->fault))
           && checkpoint_gguf_add_number(file, type, "rope_theta",
                                         checkpoint_gguf_number(file, theta, 10000))
           && (fraction == 0
               || checkpoint_gguf_add_number(file, type, "partial_rotary_factor", fraction));
}

static bool add_rope(const struct checkpoint_gguf_file *file)
{
    static const char *const SIZES[][2] = {
        { "rope.dimension_count", "attention.key_length" },
        { "rope.dimension_count_swa", "attention.key_length_swa" },
    };
    const struct model_entry *list = model_tensors_find(file->tensors, "rope_freqs.weight");
    double fraction = 0;
    for (int i = 0; i < 2; i++) {
        const double columns = checkpoint_gguf_number(file, SIZES[i][1], 0);
        if (checkpoint_gguf_number(file, SIZES[i][0], columns) != columns)
            return checkpoint_gguf_refuse(file, "rope_parameters", SIZES[i][0],
                                          "has no columns of a head under");
    }
    if (checkpoint_gguf_number(file, "rope.scaling.factor", 1) != 1)
        return checkpoint_gguf_refuse(file, "rope_parameters", "rope.scaling.factor",
                                      "has what is not computed here under");
    if (list && !count_pairs(file, list, &fraction))
        return false;
    cJSON *parameters = cJSON_AddObjectToObject(file->config, "rope_parameters");
    return (parameters || fault_no_memory(file->fault))
           && add_type(file, parameters, "sliding_attention", "rope.freq_base_swa", 0)
           && add_type(file, parameters, "full_attention", "rope.freq_base", fraction);
}

/* -------------------------------------------------------------------- rows -- */

/* Without a tensor of values they are the keys. */
static bool finish_gemma4(const struct checkpoint_gguf_file *file)
{
    char name[40];
    const struct gguf_value *types = checkpoint_gguf_find(file, "attention.sliding_window_pattern");
    const int64_t full = first_of(file, false);
    if (!types || types->type != GGUF_ARRAY)
        return checkpoint_gguf_refuse(file, "layer_types", "attention.sliding_window_pattern",
                                      "has no list under");
    snprintf(name, sizeof name, "blk.%d.attn_v.weight", (int)full);
    return checkpoint_gguf_add_layer_types(file) && add_heads(file, "num_key_value_heads", true)
           && add_heads(file, full == 0 ? "num_key_value_heads" : "num_global_key_value_heads",
                        false)
           && checkpoint_gguf_add_flag(file, "attention_k_eq_v",
                                       full >= 0 && !checkpoint_gguf_has(file, name))
           && checkpoint_gguf_add_flag(file, "enable_moe_block",
                                       checkpoint_gguf_has(file, "blk.0.ffn_gate_inp.weight"))
           && add_rope(file);
}

/* The part of a normal distribution below a number of its deviations, which the file has. */
static bool add_sparsity(const struct checkpoint_gguf_file *file)
{
    const struct gguf_value *scales = checkpoint_gguf_find(file, "activation_sparsity_scale");
    if (!scales || scales->type != GGUF_ARRAY)
        return true;
    cJSON *list = cJSON_AddArrayToObject(file->config, "activation_sparsity_pattern");
    for (int64_t i = 0; list && i < scales->count && i < MODEL_LAYERS_MAX; i++) {
        const double scale =
            checkpoint_gguf_number_of_layer(file, "activation_sparsity_scale", i, -INFINITY);
        cJSON *item = cJSON_CreateNumber(scale > -INFINITY ? erfc(-scale / sqrt(2)) / 2 : 0);
        if (!item || !cJSON_AddItemToArray(list, item)) {
            cJSON_Delete(item);
            list = NULL;
        }
    }
    return list || fault_no_memory(file->fault);
}

/* Each has a matrix for each row of a token but the first. */
static bool check_rows(const struct checkpoint_gguf_file *file)
{
    static const char *const NAMES[] = { "altup_proj.weight", "altup_unembd_proj.weight" };
    const double rows = checkpoint_gguf_number(file, "altup.num_inputs", 4);
    for (int i = 0; i < 2; i++) {
        const struct model_entry *entry = model_tensors_find(file->tensors, NAMES[i]);
        if (!entry || entry->rank != 3 || (double)entry->shape[0] != rows - 1)
            return fault_set_at(file->fault, "/parameters", FAULT_SHAPE,
                                "the GGUF file has no tensor '%s' of %.0f matrices, as its "
                                "gemma3n.altup.num_inputs says",
                                NAMES[i], rows - 1);
    }
    return true;
}

/* llama.cpp has keys of the first 20 layers, whatever the file says, which the published models
 * are. */
static bool finish_gemma3n(const struct checkpoint_gguf_file *file)
{
    enum { WITH_KEYS = 20 };
    const double columns = checkpoint_gguf_head_dim(file);
    const double layers = checkpoint_gguf_number(file, "block_count", 0);
    const struct gguf_value *pattern =
        checkpoint_gguf_find(file, "attention.sliding_window_pattern");
    if (pattern && pattern->type != GGUF_ARRAY
        && checkpoint_gguf_number(file, "attention.sliding_window_pattern", 0) != 5)
        return checkpoint_gguf_refuse(file, "layer_types", "attention.sliding_window_pattern",
                                      "has neither 5 nor a list under");
    if (checkpoint_gguf_number(file, "rope.dimension_count", columns) != columns)
        return checkpoint_gguf_refuse(file, "rope_parameters", "rope.dimension_count",
                                      "has no columns of a head under");
    if (checkpoint_gguf_number(file, "rope.scaling.factor", 1) != 1)
        return checkpoint_gguf_refuse(file, "rope_parameters", "rope.scaling.factor",
                                      "has what is not computed here under");
    return check_rows(file) && checkpoint_gguf_add_layer_types(file)
           && checkpoint_gguf_add_head_dim(file) && add_sparsity(file)
           && checkpoint_gguf_add_number(
               file, file->config, "num_kv_shared_layers",
               checkpoint_gguf_number(file, "attention.shared_kv_layers",
                                      layers > WITH_KEYS ? layers - WITH_KEYS : 0));
}

/* What blocks read of tokens. */
#define TOKEN_NAMES                                                                                \
    "per_layer_token_embd=model.embed_tokens_per_layer|"                                           \
    "per_layer_model_proj=model.per_layer_model_projection|"                                       \
    "per_layer_proj_norm=model.per_layer_projection_norm|" IN_BLOCK(                               \
        "inp_gate", "per_layer_input_gate") IN_BLOCK("proj", "per_layer_projection")               \
        IN_BLOCK("post_norm", "post_per_layer_input_norm")

const struct checkpoint_gguf checkpoint_ggufs_gemmas[] = {
    { .architecture = "gemma3n",
      .model_type = "gemma3n_text",
      .fields = SIZE_FIELDS KV_FIELDS POSITION_FIELDS
      "hidden_size_per_layer_input=embedding_length_per_layer_input?256|"
      "altup_num_inputs=altup.num_inputs?4|altup_active_idx=altup.active_idx?0|"
      "rope_theta=rope.freq_base?1000000|rope_local_base_freq=rope.freq_base_swa?10000|"
      "sliding_window=attention.sliding_window|"
      "final_logit_softcapping=final_logit_softcapping?30|rms_norm_eps=" RMS,
      .tensors = GEMMA2_NAMES TOKEN_NAMES
      "altup_proj=model.altup_projections.#|"
      "altup_unembd_proj=model.altup_unembed_projections.#|" IN_BLOCK("altup_correct_coef",
                                                                      "altup.correction_coefs")
          IN_BLOCK("altup_correct_scale", "altup.correct_output_scale!")
              IN_BLOCK("altup_predict_coef", "altup.prediction_coefs")
                  IN_BLOCK("altup_router", "altup.modality_router")
                      IN_BLOCK("altup_router_norm", "altup.router_norm")
                          IN_BLOCK("laurel_l", "laurel.linear_left")
                              IN_BLOCK("laurel_r", "laurel.linear_right")
                                  IN_BLOCK("laurel_post_norm", "laurel.post_laurel_norm"),
      .reads = "attention.shared_kv_layers",
      .finish = finish_gemma3n },
    { .architecture = "gemma4",
      .model_type = "gemma4_text",
      .fields = SIZE_FIELDS POSITION_FIELDS
      "head_dim=attention.key_length_swa|global_head_dim=attention.key_length|"
      "num_kv_shared_layers=attention.shared_kv_layers?0|"
      "hidden_size_per_layer_input=embedding_length_per_layer_input?0|"
      "num_experts=expert_count?|top_k_experts=expert_used_count?|"
      "sliding_window=attention.sliding_window|"
      "final_logit_softcapping=final_logit_softcapping?30|rms_norm_eps=" RMS,
      .tensors = GEMMA2_NAMES TOKEN_NAMES IN_BLOCK("layer_output_scale", "layer_scalar!")
          IN_BLOCK("ffn_gate_inp", "router.proj") IN_BLOCK("ffn_gate_inp.scale", "router.scale")
              IN_BLOCK("ffn_gate_up_exps", "experts.gate_up_proj")
                  IN_BLOCK("ffn_down_exps", "experts.down_proj")
                      IN_BLOCK("ffn_down_exps.scale", "router.per_expert_scale")
                          IN_BLOCK("pre_ffw_norm_2", "pre_feedforward_layernorm_2")
                              IN_BLOCK("post_ffw_norm_1", "post_feedforward_layernorm_1")
                                  IN_BLOCK("post_ffw_norm_2", "post_feedforward_layernorm_2"),
      .reads = "attention.shared_kv_layers",
      .finish = finish_gemma4 },
    { .architecture = NULL },
};
