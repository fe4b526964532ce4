/* SPDX-License-Identifier: Apache-2.0 */
/* kept_trace.c - the memory of what is kept, and the levels of its large maps. */
#include "operations/trace/kept_trace.h"

#include "access/access_account.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --------------------------------------------------------------- its memory -- */

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* A layer without attention has no heads, and no map of any size. */
static bool has_levels(const struct kept_shape *shape)
{
    return shape->q_heads > 0
           && shape->q_len > KEPT_PAIRS_MAX / (shape->kv_len > 0 ? shape->kv_len : 1);
}

/* Adds what count numbers of a layer take. */
static bool add_numbers(size_t *bytes, int64_t a, int64_t b, int64_t c)
{
    int64_t count;
    return !__builtin_mul_overflow(a, b, &count) && !__builtin_mul_overflow(count, c, &count)
           && (size_t)count <= SIZE_MAX / sizeof(float) / 2
           && !__builtin_add_overflow(*bytes, arena_rounded((size_t)count * sizeof(float)), bytes)
           && *bytes <= SIZE_MAX / 2;
}

static bool add_states(size_t *bytes, const struct kept_shape *shape)
{
    for (int i = 0; i < EDIT_PLACE_COUNT; i++)
        if (shape->state_widths[i] > 0
            && !add_numbers(bytes, shape->q_len, shape->state_widths[i], 1))
            return false;
    return true;
}

/* Given weights, and a pointer for each row of each head. */
static bool add_given(size_t *bytes, const struct kept_shape *shape)
{
    enum { POINTER_FLOATS = sizeof(void *) / sizeof(float) };
    return shape->given_rows == 0
           || (add_numbers(bytes, shape->given_rows, shape->kv_len, 1)
               && add_numbers(bytes, shape->q_heads, shape->q_len, POINTER_FLOATS));
}

bool kept_layer_count(struct kept_size *size, const struct kept_shape *shape)
{
    size->beside += (size_t)shape->q_heads * sizeof(struct kept_head);
    return add_numbers(&size->block, shape->q_len, shape->q_heads, shape->head_dim)
           && add_numbers(&size->block, shape->kv_len, shape->kv_heads, shape->head_dim)
           && add_numbers(&size->block, shape->q_heads, shape->q_len, 1)
           && (!shape->has_mask
               || add_numbers(&size->block, shape->q_heads, shape->q_len, shape->kv_len))
           && add_given(&size->block, shape) && add_states(&size->block, shape)
           && (!has_levels(shape)
               || add_numbers(&size->block, shape->q_heads, divide_up(shape->q_len, KEPT_BLOCK),
                              divide_up(shape->kv_len, KEPT_BLOCK)));
}

struct kept_size kept_trace_size(int64_t layer_count)
{
    return (struct kept_size){ arena_rounded((size_t)layer_count * sizeof(struct kept_layer)),
                               KEPT_OWN_BYTES };
}

struct kept_trace *kept_trace_create(struct model *model, int64_t layer_count,
                                     const struct kept_size *size)
{
    struct kept_trace *kept = calloc(1, sizeof *kept);
    if (!kept)
        return NULL;
    arena_init(&kept->arena, SIZE_MAX);
    atomic_init(&kept->holders, 1);
    atomic_init(&kept->statistics, NULL);
    kept->place = -1;
    kept->bytes = size->block + size->beside;
    kept->model = model_retain(model);
    if (arena_reserve(&kept->arena, size->block))
        kept->layers = arena_calloc(&kept->arena, (size_t)layer_count, sizeof *kept->layers);
    kept->layer_count = layer_count;
    if (kept->layers)
        return kept;
    kept_trace_release(kept);
    return NULL;
}

static float *alloc_numbers(struct kept_trace *kept, int64_t a, int64_t b, int64_t c)
{
    return arena_calloc(&kept->arena, (size_t)(a * b * c), sizeof(float));
}

static bool make_states(struct kept_trace *kept, struct kept_states *states, int64_t count,
                        int64_t width)
{
    *states = (struct kept_states){ alloc_numbers(kept, count, width, 1), count, width };
    return states->rows != NULL;
}

bool kept_trace_make_embeddings(struct kept_trace *kept, int stream, int64_t count, int64_t width)
{
    return make_states(kept, &kept->embeddings[stream], count, width);
}

const struct kept_states *kept_trace_states(const struct kept_trace *kept, int place, int stream,
                                            int64_t layer)
{
    const struct kept_states *states = NULL;
    if (place == EDIT_EMBEDDINGS)
        states = &kept->embeddings[stream];
    else
        for (int64_t i = 0; !states && i < kept->layer_count; i++)
            if (kept->layers[i].number == layer)
                states = &kept->layers[i].states[place];
    return states && states->rows ? states : NULL;
}

