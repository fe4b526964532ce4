/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_latent.c - latent layers, as DeepSeek has them: what config.json says of their heads
 * and of their scale, and their tensors.
 *
 * Sources: DeepseekV3Attention of transformers' deepseek_v3/modeling_deepseek_v3.py; for the scale
 * of deepseek_v2 the modeling_deepseek.py that stands beside its checkpoints, for transformers'
 * DeepseekV2Attention leaves out what YaRN multiplies it by. */
#include "models/checkpoint/checkpoint_fields.h"
#include "models/checkpoint/checkpoint_tensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* -------------------------------------------------------------------- fields -- */

/* What YaRN makes of mscale_all_dim: the square of 0.1 * mscale_all_dim * ln(factor) + 1. The rest
 * of YaRN is in the rotary embedding. */
static double yarn_scale(const cJSON *section)
{
    const cJSON *scaling = checkpoint_find_object(section, "rope_scaling|rope_parameters");
    const cJSON *factor = cJSON_GetObjectItemCaseSensitive(scaling, "factor");
    const cJSON *mscale = cJSON_GetObjectItemCaseSensitive(scaling, "mscale_all_dim");
    if (!cJSON_IsNumber(factor) || !cJSON_IsNumber(mscale) || factor->valuedouble <= 1)
        return 1;
    const double scale = 0.1 * mscale->valuedouble * log(factor->valuedouble) + 1;
    return scale * scale;
}

static bool check_sizes(const struct checkpoint_layer *read, int64_t rotated, int64_t values,
                        struct fault *fault)
{
    const struct model_config *config = &read->config;
    const cJSON *section = read->run->section;
    const struct checkpoint_stack *stack = read->run->stack;
    if (read->rank < 1 || read->key_dim < 1 || rotated < 1 || values < 1)
        return fault_set_at(fault, "/config", FAULT_OPTION,
                            "config.json gives a latent row of %" PRId64 " columns (%.*s), and "
                            "heads of %" PRId64 " (%.*s), %" PRId64 " (%.*s) and %" PRId64
                            " (%.*s); expected 1 or more of each",
                            read->rank, CHECKPOINT_FIELD_NAME(section, stack->rank), read->key_dim,
                            CHECKPOINT_FIELD_NAME(section, stack->key_dim), rotated,
                            CHECKPOINT_FIELD_NAME(section, stack->rotary_dim), values,
                            CHECKPOINT_FIELD_NAME(section, stack->value_dim));
    return config->kv_heads == config->q_heads
           || fault_set_at(fault, "/config", FAULT_OPTION,
                           "config.json gives %" PRId64 " key/value heads (%.*s); expected as many "
                           "as query heads, %" PRId64 ", for a latent row is one for all of them",
                           config->kv_heads, CHECKPOINT_FIELD_NAME(section, stack->kv_heads),
                           config->q_heads);
}

bool checkpoint_latent_read(struct checkpoint_layer *read, struct fault *fault)
{
    const struct checkpoint_stack *stack = read->run->stack;
    const cJSON *section = read->run->section;
    struct model_config *config = &read->config;
    int64_t rotated, values;
    if (!stack->latent)
        return true;
    if (!checkpoint_read_integer(section, stack->rank, &read->rank, fault)
        || !checkpoint_read_integer(section, stack->query_rank, &read->query_rank, fault)
        || !checkpoint_read_integer(section, stack->key_dim, &read->key_dim, fault)
        || !checkpoint_read_integer(section, stack->value_dim, &values, fault)
        || !checkpoint_read_integer(section, stack->rotary_dim, &rotated, fault)
        || !check_sizes(read, rotated, values, fault))
        return false;
    config->kv_heads = 1;
    config->head_dim = read->rank + rotated;
    config->v_head_dim = values;
    config->has_scale = true;
    config->scale = (float)(yarn_scale(section) / sqrt((double)(read->key_dim + rotated)));
    return true;
}

/* ------------------------------------------------------------------- tensors -- */

struct source {
    const struct checkpoint_layer *read;
    struct model_parameters *parameters;
    struct fault *fault;
};

/* The tensor of count numbers; NULL with the fault: there is none. */
static const struct model_entry *find(const struct source *source, const char *part,
                                      const char *ending, int64_t count)
{
    char name[CHECKPOINT_NAME_BYTES];
    checkpoint_name_write(name, source->read->run, source->read->index, part, ending);
    const struct model_entry *entry =
        model_tensors_require(source->parameters->tensors, name, source->fault);
    if (entry && entry->number_count == (uint64_t)count)
        return entry;
    if (entry)
        fault_set_at(source->fault, "/parameters", FAULT_SHAPE,
                     "tensor '%.100s' has %" PRIu64 " numbers; by config.json there are %" PRId64,
                     name, entry->number_count, count);
    return NULL;
}

static bool has(const struct source *source, const char *part, const char *ending)
{
    char name[CHECKPOINT_NAME_BYTES];
    checkpoint_name_write(name, source->read->run, source->read->index, part, ending);
    return model_tensors_find(source->parameters->tensors, name) != NULL;
}

