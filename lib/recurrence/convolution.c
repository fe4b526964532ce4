/* SPDX-License-Identifier: Apache-2.0 */
/* convolution.c - a causal convolution of each column. A task has some columns of all rows, and
 * keeps the last rows of them in a window. */
#include "recurrence.h"

#include "base/internal.h"

#include "kernels/kernels.h"

#include <stdbool.h>
#include <string.h>

enum { TASK_COLUMNS = 128 };

enum attn_status attn_convolution_check(const struct attn_convolution *convolution,
                                        const char **where)
{
    RETURN_IF(convolution->columns < 1, ATTN_ERR_SHAPE, "columns");
    RETURN_IF(convolution->taps < 1 || convolution->taps > ATTN_CONVOLUTION_TAPS_MAX,
              ATTN_ERR_SHAPE, "taps");
    RETURN_IF(convolution->weight == NULL, ATTN_ERR_NO_DATA, "weight");
    RETURN_IF((int)convolution->activation < 0 || convolution->activation >= ATTN_ACTIVATION_COUNT
                  || convolution->activation == ATTN_XIELU,
              ATTN_ERR_OPTION, "activation");
    return ATTN_OK;
}

int64_t attn_convolution_state(const struct attn_convolution *convolution)
{
    return (convolution->taps - 1) * convolution->columns;
}

int64_t attn_convolution_tasks(const struct attn_convolution_problem *problem)
{
    return problem->row_count == 0 ? 0
                                   : attn_divide_up(problem->convolution->columns, TASK_COLUMNS);
}

/* What a task works in: rows of u, that of row i in place (i + taps - 1) % taps, and the weights of
 * its columns by taps. */
struct window {
    float rows[ATTN_CONVOLUTION_TAPS_MAX][TASK_COLUMNS];
    float weight[ATTN_CONVOLUTION_TAPS_MAX][TASK_COLUMNS];
    float bias[TASK_COLUMNS];
    int64_t first, count; /* columns */
};

static void begin(struct window *window, const struct attn_convolution_problem *problem)
{
    const struct attn_convolution *convolution = problem->convolution;
    const int64_t taps = convolution->taps, columns = convolution->columns;
    const size_t bytes = (size_t)window->count * sizeof(float);

    for (int64_t c = 0; c < window->count; c++)
        for (int64_t t = 0; t < taps; t++)
            window->weight[t][c] = convolution->weight[(window->first + c) * taps + t];
    memset(window->bias, 0, bytes);
    if (convolution->bias != NULL)
        memcpy(window->bias, convolution->bias + window->first, bytes);
    for (int64_t t = 0; t < taps - 1; t++)
        if (problem->before != NULL)
            memcpy(window->rows[t], problem->before + t * columns + window->first, bytes);
        else
            memset(window->rows[t], 0, bytes);
}

static void run_row(struct window *window, const struct attn_convolution_problem *problem,
                    int64_t row)
{
    const struct attn_convolution *convolution = problem->convolution;
    const int64_t taps = convolution->taps, from = row * problem->x_stride + window->first;
    float *own = window->rows[(row + taps - 1) % taps];
    float *y = problem->y + row * problem->y_stride + window->first;
    const float *rows[ATTN_CONVOLUTION_TAPS_MAX];

    memcpy(own, problem->x + from, (size_t)window->count * sizeof *own);
    if (problem->factor != NULL)
        problem->kernels->multiply_row(own, problem->factor + from, window->count);
    for (int64_t t = 0; t < taps; t++)
        rows[t] = window->rows[(row + t) % taps];
    problem->kernels->convolve_row(y, rows, window->weight[0], TASK_COLUMNS, taps, window->bias,
                                   window->count);
    attn_activate(problem->kernels, convolution->activation, NULL, y, window->count);
    if (problem->gate != NULL)
        problem->kernels->multiply_row(y, problem->gate + from, window->count);
}

void attn_convolution_run(const struct attn_convolution_problem *problem, int64_t task)
{
    const int64_t taps = problem->convolution->taps, columns = problem->convolution->columns;
    struct window window = { .first = task * TASK_COLUMNS };

    window.count = attn_min(columns - window.first, TASK_COLUMNS);
    begin(&window, problem);
    for (int64_t row = 0; row < problem->row_count; row++)
        run_row(&window, problem, row);
    for (int64_t t = 0; t < taps - 1; t++)
        memcpy(problem->after + t * columns + window.first,
               window.rows[(problem->row_count + t) % taps], (size_t)window.count * sizeof(float));
}

void attn_convolution_work(const struct attn_convolution_problem *problem, struct attn_work *work)
{
    const double columns = (double)problem->convolution->columns;
    const double rows = (double)problem->row_count, taps = (double)problem->convolution->taps;
    const bool has_activation = problem->convolution->activation != ATTN_NO_ACTIVATION;

    work->tasks += (double)attn_convolution_tasks(problem);
    work->decode_flops += 2 * rows * columns * taps;
    work->moved_numbers += 2 * rows * columns;
    work->tanhs += has_activation ? rows * columns : 0;
    work->stream_bytes += 4 * columns * 2 * taps;
}
