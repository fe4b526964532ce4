/* SPDX-License-Identifier: Apache-2.0 */
/* decode_together.c - parts of several plans over keys that may lie in the same memory.
 *
 * A tile of keys is run for one plan after the other. Where plans have few rows each, as with one
 * query head for each head of keys, and all of their rows see all keys of the tile, the kernels
 * take the rows of several plans as they take those of several heads: a key is loaded once for
 * them. The result of a row does not depend on the rows beside it (kernels.h), so its bits are
 * those of its plan alone. */
#include "base/internal.h"
#include "forward/decode.h"

#include <string.h>

/* Plans of more rows gain nothing by more of them. */
enum { ROWS_EACH_MAX = 3 };

/* The rows of several plans, one below the other. */
struct crowd {
    float *query, *scores, *sums, *rescale;
    int64_t rows;
};

static size_t cut_crowd(struct crowd *crowd, const struct attn_decode_task *task, void *memory)
{
    size_t bytes = 0;

    crowd->query = attn_cut(memory, &bytes, ATTN_DECODE_ROWS * task->head_padded, sizeof(float));
    crowd->scores = attn_cut(memory, &bytes, ATTN_DECODE_ROWS * task->score_stride, sizeof(float));
    crowd->sums = attn_cut(memory, &bytes, ATTN_DECODE_ROWS * task->v_padded, sizeof(float));
    crowd->rescale = attn_cut(memory, &bytes, ATTN_DECODE_ROWS, sizeof(float));
    crowd->rows = 0;
    return bytes;
}

/* --------------------------------------------------------------------- who takes part -- */

static bool is_plain(const struct attn_decode_task *task, const struct attn_span *tile)
{
    const struct attn_problem *problem = task->problem;
    const struct attn_span visible = attn_decode_visible(task, tile);

    return task->row_count <= ROWS_EACH_MAX && !task->needs.pairs && task->needs.softmax
           && attn_is_wanted(&problem->context) && !attn_mask_tests_pairs(problem)
           && !(problem->options.dropout > 0) && visible.n == tile->n
           && !attn_range_cuts(&task->every, tile->first, tile->first + tile->n);
}

/* Where the rows of a tile begin, if they lie together; else NULL. */
static const void *place_of(const struct attn_decode_task *task, const struct attn_tensor *tensor,
                            const struct attn_span *tile)
{
    const struct attn_run run =
        attn_tensor_run(tensor, task->batch, task->kv_head, tile->first, tile->n);

    return run.count == tile->n ? run.row : NULL;
}

static bool same_memory(const struct attn_decode_task *a, const struct attn_decode_task *b,
                        const struct attn_span *tile)
{
    const void *key = place_of(a, &a->problem->key, tile);
    const void *value = place_of(a, &a->problem->value, tile);

    return key != NULL && value != NULL && key == place_of(b, &b->problem->key, tile)
           && value == place_of(b, &b->problem->value, tile);
}

/* ---------------------------------------------------------------------------- a tile -- */

static struct attn_span tile_of(const struct attn_decode_part *part, int64_t tile)
{
    return attn_decode_tile(&part->plan, part->number % part->plan.chunks, tile);
}

static void decode_together_begin(struct attn_decode_task *task,
                                  const struct attn_decode_part *part, bool is_near,
                                  void *workspace)
{
    attn_decode_begin_part(task, &part->plan, part->number, part->shared, workspace);
    task->prefetch = task->prefetch && !is_near;
}

/* How many of the parts, from the first one on, meet the tile together; their queries are in the
 * crowd. 1: the first one alone. */
static int gather(struct crowd *crowd, const struct attn_decode_part *parts, int count,
                  int64_t tile, void *workspace)
{
    const struct attn_span span = tile_of(&parts[0], tile);
    struct attn_decode_task first, task;
    int used = 0;

    for (; used < count; used++) {
        const struct attn_span own = tile_of(&parts[used], tile);
        decode_together_begin(&task, &parts[used], true, workspace);
        if (used == 0)
            first = task;
        if (own.n != span.n || own.n <= 0 || !is_plain(&task, &own)
            || crowd->rows + task.row_count > ATTN_DECODE_ROWS
            || (used > 0 && !same_memory(&first, &task, &own)))
            break;
        memcpy(crowd->query + crowd->rows * task.head_padded, task.query,
               (size_t)(task.row_count * task.head_padded) * sizeof(float));
        crowd->rows += task.row_count;
    }
    return used > 0 ? used : 1;
}

/* Points the task at its own rows of the crowd, from row on. */
static void take_place(struct attn_decode_task *task, const struct crowd *crowd, int64_t row)
{
    task->scores = crowd->scores + row * task->score_stride;
    task->sums = crowd->sums + row * task->v_padded;
    task->rescale = crowd->rescale + row;
}

static void run_crowd(const struct crowd *crowd, const struct attn_decode_part *parts, int count,
                      int64_t tile, bool is_near, void *workspace)
{
    const struct attn_span span = tile_of(&parts[0], tile);
    struct attn_decode_task all, task;
    int64_t row = 0;

    decode_together_begin(&all, &parts[0], is_near, workspace);
    take_place(&all, crowd, 0);
    all.query = crowd->query;
    all.row_count = crowd->rows;
    attn_decode_score_keys(&all, &span);
    for (int i = 0; i < count; i++, row += task.row_count) {
        decode_together_begin(&task, &parts[i], true, workspace);
        take_place(&task, crowd, row);
        if (tile == 0)
            attn_decode_clear_part(&task);
        attn_decode_cap(&task, &span);
        attn_decode_mask(&task, &span);
        attn_decode_weigh(&task, &span, task.scores);
    }
    attn_decode_sum_values(&all, &span, all.scores);
    row = 0;
    for (int i = 0; i < count; i++, row += task.row_count) {
        decode_together_begin(&task, &parts[i], true, workspace);
        take_place(&task, crowd, row);
        attn_decode_add_sums(&task);
    }
}

static void run_alone(const struct attn_decode_part *part, int64_t tile, bool is_near,
                      void *workspace)
{
    const struct attn_span span = tile_of(part, tile);
    struct attn_decode_task task;

    decode_together_begin(&task, part, is_near, workspace);
    if (tile == 0)
        attn_decode_clear_part(&task);
    attn_decode_run_tile(&task, &span);
}

void attn_decode_run_parts_tile(const struct attn_decode_part *parts, int count, int64_t tile,
                                bool is_near, void *workspace, size_t workspace_bytes)
{
    int together;

    for (int i = 0; i < count; i += together) {
        struct attn_decode_task task;
        struct crowd crowd;
        const size_t own = attn_align_up(attn_decode_cut(&parts[i].plan, &task, NULL));
        const size_t more = cut_crowd(&crowd, &task, NULL);
        together = 1;
        if (own + more <= workspace_bytes) {
            cut_crowd(&crowd, &task, (char *)workspace + own);
            together = gather(&crowd, &parts[i], count - i, tile, workspace);
        }
        if (together > 1)
            run_crowd(&crowd, &parts[i], together, tile, is_near || i > 0, workspace);
        else
            run_alone(&parts[i], tile, is_near || i > 0, workspace);
    }
}
