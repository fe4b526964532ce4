/* SPDX-License-Identifier: Apache-2.0 */
/* work.c - counts of attention and its gradient, of the stages of a layer around it, and of theirs.
 */
#include "work.h"

#include "base/internal.h"
#include "forward/decode.h"
#include "forward/mask.h"
#include "gradient/gradient_internal.h"
#include "layer.h"
#include "layer/layer_gradient_internal.h"

#include "kernels/kernels.h"

#include <math.h>

/* The extra cost of one pair, in steps of the softmax. Measured with AVX-512. */
static const double SOFTCAP_STEPS = 2.0;
static const double MASK_STEPS = 1.7;
static const double ALIBI_STEPS = 0.3;
static const double DROPOUT_STEPS = 22.0;
static const double SPARSEMAX_STEPS = 42.0;

/* The cost of one exp, or one tanh, in flops of the path in double. */
static const double DOUBLE_EXP_FLOPS = 20.0;
static const double DOUBLE_TANH_FLOPS = 80.0;

static double at_most(double a, double b)
{
    return a < b ? a : b;
}

static double within(double x, double low, double high)
{
    return x < low ? low : at_most(x, high);
}

/* The sum over rows i of i + first, each clamped to 0 and kv_len. */
static double clamped_sum(double first, double q_len, double kv_len)
{
    if (first == INFINITY)
        return q_len * kv_len;
    if (first == -INFINITY)
        return 0;
    const double from = within(-first, 0, q_len);
    const double to = within(kv_len - first, from, q_len);
    return (to - from) * first + (to - from) * (from + to - 1) / 2 + (q_len - to) * kv_len;
}

double attn_band_pairs(const struct attn_band *band, double q_len, double kv_len)
{
    const double high = clamped_sum(band->high, q_len, kv_len);
    const double low = clamped_sum(band->low, q_len, kv_len);
    return high > low ? high - low : 0;
}

static double kv_len_of(const struct attn_problem *problem, int64_t batch)
{
    const double kv_len = (double)problem->key.shape[2];
    return problem->kv_len != NULL ? at_most((double)problem->kv_len[batch], kv_len) : kv_len;
}

/* The pairs that the rows of one head see, over all batch items. */
static double visible_pairs(const struct attn_problem *problem, int64_t past_len)
{
    const int64_t q_len = problem->query.shape[2];
    const struct attn_band band = attn_mask_band(problem, past_len);
    double pairs = 0;

    for (int64_t b = 0; b < problem->query.shape[0]; b++) {
        const double kv_len = kv_len_of(problem, b);
        if (problem->row_kv_len == NULL)
            pairs += attn_band_pairs(&band, (double)q_len, kv_len);
        for (int64_t i = 0; problem->row_kv_len != NULL && i < q_len; i++) {
            const double row = (double)problem->row_kv_len[b * q_len + i];
            const struct attn_band own = { band.low + (double)i, band.high + (double)i };
            pairs += attn_band_pairs(&own, 1, at_most(row, kv_len));
        }
    }
    return pairs;
}

static double all_pairs(const struct attn_problem *problem)
{
    return (double)problem->query.shape[0] * (double)problem->query.shape[2]
           * (double)problem->key.shape[2];
}

/* How many ends of the range that a row sees move from row to row. */
static double cuts_of(const struct attn_problem *problem)
{
    const struct attn_band band = attn_mask_band(problem, 0);

    return (band.low > -INFINITY ? 1 : 0) + (band.high < INFINITY ? 1 : 0);
}

static double map_bytes(const struct attn_problem *problem)
{
    const double numbers = all_pairs(problem) * (double)problem->query.shape[1];
    double bytes = 0;

    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++)
        if (attn_output_is_map(i) && attn_is_wanted(&problem->out[i]))
            bytes += numbers * (double)attn_dtype_size(problem->out[i].dtype);
    return bytes;
}

