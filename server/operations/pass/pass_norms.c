/* SPDX-License-Identifier: Apache-2.0 */
/* pass_norms.c - how much each key adds to a row: its weight times the norm of its value behind the
 * head's part of the output projection (Kobayashi et al. 2020, "Attention is Not Only a Weight").
 *
 * Turns: the norms of the values; the map of a head, or its sums over spans; where a weight map is
 * asked for, that map of all heads, in which each row has these numbers as given weights, and its
 * largest. */
#include "operations/pass/pass_internal.h"

#include "base/dtype.h"

#include <math.h>
#include <string.h>

enum { TURN_VALUES, TURN_ROWS, TURN_MAP, TURN_SELECT };
enum { KEYS_PER_TASK = 32 };

/* Sizes of the layer's map. */
struct shape {
    int64_t heads, rows, keys, d_out, v_head_dim;
};

static struct shape shape_of(const struct pass *pass, const struct pass_step *step,
                             const struct pass_sequence *sequence)
{
    const struct attn_layer *layer = &pass->model->layers[step->layer].layer;
    const int64_t rows = sequence->length[step->stream];
    return (struct shape){ .heads = layer->q_heads,
                           .rows = rows,
                           .keys = step->is_cross ? sequence->length[0] : rows,
                           .d_out = layer->o_proj.weight ? layer->o_proj.out : layer->v_head_dim,
                           .v_head_dim = layer->v_head_dim };
}

static const struct trace_layer *answered_of(const struct pass_sequence *sequence,
                                             const struct pass_step *step)
{
    return sequence->answered[step->layer];
}

static bool norms_are_read(const struct pass *pass, const struct pass_step *step,
                           const struct pass_sequence *sequence)
{
    const struct trace_layer *answered = answered_of(sequence, step);
    const struct shape shape = shape_of(pass, step, sequence);
    return answered && shape.rows > 0 && shape.keys > 0
           && (answered->tensors[TRACE_NORMS].values || answered->tensors[TRACE_NORM_SPANS].values);
}

static bool has_map(const struct pass_sequence *sequence, const struct pass_step *step)
{
    return answered_of(sequence, step)->tensors[TRACE_NORMS].values
           && sequence->item->has_weight_map;
}

/* ---------------------------------------------------------------------- values -- */

static int64_t rounded(int64_t count)
{
    return (count + 15) / 16 * 16;
}

/* Floats for the columns of one head of a matrix with blocks, and for a row of them with what is
 * beside them in blocks; 0: it has none. */
static int64_t head_numbers(const struct attn_linear *o_proj, int64_t v_head_dim)
{
    return o_proj->weight && dtype_is_blocks(o_proj->dtype)
               ? rounded(o_proj->out * v_head_dim)
                     + rounded(v_head_dim + 2 * attn_block_numbers(o_proj->dtype))
               : 0;
}

/* The same as floats, for the columns of a head need not be whole blocks. */
static struct attn_linear unpacked_projection(const struct attn_linear *o_proj, int64_t head,
                                              int64_t v_head_dim, float *matrix)
{
    const int64_t block = attn_block_numbers(o_proj->dtype), first = head * v_head_dim;
    const int64_t begin = first / block * block;
    const int64_t count = (first + v_head_dim - begin + block - 1) / block * block;
    const int64_t stride = o_proj->stride > 0 ? o_proj->stride : o_proj->in;
    float *row = matrix + rounded(o_proj->out * v_head_dim);
    for (int64_t o = 0; o < o_proj->out; o++) {
        dtype_read(row, attn_number_at(o_proj->weight, o_proj->dtype, o * stride + begin),
                   o_proj->dtype, (size_t)count);
        memcpy(matrix + o * v_head_dim, row + first - begin, (size_t)v_head_dim * sizeof *row);
    }
    return (struct attn_linear){ .weight = matrix, .out = o_proj->out, .in = v_head_dim };
}

/* The columns of the output projection that a head's context meets. */
static struct attn_linear head_projection(const struct attn_linear *o_proj, int64_t head,
                                          int64_t v_head_dim)
{
    struct attn_linear linear = *o_proj;
    const int64_t stride = o_proj->stride > 0 ? o_proj->stride
                           : o_proj->in_out   ? o_proj->out
                                              : o_proj->in;
    const int64_t first = head * v_head_dim * (o_proj->in_out ? stride : 1);
    linear.weight = attn_number_at(o_proj->weight, o_proj->dtype, first);
    linear.bias = NULL;
    linear.in = v_head_dim;
    linear.stride = stride;
    return linear;
}

