/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_disentangled.c - DeBERTa's relative positions (He et al. 2021): a score gains the
 * product of the query and a row for the distance, and that of the key and another row, all scaled
 * alike. Each head has rows of its own: those of one table, normed and projected as keys and
 * queries are, which is done here once.
 *
 * Source: DisentangledSelfAttention, DebertaV2Encoder.get_rel_embedding() and
 * make_log_bucket_position() of transformers' deberta_v2/modeling_deberta_v2.py at 0038a3caa5c7,
 * buckets in float as there. */
#include "models/checkpoint/checkpoint_tensors.h"

#include "base/dtype.h"
#include "linear.h"
#include "models/checkpoint/checkpoint_fields.h"
#include "rows.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPAN_MAX = 1 << 10, DISTANCE_MAX = 1 << 16 };

/* ----------------------------------------------------------------- the config -- */

struct disentangled {
    bool is_relative, by_query, by_key; /* relative_attention; c2p and p2c of pos_att_type */
    bool shares_projections, is_normed;
    int64_t span;         /* rows are those of distances from -span to span - 1, */
    int64_t buckets;      /* in so many buckets to either side; 0: distances themselves */
    int64_t distance_max; /* of buckets */
};

/* pos_att_type is "p2c|c2p", or a list. */
static void read_types(struct disentangled *of, const cJSON *section)
{
    const cJSON *types = cJSON_GetObjectItemCaseSensitive(section, "pos_att_type"), *type;
    const char *text = cJSON_GetStringValue(types);
    of->by_query = text && strstr(text, "c2p");
    of->by_key = text && strstr(text, "p2c");
    cJSON_ArrayForEach(type, types) {
        const char *name = cJSON_GetStringValue(type);
        of->by_query = of->by_query || (name && strcmp(name, "c2p") == 0);
        of->by_key = of->by_key || (name && strcmp(name, "p2c") == 0);
    }
}

/* A count of 1 or more; any other number, such as -1, is otherwise. */
static bool read_count(const cJSON *section, const char *name, int64_t otherwise, int64_t most,
                       int64_t *count, struct fault *fault)
{
    char pointer[FAULT_POINTER_MAX];
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(section, name);
    const double number = cJSON_IsNumber(node) ? node->valuedouble : 0;
    *count = number >= 1 && number <= (double)most ? (int64_t)number : otherwise;
    if ((!node || cJSON_IsNull(node) || cJSON_IsNumber(node)) && number <= (double)most
        && number == floor(number))
        return true;
    snprintf(pointer, sizeof pointer, "/config/%s", name);
    return fault_set_at(fault, pointer, FAULT_OPTION,
                        "config.json's %s is no count; expected an integer of at most %" PRId64,
                        name, most);
}

static bool read_config(struct disentangled *of, const cJSON *section, struct fault *fault)
{
    const char *norm;
    int64_t positions;
    read_types(of, section);
    if (!checkpoint_read_flag(section, "relative_attention", &of->is_relative, fault)
        || !checkpoint_read_flag(section, "share_att_key", &of->shares_projections, fault)
        || !checkpoint_read_string(section, "norm_rel_ebd=none", &norm, fault)
        || !checkpoint_read_integer(section, "max_position_embeddings=512", &positions, fault)
        || !read_count(section, "max_relative_positions", positions, DISTANCE_MAX,
                       &of->distance_max, fault)
        || !read_count(section, "position_buckets", 0, SPAN_MAX, &of->buckets, fault))
        return false;
    of->is_normed = strstr(norm, "layer_norm") != NULL;
    of->span = of->buckets > 0 ? of->buckets : of->distance_max;
    if (!of->is_relative)
        return true;
    if (!of->by_query)
        return fault_set_at(fault, "/config/pos_att_type", FAULT_OPTION,
                            "config.json's pos_att_type has no c2p; expected c2p, or c2p and p2c");
    const bool is_even = of->buckets % 2 == 0 && of->buckets != 2;
    return (of->span >= 2 && of->span <= SPAN_MAX && of->distance_max <= DISTANCE_MAX
            && (of->buckets == 0 || (is_even && of->distance_max > of->buckets / 2 + 1)))
           || fault_set_at(fault, "/config/position_buckets", FAULT_OPTION,
                           "config.json gives %" PRId64 " buckets (position_buckets) up to "
                           "distance %" PRId64 " (max_relative_positions); expected an even number "
                           "from 4 to %d, and a distance above a half of it",
                           of->buckets, of->distance_max, SPAN_MAX);
}