/* The cost of one pair of the problem, in steps of the softmax. */
static double steps_of(const struct attn_problem *problem)
{
    double steps = 1;

    if (problem->options.softcap > 0)
        steps += SOFTCAP_STEPS;
    if (problem->mask.data != NULL || problem->last_keys > 0)
        steps += MASK_STEPS;
    if (problem->alibi_slopes != NULL)
        steps += ALIBI_STEPS;
    if (problem->options.dropout > 0)
        steps += DROPOUT_STEPS;
    if (problem->options.normalizer == ATTN_SPARSEMAX)
        steps += SPARSEMAX_STEPS;
    return steps;
}

static double row_bytes(const struct attn_tensor *tensor)
{
    return (double)tensor->shape[3] * (double)attn_dtype_size(tensor->dtype);
}

/* -------------------------------------------------------------------------- attention -- */

static void add_decode(const struct attn_plan_full *plan, double pairs, double flops, double steps,
                       struct attn_work *work)
{
    const struct attn_problem *problem = &plan->problem;
    const double q_heads = (double)problem->query.shape[1];
    const double readers = (double)problem->key.shape[1] * (double)plan->decode_tasks;
    /* Neighbouring rows see nearly the same keys. */
    const double keys = pairs / (double)attn_max(problem->query.shape[2], 1);

    work->decode_flops += pairs * q_heads * flops;
    work->decode_pairs += pairs * q_heads * steps;
    work->stream_bytes += keys * readers * (row_bytes(&problem->key) + row_bytes(&problem->value));
}

/* Two passes over the keys, with exp and tanh of the C library. */
static void add_double(const struct attn_problem *problem, double pairs, struct attn_work *work)
{
    const double head_dim = (double)problem->query.shape[3];
    const double score =
        problem->additive_weight != NULL ? head_dim * (DOUBLE_TANH_FLOPS + 3) : 2 * head_dim;
    const double cap = problem->options.softcap > 0 ? DOUBLE_TANH_FLOPS : 0;

    work->double_flops += pairs * (double)problem->query.shape[1]
                          * (2 * (score + cap + DOUBLE_EXP_FLOPS * steps_of(problem))
                             + 2 * (double)problem->value.shape[3]);
}

/* At the ends of what rows see, products take the pairs that at least one row of a vector sees, and
 * the softmax those that one row of the tile sees. Query and context are transposed once. */
static void add_tiles(const struct attn_plan_full *plan, double pairs, double cuts, double flops,
                      double steps, struct attn_work *work)
{
    const struct attn_problem *problem = &plan->problem;
    const double q_heads = (double)problem->query.shape[1];
    const double rows = (double)problem->query.shape[0] * (double)problem->query.shape[2] * cuts;
    const double kv_len = (double)problem->key.shape[2];
    const double by_vector = rows * at_most((double)plan->kernels->lanes, kv_len) / 2;
    const double by_tile = rows * at_most((double)plan->width, kv_len) / 2;

    if (problem->additive_weight != NULL)
        work->tanhs += (pairs + by_tile) * q_heads * (double)problem->query.shape[3];
    work->tile_flops += (pairs + by_vector) * q_heads * flops;
    work->pairs += (pairs + by_tile) * q_heads * steps;
    work->moved_numbers += (double)plan->task_count * (double)plan->width
                           * (double)(problem->query.shape[3] + problem->value.shape[3]);
}

/* Computed rows of a tile, padding included, for each real row. */
static double padding_of(const struct attn_plan_full *plan)
{
    const double q_len = (double)plan->problem.query.shape[2];
    const double width = plan->in_double ? ATTN_DOUBLE_ROWS : (double)plan->width;

    return plan->is_decode || q_len == 0 ? 1 : (double)plan->q_tiles * width / q_len;
}

/* pairs are those of one head; cuts is the number of moving ends of the range that a row sees. */
static void add_plan(const struct attn_plan_full *plan, double pairs, double cuts,
                     struct attn_work *work)
{
    const struct attn_problem *problem = &plan->problem;
    const double score = problem->additive_weight != NULL ? 0 : 2 * (double)problem->query.shape[3];
    const double context = problem->context.data != NULL ? 2 * (double)problem->value.shape[3] : 0;
    const double steps = steps_of(problem);

