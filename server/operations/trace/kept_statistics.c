/* SPDX-License-Identifier: Apache-2.0 */
/* kept_statistics.c - sums over tiles of maps.
 *
 * The entropy needs no logarithm of weights: ln(weight) is masked - lse, and the weights of a row
 * sum to 1, so it is lse - sum of weight * masked. Weights that an edit gave are not those of the
 * scores: of such a row the logarithms stand in place of masked. */
#include "operations/trace/kept_statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows of a task, and those that are summed side by side, two to a vector. */
enum { TASK_ROWS = 256, SIDE_ROWS = 4 };

struct kept_sum {
    double entropy, distance, first, previous, self, delimiters, duplicate, induction;
};

static int64_t bands_of(const struct kept_layer *layer)
{
    return (layer->q_len + TASK_ROWS - 1) / TASK_ROWS;
}

bool kept_statistics_plan(struct kept_statistics *statistics, struct kept_trace *kept,
                          struct arena *arena)
{
    statistics->kept = kept;
    statistics->first_task =
        arena_calloc(arena, (size_t)kept->layer_count + 1, sizeof *statistics->first_task);
    if (!statistics->first_task)
        return false;
    for (int s = 0; s < MODEL_STREAMS_MAX; s++)
        if (!kept_repeats_make(&statistics->repeats[s], &kept->tokens[s], arena))
            return false;
    for (int64_t i = 0; i < kept->layer_count; i++)
        statistics->first_task[i + 1] =
            statistics->first_task[i] + kept->layers[i].q_heads * bands_of(&kept->layers[i]);
    statistics->sums =
        arena_calloc(arena, (size_t)kept_statistics_tasks(statistics), sizeof *statistics->sums);
    return statistics->sums != NULL;
}

int64_t kept_statistics_tasks(const struct kept_statistics *statistics)
{
    return statistics->first_task[statistics->kept->layer_count];
}

int64_t kept_statistics_heads(const struct kept_trace *kept)
{
    int64_t count = 0;
    for (int64_t i = 0; i < kept->layer_count; i++)
        count += kept->layers[i].q_heads;
    return count;
}

/* -------------------------------------------------------------------- tasks -- */

/* The piece of a head's map that is all of it but one cell, for its weights. */
static struct attn_map_tile whole_map(const struct kept_layer *layer, int64_t head)
{
    static float cell;
    const int64_t keys = layer->kv_len < ATTN_MAP_TILE_KEYS ? layer->kv_len : ATTN_MAP_TILE_KEYS;
    return kept_layer_tile(layer, head, (const int64_t[]){ 0, layer->q_len },
                           (const int64_t[]){ 0, keys }, (const int64_t[]){ 1, 1 }, &cell);
}

static size_t block_bytes(void)
{
    return (size_t)ATTN_MAP_TILE_ROWS * ATTN_MAP_TILE_KEYS * sizeof(float);
}

size_t kept_statistics_workspace_bytes(const struct kept_statistics *statistics)
{
    size_t most = 0;
    for (int64_t i = 0; i < statistics->kept->layer_count; i++) {
        const struct kept_layer *layer = &statistics->kept->layers[i];
        if (layer->q_heads == 0)
            continue;
        const struct attn_map_tile tile = whole_map(layer, 0);
        const size_t bytes = attn_map_tile_workspace_bytes(&tile);
        most = bytes > most ? bytes : most;
    }
    return (most + 63) / 64 * 64 + 2 * block_bytes();
}

/* Keys [first, first + count) of some rows, and which of them are delimiters. */
struct block {
    const float *weights, *masked; /* [rows][count] */
    int64_t first, count;
    int64_t delimiters[ATTN_MAP_TILE_KEYS], delimiter_count;
    const struct kept_repeats *repeats; /* NULL: the keys are not the rows' own tokens */
};

static void find_delimiters(struct block *block, const struct token_list *tokens)
{
    block->delimiter_count = 0;
    for (int64_t j = 0; tokens->count > 0 && j < block->count; j++)
        if (tokens->tokens[block->first + j].is_special)
            block->delimiters[block->delimiter_count++] = j;
}

/* Numbers of two rows. */
typedef double pair __attribute__((vector_size(16)));
typedef int64_t pair_mask __attribute__((vector_size(16)));