static struct attn_product value_product(const struct pass *pass, const struct attn_linear *linear,
                                         const float *x, int64_t x_stride, float *y, int64_t count)
{
    return (struct attn_product){ .linear = linear,
                                  .x = x,
                                  .x_stride = x_stride,
                                  .y = y,
                                  .y_stride = linear->out,
                                  .row_count = count,
                                  .kernels = pass->limits.kernels,
                                  .precision = pass->limits.precision };
}

/* The matrix that makes a head's value of a latent row. */
static struct attn_linear latent_projection(const struct attn_latent *latent, int64_t head)
{
    struct attn_linear linear = latent->v_up;
    linear.weight = attn_number_at(linear.weight, linear.dtype, head * latent->v_up_step);
    return linear;
}

/* Floats for the values of a task; 0: they are there. */
static int64_t latent_numbers(const struct attn_layer *layer)
{
    return layer->latent.rank > 0 ? rounded(KEYS_PER_TASK * layer->v_head_dim) : 0;
}

static void run_product(const struct attn_product *product, void *workspace)
{
    for (int64_t i = 0; i < attn_product_tasks(product); i++)
        attn_product_run(product, i, workspace);
}

static int64_t value_tasks_of_head(int64_t keys)
{
    return (keys + KEYS_PER_TASK - 1) / KEYS_PER_TASK;
}

static float norm_of(const float *row, int64_t columns)
{
    double sum = 0;
    for (int64_t c = 0; c < columns; c++)
        sum += (double)row[c] * (double)row[c];
    return (float)sqrt(sum);
}

/* The norms of count rows x of one head. */
static void run_norms(const struct pass *pass, const struct attn_linear *o_proj,
                      const struct shape *shape, int64_t head, const float *x, int64_t stride,
                      int64_t count, float *norms, void *workspace)
{
    const int64_t unpacked = head_numbers(o_proj, shape->v_head_dim);
    float *rows = (float *)workspace + unpacked;
    if (o_proj->weight) {
        const struct attn_linear linear =
            unpacked > 0 ? unpacked_projection(o_proj, head, shape->v_head_dim, workspace)
                         : head_projection(o_proj, head, shape->v_head_dim);
        const struct attn_product product = value_product(pass, &linear, x, stride, rows, count);
        run_product(&product, rows + rounded(KEYS_PER_TASK * shape->d_out));
    }
    for (int64_t j = 0; j < count; j++)
        norms[j] = o_proj->weight ? norm_of(rows + j * shape->d_out, shape->d_out)
                                  : norm_of(x + j * stride, shape->v_head_dim);
}

/* The same of some keys of one head. */
static void run_values(const struct pass *pass, const struct pass_step *step,
                       const struct pass_sequence *sequence, int64_t task, void *workspace)
{
    const struct infer_item *attention = sequence->attention;
    const struct shape shape = shape_of(pass, step, sequence);
    const struct attn_tensor value =
        attn_layer_attention(&attention->plan, attention->scratch).value;
    const struct attn_layer *layer = attention->plan.problem.layer;
    const int64_t tasks = value_tasks_of_head(shape.keys), head = task / tasks;
    const int64_t first = task % tasks * KEYS_PER_TASK;
    const int64_t count = shape.keys - first < KEYS_PER_TASK ? shape.keys - first : KEYS_PER_TASK;
    const int64_t made = latent_numbers(layer);
    const float *x = (const float *)value.data
                     + head / (shape.heads / value.shape[1]) * value.stride[1]
                     + first * value.stride[2];
    float *norms = (float *)sequence->norms.memory + head * shape.keys + first;
    float *behind = (float *)workspace + made;
    if (made > 0) {
        const struct attn_linear linear = latent_projection(&layer->latent, head);
        const struct attn_product product =
            value_product(pass, &linear, x, value.stride[2], workspace, count);
        run_product(&product, behind);
    }
    run_norms(pass, &layer->o_proj, &shape, head, made > 0 ? workspace : x,
              made > 0 ? shape.v_head_dim : value.stride[2], count, norms, behind);
}

/* ------------------------------------------------------------------------ rows -- */