    pairs *= padding_of(plan);
    work->tasks += (double)plan->task_count + (double)plan->part_count;
    work->map_bytes += map_bytes(problem);
    if (plan->in_double)
        add_double(problem, pairs, work);
    else if (plan->is_decode)
        add_decode(plan, pairs, score + context, steps, work);
    else
        add_tiles(plan, pairs, cuts, score + context, steps, work);
}

/* Where a map shows hidden pairs, they are computed. */
void attn_plan_work(const struct attn_plan *plan, int64_t past_len, struct attn_work *work)
{
    const struct attn_plan_full *full = attn_plan_full(plan);

    if (attn_wants_map(&full->problem))
        add_plan(full, all_pairs(&full->problem), 0, work);
    else
        add_plan(full, visible_pairs(&full->problem, past_len), cuts_of(&full->problem), work);
}

/* Numbers that are read to sum up the spans of all chosen rows. Spans may overlap. */
static double span_numbers(const struct attn_weight_map *map, const struct attn_problem *problem)
{
    int64_t shape[3];
    double length = 0;

    for (int64_t s = 0; map->spans != NULL && s < map->span_count; s++)
        length += (double)(map->spans[s].end - map->spans[s].begin);
    attn_weight_map_shape(map, problem->query.shape[1], problem->query.shape[2],
                          problem->key.shape[2], shape);
    return length * (double)shape[0] * (double)shape[1];
}

/* In the tiles of chosen rows the full rows of a reduced map exist before they are reduced, one
 * tile at a time. Other tiles are computed only for other outputs. */
static void plan_work_reduced(const struct attn_plan_full *plan, const struct attn_weight_map *map,
                              int64_t past_len, struct attn_work *work)
{
    const struct attn_problem *problem = &plan->problem;
    const double chosen =
        attn_wants_map(problem) ? 1 : attn_weight_map_share(map, attn_plan_given(plan));
    const double rest = attn_wants_output(problem) ? 1 - chosen : 0;
    const double all = all_pairs(problem);

    add_plan(plan, chosen * all + (rest > 0 ? rest * visible_pairs(problem, past_len) : 0),
             rest * cuts_of(problem), work);
    work->map_bytes += 2 * chosen * all * (double)problem->query.shape[1] * (double)sizeof(float);
    work->map_bytes += span_numbers(map, problem) * (double)sizeof(float);
}

/* ---------------------------------------------------------------------- its gradient -- */

/* Five products, and two more if maximum, sum and delta of each row must be found again. */
void attn_gradient_plan_work(const struct attn_gradient_plan *plan, int64_t past_len,
                             struct attn_work *work)
{
    const struct attn_gradient_plan_full *full = attn_gradient_plan_full(plan);
    const struct attn_problem *problem = &full->problem.attention;
    const double head_dim = (double)problem->query.shape[3];
    const double v_head_dim = (double)problem->value.shape[3];
    const double q_heads = (double)problem->query.shape[1];
    const double pairs = visible_pairs(problem, past_len) * q_heads;
    const double rows = (double)attn_max(problem->query.shape[2], 1);
    const double padded_rows = (double)full->row_tiles * (double)full->row_width / rows;
    const double finds = full->problem.has_forward ? 0 : padded_rows;
    const bool is_additive = problem->additive_weight != NULL;

    for (int s = 0; s < ATTN_GRADIENT_STAGES; s++)
        work->tasks += (double)full->task_count[s];
    work->gradient_flops += pairs * 2 * v_head_dim * (2 + finds);
    if (is_additive)
        work->gradient_tanhs += pairs * head_dim * (2 * padded_rows + 1);
    else
        work->gradient_flops += pairs * 2 * head_dim * (3 + finds);
    work->pairs += pairs * steps_of(problem) * (1 + finds);
    if (full->problem.mask_gradient.data != NULL)
        work->gradient_flops += all_pairs(problem) * q_heads * 2 * (head_dim + v_head_dim);
}

/* ----------------------------------------------------------------------------------- a layer -- */

