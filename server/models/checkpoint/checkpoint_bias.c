/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_bias.c - relative position biases.
 *
 * T5. Source: Raffel et al. 2020, section 2.1, and _relative_position_bucket() of transformers'
 * t5/modeling_t5.py, computed in float as there: a short distance has its own bucket, longer
 * ones share buckets by their logarithm, and all from max_distance on share one. So the bias of a
 * head is a list with a number for each distance up to max_distance.
 *
 * WavLM. Source: WavLMAttention of wavlm/modeling_wavlm.py: T5's buckets, and a gate of the query's
 * input, whose projection of eight outputs is used in two sums of four.
 *
 * BERT. Source: BertSelfAttention of bert/modeling_bert.py (4.34): with position_embedding_type
 * relative_key a score gains query . distance_embedding[l - r + max_position_embeddings - 1] before
 * it is scaled, with relative_key_query the same product of the key too. Cross attention has none.
 *
 * BEiT. Source: BeitRelativePositionBias of beit/modeling_beit.py at 0004a3c206a3, for pictures of
 * the size that config.json gives. For another size the source interpolates the table; this file
 * does not. */
#include "models/checkpoint/checkpoint_tensors.h"

#include "models/checkpoint/checkpoint_fields.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { REACH_MAX = 1 << 16, PATCHES_MAX = 1 << 20 };

/* Gets the numbers of a table [rows, columns]; what says in a message what these are. */
static bool get_table(struct model_parameters *parameters, const char *name, int64_t rows,
                      int64_t columns, const char *what, const float **values, struct fault *fault)
{
    const struct model_entry *entry = model_tensors_require(parameters->tensors, name, fault);
    if (!entry)
        return false;
    if (rows < 1 || entry->rank != 2 || entry->shape[0] != (uint64_t)rows
        || entry->shape[1] != (uint64_t)columns)
        return fault_set_at(fault, "/parameters", FAULT_SHAPE,
                            "tensor '%.100s' is not [%" PRId64 ", %" PRId64 "], %s", name, rows,
                            columns, what);
    return model_parameters_get_now(parameters, entry, values, fault);
}

/* ------------------------------------------------------------------ buckets -- */

struct buckets {
    int64_t count;
    int64_t max_distance;
    bool both_ways; /* keys after the query have their own buckets; false: the bucket of 0 */
};

/* The bucket of a distance: the key's position minus the query's. */
static int64_t bucket_of(const struct buckets *buckets, int64_t distance)
{
    const int64_t count = buckets->both_ways ? buckets->count / 2 : buckets->count;
    const int64_t first = buckets->both_ways && distance > 0 ? count : 0;
    const int64_t far = distance < 0 ? -distance : buckets->both_ways ? distance : 0;
    const int64_t exact = count / 2;
    if (far < exact)
        return first + far;
    const float part =
        logf((float)far / (float)exact) / (float)log((double)buckets->max_distance / (double)exact);
    const int64_t bucket = exact + (int64_t)(part * (float)(count - exact));
    return first + (bucket < count ? bucket : count - 1);
}

static bool read_buckets(struct buckets *buckets, const struct checkpoint_layer *read,
                         struct fault *fault)
{
    const struct checkpoint_stack *stack = read->run->stack;
    const cJSON *section = read->run->section;
    if (!checkpoint_read_integer(section, stack->buckets, &buckets->count, fault)
        || !checkpoint_read_integer(section, stack->max_distance, &buckets->max_distance, fault))
        return false;
    buckets->both_ways = !stack->causal;
    const int64_t exact = buckets->count / (buckets->both_ways ? 4 : 2);
    return (exact >= 1 && buckets->max_distance > exact && buckets->max_distance <= REACH_MAX)
           || fault_set_at(fault, "/config", FAULT_OPTION,
                           "config.json gives %" PRId64 " buckets (%.*s) up to distance %" PRId64
                           " (%.*s); expected 4 or more, and a distance above a half of them and "
                           "of at most %d",
                           buckets->count, CHECKPOINT_FIELD_NAME(section, stack->buckets),
                           buckets->max_distance,
                           CHECKPOINT_FIELD_NAME(section, stack->max_distance), REACH_MAX);
}