/* Weights times norms of rows [row, row + n) and keys [key, key + count), dense. */
static void fill_block(const struct pass_sequence *sequence, int64_t head, int64_t keys,
                       const int64_t rows[2], const int64_t key_range[2], float *block,
                       void *workspace)
{
    const float *norms = (const float *)sequence->norms.memory + head * keys + key_range[0];
    const int64_t count = key_range[1] - key_range[0];
    struct attn_map_tile tile = pass_map_tile(sequence, head);
    tile.keys[0] = key_range[0];
    tile.keys[1] = key_range[1];
    attn_map_tile_scores(&tile, rows[0], rows[1] - rows[0], block, workspace);
    attn_map_tile_weigh(&tile, rows[0], rows[1] - rows[0], block);
    for (int64_t i = 0; i < rows[1] - rows[0]; i++)
        for (int64_t j = 0; j < count; j++)
            block[i * count + j] *= norms[j];
}

static float *block_of(void *workspace)
{
    return workspace;
}

static void *behind_block(void *workspace)
{
    return block_of(workspace) + (int64_t)ATTN_MAP_TILE_ROWS * ATTN_MAP_TILE_KEYS;
}

/* Writes rows of a head's map to [heads][q][keys]. */
static void run_rows(const struct pass_sequence *sequence, const struct shape *shape, int64_t task,
                     float *to, void *workspace)
{
    const int64_t bands = (shape->rows + ATTN_MAP_TILE_ROWS - 1) / ATTN_MAP_TILE_ROWS;
    const int64_t head = task / bands, row = task % bands * ATTN_MAP_TILE_ROWS;
    const int64_t end =
        row + ATTN_MAP_TILE_ROWS < shape->rows ? row + ATTN_MAP_TILE_ROWS : shape->rows;
    float *block = block_of(workspace);
    for (int64_t key = 0; key < shape->keys; key += ATTN_MAP_TILE_KEYS) {
        const int64_t last =
            key + ATTN_MAP_TILE_KEYS < shape->keys ? key + ATTN_MAP_TILE_KEYS : shape->keys;
        fill_block(sequence, head, shape->keys, (const int64_t[]){ row, end },
                   (const int64_t[]){ key, last }, block, behind_block(workspace));
        for (int64_t i = row; i < end; i++)
            memcpy(to + (head * shape->rows + i) * shape->keys + key,
                   block + (i - row) * (last - key), (size_t)(last - key) * sizeof *to);
    }
}

/* ----------------------------------------------------------------------- spans -- */

/* Adds what the keys [key, key + count) of a row put into spans. */
static void add_row(const struct trace_item *item, double *sums, const float *row, int64_t key,
                    int64_t count)
{
    for (int64_t s = 0; s < item->span_count; s++) {
        const struct attn_map_range *span = &item->spans[s];
        const int64_t begin = span->begin > key ? span->begin : key;
        const int64_t end = span->end < key + count ? span->end : key + count;
        for (int64_t j = begin; j < end; j++)
            sums[s] += (double)row[j - key];
    }
}

/* Adds a row to those of the answer that it counts for. place: among the rows asked for. */
static void add_to_rows(const struct trace_item *item, double *sums, const float *values,
                        int64_t row, int64_t place, int64_t key, int64_t count)
{
    if (!item->has_row_spans) {
        add_row(item, sums + place * item->span_count, values, key, count);
        return;
    }
    for (int64_t r = 0; r < item->row_span_count; r++)
        if (row >= item->row_spans[r].begin && row < item->row_spans[r].end)
            add_row(item, sums + r * item->span_count, values, key, count);
}

/* The sums of a head, over all rows that are asked for. */
static void run_spans(const struct pass_step *step, const struct pass_sequence *sequence,
                      const struct shape *shape, int64_t head, void *workspace)
{
    const struct trace_item *item = sequence->item;
    const struct trace_stream *stream = &item->streams[step->stream];
    const struct trace_tensor *to = &answered_of(sequence, step)->tensors[TRACE_NORM_SPANS];
    const int64_t numbers = to->shape[1] * to->shape[2];
    const int64_t listed = stream->span_rows ? stream->span_row_count : shape->rows;
    double *sums = (double *)sequence->norm_sums.memory + head * numbers;
    float *block = block_of(workspace);
    memset(sums, 0, (size_t)numbers * sizeof *sums);
    for (int64_t i = 0, end; i < listed; i = end) { /* rows of one band */
        const int64_t first = stream->span_rows ? stream->span_rows[i] : i;
        int64_t last = first;
        for (end = i; end < listed; end++) {
            const int64_t row = stream->span_rows ? stream->span_rows[end] : end;
            if (row >= first + ATTN_MAP_TILE_ROWS)
                break;
            last = row;
        }
        for (int64_t key = 0; key < shape->keys; key += ATTN_MAP_TILE_KEYS) {
            const int64_t key_end =
                key + ATTN_MAP_TILE_KEYS < shape->keys ? key + ATTN_MAP_TILE_KEYS : shape->keys;
            fill_block(sequence, head, shape->keys, (const int64_t[]){ first, last + 1 },
                       (const int64_t[]){ key, key_end }, block, behind_block(workspace));
            for (int64_t k = i; k < end; k++) {
                const int64_t row = stream->span_rows ? stream->span_rows[k] : k;
                add_to_rows(item, sums, block + (row - first) * (key_end - key), row, k, key,
                            key_end - key);
            }
        }
    }
    for (int64_t i = 0; i < numbers; i++)
        ((float *)to->values)[head * numbers + i] = (float)sums[i];
}

