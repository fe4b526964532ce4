/* SPDX-License-Identifier: Apache-2.0 */
/* layer_operands.c - query, key and value of a layer's call: how each is prepared before attention
 * reads it. Clamps come before rotary embedding, and norms but where they follow it; norms apply to
 * each head or to the whole row.
 *
 * Source of the clamp: clip_qkv of MPT and OLMo. rows/norm.c has the arithmetic of the norms. */
#include "base/internal.h"
#include "layer/layer_internal.h"

#include <math.h>

int64_t attn_layer_d_out(const struct attn_layer *layer)
{
    return layer->o_proj.weight != NULL ? layer->o_proj.out : layer->q_heads * layer->v_head_dim;
}

int64_t attn_layer_value_columns(const struct attn_layer *layer)
{
    return attn_layer_is_latent(layer) ? layer->latent.rank : layer->v_head_dim;
}

static const struct attn_tensor_names QUERY = ATTN_TENSOR_NAMES("query");
static const struct attn_tensor_names KEY = ATTN_TENSOR_NAMES("key");
static const struct attn_tensor_names VALUE = ATTN_TENSOR_NAMES("value");

/* The first product of query, the rows of key, and of these the columns that are values. */
static void make_latent(const struct attn_layer_problem *problem,
                        struct attn_operand operands[ATTN_OPERAND_COUNT])
{
    const struct attn_layer *layer = problem->layer;
    const struct attn_latent *latent = &layer->latent;
    const bool is_down = latent->q_down.weight != NULL;

    operands[0].linear = attn_layer_first(layer);
    operands[0].heads = 1;
    operands[0].head_dim = operands[0].linear->out;
    operands[0].is_rotated = false;
    operands[0].norm = is_down && latent->q_norm.weight != NULL ? &latent->q_norm : NULL;
    operands[1].normed_columns = latent->rank;
    operands[2].input = &problem->key;
    operands[2].head_dim = latent->rank;
    operands[2].is_of_key = operands[2].is_prepared = true;
}

void attn_layer_operands(const struct attn_layer_problem *problem,
                         struct attn_operand operands[ATTN_OPERAND_COUNT])
{
    const struct attn_layer *layer = problem->layer;
    const bool is_rotated = layer->rope.dim > 0;
    const bool grows = layer->rope.query_growth > 0;
    const struct attn_norm *q_norm = layer->q_norm.weight != NULL ? &layer->q_norm : NULL;
    const struct attn_norm *k_norm = layer->k_norm.weight != NULL ? &layer->k_norm : NULL;

    /* Only the context needs values, and a cache. */
    const bool has_values = problem->context != NULL || problem->cache != NULL;
    const struct attn_norm *v_norm =
        has_values && layer->v_norm.weight != NULL ? &layer->v_norm : NULL;
    const int64_t cached = problem->cache != NULL ? problem->cache->length : 0;

    operands[0] = (struct attn_operand){
        .input = &problem->query,
        .linear = &layer->q_proj,
        .heads = layer->q_heads,
        .head_dim = layer->head_dim,
        .first_position = problem->past_len,
        .is_rotated = is_rotated || grows,
        .norm = q_norm,
        .is_prepared = layer->q_proj.weight != NULL || q_norm != NULL || is_rotated || grows,
        .names = &QUERY,
        .linear_name = "layer.q_proj",
    };
    operands[1] = (struct attn_operand){
        .input = &problem->key,
        .linear = &layer->k_proj,
        .heads = layer->kv_heads,
        .head_dim = layer->head_dim,
        .first_position = problem->kv_offset + cached,
        .is_rotated = is_rotated,
        .norm = k_norm,
        .is_prepared = layer->k_proj.weight != NULL || k_norm != NULL || is_rotated,
        .names = &KEY,
        .linear_name = "layer.k_proj",
    };
    operands[2] = (struct attn_operand){
        .input = &problem->value,
        .linear = &layer->v_proj,
        .heads = layer->kv_heads,
        .head_dim = layer->v_head_dim,
        .norm = v_norm,
        .is_prepared = (layer->v_proj.weight != NULL && has_values) || v_norm != NULL,
        .names = &VALUE,
        .linear_name = "layer.v_proj",
    };
    if (attn_layer_is_latent(layer))
        make_latent(problem, operands);
    for (int i = 0; i < ATTN_OPERAND_COUNT; i++)
        operands[i].has_prepare = operands[i].norm != NULL || operands[i].is_rotated;
}

