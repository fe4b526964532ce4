/* SPDX-License-Identifier: Apache-2.0 */
/* align.c - see align.h. */
#include "operations/pass/align.h"

#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------------ smoothing -- */

/* Of one key: the weights of all rows to a mean of 0 and a variance of 1. Equal weights are 0. */
static void center_key(float *map, int64_t rows, int64_t keys)
{
    double sum = 0, squares = 0;
    for (int64_t row = 0; row < rows; row++)
        sum += (double)map[row * keys];
    const double mean = sum / (double)rows;
    for (int64_t row = 0; row < rows; row++) {
        const double difference = (double)map[row * keys] - mean;
        squares += difference * difference;
    }
    const double deviation = sqrt(squares / (double)rows);
    for (int64_t row = 0; row < rows; row++)
        map[row * keys] = deviation > 0 ? (float)(((double)map[row * keys] - mean) / deviation) : 0;
}

/* The middle one of an odd number, which it sorts. */
static float median_of(float *values, int count)
{
    for (int i = 1; i < count; i++) {
        const float value = values[i];
        int at = i;
        for (; at > 0 && values[at - 1] > value; at--)
            values[at] = values[at - 1];
        values[at] = value;
    }
    return values[count / 2];
}

static void filter_row(float *row, int64_t keys, int width, float *copy)
{
    float window[ALIGN_MEDIAN_MAX];
    memcpy(copy, row, (size_t)keys * sizeof *row);
    for (int64_t key = 0; key < keys; key++) {
        for (int i = 0; i < width; i++) {
            const int64_t at = key + i - width / 2, mirrored = at < 0 ? -at : at;
            window[i] = copy[mirrored < keys ? mirrored : 2 * (keys - 1) - mirrored];
        }
        row[key] = median_of(window, width);
    }
}

void align_smooth(float *map, int64_t rows, int64_t keys, int width, float *copy)
{
    for (int64_t key = 0; key < keys; key++)
        center_key(map + key, rows, keys);
    for (int64_t row = 0; keys > width / 2 && row < rows; row++)
        filter_row(map + row * keys, keys, width, copy);
}

void align_average(float *maps, int64_t heads, int64_t rows, int64_t keys)
{
    const int64_t numbers = rows * keys;
    for (int64_t i = 0; i < numbers; i++) {
        double sum = 0;
        for (int64_t head = 0; head < heads; head++)
            sum += (double)maps[head * numbers + i];
        maps[i] = (float)(sum / (double)heads);
    }
}

/* ----------------------------------------------------------------------------- path -- */

enum step { BOTH, ROW, KEY }; /* where a cell of the path comes from: what goes one on */

size_t align_workspace_bytes(int64_t rows, int64_t keys)
{
    size_t cells;
    if (__builtin_mul_overflow((size_t)rows + 1, (size_t)keys + 1, &cells)
        || __builtin_add_overflow(cells, 2 * ((size_t)rows + 1) * sizeof(float), &cells))
        return SIZE_MAX;
    return cells;
}

/* The costs of one key by those of the key before; a step that is not smaller than both others is
 * one of the key alone. */
static void add_key(const float *map, int64_t rows, int64_t keys, int64_t key, const float *before,
                    float *cost, uint8_t *steps)
{
    cost[0] = INFINITY;
    for (int64_t row = 1; row <= rows; row++) {
        const float both = before[row - 1], of_row = cost[row - 1], of_key = before[row];
        enum step step = KEY;
        float least = of_key;
        if (both < of_row && both < of_key) {
            step = BOTH;
            least = both;
        } else if (of_row < both && of_row < of_key) {
            step = ROW;
            least = of_row;
        }
        cost[row] = (float)((double)least - (double)map[(row - 1) * keys + key]);
        steps[row * (keys + 1) + key + 1] = (uint8_t)step;
    }
}

void align_path(const float *map, int64_t rows, int64_t keys, int64_t *first, void *workspace)
{
    float *costs[2] = { workspace, (float *)workspace + rows + 1 };
    uint8_t *steps = (uint8_t *)((float *)workspace + 2 * (rows + 1));
    for (int64_t row = 1; row <= rows; row++)
        costs[0][row] = INFINITY;
    costs[0][0] = 0;
    for (int64_t key = 0; key < keys; key++)
        add_key(map, rows, keys, key, costs[key % 2], costs[(key + 1) % 2], steps);
    for (int64_t row = rows, key = keys; row > 0;) {
        const enum step step = key == 0 ? ROW : (enum step)steps[row * (keys + 1) + key];
        first[row - 1] = key > 0 ? key - 1 : 0;
        row -= step != KEY;
        key -= step != ROW;
    }
}
