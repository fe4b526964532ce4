/* SPDX-License-Identifier: Apache-2.0 */
/* kept_repeats.c - positions sorted by their tokens, so that a row reads the weights of its repeats
 * alone. */
#include "operations/trace/kept_repeats.h"

#include <stdlib.h>

struct placed {
    int32_t id;
    int64_t position;
};

static int compare_placed(const void *a, const void *b)
{
    const struct placed *left = a, *right = b;
    if (left->id != right->id)
        return left->id < right->id ? -1 : 1;
    return left->position < right->position ? -1 : left->position > right->position;
}

bool kept_repeats_make(struct kept_repeats *repeats, const struct token_list *tokens,
                       struct arena *arena)
{
    const int64_t count = tokens->count;
    struct placed *placed = arena_calloc(arena, (size_t)count, sizeof *placed);
    *repeats = (struct kept_repeats){ .order = arena_calloc(arena, (size_t)count, sizeof(int64_t)),
                                      .first = arena_calloc(arena, (size_t)count, sizeof(int64_t)),
                                      .own = arena_calloc(arena, (size_t)count, sizeof(int64_t)),
                                      .count = count };
    if (!placed || !repeats->order || !repeats->first || !repeats->own)
        return false;
    for (int64_t i = 0; i < count; i++)
        placed[i] = (struct placed){ tokens->tokens[i].id, i };
    qsort(placed, (size_t)count, sizeof *placed, compare_placed);
    int64_t first = 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t position = placed[i].position;
        if (i > 0 && placed[i].id != placed[i - 1].id)
            first = i;
        repeats->order[i] = position;
        repeats->first[position] = first;
        repeats->own[position] = i;
        repeats->rows += i > first;
    }
    return true;
}

void kept_repeats_add(const struct kept_repeats *repeats, int64_t i, const float *weights,
                      int64_t first, int64_t count, double *duplicate, double *induction)
{
    int64_t low = repeats->first[i], high = repeats->own[i];
    const int64_t end = high;
    while (low < high) { /* the first whose successor is not before the keys */
        const int64_t middle = low + (high - low) / 2;
        if (repeats->order[middle] + 1 < first)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < end && repeats->order[low] < first + count; low++) {
        const int64_t key = repeats->order[low] - first;
        if (key >= 0)
            *duplicate += (double)weights[key];
        if (key + 1 < count)
            *induction += (double)weights[key + 1];
    }
}