bool checkpoint_disentangled_adjust(struct checkpoint_layer *read, struct fault *fault)
{
    struct disentangled of;
    if (!read_config(&of, read->run->section, fault))
        return false;
    const double terms = 1 + of.by_query + of.by_key;
    read->config.has_scale = true;
    read->config.scale = (float)(1 / sqrt((double)read->config.head_dim * terms));
    return true;
}

/* ------------------------------------------------------------------ distances -- */

/* The bucket of a distance of 0 or more. */
static int64_t bucket_of(const struct disentangled *of, int64_t distance)
{
    const int64_t half = of->buckets / 2;
    if (of->buckets == 0 || distance <= half)
        return distance;
    const float most = (float)((double)(of->distance_max - 1) / (double)half);
    const float part = logf((float)distance / (float)half) / logf(most);
    return (int64_t)ceilf(part * (float)(half - 1)) + half;
}

/* Which row a distance takes, up to the first that takes the last row, and all beyond. */
static bool set_rows_of(struct model_relative_bias *bias, const struct disentangled *of,
                        struct arena *arena, struct fault *fault)
{
    const int64_t last = 2 * of->span - 1;
    int64_t reach = 0;
    while (bucket_of(of, reach) < of->span)
        reach++;
    int32_t *row_of = arena_alloc(arena, (size_t)(2 * reach + 1) * sizeof *row_of);
    if (!row_of)
        return fault_no_memory(fault);
    for (int64_t d = 0; d <= reach; d++) {
        const int64_t bucket = bucket_of(of, d);
        row_of[reach + d] = (int32_t)(of->span + bucket < last ? of->span + bucket : last);
        row_of[reach - d] = (int32_t)(bucket < of->span ? of->span - bucket : 0);
    }
    bias->reach = reach;
    bias->row_of = row_of;
    bias->count = bias->table_rows = 2 * of->span;
    return true;
}

/* ----------------------------------------------------------------------- rows -- */

/* Rows of the table on their way to those of heads: memory that is free once they are made. */
struct row_maker {
    const struct checkpoint_layer *read;
    struct model_parameters *parameters;
    int64_t count, width, out;
    float *rows;                 /* [count][width], normed */
    float *weight, *bias, *made; /* [out][width], [out], [count][out] */
    void *workspace;
    struct fault *fault;
};

static bool read_tensor(const struct row_maker *maker, const char *name, float *to, int64_t rows,
                        int64_t columns)
{
    enum attn_dtype dtype;
    const struct model_entry *entry =
        model_tensors_require(maker->parameters->tensors, name, maker->fault);
    if (!entry)
        return false;
    const uint64_t first = entry->rank > 0 ? entry->shape[0] : 0;
    if (first < (uint64_t)rows || entry->number_count != first * (uint64_t)columns)
        return fault_set_at(maker->fault, "/parameters", FAULT_SHAPE,
                            "tensor '%.100s' is not [%" PRId64 ", %" PRId64
                            "], as config.json gives",
                            name, rows, columns);
    if (!dtype_find(entry->dtype, &dtype) || dtype == ATTN_BOOL)
        return fault_set_at(maker->fault, "/parameters", FAULT_DTYPE,
                            "tensor '%.60s' is %s; a parameter is " DTYPE_NUMBERS, name,
                            entry->dtype);
    dtype_read(to, entry->data, dtype, (size_t)(rows * columns));
    return true;
}

static bool read_rows(struct row_maker *maker, bool is_normed)
{
    const struct checkpoint_run *run = maker->read->run;
    char name[CHECKPOINT_NAME_BYTES];
    double eps;
    snprintf(name, sizeof name, "%s%s.weight", run->prefix, run->stack->distance_rows);
    if (!read_tensor(maker, name, maker->rows, maker->count, maker->width))
        return false;
    if (!is_normed)
        return true;
    snprintf(name, sizeof name, "%s%s.weight", run->prefix, run->stack->distance_norm);
    if (!read_tensor(maker, name, maker->weight, maker->width, 1))
        return false;
    snprintf(name, sizeof name, "%s%s.bias", run->prefix, run->stack->distance_norm);
    if (!read_tensor(maker, name, maker->bias, maker->width, 1)
        || !checkpoint_read_number(run->section, run->stack->pass.norm_eps, &eps, maker->fault))
        return false;
    const struct attn_norm norm = { .weight = maker->weight,
                                    .bias = maker->bias,
                                    .eps = eps,
                                    .scope = ATTN_NORM_ROW,
                                    .is_centred = true };
    attn_rows_norm(&norm, maker->rows, maker->width, maker->rows, maker->width, maker->count,
                   maker->width);
    return true;
}

