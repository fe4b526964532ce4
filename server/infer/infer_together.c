/* infer_together.c - see infer_together.h. */
#include "infer/infer_together.h"

#include "infer/infer_results.h"
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

bool infer_together_init(struct infer_together *together, struct infer_request *request)
{
    const size_t count = (size_t)request->item_count;
    struct arena *arena = &request->arena;
    together->item_count = request->item_count;
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
    together->items = arena_calloc(arena, count, sizeof *together->items);
    together->calls = arena_calloc(arena, count, sizeof *together->calls);
    together->first_item = arena_calloc(arena, count + 1, sizeof *together->first_item);
    together->first_task = arena_calloc(arena, count + 1, sizeof *together->first_task);
    if ((count > 0 && (!together->items || !together->calls)) || !together->first_item
        || !together->first_task)
        return false;
    for (size_t i = 0; i < count; i++)
        together->items[i] = &request->items[i];
    if (count > 1)
        /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
        qsort(together->items, count, sizeof *together->items, compare_places);
    for (size_t i = 0; i < count; i++)
        together->calls[i] =
            (struct attn_layer_call){ &together->items[i]->plan, together->items[i]->scratch };
    return true;
}

/* How many items from the first one on run the stage together. */
static int64_t group_size(const struct infer_together *together, int64_t first, int stage)
{
    int64_t end = first + 1;
    if (!may_join(together->items[first]))
        return 1;
    while (
        end < together->item_count && end - first < ITEMS_MAX && may_join(together->items[end])
        && attn_layer_runs_together(together->calls[first].plan, together->calls[end].plan, stage))
        end++;
    return end - first;
}

static int64_t tasks_of(const struct infer_together *together, int64_t first, int64_t count,
                        int stage)
{
    return count > 1 ? attn_layer_together_tasks(&together->calls[first], (int)count, stage)
                     : infer_tasks_count(together->items[first], stage);
}

int64_t infer_together_begin(struct infer_together *together, int stage)
{
    int64_t tasks = 0, group = 0, count;
    together->stage = stage;
    for (int64_t first = 0; first < together->item_count; first += count) {
        count = group_size(together, first, stage);
        together->is_shared = together->is_shared || count > 1;
        together->first_item[group] = first;
        together->first_task[group++] = tasks;
        tasks += tasks_of(together, first, count, stage);
    }
    together->group_count = group;
    together->first_item[group] = together->item_count;
    together->first_task[group] = tasks;
    return tasks;
}

static int64_t group_of_task(const struct infer_together *together, int64_t task)
{
    int64_t low = 0, high = together->group_count;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (together->first_task[middle] <= task)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void infer_together_run(const struct infer_together *together, int64_t task,
                        const struct worker *worker)
{
    const int64_t group = group_of_task(together, task);
    const int64_t first = together->first_item[group];
    const int64_t count = together->first_item[group + 1] - first;
    const struct infer_item *item = together->items[first];
    const int64_t own = task - together->first_task[group];
    if (count > 1) {
        attn_layer_together_run(
            &together->calls[first], (int)count, together->stage, own,
            &(struct attn_layer_room){ worker->workspace, worker->workspace_bytes });
        return;
    }
    infer_tasks_run(item, together->stage, own,
                    item->workspaces
                        ? (char *)item->workspaces
                              + (size_t)worker->slot * infer_tasks_workspace_bytes(item)
                        : worker->workspace);
}