/* Sums of SIDE_ROWS rows from row number row on: of weight * masked, and of weight * distance. */
struct side_sums {
    pair negative[SIDE_ROWS / 2], distance[SIDE_ROWS / 2];
};

/* A sum has one order, that of the keys, so each of its additions waits for the one before. Rows
 * are summed side by side: the CPU adds to one while it waits for another. Number r of the rows is
 * at weights + r * stride; stride 0 takes one row. */
static struct side_sums sum_rows(const struct block *block, int64_t r, int64_t stride, int64_t row)
{
    struct side_sums sums = { .negative = { { 0 } } };
    for (int64_t j = 0; j < block->count; j++) {
        const double ahead = (double)(block->first + j - row);
        for (int p = 0; p < SIDE_ROWS / 2; p++) {
            const int64_t at = r * block->count + stride * 2 * p + j;
            const float *w = block->weights + at, *m = block->masked + at;
            const pair weight = { (double)w[0], (double)w[stride] };
            const pair product = weight * (pair){ (double)m[0], (double)m[stride] };
            sums.negative[p] += (pair)((pair_mask)product & (pair_mask)(weight > 0));
            sums.distance[p] += weight * (pair){ fabs(ahead - 2 * p), fabs(ahead - 2 * p - 1) };
        }
    }
    return sums;
}

/* Adds row r of the block, number row of the map. */
static void add_row(struct kept_sum *sum, const struct block *block, int64_t r, int64_t row,
                    double negative, double distance)
{
    const float *weights = block->weights + r * block->count;
    const int64_t first = block->first, count = block->count;
    double delimiters = 0;
    for (int64_t i = 0; i < block->delimiter_count; i++)
        delimiters += (double)weights[block->delimiters[i]];
    sum->entropy -= negative;
    sum->distance += distance;
    sum->delimiters += delimiters;
    if (first == 0 && count > 0)
        sum->first += (double)weights[0];
    if (row - 1 >= first && row - 1 < first + count)
        sum->previous += (double)weights[row - 1 - first];
    if (row >= first && row < first + count)
        sum->self += (double)weights[row - first];
    if (block->repeats)
        kept_repeats_add(block->repeats, row, weights, first, count, &sum->duplicate,
                         &sum->induction);
}

/* Adds n rows from number row of the map on. */
static void add_rows(struct kept_sum *sum, const struct block *block, int64_t row, int64_t n)
{
    int64_t r = 0;
    for (; r + SIDE_ROWS <= n; r += SIDE_ROWS) {
        const struct side_sums sums = sum_rows(block, r, block->count, row + r);
        for (int i = 0; i < SIDE_ROWS; i++)
            add_row(sum, block, r + i, row + r + i, sums.negative[i / 2][i % 2],
                    sums.distance[i / 2][i % 2]);
    }
    for (; r < n; r++) {
        const struct side_sums sums = sum_rows(block, r, 0, row + r);
        add_row(sum, block, r, row + r, sums.negative[0][0], sums.distance[0][0]);
    }
}

/* Where the tokens of a layer's rows stood before; NULL: they are not known, or not its keys. */
static const struct kept_repeats *repeats_of(const struct kept_statistics *statistics,
                                             const struct kept_layer *layer)
{
    const struct kept_repeats *repeats = &statistics->repeats[layer->key_stream];
    return !layer->is_cross && repeats->count > 0 ? repeats : NULL;
}

/* Whether the weights of a row sum up to 1, and so the row's lse is a part of their entropy. */
static bool is_whole(const struct kept_layer *layer, const struct attn_map_tile *tile, int64_t row)
{
    return !layer->has_sinks && !(tile->given && tile->given[row]);
}

/* Puts logarithms of weights, [n][count], in place of the masked scores of other rows. */
static void set_logarithms(const struct kept_layer *layer, const struct attn_map_tile *tile,
                           int64_t row, int64_t n, int64_t count, const float *weights,
                           float *masked)
{
    for (int64_t r = 0; r < n; r++)
        for (int64_t at = r * count; !is_whole(layer, tile, row + r) && at < (r + 1) * count; at++)
            masked[at] = weights[at] > 0 ? logf(weights[at]) : 0;
}