void attn_operand_rotate(const struct attn_layer_problem *problem,
                         const struct attn_operand *operand, int64_t first,
                         struct attn_rope_rows *rows)
{
    const double query_end = (double)problem->past_len + (double)problem->query.shape[2];
    const double cached = problem->cache != NULL ? (double)problem->cache->length : 0;
    const double key_end = (double)problem->kv_offset + cached + (double)problem->key.shape[2];

    rows->head_dim = operand->head_dim;
    rows->first_position = (double)operand->first_position + (double)first;
    rows->sequence_length = query_end > key_end ? query_end : key_end;
    rows->are_queries = operand->input == &problem->query;
    attn_rope_rotate(&problem->layer->rope, rows);
}

bool attn_layer_has_gate(const struct attn_layer_problem *problem)
{
    return problem->context != NULL && problem->layer->gate_proj.weight != NULL;
}

bool attn_layer_has_output(const struct attn_layer_problem *problem)
{
    return problem->context != NULL && problem->layer->o_proj.weight != NULL && !problem->partial;
}

struct attn_tensor attn_operand_caller_view(const struct attn_operand *operand)
{
    struct attn_tensor view = *operand->input;

    if (view.shape[1] == 1) {
        view.shape[1] = operand->heads;
        view.shape[3] = operand->head_dim;
        view.stride[1] = operand->head_dim;
    }
    return view;
}

/* -------------------------------------------------------- clamps and norms of projected rows -- */

enum attn_status attn_norm_check(const struct attn_norm *norm, const struct attn_norm_names *names,
                                 const char **where)
{
    if (norm->weight == NULL)
        return ATTN_OK;
    RETURN_IF(!(norm->eps >= 0 && isfinite(norm->eps)), ATTN_ERR_OPTION, names->eps);
    RETURN_IF((int)norm->scope < ATTN_NORM_HEAD || norm->scope > ATTN_NORM_ROW, ATTN_ERR_OPTION,
              names->scope);
    return ATTN_OK;
}

struct attn_norm_groups attn_norm_groups(const struct attn_norm *norm, int64_t heads,
                                         int64_t head_dim)
{
    if (norm->scope == ATTN_NORM_ROW)
        return (struct attn_norm_groups){ 1, heads * head_dim, 0 };
    return (struct attn_norm_groups){ heads, head_dim,
                                      norm->scope == ATTN_NORM_HEADS ? head_dim : 0 };
}

void attn_norm_rows(const struct attn_norm *norm, float *rows, int64_t row_count, int64_t heads,
                    int64_t head_dim)
{
    const struct attn_norm_groups groups = attn_norm_groups(norm, heads, head_dim);

    const int64_t columns = groups.columns;

    if (groups.weight_step == 0) {
        attn_rows_norm(norm, rows, columns, rows, columns, row_count * groups.count, columns);
        return;
    }
    for (int64_t group = 0; group < groups.count; group++) {
        const int64_t at = group * groups.weight_step;
        struct attn_norm own = *norm;
        own.weight += at;
        own.bias = norm->bias != NULL ? norm->bias + at : NULL;
        attn_rows_norm(&own, rows + group * columns, heads * columns, rows + group * columns,
                       heads * columns, row_count, columns);
    }
}

void attn_clamp(float *numbers, int64_t count, double projected_max)
{
    const float most = (float)projected_max;
    for (int64_t i = 0; projected_max > 0 && i < count; i++)
        numbers[i] = numbers[i] > most ? most : numbers[i] < -most ? -most : numbers[i];
}
