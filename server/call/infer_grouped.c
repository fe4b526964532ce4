/* SPDX-License-Identifier: Apache-2.0 */
/* infer_grouped.c - see infer_grouped.h. */
#include "call/infer_grouped.h"

#include "call/infer_results.h"
#include "layer.h"

#include <stdlib.h>

/* Items of one group at most: a task of a group runs a tile of keys for each, and is not to take
 * much longer than other tasks. Reading keys again for so many more costs little. */
enum { ITEMS_MAX = 64 };

/* An item of attention that needs no workspace of its own. */
static bool may_join(const struct infer_item *item)
{
    return item->plan.stage_count > 0 && !item->gradient && !item->parts && !item->workspaces
           && !item->has_selection;
}

static int compare_places(const void *a, const void *b)
{
    const struct infer_item *one = *(struct infer_item *const *)a;
    const struct infer_item *other = *(struct infer_item *const *)b;
    const int by_keys = may_join(one) && may_join(other)
                            ? attn_layer_compare_keys(&one->plan, &other->plan)
                            : may_join(other) - may_join(one);
    return by_keys != 0 ? by_keys : (one > other) - (one < other);
}

bool infer_grouped_init(struct infer_grouped *grouped, struct infer_request *request)
{
    const size_t count = (size_t)request->item_count;
    struct arena *arena = request->arena;
    grouped->item_count = request->item_count;
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
    grouped->items = arena_calloc(arena, count, sizeof *grouped->items);
    grouped->calls = arena_calloc(arena, count, sizeof *grouped->calls);
    grouped->first_item = arena_calloc(arena, count + 1, sizeof *grouped->first_item);
    grouped->first_task = arena_calloc(arena, count + 1, sizeof *grouped->first_task);
    if ((count > 0 && (!grouped->items || !grouped->calls)) || !grouped->first_item
        || !grouped->first_task)
        return false;
    for (size_t i = 0; i < count; i++)
        grouped->items[i] = &request->items[i];
    if (count > 1)
        /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
        qsort(grouped->items, count, sizeof *grouped->items, compare_places);
    for (size_t i = 0; i < count; i++)
        grouped->calls[i] =
            (struct attn_layer_call){ &grouped->items[i]->plan, grouped->items[i]->scratch };
    return true;
}

/* How many items from the first one on run the stage together. */
static int64_t group_size(const struct infer_grouped *grouped, int64_t first, int stage)
{
    int64_t end = first + 1;
    if (!may_join(grouped->items[first]))
        return 1;
    while (end < grouped->item_count && end - first < ITEMS_MAX && may_join(grouped->items[end])
           && attn_layer_runs_together(grouped->calls[first].plan, grouped->calls[end].plan, stage))
        end++;
    return end - first;
}

static int64_t tasks_of(const struct infer_grouped *grouped, int64_t first, int64_t count,
                        int stage)
{
    return count > 1 ? attn_layer_together_tasks(&grouped->calls[first], (int)count, stage)
                     : infer_tasks_count(grouped->items[first], stage);
}

int64_t infer_grouped_begin(struct infer_grouped *grouped, int stage)
{
    int64_t tasks = 0, group = 0, count;
    grouped->stage = stage;
    for (int64_t first = 0; first < grouped->item_count; first += count) {
        count = group_size(grouped, first, stage);
        grouped->is_shared = grouped->is_shared || count > 1;
        grouped->first_item[group] = first;
        grouped->first_task[group++] = tasks;
        tasks += tasks_of(grouped, first, count, stage);
    }
    grouped->group_count = group;
    grouped->first_item[group] = grouped->item_count;
    grouped->first_task[group] = tasks;
    return tasks;
}

static int64_t group_of_task(const struct infer_grouped *grouped, int64_t task)
{
    int64_t low = 0, high = grouped->group_count;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (grouped->first_task[middle] <= task)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void infer_grouped_run(const struct infer_grouped *grouped, int64_t task,
                       const struct worker *worker)
{
    const int64_t group = group_of_task(grouped, task);
    const int64_t first = grouped->first_item[group];
    const int64_t count = grouped->first_item[group + 1] - first;
    const struct infer_item *item = grouped->items[first];
    const int64_t own = task - grouped->first_task[group];
    if (count > 1) {
        attn_layer_together_run(
            &grouped->calls[first], (int)count, grouped->stage, own,
            &(struct attn_layer_room){ worker->workspace, worker->workspace_bytes });
        return;
    }
    infer_tasks_run(item, grouped->stage, own,
                    item->workspaces
                        ? (char *)item->workspaces
                              + (size_t)worker->slot * infer_tasks_workspace_bytes(item)
                        : worker->workspace);
}