static void run_head(struct kept_sum *sum, const struct kept_statistics *statistics,
                     const struct kept_layer *layer, int64_t head, int64_t band, char *memory)
{
    const struct kept_trace *kept = statistics->kept;
    struct attn_map_tile tile = whole_map(layer, head);
    float *weights = (float *)(void *)memory;
    float *masked = (float *)(void *)(memory + block_bytes());
    void *workspace = memory + 2 * block_bytes();
    struct block block = { .weights = weights,
                           .masked = masked,
                           .repeats = repeats_of(statistics, layer) };
    const int64_t end =
        (band + 1) * TASK_ROWS < layer->q_len ? (band + 1) * TASK_ROWS : layer->q_len;
    for (int64_t row = band * TASK_ROWS; row < end; row += ATTN_MAP_TILE_ROWS) {
        const int64_t n = end - row < ATTN_MAP_TILE_ROWS ? end - row : ATTN_MAP_TILE_ROWS;
        for (int64_t key = 0; key < layer->kv_len; key += ATTN_MAP_TILE_KEYS) {
            const int64_t left = layer->kv_len - key;
            const int64_t count = left < ATTN_MAP_TILE_KEYS ? left : ATTN_MAP_TILE_KEYS;
            tile.keys[0] = key;
            tile.keys[1] = key + count;
            attn_map_tile_scores(&tile, row, n, masked, workspace);
            memcpy(weights, masked, (size_t)(n * count) * sizeof *weights);
            attn_map_tile_weigh(&tile, row, n, weights);
            set_logarithms(layer, &tile, row, n, count, weights, masked);
            block.first = key;
            block.count = count;
            find_delimiters(&block, &kept->tokens[layer->key_stream]);
            add_rows(sum, &block, row, n);
        }
        for (int64_t r = 0; r < n; r++)
            if (tile.lse[row + r] > -INFINITY && is_whole(layer, &tile, row + r))
                sum->entropy += (double)tile.lse[row + r];
    }
}

void kept_statistics_run(const struct kept_statistics *statistics, int64_t task, void *workspace)
{
    int64_t i = 0;
    while (statistics->first_task[i + 1] <= task)
        i++;
    const struct kept_layer *layer = &statistics->kept->layers[i];
    const int64_t of_layer = task - statistics->first_task[i];
    run_head(&statistics->sums[task], statistics, layer, of_layer / bands_of(layer),
             of_layer % bands_of(layer), workspace);
}

/* ------------------------------------------------------------------- the end -- */

static struct kept_head mean_of(const struct kept_statistics *statistics,
                                const struct kept_layer *layer, const struct kept_sum *sums,
                                int64_t count)
{
    const struct kept_repeats *repeats = repeats_of(statistics, layer);
    const double repeated = repeats ? (double)repeats->rows : 0;
    struct kept_sum all = { 0 };
    for (int64_t i = 0; i < count; i++) {
        all.entropy += sums[i].entropy;
        all.distance += sums[i].distance;
        all.first += sums[i].first;
        all.previous += sums[i].previous;
        all.self += sums[i].self;
        all.delimiters += sums[i].delimiters;
        all.duplicate += sums[i].duplicate;
        all.induction += sums[i].induction;
    }
    const double n = (double)layer->q_len;
    const bool has_tokens = statistics->repeats[layer->key_stream].count > 0;
    return (struct kept_head){
        .entropy = (float)fmax(all.entropy / n, 0),
        .distance = layer->is_cross ? NAN : (float)(all.distance / n),
        .first = (float)(all.first / n),
        .previous = layer->is_cross ? NAN : (float)(all.previous / n),
        .self = layer->is_cross ? NAN : (float)(all.self / n),
        .delimiters = has_tokens ? (float)(all.delimiters / n) : NAN,
        .duplicate = repeated > 0 ? (float)(all.duplicate / repeated) : NAN,
        .induction = repeated > 0 ? (float)(all.induction / repeated) : NAN,
    };
}

struct kept_head *kept_statistics_finish(const struct kept_statistics *statistics)
{
    const struct kept_trace *kept = statistics->kept;
    struct kept_head *heads = calloc((size_t)kept_statistics_heads(kept) + 1, sizeof *heads);
    int64_t number = 0;
    for (int64_t i = 0; heads && i < kept->layer_count; i++) {
        const struct kept_layer *layer = &kept->layers[i];
        const int64_t bands = bands_of(layer);
        for (int64_t h = 0; h < layer->q_heads; h++)
            heads[number++] = mean_of(
                statistics, layer, statistics->sums + statistics->first_task[i] + h * bands, bands);
    }
    return heads;
}