static void add_linear(const struct attn_linear *linear, int64_t rows, struct attn_work *work)
{
    const double numbers = (double)linear->in * (double)linear->out;

    work->projection_flops += 2 * numbers * (double)rows;
    work->parameter_bytes += numbers / (double)attn_block_numbers(linear->dtype)
                             * (double)attn_block_bytes(linear->dtype)
                             * (double)attn_divide_up(rows, ATTN_LAYER_CHUNK_ROWS);
}

void attn_product_work(const struct attn_product *product, struct attn_work *work)
{
    const double outputs = (double)product->row_count * (double)product->linear->out;

    work->tasks += (double)attn_product_tasks(product);
    add_linear(product->linear, product->row_count, work);
    if (product->gate != NULL) {
        add_linear(product->gate, product->row_count, work);
        work->moved_numbers += outputs;
    }
    if (product->activation != ATTN_NO_ACTIVATION)
        work->tanhs += outputs;
}

void attn_rows_work(int64_t row_count, int64_t columns, struct attn_work *work)
{
    work->moved_numbers += (double)row_count * (double)columns;
}

static void add_operands(const struct attn_layer_problem *problem, struct attn_work *work)
{
    struct attn_operand operands[ATTN_OPERAND_COUNT];

    attn_layer_operands(problem, operands);
    for (int i = 0; i < ATTN_OPERAND_COUNT; i++) {
        const struct attn_operand *operand = &operands[i];
        const int64_t rows = operand->input->shape[2];
        const double numbers = (double)rows * (double)operand->heads * (double)operand->head_dim;
        if (!operand->is_prepared)
            continue;
        work->tasks += (double)attn_divide_up(rows, ATTN_LAYER_CHUNK_ROWS);
        if (operand->linear->weight != NULL)
            add_linear(operand->linear, rows, work);
        work->moved_numbers +=
            numbers * ((operand->norm != NULL ? 1 : 0) + (operand->is_rotated ? 1 : 0));
    }
}

/* Rows that are read and written once more, into a cache. */
static void add_append(const struct attn_layer_problem *problem, struct attn_work *work)
{
    const struct attn_layer *layer = problem->layer;
    int64_t columns;

    if (problem->cache == NULL)
        return;
    columns = layer->kv_heads * (layer->head_dim + problem->cache->value.shape[3]);
    work->tasks += (double)attn_layer_append_tasks(problem);
    work->moved_numbers += (double)problem->key.shape[2] * (double)columns;
}

static void add_gate(const struct attn_layer_problem *problem, struct attn_work *work)
{
    const struct attn_linear *gate = &problem->layer->gate_proj;
    const int64_t rows = problem->query.shape[2];

    if (!attn_layer_has_gate(problem))
        return;
    work->tasks += (double)attn_divide_up(rows, ATTN_LAYER_CHUNK_ROWS);
    work->tanhs += (double)rows * (double)gate->out;
    add_linear(gate, rows, work);
}

static void add_output(const struct attn_layer_problem *problem, struct attn_work *work)
{
    const int64_t rows = problem->query.shape[2];

    if (!attn_layer_has_output(problem))
        return;
    work->tasks += (double)attn_divide_up(rows, ATTN_LAYER_CHUNK_ROWS);
    add_linear(&problem->layer->o_proj, rows, work);
}

void attn_layer_product_work(const struct attn_layer_plan *plan, enum attn_layer_product product,
                             struct attn_work *work)
{
    const struct attn_layer_plan_full *full = attn_layer_plan_full(plan);
    const struct attn_layer_problem *problem = &full->problem;
    struct attn_operand operands[ATTN_OPERAND_COUNT];

    if (product == ATTN_PRODUCT_OUTPUT && attn_layer_has_output(problem))
        add_linear(&problem->layer->o_proj, problem->query.shape[2], work);
    if (product != ATTN_PRODUCT_INPUTS)
        return;
    attn_layer_operands(problem, operands);
    for (int i = 0; i < ATTN_OPERAND_COUNT; i++)
        if (operands[i].is_prepared && operands[i].linear->weight != NULL)
            add_linear(operands[i].linear, operands[i].input->shape[2], work);
    if (attn_layer_has_gate(problem))
        add_linear(&problem->layer->gate_proj, problem->query.shape[2], work);
}