/* ------------------------------------------------------------------------- map -- */

/* Attention whose weights are the norms: all rows are given. False where it cannot be planned,
 * which no layer that was planned is. */
static bool set_map(struct pass_sequence *sequence, const struct pass_step *step,
                    const struct shape *shape)
{
    const struct infer_item *attention = sequence->attention;
    const struct trace_layer *answered = answered_of(sequence, step);
    struct attn_problem problem = attn_layer_attention(&attention->plan, attention->scratch);
    struct attn_weight_map *map = &sequence->norm_map;
    const float **given = sequence->norm_given.memory;
    const char *where;
    problem.context.data = NULL;
    for (int64_t i = 0; i < shape->heads * shape->rows; i++)
        given[i] = (const float *)sequence->norm_rows.memory + i * shape->keys;
    *map = sequence->item->weight_map;
    map->given = given;
    map->values = (float *)answered->tensors[TRACE_NORMS].values;
    map->indices = (int64_t *)answered->norm_indices;
    map->pooled = map->top_k > 0 ? sequence->norm_pooled.memory : NULL;
    return attn_plan_init(sequence->norm_plan.memory, &problem, &where) == ATTN_OK
           && attn_weight_map_check(map, sequence->norm_plan.memory, &where) == ATTN_OK;
}

static void clear_map(const struct pass_sequence *sequence, const struct pass_step *step)
{
    const struct trace_tensor *to = &answered_of(sequence, step)->tensors[TRACE_NORMS];
    const struct attn_weight_map *map = &sequence->norm_map;
    const size_t count = (size_t)(to->shape[0] * to->shape[1] * to->shape[2]);
    memset(map->values, 0, count * sizeof *map->values);
    if (map->indices)
        memset(map->indices, 0, count * sizeof *map->indices);
    if (map->pooled)
        memset(map->pooled, 0, (size_t)sequence->norm_pooled.count * sizeof *map->pooled);
}

static bool plan_map(struct pass *pass, struct pass_sequence *sequence, const struct shape *shape,
                     struct fault *fault)
{
    const int64_t rows = shape->heads * shape->rows;
    const int64_t pooled = attn_weight_map_pooled_count(&sequence->item->weight_map, shape->heads,
                                                        shape->rows, shape->keys);
    int64_t count;
    if (pooled < 0 || __builtin_mul_overflow(rows, shape->keys, &count))
        return fault_no_memory(fault);
    return pass_keep_room(pass, &sequence->norm_rows, count, sizeof(float), fault)
           && pass_keep_room(pass, &sequence->norm_given, rows, sizeof(float *), fault)
           && pass_keep_room(pass, &sequence->norm_pooled, pooled, sizeof(float), fault)
           && pass_keep_room(pass, &sequence->norm_plan, 1, sizeof(struct attn_plan), fault);
}

/* ----------------------------------------------------------------------- turns -- */

static bool norms_plan(struct pass *pass, const struct pass_step *step,
                       struct pass_sequence *sequence, struct attn_work *work, struct fault *fault)
{
    const struct shape shape = shape_of(pass, step, sequence);
    const struct trace_tensor *spans = &answered_of(sequence, step)->tensors[TRACE_NORM_SPANS];
    const struct attn_layer *layer = &pass->model->layers[step->layer].layer;
    for (int64_t h = 0; work && layer->latent.rank > 0 && h < shape.heads; h++)
        pass_product_work(pass, &layer->latent.v_up, shape.keys, work);
    if (work && layer->o_proj.weight)
        pass_product_work(pass, &layer->o_proj, shape.keys, work);
    if (work)
        work->map_bytes += 4 * (double)shape.heads * (double)shape.rows * (double)shape.keys;
    return pass_keep_room(pass, &sequence->norms, shape.heads * shape.keys, sizeof(float), fault)
           && (!spans->values
               || pass_keep_room(pass, &sequence->norm_sums,
                                 shape.heads * spans->shape[1] * spans->shape[2], sizeof(double),
                                 fault))
           && (!has_map(sequence, step) || plan_map(pass, sequence, &shape, fault));
}