/* Sums up the rows of the gate's projection that are used as one. */
static bool set_gate(struct model_layer *layer, const struct checkpoint_layer *read,
                     struct model_parameters *parameters, struct fault *fault)
{
    enum { GATES = 2, SUMMED = 4 };
    const int64_t columns = layer->layer.head_dim, heads = layer->layer.q_heads;
    const int64_t counts[3] = { (int64_t)GATES * SUMMED * columns, (int64_t)GATES * SUMMED, heads };
    static const char *const ENDINGS[3] = { "linear.weight", "linear.bias", "const" };
    const float *values[3];
    char name[CHECKPOINT_NAME_BYTES];
    if (!read->run->stack->gate)
        return true;
    for (int i = 0; i < 3; i++) {
        checkpoint_name_write(name, read->run, read->index, read->run->stack->gate, ENDINGS[i]);
        const struct model_entry *entry = model_tensors_require(parameters->tensors, name, fault);
        if (!entry)
            return false;
        if (entry->number_count != (uint64_t)counts[i])
            return fault_set_at(fault, "/parameters", FAULT_SHAPE,
                                "tensor '%.100s' is not of %" PRId64
                                " numbers, as the heads of config.json give",
                                name, counts[i]);
        if (!model_parameters_get_now(parameters, entry, &values[i], fault))
            return false;
    }
    float *sums = arena_calloc(parameters->arena, (size_t)(GATES * (columns + 1)), sizeof *sums);
    if (!sums)
        return fault_no_memory(fault);
    for (int64_t row = 0; row < (int64_t)GATES * SUMMED; row++) {
        for (int64_t c = 0; c < columns; c++)
            sums[row / SUMMED * columns + c] += values[0][row * columns + c];
        sums[GATES * columns + row / SUMMED] += values[1][row];
    }
    layer->relative_bias.gate_weight = sums;
    layer->relative_bias.gate_bias = sums + GATES * columns;
    layer->relative_bias.gate_scales = values[2];
    return true;
}

static bool set_buckets(struct model_layer *layer, const struct checkpoint_layer *read,
                        struct model_parameters *parameters, struct fault *fault)
{
    char name[CHECKPOINT_NAME_BYTES];
    const int64_t heads = layer->layer.q_heads;
    const float *table;
    struct buckets buckets;
    const struct checkpoint_run *run = read->run;
    if (!run->stack->bias_table && !run->stack->shared_table)
        return true;
    if (run->stack->shared_table)
        snprintf(name, sizeof name, "%s%s.weight", run->prefix, run->stack->shared_table);
    else
        checkpoint_name_write(name, run, 0, run->stack->bias_table, ".weight");
    if (!read_buckets(&buckets, read, fault)
        || !get_table(parameters, name, buckets.count, heads,
                      "the buckets and heads that config.json gives", &table, fault))
        return false;
    const int64_t reach = buckets.max_distance, count = 2 * reach + 1;
    float *values = arena_calloc(parameters->arena, (size_t)(heads * count), sizeof *values);
    int32_t *row_of = arena_calloc(parameters->arena, (size_t)count, sizeof *row_of);
    const char *kept = arena_strdup(parameters->arena, name);
    if (!values || !row_of || !kept)
        return fault_no_memory(fault);
    layer->relative_bias = (struct model_relative_bias){ .values = values,
                                                         .count = count,
                                                         .reach = reach,
                                                         .table_rows = buckets.count,
                                                         .row_of = row_of };
    layer->tensors[MODEL_POSITION_BIAS][0] =
        (struct model_tensor){ kept, 2, { buckets.count, heads } };
    for (int64_t c = 0; c < count; c++)
        row_of[c] = (int32_t)bucket_of(&buckets, c - reach);
    for (int64_t h = 0; h < heads; h++)
        for (int64_t c = 0; c < count; c++)
            *values++ = table[row_of[c] * heads + h];
    return true;
}

