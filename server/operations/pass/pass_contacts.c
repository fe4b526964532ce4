/* SPDX-License-Identifier: Apache-2.0 */
/* pass_contacts.c - contacts of tokens: a logistic regression over the maps of all heads of all
 * layers, each made symmetric and freed of what the sums of its rows and columns explain. Source:
 * EsmContactPredictionHead of transformers' esm/modeling_esm.py at 0220b9db084f.
 *
 *     map       = weights + weights^T, of the tokens between the first and the last; 0 for others
 *     corrected = map - sums of its rows . sums of its columns / its sum
 *     contact   = sigmoid(bias + sum over heads of weight * corrected)
 *
 * All is linear in the maps but the sums of a head, so the maps are gone through twice, once for
 * sums, and none is kept: what is kept are halves, that become symmetric in the end. */
#include "operations/pass/pass_internal.h"

#include <math.h>
#include <string.h>

enum { TURN_SUMS, TURN_ROWS, TURN_END };

enum { TASK_ROWS = 16 };

static int64_t length_of(const struct pass_sequence *sequence)
{
    return sequence->length[0];
}

static int64_t row_tasks(const struct pass_sequence *sequence)
{
    return (length_of(sequence) + TASK_ROWS - 1) / TASK_ROWS;
}

static int64_t heads_of(const struct pass *pass, const struct pass_step *step)
{
    return pass->model->layers[step->layer].layer.q_heads;
}

static int64_t place_of(const struct pass *pass, const struct pass_step *step)
{
    return step->block - pass->forward->streams[0].blocks;
}

/* Which tokens can touch others. */
static void list_inner(const struct pass *pass, const struct pass_sequence *sequence)
{
    const struct trace_stream *stream = &sequence->item->streams[0];
    bool *inner = sequence->contact_inner.memory;
    for (int64_t i = 0; i < stream->length; i++)
        inner[i] = i > 0 && i < stream->length - 1 && (!stream->visible || stream->visible[i])
                   && stream->tokens.tokens[i].id != pass->forward->contacts.end_id;
}

static bool contacts_are_read(const struct pass *pass, const struct pass_step *step,
                              const struct pass_sequence *sequence)
{
    (void)pass;
    return step->stream == 0 && !step->is_cross && sequence->item->contacts.rank > 0
           && sequence->item->contacts.shape[0] > 0;
}

/* -------------------------------------------------------------------- memory -- */

/* [length][length], and of the layer [heads][length + 1]: the sums of a head's rows, and theirs. */
static bool contacts_plan(struct pass *pass, const struct pass_step *step,
                          struct pass_sequence *sequence, struct attn_work *work,
                          struct fault *fault)
{
    const int64_t length = length_of(sequence), heads = heads_of(pass, step);
    int64_t count;
    if (__builtin_mul_overflow(length, length, &count))
        return fault_no_memory(fault);
    if (work) { /* the maps a second time */
        work->tile_flops += 2 * (double)heads * (double)count
                            * (double)pass->model->layers[step->layer].layer.head_dim;
        work->pairs += (double)heads * (double)count;
    }
    if (!pass_keep_room(pass, &sequence->contacts, count, sizeof(double), fault)
        || !pass_keep_room(pass, &sequence->contact_sums, heads * (length + 1), sizeof(double),
                           fault)
        || !pass_keep_room(pass, &sequence->contact_inner, length, sizeof(bool), fault))
        return false;
    list_inner(pass, sequence);
    return true;
}

static size_t tile_bytes(const struct attn_map_tile *tile)
{
    return (attn_map_tile_workspace_bytes(tile) + 63) / 64 * 64;
}

static size_t contacts_workspace_bytes(const struct pass *pass, const struct pass_step *step,
                                       struct pass_sequence *sequence)
{
    const struct attn_map_tile tile = pass_map_tile(sequence, 0);
    (void)pass;
    (void)step;
    return tile_bytes(&tile) + (size_t)TASK_ROWS * ATTN_MAP_TILE_KEYS * sizeof(float);
}

/* ----------------------------------------------------------------------- maps -- */

/* Weights of n rows from row on and of keys from key on, [n][keys]. Returns keys. */
static int64_t read_weights(const struct pass_sequence *sequence, int64_t head, int64_t row,
                            int64_t n, int64_t key, float **weights, void *workspace)
{
    struct attn_map_tile tile = pass_map_tile(sequence, head);
    const int64_t left = length_of(sequence) - key;
    const int64_t keys = left < ATTN_MAP_TILE_KEYS ? left : ATTN_MAP_TILE_KEYS;
    tile.keys[0] = key;
    tile.keys[1] = key + keys;
    *weights = (float *)(void *)((char *)workspace + tile_bytes(&tile));
    attn_map_tile_scores(&tile, row, n, *weights, workspace);
    attn_map_tile_weigh(&tile, row, n, *weights);
    return keys;
}

