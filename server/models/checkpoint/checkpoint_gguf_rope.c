/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_gguf_rope.c - theta, the columns that are turned, and the scaling.
 *
 * All architectures have the same keys. A scaling by a number for each pair is a tensor: the
 * converter writes Llama 3.1's as rope_freqs, longrope's as rope_factors_short and _long. Each pair
 * is turned by its number of theta^(-2c/dim) divided by it, so both are longrope here, Llama 3.1's
 * with one list for all lengths and without a factor on the scores.
 *
 * Source: llm_load_hparams() and build_rope_factors() of llama.cpp's src/llama-model.cpp;
 * ggml_rope_yarn_corr_dims() and rope_yarn() of ggml. yarn's own factor on the scores, 1 + 0.1 *
 * log(factor), stands beside that of the file. */
#include "models/checkpoint/checkpoint_gguf_row.h"

#include "base/dtype.h"
#include "models/model/model_config.h"

#include <math.h>
#include <string.h>

#define SHORT_LIST "rope_factors_short.weight"
#define LONG_LIST  "rope_factors_long.weight"

static bool add_list(const struct checkpoint_gguf_file *file, cJSON *scaling, const char *name,
                     const struct model_entry *entry, double times)
{
    enum attn_dtype dtype;
    if (entry->rank != 1 || entry->number_count < 1 || entry->number_count > MODEL_ROPE_PAIRS_MAX
        || !dtype_find(entry->dtype, &dtype) || dtype != ATTN_F32)
        return fault_set_at(file->fault, "/config/rope_scaling", FAULT_SHAPE,
                            "tensor '%.60s' is no list of 1 to %d numbers of F32", entry->name,
                            MODEL_ROPE_PAIRS_MAX);
    cJSON *list = cJSON_AddArrayToObject(scaling, name);
    for (uint64_t i = 0; list && i < entry->number_count; i++) {
        float value;
        memcpy(&value, (const char *)entry->data + i * sizeof value, sizeof value);
        if (!isfinite(value))
            return fault_set_at(file->fault, "/config/rope_scaling", FAULT_OPTION,
                                "tensor '%.60s' has a number that is not finite", entry->name);
        cJSON *item = cJSON_CreateNumber((double)value * times);
        if (!item || !cJSON_AddItemToArray(list, item)) {
            cJSON_Delete(item);
            list = NULL;
        }
    }
    return list || fault_no_memory(file->fault);
}

/* A file that has one of the two lists alone is refused: which one counts depends on the other. */
static bool check_lists(const struct checkpoint_gguf_file *file, const struct model_entry *lists[2])
{
    return !lists[0] == !lists[1]
           || fault_set_at(file->fault, "/config/rope_scaling", FAULT_OPTION,
                           "the GGUF file has a tensor '%s' and no '%s'; expected both or neither",
                           lists[0] ? SHORT_LIST : LONG_LIST, lists[0] ? LONG_LIST : SHORT_LIST);
}

/* The lists of pairs, where the file has them; short and long are NULL where it has not. */
static bool add_longrope(const struct checkpoint_gguf_file *file, cJSON *scaling,
                         const struct model_entry *lists[2], double factor)
{
    const bool is_fixed = lists[0] == lists[1];
    const double positions = checkpoint_gguf_number(file, "context_length", 1);
    const double original =
        checkpoint_gguf_number(file, "rope.scaling.original_context_length", positions);
    const double scores = checkpoint_gguf_number(file, "rope.scaling.attn_factor", 0);
    return (cJSON_AddStringToObject(scaling, "rope_type", "longrope")
            || fault_no_memory(file->fault))
           && add_list(file, scaling, "short_factor", lists[0], factor)
           && add_list(file, scaling, "long_factor", lists[1], factor)
           && checkpoint_gguf_add_number(file, scaling, "original_max_position_embeddings",
                                         original)
           && (!is_fixed || checkpoint_gguf_add_number(file, scaling, "factor", 1))
           && ((scores <= 0 && !is_fixed)
               || checkpoint_gguf_add_number(file, scaling, "attention_factor",
                                             scores > 0 ? scores : 1));
}

static bool add_yarn(const struct checkpoint_gguf_file *file, cJSON *scaling, double factor)
{
    static const char *const BETAS[][2] = {
        { "rope.scaling.yarn_beta_fast", "beta_fast" },
        { "rope.scaling.yarn_beta_slow", "beta_slow" },
    };
    const double positions = checkpoint_gguf_number(file, "context_length", 1);
    const double scores = checkpoint_gguf_number(file, "rope.scaling.attn_factor", 0);
    for (size_t i = 0; i < 2; i++) {
        const double beta = checkpoint_gguf_number(file, BETAS[i][0], -1);
        if (beta >= 0 && !checkpoint_gguf_add_number(file, scaling, BETAS[i][1], beta))
            return false;
    }
    return (cJSON_AddStringToObject(scaling, "rope_type", "yarn") || fault_no_memory(file->fault))
           && checkpoint_gguf_add_number(file, scaling, "factor", factor)
           && checkpoint_gguf_add_number(
               file, scaling, "original_max_position_embeddings",
               checkpoint_gguf_number(file, "rope.scaling.original_context_length", positions))
           && (scores <= 0 || scores == 1
               || checkpoint_gguf_add_number(file, scaling, "attention_factor",
                                             scores * (1 + 0.1 * log(factor > 1 ? factor : 1))));
}