/* --------------------------------------------------------------- distances -- */

bool checkpoint_bias_read_distances(const struct checkpoint_run *run, bool *by_query, bool *by_key,
                                    struct fault *fault)
{
    const char *type = "absolute";
    *by_query = *by_key = false;
    if (!run->stack->distances)
        return true;
    if (!checkpoint_read_string(run->section, "position_embedding_type=absolute", &type, fault))
        return false;
    *by_key = strcmp(type, "relative_key_query") == 0;
    *by_query = *by_key || strcmp(type, "relative_key") == 0;
    return *by_query || strcmp(type, "absolute") == 0
           || fault_set_at(fault, "/config/position_embedding_type", FAULT_OPTION,
                           "config.json's position_embedding_type is '%.40s'; expected absolute, "
                           "relative_key or relative_key_query",
                           type);
}

/* Gets the table, [2 * max_position_embeddings - 1, head_dim]. */
static bool get_distances(struct model_layer *layer, const struct checkpoint_layer *read,
                          struct model_parameters *parameters, struct fault *fault)
{
    char name[CHECKPOINT_NAME_BYTES];
    struct model_relative_bias *bias = &layer->relative_bias;
    const int64_t head_dim = layer->layer.head_dim;
    int64_t positions;
    if (!checkpoint_read_integer(read->run->section, "max_position_embeddings=512", &positions,
                                 fault))
        return false;
    checkpoint_name_write(name, read->run, read->index, read->run->stack->distances, ".weight");
    bias->count = bias->table_rows = 2 * positions - 1;
    bias->reach = positions - 1;
    return get_table(parameters, name, bias->count, head_dim,
                     "the distances of max_position_embeddings and the numbers of a head",
                     &bias->values, fault);
}

/* A table that config.json does not ask for would be left out in silence. */
static bool check_no_distances(const struct checkpoint_layer *read,
                               const struct model_parameters *parameters, struct fault *fault)
{
    char name[CHECKPOINT_NAME_BYTES];
    if (!read->run->stack->distances)
        return true;
    checkpoint_name_write(name, read->run, read->index, read->run->stack->distances, ".weight");
    return !model_tensors_find(parameters->tensors, name)
           || fault_set_at(fault, "/config/position_embedding_type", FAULT_FIELD,
                           "the file has a tensor '%.100s', and config.json's "
                           "position_embedding_type is not relative_key or relative_key_query",
                           name);
}

static bool set_distances(struct model_layer *layer, const struct checkpoint_layer *read,
                          struct model_parameters *parameters, struct fault *fault)
{
    struct model_relative_bias *bias = &layer->relative_bias;
    bool by_query, by_key;
    if (!checkpoint_bias_read_distances(read->run, &by_query, &by_key, fault))
        return false;
    if (!by_query)
        return check_no_distances(read, parameters, fault);
    bias->by_query = true;
    bias->by_key = by_key;
    return get_distances(layer, read, parameters, fault);
}

/* ----------------------------------------------------------------- pictures -- */

/* Reads a field that is one number, or a list of height and width; 0 where it is neither. */
static void read_picture_pair(const struct checkpoint_run *run, const char *name, double otherwise,
                              double pair[2])
{
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(run->section, name);
    const struct json_numbers *numbers = json_numbers_of(run->document, node);
    pair[0] = pair[1] = cJSON_IsNumber(node) ? node->valuedouble : !node ? otherwise : 0;
    for (int i = 0; numbers && numbers->count == 2 && i < 2; i++)
        pair[i] = (double)numbers->values[i];
}