/* The products that a latent layer has besides, and the columns that are copied. */
static void add_latent(const struct attn_layer_plan_full *plan, struct attn_work *work)
{
    const struct attn_layer_problem *problem = &plan->problem;
    const struct attn_layer *layer = problem->layer;
    const struct attn_latent *latent = &layer->latent;
    const struct attn_linear *const linears[] = { &latent->k_up, &latent->v_up };
    struct attn_product product = { .linear = &layer->q_proj,
                                    .row_count = problem->query.shape[2],
                                    .kernels = plan->attention.kernels };

    if (latent->q_down.weight != NULL)
        attn_product_work(&product, work);
    for (int i = 0; i < (problem->context != NULL ? 2 : 1); i++) {
        struct attn_linear all = *linears[i];
        all.out *= layer->q_heads;
        product.linear = &all;
        attn_product_work(&product, work);
    }
    work->moved_numbers += 2 * (double)product.row_count * (double)layer->q_heads
                           * (double)(layer->head_dim - latent->rank);
}

/* Every part is read once: its context and its lse. */
static void add_merge(const struct attn_layer_plan_full *plan, struct attn_work *work)
{
    const struct attn_layer_merge *merge = plan->merge;
    const double rows = (double)merge->layer->q_heads * (double)merge->q_len;

    work->tasks += (double)plan->task_count[0];
    work->stream_bytes += (double)merge->part_count * rows * ((double)merge->layer->v_head_dim + 1)
                          * (double)sizeof(float);
    work->decode_flops += (double)merge->part_count * rows * 2 * (double)merge->layer->v_head_dim;
    work->decode_pairs += (double)merge->part_count * rows;
}

void attn_layer_work(const struct attn_layer_plan *plan, struct attn_work *work)
{
    const struct attn_layer_plan_full *full = attn_layer_plan_full(plan);
    const struct attn_layer_problem *problem = &full->problem;

    if (full->stage_count == 0)
        return;
    if (full->merge != NULL) {
        add_merge(full, work);
    } else {
        add_operands(problem, work);
        add_gate(problem, work);
        if (attn_layer_is_latent(problem->layer))
            add_latent(full, work);
        add_append(problem, work);
        if (problem->weight_map != NULL)
            plan_work_reduced(&full->attention, problem->weight_map, problem->past_len, work);
        else
            attn_plan_work(attn_plan_given(&full->attention), problem->past_len, work);
    }
    add_output(problem, work);
}

/* A projection's gradient takes one product for its input, and one for its weight. */
static void add_linear_gradient(const struct attn_linear *linear,
                                const struct attn_linear_gradient *gradient, bool has_input,
                                int64_t rows, struct attn_work *work)
{
    if (linear->weight == NULL)
        return;
    if (has_input)
        add_linear(linear, rows, work);
    if (gradient->weight != NULL)
        add_linear(linear, rows, work);
}

void attn_layer_gradient_work(const struct attn_layer_gradient_plan *plan, struct attn_work *work)
{
    const struct attn_layer_gradient_plan_full *full = attn_layer_gradient_plan_full(plan);
    const struct attn_layer_gradient_problem *problem = &full->problem;
    const struct attn_layer_problem *layer_problem = &full->forward.problem;
    const struct attn_layer *layer = layer_problem->layer;
    const int64_t q_len = layer_problem->query.shape[2];
    const int64_t kv_len = layer_problem->key.shape[2];

    if (q_len == 0)
        return;
    add_operands(layer_problem, work);
    if (attn_layer_gradient_has_forward(problem))
        attn_plan_work(attn_plan_given(&full->forward.attention), layer_problem->past_len, work);
    attn_gradient_plan_work(attn_gradient_plan_given(&full->gradient), layer_problem->past_len,
                            work);
    add_linear_gradient(&layer->o_proj, &problem->o_proj, true, q_len, work);
    add_linear_gradient(&layer->q_proj, &problem->q_proj, problem->query != NULL, q_len, work);
    add_linear_gradient(&layer->k_proj, &problem->k_proj, problem->key != NULL, kv_len, work);
    add_linear_gradient(&layer->v_proj, &problem->v_proj, problem->value != NULL, kv_len, work);
}
