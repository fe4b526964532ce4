/* SPDX-License-Identifier: Apache-2.0 */
/* test_align.c - the path of rows along keys, against what the published functions give.
 *
 * The keys are those of _median_filter() and _dynamic_time_warping() of transformers 4.46's
 * generation_whisper.py (Apache-2.0), in numpy, on the same maps. */
#include "operations/pass/align.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

static const struct {
    unsigned seed; /* odd: the maps have a ridge */
    int heads, rows, keys, width;
    int64_t first[16];
} CASES[] = {
    { 1, 3, 6, 40, 7, { 0, 7, 14, 20, 26, 33 } },
    { 2, 2, 5, 30, 7, { 0, 2, 7, 7, 25 } },
    { 3, 1, 9, 12, 3, { 0, 1, 3, 4, 5, 6, 8, 9, 11 } },
    { 4, 4, 3, 50, 9, { 0, 10, 49 } },
    { 5, 2, 7, 3, 7, { 0, 1, 1, 2, 2, 2, 2 } },
    { 6, 2, 8, 5, 5, { 0, 0, 0, 1, 1, 1, 2, 4 } },
    { 7, 1, 2, 4, 7, { 0, 0 } },
};

/* Weights of random size, each row with a sum of 1. */
static float *make_maps(unsigned seed, int heads, int rows, int keys)
{
    float *maps = malloc((size_t)(heads * rows * keys) * sizeof *maps);
    double *weights = malloc((size_t)keys * sizeof *weights);
    uint32_t state = seed;
    assert_true(maps && weights);
    for (int i = 0; i < heads * rows; i++) {
        double sum = 0;
        for (int key = 0; key < keys; key++) {
            const double step = (double)keys / rows;
            const double off = (key - (i % rows + 0.5) * keys / rows) / step;
            state = (state * 1103515245u + 12345u) & 0x7fffffff;
            weights[key] = ((state >> 16) % 10000 + 1) / 10000.0;
            weights[key] += seed % 2 == 1 ? 3 * exp(-off * off) : 0;
            sum += weights[key];
        }
        for (int key = 0; key < keys; key++)
            maps[i * keys + key] = (float)(weights[key] / sum);
    }
    free(weights);
    return maps;
}

static void find_path(float *maps, int heads, int rows, int keys, int width, int64_t *first)
{
    float *copy = malloc((size_t)keys * sizeof *copy);
    void *workspace = malloc(align_workspace_bytes(rows, keys));
    assert_true(copy && workspace);
    for (int head = 0; head < heads; head++)
        align_smooth(maps + head * rows * keys, rows, keys, width, copy);
    align_average(maps, heads, rows, keys);
    align_path(maps, rows, keys, first, workspace);
    free(workspace);
    free(copy);
}

TEST(published_paths)
{
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        int64_t first[16];
        float *maps = make_maps(CASES[i].seed, CASES[i].heads, CASES[i].rows, CASES[i].keys);
        find_path(maps, CASES[i].heads, CASES[i].rows, CASES[i].keys, CASES[i].width, first);
        for (int row = 0; row < CASES[i].rows; row++)
            if (first[row] != CASES[i].first[row])
                fail_msg("case %zu: row %d begins at key %d; expected %d", i, row, (int)first[row],
                         (int)CASES[i].first[row]);
        free(maps);
    }
}

/* Keys never go back, the first is 0, and all are there, whatever the numbers. */
TEST(monotonic)
{
    for (unsigned seed = 1; seed < 200; seed++) {
        const int rows = 1 + (int)(seed * 7 % 15), keys = 1 + (int)(seed * 13 % 37);
        int64_t first[16];
        float *maps = make_maps(seed, 2, rows, keys);
        find_path(maps, 2, rows, keys, ALIGN_MEDIAN, first);
        assert_int_equal(first[0], 0);
        for (int row = 1; row < rows; row++)
            assert_true(first[row] >= first[row - 1] && first[row] < keys);
        free(maps);
    }
    assert_true(align_workspace_bytes(INT64_MAX / 2, INT64_MAX / 2) == SIZE_MAX);
}

/* Weights that are all equal have no variance, and no number that is not finite comes of them. */
TEST(equal_weights)
{
    float map[12], copy[4];
    for (int i = 0; i < 12; i++)
        map[i] = 0.25f;
    align_smooth(map, 3, 4, ALIGN_MEDIAN, copy);
    for (int i = 0; i < 12; i++)
        assert_true(map[i] == 0);
}

ALL_TESTS(NULL, NULL);