/* The sums of the rows of one head's symmetric map, and behind them the sum of these. */
static void run_sums(const struct pass_sequence *sequence, int64_t head, void *workspace)
{
    const int64_t length = length_of(sequence);
    const bool *inner = sequence->contact_inner.memory;
    double *sums = (double *)sequence->contact_sums.memory + head * (length + 1);
    memset(sums, 0, (size_t)(length + 1) * sizeof *sums);
    for (int64_t row = 0; row < length; row += TASK_ROWS) {
        const int64_t n = length - row < TASK_ROWS ? length - row : TASK_ROWS;
        int64_t keys;
        for (int64_t key = 0; key < length; key += keys) {
            float *weights;
            keys = read_weights(sequence, head, row, n, key, &weights, workspace);
            for (int64_t r = 0; r < n; r++)
                for (int64_t j = 0; inner[row + r] && j < keys; j++)
                    if (inner[key + j]) {
                        sums[row + r] += (double)weights[r * keys + j];
                        sums[key + j] += (double)weights[r * keys + j];
                    }
        }
    }
    for (int64_t i = 0; i < length; i++)
        sums[length] += sums[i];
}

/* Adds a head to some rows of the halves. */
static void add_head(const struct pass_sequence *sequence, int64_t head, double weight, int64_t row,
                     int64_t n, void *workspace)
{
    const int64_t length = length_of(sequence);
    const double *sums = (const double *)sequence->contact_sums.memory + head * (length + 1);
    const double share = sums[length] > 0 ? weight / (2 * sums[length]) : 0;
    const bool *inner = sequence->contact_inner.memory;
    double *halves = (double *)sequence->contacts.memory;
    int64_t keys;
    for (int64_t key = 0; key < length; key += keys) {
        float *weights;
        keys = read_weights(sequence, head, row, n, key, &weights, workspace);
        for (int64_t r = 0; r < n; r++)
            for (int64_t j = 0; inner[row + r] && j < keys; j++)
                if (inner[key + j])
                    halves[(row + r) * length + key + j] += weight * (double)weights[r * keys + j]
                                                            - share * sums[row + r] * sums[key + j];
    }
}

static void run_rows(const struct pass *pass, const struct pass_step *step,
                     const struct pass_sequence *sequence, int64_t task, void *workspace)
{
    const int64_t length = length_of(sequence), heads = heads_of(pass, step);
    const int64_t row = task * TASK_ROWS, place = place_of(pass, step);
    const int64_t n = length - row < TASK_ROWS ? length - row : TASK_ROWS;
    const float *weights = pass->forward->contacts.weights + place * heads;
    if (place == 0)
        memset((double *)sequence->contacts.memory + row * length, 0,
               (size_t)(n * length) * sizeof(double));
    for (int64_t h = 0; h < heads; h++)
        add_head(sequence, h, (double)weights[h], row, n, workspace);
}

/* Row i of the answer is that of token i + 1. */
static void run_end(const struct pass *pass, const struct pass_sequence *sequence, int64_t task)
{
    const struct trace_tensor *to = &sequence->item->contacts;
    const double *halves = (const double *)sequence->contacts.memory;
    const int64_t length = length_of(sequence), first = task * TASK_ROWS;
    for (int64_t i = first; i < first + TASK_ROWS && i < to->shape[0]; i++)
        for (int64_t j = 0; j < to->shape[1]; j++) {
            const double logit = (double)pass->forward->contacts.bias
                                 + halves[(i + 1) * length + j + 1]
                                 + halves[(j + 1) * length + i + 1];
            ((float *)to->values)[i * to->shape[1] + j] = (float)(1 / (1 + exp(-logit)));
        }
}

/* ---------------------------------------------------------------------- turns -- */

static int64_t contacts_tasks(struct pass *pass, const struct pass_step *step,
                              struct pass_sequence *sequence, int turn)
{
    switch (turn) {
    case TURN_SUMS:
        return heads_of(pass, step);
    case TURN_ROWS:
        return row_tasks(sequence);
    case TURN_END:
        return place_of(pass, step) + 1 == pass->forward->streams[0].block_count
                   ? row_tasks(sequence)
                   : 0;
    default:
        return 0;
    }
}

static void contacts_run(const struct pass *pass, const struct pass_step *step,
                         const struct pass_sequence *sequence, int turn, int64_t task,
                         void *workspace)
{
    if (turn == TURN_SUMS)
        run_sums(sequence, task, workspace);
    else if (turn == TURN_ROWS)
        run_rows(pass, step, sequence, task, workspace);
    else
        run_end(pass, sequence, task);
}

const struct pass_map_reader pass_contacts = { contacts_are_read, contacts_plan,
                                               contacts_workspace_bytes, contacts_tasks,
                                               contacts_run };