bool kept_layer_make(struct kept_trace *kept, int64_t index, const struct kept_shape *shape)
{
    struct kept_layer *layer = &kept->layers[index];
    layer->q_heads = shape->q_heads;
    layer->kv_heads = shape->kv_heads;
    layer->head_dim = shape->head_dim;
    layer->q_len = shape->q_len;
    layer->kv_len = shape->kv_len;
    layer->query = alloc_numbers(kept, shape->q_len, shape->q_heads, shape->head_dim);
    layer->key = alloc_numbers(kept, shape->kv_len, shape->kv_heads, shape->head_dim);
    layer->lse = alloc_numbers(kept, shape->q_heads, shape->q_len, 1);
    if (shape->has_mask)
        layer->mask = alloc_numbers(kept, shape->q_heads, shape->q_len, shape->kv_len);
    if (has_levels(shape)) {
        layer->level_rows = divide_up(shape->q_len, KEPT_BLOCK);
        layer->level_columns = divide_up(shape->kv_len, KEPT_BLOCK);
        layer->levels =
            alloc_numbers(kept, shape->q_heads, layer->level_rows, layer->level_columns);
    }
    if (shape->given_rows > 0) {
        layer->given = arena_calloc(&kept->arena, (size_t)(shape->q_heads * shape->q_len),
                                    sizeof *layer->given);
        layer->given_weights = alloc_numbers(kept, shape->given_rows, shape->kv_len, 1);
        if (!layer->given || !layer->given_weights)
            return false;
    }
    for (int i = 0; i < EDIT_PLACE_COUNT; i++)
        if (shape->state_widths[i] > 0
            && !make_states(kept, &layer->states[i], shape->q_len, shape->state_widths[i]))
            return false;
    return layer->query && layer->key && layer->lse && (layer->mask || !shape->has_mask)
           && (layer->levels || !has_levels(shape));
}

struct kept_trace *kept_trace_hold(struct kept_trace *kept)
{
    atomic_fetch_add_explicit(&kept->holders, 1, memory_order_relaxed);
    return kept;
}

void kept_trace_release(struct kept_trace *kept)
{
    if (!kept || atomic_fetch_sub_explicit(&kept->holders, 1, memory_order_acq_rel) > 1)
        return;
    free(atomic_load(&kept->statistics));
    access_account_release(kept->account);
    model_release(kept->model);
    arena_free(&kept->arena);
    free(kept);
}

/* ------------------------------------------------------------------- filling -- */

/* From [1, heads, length, head_dim] of any strides to [length][heads][head_dim]. */
static void copy_heads(float *to, const struct attn_tensor *from)
{
    const size_t bytes = (size_t)from->shape[3] * sizeof *to;
    for (int64_t i = 0; i < from->shape[2]; i++)
        for (int64_t h = 0; h < from->shape[1]; h++) {
            const float *row =
                (const float *)from->data + h * from->stride[1] + i * from->stride[2];
            memcpy(to, row, bytes);
            to += from->shape[3];
        }
}

/* From a mask of booleans, [1 or heads][q_len][kv_len]. */
static void copy_mask(struct kept_layer *layer, const struct attn_tensor *mask)
{
    const int64_t pairs = layer->q_len * layer->kv_len;
    for (int64_t h = 0; mask->data && h < layer->q_heads; h++)
        for (int64_t i = 0; i < pairs; i++)
            layer->mask[h * pairs + i] =
                ((const uint8_t *)mask->data)[(mask->shape[1] > 1 ? h * pairs : 0) + i] ? 0.0f
                                                                                        : -INFINITY;
}

static void copy_given(struct kept_layer *layer, const float *const *given)
{
    float *to = layer->given_weights;
    for (int64_t i = 0; i < layer->q_heads * layer->q_len; i++) {
        if (!given[i])
            continue;
        layer->given[i] = memcpy(to, given[i], (size_t)layer->kv_len * sizeof *to);
        to += layer->kv_len;
    }
}

void kept_layer_take(struct kept_layer *layer, const struct infer_item *attention, const float *lse)
{
    const struct attn_problem problem = attn_layer_attention(&attention->plan, attention->scratch);
    const struct model_layer *own = &attention->model->layers[attention->layer_index];
    layer->number = attention->layer_index;
    layer->options = attention->plan.problem.options;
    layer->kernels = attention->plan.problem.kernels;
    layer->alibi_slopes = own->alibi_slopes;
    layer->has_sinks = own->sinks != NULL;
    copy_heads(layer->query, &problem.query);
    copy_heads(layer->key, &problem.key);
    memcpy(layer->lse, lse, (size_t)(layer->q_heads * layer->q_len) * sizeof *lse);
    if (layer->mask && attention->bias)
        memcpy(layer->mask, attention->bias,
               (size_t)(layer->q_heads * layer->q_len * layer->kv_len) * sizeof *layer->mask);
    else if (layer->mask)
        copy_mask(layer, &attention->masking.mask);
    if (layer->given && attention->given)
        copy_given(layer, attention->given);
}