static bool read_picture(struct model_relative_bias *bias, const struct checkpoint_run *run,
                         struct fault *fault)
{
    double image[2], patch[2];
    read_picture_pair(run, "image_size", 224, image);
    read_picture_pair(run, "patch_size", 16, patch);
    const double height = patch[0] >= 1 ? floor(image[0] / patch[0]) : 0;
    const double width = patch[1] >= 1 ? floor(image[1] / patch[1]) : 0;
    if (!(height >= 1 && width >= 1 && height * width <= PATCHES_MAX))
        return fault_set_at(fault, "/config/image_size", FAULT_OPTION,
                            "config.json gives pictures of %g by %g patches (image_size, "
                            "patch_size); expected 1 or more of each, and at most %d",
                            height, width, PATCHES_MAX);
    bias->height = (int64_t)height;
    bias->width = (int64_t)width;
    bias->count = bias->table_rows = (2 * bias->height - 1) * (2 * bias->width - 1) + 3;
    return true;
}

/* Adds a table [count, heads] to sum [heads, count]. */
static bool add_picture_table(float *sum, const struct model_relative_bias *bias, int64_t heads,
                              const char *name, struct model_parameters *parameters,
                              struct fault *fault)
{
    const float *table;
    char what[128];
    snprintf(what, sizeof what,
             "as config.json gives: %" PRId64 " by %" PRId64 " patches and so many heads",
             bias->height, bias->width);
    if (!get_table(parameters, name, bias->count, heads, what, &table, fault))
        return false;
    for (int64_t h = 0; h < heads; h++)
        for (int64_t c = 0; c < bias->count; c++)
            sum[h * bias->count + c] += table[c * heads + h];
    return true;
}

static bool check_no_picture_table(const char *name, const char *flag,
                                   const struct model_parameters *parameters, struct fault *fault)
{
    char pointer[FAULT_POINTER_MAX];
    snprintf(pointer, sizeof pointer, "/config/%s", flag);
    return !model_tensors_find(parameters->tensors, name)
           || fault_set_at(fault, pointer, FAULT_FIELD,
                           "the file has a tensor '%.120s', and config.json does not set %s", name,
                           flag);
}

static bool set_picture_bias(struct model_layer *layer, const struct checkpoint_layer *read,
                             struct model_parameters *parameters, struct fault *fault)
{
    const struct checkpoint_run *run = read->run;
    const struct checkpoint_stack *stack = run->stack;
    const char *const flags[2] = { stack->image_bias_if, stack->shared_bias_if };
    const int64_t heads = layer->layer.q_heads;
    struct model_relative_bias bias = { .values = NULL };
    char names[2][CHECKPOINT_NAME_BYTES];
    bool is_there[2];
    if (!stack->image_bias)
        return true;
    checkpoint_name_write(names[0], run, read->index, stack->image_bias, "");
    snprintf(names[1], sizeof names[1], "%s%s", run->prefix, stack->shared_bias);
    for (int i = 0; i < 2; i++)
        if (!checkpoint_read_flag(run->section, flags[i], &is_there[i], fault)
            || (!is_there[i] && !check_no_picture_table(names[i], flags[i], parameters, fault)))
            return false;
    if (!is_there[0] && !is_there[1])
        return true;
    if (!read_picture(&bias, run, fault))
        return false;
    float *sum = arena_calloc(parameters->arena, (size_t)heads * (size_t)bias.count, sizeof *sum);
    if (!sum)
        return fault_no_memory(fault);
    for (int i = 0; i < 2; i++) {
        struct model_tensor *tensor = &layer->tensors[MODEL_POSITION_BIAS][i];
        if (!is_there[i])
            continue;
        if (!add_picture_table(sum, &bias, heads, names[i], parameters, fault))
            return false;
        *tensor = (struct model_tensor){ arena_strdup(parameters->arena, names[i]),
                                         2,
                                         { bias.count, heads } };
        if (!tensor->name)
            return fault_no_memory(fault);
    }
    bias.values = sum;
    layer->relative_bias = bias;
    return true;
}

bool checkpoint_bias_set(struct model_layer *layer, const struct checkpoint_layer *read,
                         struct model_parameters *parameters, struct fault *fault)
{
    return set_distances(layer, read, parameters, fault)
           && checkpoint_disentangled_set(layer, read, parameters, fault)
           && set_picture_bias(layer, read, parameters, fault)
           && set_buckets(layer, read, parameters, fault)
           && set_gate(layer, read, parameters, fault);
}