/* Projects the rows by the tensor called part, and puts those of each head together. */
static const float *project_rows(struct row_maker *maker, const char *part)
{
    const struct checkpoint_layer *read = maker->read;
    const int64_t head_dim = read->config.head_dim, heads = read->config.q_heads;
    char name[CHECKPOINT_NAME_BYTES];
    float *values =
        arena_alloc(maker->parameters->arena, (size_t)(maker->count * maker->out) * sizeof *values);
    if (!values) {
        fault_no_memory(maker->fault);
        return NULL;
    }
    checkpoint_name_write(name, read->run, read->index, part, ".weight");
    if (!read_tensor(maker, name, maker->weight, maker->out, maker->width))
        return NULL;
    checkpoint_name_write(name, read->run, read->index, part, ".bias");
    if (!read_tensor(maker, name, maker->bias, maker->out, 1))
        return NULL;
    const struct attn_linear linear = {
        .weight = maker->weight, .bias = maker->bias, .out = maker->out, .in = maker->width
    };
    const struct attn_product product = { .linear = &linear,
                                          .x = maker->rows,
                                          .x_stride = maker->width,
                                          .y = maker->made,
                                          .y_stride = maker->out,
                                          .row_count = maker->count,
                                          .kernels = attn_kernels_available()[0] };
    for (int64_t task = 0; task < attn_product_tasks(&product); task++)
        attn_product_run(&product, task, maker->workspace);
    for (int64_t h = 0; h < heads; h++)
        for (int64_t r = 0; r < maker->count; r++)
            memcpy(values + (h * maker->count + r) * head_dim,
                   maker->made + r * maker->out + h * head_dim, (size_t)head_dim * sizeof *values);
    return values;
}

static bool allocate(struct row_maker *maker)
{
    const struct attn_linear linear = { .out = maker->out, .in = maker->width };
    const struct attn_product product = { .linear = &linear,
                                          .kernels = attn_kernels_available()[0] };
    const int64_t most = maker->out > maker->width ? maker->out : maker->width;
    const size_t bytes = (attn_product_workspace_bytes(&product) + 63) / 64 * 64;
    maker->rows = malloc((size_t)(maker->count * maker->width) * sizeof *maker->rows);
    maker->weight = malloc((size_t)(maker->out * maker->width) * sizeof *maker->weight);
    maker->bias = malloc((size_t)most * sizeof *maker->bias);
    maker->made = malloc((size_t)(maker->count * maker->out) * sizeof *maker->made);
    maker->workspace = aligned_alloc(64, bytes > 0 ? bytes : 64);
    return (maker->rows && maker->weight && maker->bias && maker->made && maker->workspace)
           || fault_no_memory(maker->fault);
}

/* What stands for queries in the table are keys, and the other way round. */
static bool make_rows(struct row_maker *maker, struct model_relative_bias *bias,
                      const struct disentangled *of)
{
    const struct checkpoint_stack *stack = maker->read->run->stack;
    const char *const shared[] = { stack->projections[MODEL_K], stack->projections[MODEL_Q] };
    const char *const *parts = of->shares_projections ? shared : stack->row_projections;
    if (!allocate(maker) || !read_rows(maker, of->is_normed))
        return false;
    bias->values = project_rows(maker, parts[0]);
    if (of->by_key && bias->values)
        bias->key_values = project_rows(maker, parts[1]);
    return bias->values && (bias->key_values || !of->by_key);
}

bool checkpoint_disentangled_set(struct model_layer *layer, const struct checkpoint_layer *read,
                                 struct model_parameters *parameters, struct fault *fault)
{
    struct model_relative_bias *bias = &layer->relative_bias;
    struct disentangled of;
    if (!read->run->stack->distance_rows)
        return true;
    if (!read_config(&of, read->run->section, fault))
        return false;
    if (!of.is_relative)
        return true;
    struct row_maker maker = { .read = read,
                               .parameters = parameters,
                               .count = 2 * of.span,
                               .width = read->width,
                               .out = read->config.q_heads * read->config.head_dim,
                               .fault = fault };
    bias->by_query = bias->by_head = true;
    bias->by_key = of.by_key;
    const bool good =
        set_rows_of(bias, &of, parameters->arena, fault) && make_rows(&maker, bias, &of);
    free(maker.rows);
    free(maker.weight);
    free(maker.bias);
    free(maker.made);
    free(maker.workspace);
    return good;
}