bool kept_trace_take_tokens(struct kept_trace *kept, int stream, const struct token_list *tokens)
{
    struct token *copied = arena_calloc(&kept->arena, (size_t)tokens->count, sizeof *copied);
    if (!copied)
        return false;
    memcpy(copied, tokens->tokens, (size_t)tokens->count * sizeof *copied);
    kept->tokens[stream] = (struct token_list){ copied, tokens->count };
    return true;
}

/* ---------------------------------------------------------------------- maps -- */

struct attn_map_tile kept_layer_tile(const struct kept_layer *layer, int64_t head,
                                     const int64_t rows[2], const int64_t keys[2],
                                     const int64_t cells_shape[2], float *cells)
{
    const int64_t kv_head = head / (layer->q_heads / layer->kv_heads);
    struct attn_map_tile tile = {
        .rows = { rows[0], rows[1] },
        .keys = { keys[0], keys[1] },
        .cell_rows = cells_shape[0],
        .cell_columns = cells_shape[1],
        .reduce = ATTN_REDUCE_MAX,
        .cells = cells,
        .lse = layer->lse + head * layer->q_len,
        .given = layer->given ? (const float *const *)layer->given + head * layer->q_len : NULL,
    };
    tile.problem = (struct attn_problem){
        .options = layer->options,
        .kernels = layer->kernels,
        .query = attn_tensor_rows(layer->query + head * layer->head_dim, ATTN_F32, 1, 1,
                                  layer->q_len, layer->head_dim, layer->q_heads * layer->head_dim),
        .key = attn_tensor_rows(layer->key + kv_head * layer->head_dim, ATTN_F32, 1, 1,
                                layer->kv_len, layer->head_dim, layer->kv_heads * layer->head_dim),
        .alibi_slopes = layer->alibi_slopes ? layer->alibi_slopes + head : NULL,
    };
    if (layer->mask)
        tile.problem.mask = attn_tensor_dense(layer->mask + head * layer->q_len * layer->kv_len,
                                              ATTN_F32, 1, 1, layer->q_len, layer->kv_len);
    else if (layer->keys_seen)
        tile.problem.mask =
            attn_tensor_dense((void *)layer->keys_seen, ATTN_BOOL, 1, 1, 1, layer->kv_len);
    return tile;
}

/* -------------------------------------------------------------------- levels -- */

/* The level of a head, as a piece of the map that is all of it. */
static struct attn_map_tile level_tile(const struct kept_layer *layer, int64_t head)
{
    const int64_t shape[] = { layer->level_rows, layer->level_columns };
    return kept_layer_tile(layer, head, (const int64_t[]){ 0, layer->q_len },
                           (const int64_t[]){ 0, layer->kv_len }, shape,
                           layer->levels + head * shape[0] * shape[1]);
}

int64_t kept_level_tasks(const struct kept_trace *kept)
{
    int64_t count = 0;
    for (int64_t i = 0; i < kept->layer_count; i++)
        if (kept->layers[i].levels) {
            const struct attn_map_tile tile = level_tile(&kept->layers[i], 0);
            count += kept->layers[i].q_heads * attn_map_tile_tasks(&tile);
        }
    return count;
}

size_t kept_level_workspace_bytes(const struct kept_trace *kept)
{
    size_t most = 0;
    for (int64_t i = 0; i < kept->layer_count; i++)
        if (kept->layers[i].levels) {
            const struct attn_map_tile tile = level_tile(&kept->layers[i], 0);
            const size_t bytes = attn_map_tile_workspace_bytes(&tile);
            most = bytes > most ? bytes : most;
        }
    return most;
}

void kept_level_run(const struct kept_trace *kept, int64_t task, void *workspace)
{
    for (int64_t i = 0; i < kept->layer_count; i++) {
        const struct kept_layer *layer = &kept->layers[i];
        if (!layer->levels)
            continue;
        struct attn_map_tile tile = level_tile(layer, 0);
        const int64_t count = attn_map_tile_tasks(&tile);
        if (task < layer->q_heads * count) {
            tile = level_tile(layer, task / count);
            attn_map_tile_run(&tile, task % count, workspace);
            return;
        }
        task -= layer->q_heads * count;
    }
}