/* Absent, it is linear: older files have the factor alone. */
static const char *scaling_type_of(const struct checkpoint_gguf_file *file)
{
    const char *text;
    size_t length;
    const struct gguf_value *value = checkpoint_gguf_find(file, "rope.scaling.type");
    return value && gguf_text(value, &text, &length) ? text : "linear";
}

/* 0 is as none. */
static double factor_of(const struct checkpoint_gguf_file *file)
{
    const double old = checkpoint_gguf_number(file, "rope.scale_linear", 0);
    const double factor = checkpoint_gguf_number(file, "rope.scaling.factor", old);
    return factor != 0 ? factor : 1;
}

static bool fill_scaling(const struct checkpoint_gguf_file *file, cJSON *scaling)
{
    const struct model_entry *fixed = model_tensors_find(file->tensors, "rope_freqs.weight");
    const struct model_entry *lists[2] = {
        model_tensors_find(file->tensors, SHORT_LIST),
        model_tensors_find(file->tensors, LONG_LIST),
    };
    const char *type = scaling_type_of(file);
    const double scores = checkpoint_gguf_number(file, "rope.scaling.attn_factor", 0);
    const double factor = factor_of(file);
    const bool is_linear = strcmp(type, "linear") == 0;
    if (!check_lists(file, lists))
        return false;
    if (fixed && !lists[0])
        lists[0] = lists[1] = fixed;
    if (lists[0] && strcmp(type, "yarn") == 0)
        return fault_set_at(
            file->fault, "/config/rope_scaling", FAULT_OPTION,
            "the GGUF file's %s.rope.scaling.type is 'yarn' beside a tensor '%.60s'; "
            "expected one of them",
            file->row->architecture, lists[0]->name);
    if (lists[0])
        return add_longrope(file, scaling, lists, strcmp(type, "none") == 0 ? 1 : factor);
    if (strcmp(type, "yarn") == 0)
        return add_yarn(file, scaling, factor);
    if (scores > 0 && scores != 1)
        return fault_set_at(file->fault, "/config/rope_scaling", FAULT_OPTION,
                            "the GGUF file's %s.rope.scaling.attn_factor is %g, and its type is "
                            "'%.40s'; expected 1, or a type yarn or longrope",
                            file->row->architecture, scores, type);
    if (is_linear && factor != 1)
        return (cJSON_AddStringToObject(scaling, "rope_type", "linear")
                || fault_no_memory(file->fault))
               && checkpoint_gguf_add_number(file, scaling, "factor", factor);
    return is_linear || strcmp(type, "none") == 0 || strcmp(type, "longrope") == 0
           || fault_set_at(file->fault, "/config/rope_scaling", FAULT_OPTION,
                           "the GGUF file's %s.rope.scaling.type is '%.40s'; expected none, "
                           "linear, yarn or longrope",
                           file->row->architecture, type);
}

/* An alpha makes theta larger, where the architecture has one (src/models/hunyuan-vl.cpp). */
static double theta_of(const struct checkpoint_gguf_file *file)
{
    const double theta = checkpoint_gguf_number(file, "rope.freq_base", 10000);
    const double alpha = checkpoint_gguf_number(file, "rope.scaling.alpha", 0);
    const double dim = checkpoint_gguf_head_dim(file);
    return file->row->has_alpha && alpha > 0 && dim > 2 ? theta * pow(alpha, dim / (dim - 2))
                                                        : theta;
}

bool checkpoint_gguf_add_rope(const struct checkpoint_gguf_file *file)
{
    const double theta = theta_of(file);
    const double dim = checkpoint_gguf_number(file, "rope.dimension_count", 0);
    cJSON *scaling = cJSON_CreateObject();
    bool good = (scaling || fault_no_memory(file->fault))
                && checkpoint_gguf_add_number(file, file->config, "rope_theta", theta)
                && checkpoint_gguf_add_number(file, file->config, "rotary_dim", dim)
                && fill_scaling(file, scaling);
    if (good && scaling->child)
        return checkpoint_gguf_add_item(file, file->config, "rope_scaling", scaling);
    cJSON_Delete(scaling);
    return good;
}