/* Matrices [out, in], one behind the other. With dtype NULL their numbers are F32. */
static bool get_weights(const struct source *source, const char *part, int64_t count, int64_t in,
                        const void **values, enum attn_dtype *dtype)
{
    const struct model_slice all = { .groups = 0 };
    const struct model_entry *entry = find(source, part, ".weight", count);
    return entry
           && model_parameters_get_slice(source->parameters, entry, &all, in, false, values, dtype,
                                         source->fault);
}

static bool get_linear(const struct source *source, struct attn_linear *linear, const char *part,
                       int64_t out, int64_t in, bool has_bias)
{
    const float *bias = NULL;
    *linear = (struct attn_linear){ .out = out, .in = in };
    if (!get_weights(source, part, out * in, in, &linear->weight, &linear->dtype))
        return false;
    if (!has_bias)
        return !has(source, part, ".bias")
               || fault_set_at(source->fault, "/config", FAULT_FIELD,
                               "the file has a bias of '%s', and by config.json this projection "
                               "has none",
                               part);
    const struct model_entry *entry = find(source, part, ".bias", out);
    if (!entry || !model_parameters_get(source->parameters, entry, &bias, source->fault))
        return false;
    linear->bias = bias;
    return true;
}

static bool get_norm(const struct source *source, struct attn_norm *norm, const char *part,
                     int64_t columns)
{
    const struct model_entry *entry = find(source, part, ".weight", columns);
    *norm = (struct attn_norm){ .eps = source->read->norm_eps, .scope = ATTN_NORM_ROW };
    return entry
           && model_parameters_get_now(source->parameters, entry, &norm->weight, source->fault);
}

static bool set_queries(const struct source *source, struct attn_layer *layer, int64_t width)
{
    const struct checkpoint_layer *read = source->read;
    const struct checkpoint_latent *names = read->run->stack->latent;
    struct attn_latent *latent = &layer->latent;
    const int64_t columns = layer->q_heads * (read->key_dim + layer->rope.dim);
    const int64_t rank = read->query_rank;
    if (rank == 0)
        return get_linear(source, &layer->q_proj, names->q, columns, width, false);
    return get_linear(source, &latent->q_down, names->q_down, rank, width,
                      (read->biases >> MODEL_Q & 1) != 0)
           && get_norm(source, &latent->q_norm, names->q_norm, rank)
           && get_linear(source, &layer->q_proj, names->q_up, columns, rank, false);
}

/* Of one tensor, which is taken as F32 where its numbers are blocks: those of keys are read by
 * columns. */
static bool set_up(const struct source *source, struct attn_layer *layer)
{
    const char *part = source->read->run->stack->latent->up;
    const int64_t keys = source->read->key_dim, values = layer->v_head_dim;
    const int64_t rank = layer->latent.rank, step = (keys + values) * rank;
    const void *weight;
    enum attn_dtype dtype;
    if (!get_weights(source, part, layer->q_heads * step, rank, &weight, &dtype))
        return false;
    if (attn_block_numbers(dtype) > 1) {
        dtype = ATTN_F32;
        if (!get_weights(source, part, layer->q_heads * step, rank, &weight, NULL))
            return false;
    }
    layer->latent.k_up_step = layer->latent.v_up_step = step;
    layer->latent.k_up = (struct attn_linear){
        .weight = weight, .dtype = dtype, .out = rank, .in = keys, .in_out = true
    };
    layer->latent.v_up = (struct attn_linear){
        .weight = attn_number_at(weight, dtype, keys * rank),
        .dtype = dtype,
        .out = values,
        .in = rank,
    };
    return true;
}

/* Of a tensor for keys and one for values. */
static bool set_ups(const struct source *source, struct attn_layer *layer)
{
    const struct checkpoint_latent *names = source->read->run->stack->latent;
    struct attn_latent *latent = &layer->latent;
    latent->k_up = (struct attn_linear){ .out = latent->rank, .in = source->read->key_dim };
    latent->v_up = (struct attn_linear){ .out = layer->v_head_dim, .in = latent->rank };
    latent->k_up_step = latent->k_up.out * latent->k_up.in;
    latent->v_up_step = latent->v_up.out * latent->v_up.in;
    return get_weights(source, names->k_up, layer->q_heads * latent->k_up_step, latent->k_up.in,
                       &latent->k_up.weight, &latent->k_up.dtype)
           && get_weights(source, names->v_up, layer->q_heads * latent->v_up_step, latent->v_up.in,
                          &latent->v_up.weight, &latent->v_up.dtype);
}

bool checkpoint_latent_set(struct model_layer *layer, const struct checkpoint_layer *read,
                           struct model_parameters *parameters, struct fault *fault)
{
    const struct source source = { read, parameters, fault };
    const struct checkpoint_latent *names = read->run->stack->latent;
    if (!names)
        return true;
    layer->layer.latent.rank = read->rank;
    layer->d_query = layer->d_value = layer->d_key;
    return get_norm(&source, &layer->layer.k_norm, names->row_norm, read->rank)
           && set_queries(&source, &layer->layer, layer->d_key)
           && (names->k_up && !has(&source, names->up, ".weight") ? set_ups(&source, &layer->layer)
                                                                  : set_up(&source, &layer->layer));
}