/* Of one task of the values: those of a latent layer, and the larger of both products. */
static size_t value_workspace_bytes(const struct pass *pass, const struct attn_layer *layer,
                                    const struct shape *shape)
{
    const int64_t dim = shape->v_head_dim, made = latent_numbers(layer);
    size_t bytes = 0;
    if (made > 0) {
        const struct attn_product product =
            value_product(pass, &layer->latent.v_up, NULL, layer->latent.rank, NULL, KEYS_PER_TASK);
        bytes = attn_product_workspace_bytes(&product);
    }
    if (layer->o_proj.weight) {
        const int64_t unpacked = head_numbers(&layer->o_proj, dim);
        const struct attn_linear linear =
            unpacked > 0 ? (struct attn_linear){ .out = layer->o_proj.out, .in = dim }
                         : head_projection(&layer->o_proj, 0, dim);
        const struct attn_product product =
            value_product(pass, &linear, NULL, dim, NULL, KEYS_PER_TASK);
        const size_t own =
            (size_t)(unpacked + rounded(KEYS_PER_TASK * shape->d_out)) * sizeof(float)
            + attn_product_workspace_bytes(&product);
        bytes = own > bytes ? own : bytes;
    }
    return (size_t)made * sizeof(float) + bytes;
}

static size_t norms_workspace_bytes(const struct pass *pass, const struct pass_step *step,
                                    struct pass_sequence *sequence)
{
    const struct shape shape = shape_of(pass, step, sequence);
    const struct attn_layer *layer = &pass->model->layers[step->layer].layer;
    const struct attn_map_tile tile = pass_map_tile(sequence, 0);
    size_t bytes = (size_t)ATTN_MAP_TILE_ROWS * ATTN_MAP_TILE_KEYS * sizeof(float)
                   + attn_map_tile_workspace_bytes(&tile);
    const size_t values = value_workspace_bytes(pass, layer, &shape);
    bytes = values > bytes ? values : bytes;
    if (has_map(sequence, step) && set_map(sequence, step, &shape)) {
        const size_t own =
            attn_weight_map_workspace_bytes(&sequence->norm_map, sequence->norm_plan.memory);
        bytes = own > bytes ? own : bytes;
    }
    return (bytes + 63) / 64 * 64;
}

static int64_t norms_tasks(struct pass *pass, const struct pass_step *step,
                           struct pass_sequence *sequence, int turn)
{
    const struct shape shape = shape_of(pass, step, sequence);
    const bool is_map = has_map(sequence, step);
    if (turn == TURN_VALUES)
        return shape.heads * value_tasks_of_head(shape.keys);
    if (turn == TURN_ROWS)
        return answered_of(sequence, step)->tensors[TRACE_NORM_SPANS].values
                   ? shape.heads
                   : shape.heads * ((shape.rows + ATTN_MAP_TILE_ROWS - 1) / ATTN_MAP_TILE_ROWS);
    if (!is_map || (turn == TURN_MAP && !set_map(sequence, step, &shape)))
        return 0;
    if (turn == TURN_MAP) {
        clear_map(sequence, step);
        return attn_weight_map_tasks(&sequence->norm_map, sequence->norm_plan.memory);
    }
    return attn_weight_map_select_tasks(&sequence->norm_map, sequence->norm_plan.memory);
}

static void norms_run(const struct pass *pass, const struct pass_step *step,
                      const struct pass_sequence *sequence, int turn, int64_t task, void *workspace)
{
    const struct shape shape = shape_of(pass, step, sequence);
    const struct trace_layer *answered = answered_of(sequence, step);
    if (turn == TURN_VALUES)
        run_values(pass, step, sequence, task, workspace);
    else if (turn == TURN_ROWS && answered->tensors[TRACE_NORM_SPANS].values)
        run_spans(step, sequence, &shape, task, workspace);
    else if (turn == TURN_ROWS)
        run_rows(sequence, &shape, task,
                 has_map(sequence, step) ? sequence->norm_rows.memory
                                         : (float *)answered->tensors[TRACE_NORMS].values,
                 workspace);
    else if (turn == TURN_MAP)
        attn_weight_map_run(&sequence->norm_map, sequence->norm_plan.memory, task, workspace);
    else
        attn_weight_map_select(&sequence->norm_map, sequence->norm_plan.memory, task);
}

const struct pass_map_reader pass_norms = { norms_are_read, norms_plan, norms_workspace_bytes,
                                            norms_tasks, norms_run };
