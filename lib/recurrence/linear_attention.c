/* SPDX-License-Identifier: Apache-2.0 */
/* linear_attention.c - rows of a sequence through the states of its heads. See linear_attention.h.
 *
 * A task has up to COLUMNS columns of one head's state. It prepares a few rows at a time, keys and
 * queries normalized, decays as factors, and hands them to the kernel. What is prepared is the same
 * for all columns of a head, and little beside what the kernel does. */
#include "linear_attention.h"
#include "base/internal.h"

#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

/* A task copies its columns where it has more rows than that: rows of a state are often a power of
 * two apart, and then a cache has few places for them. */
enum { COLUMNS = 64, ROWS = 8, ROWS_IN_PLACE = 2 };

/* Rows of y that one state gives a row. */
static int64_t reads_of(const struct attn_linear_attention *attention)
{
    return attention->q_heads > attention->v_heads ? attention->q_heads / attention->v_heads : 1;
}

static int64_t parts_of(const struct attn_linear_attention *attention)
{
    return attn_divide_up(attention->v_head_dim, COLUMNS);
}

/* -------------------------------------------------------------------------- checks -- */

static enum attn_status check_sizes(const struct attn_linear_attention *a, const char **where)
{
    int64_t numbers;

    RETURN_IF(__builtin_mul_overflow(a->k_head_dim, a->v_head_dim, &numbers)
                  || __builtin_mul_overflow(numbers, a->v_heads, &numbers)
                  || numbers > PTRDIFF_MAX / (int64_t)sizeof(float),
              ATTN_ERR_TOO_LARGE, "v_head_dim");
    RETURN_IF(__builtin_mul_overflow(a->q_heads, a->v_head_dim, &numbers), ATTN_ERR_TOO_LARGE,
              "q_heads");
    RETURN_IF(__builtin_mul_overflow(reads_of(a) + 3, a->k_head_dim, &numbers)
                  || numbers > PTRDIFF_MAX / ((int64_t)sizeof(float) * (ROWS + 1)),
              ATTN_ERR_TOO_LARGE, "q_heads");
    return ATTN_OK;
}

enum attn_status attn_linear_attention_check(const struct attn_linear_attention *attention,
                                             const char **where)
{
    const struct attn_linear_attention *a = attention;

    RETURN_IF(a->v_heads < 1, ATTN_ERR_SHAPE, "v_heads");
    RETURN_IF(a->k_heads < 1 || a->v_heads % a->k_heads != 0, ATTN_ERR_SHAPE, "k_heads");
    RETURN_IF(a->q_heads < 1 || (a->v_heads % a->q_heads != 0 && a->q_heads % a->v_heads != 0),
              ATTN_ERR_SHAPE, "q_heads");
    RETURN_IF(a->heads_take_turns && a->q_heads > a->v_heads, ATTN_ERR_OPTION, "heads_take_turns");
    RETURN_IF(a->k_head_dim < 1, ATTN_ERR_SHAPE, "k_head_dim");
    RETURN_IF(a->v_head_dim < 1, ATTN_ERR_SHAPE, "v_head_dim");
    RETURN_IF_FAILED(check_sizes(a, where));
    RETURN_IF(a->decay_rate != NULL && (!a->has_decay || a->decay_has_columns), ATTN_ERR_OPTION,
              "decay_rate");
    RETURN_IF((a->decay_rate != NULL) != (a->decay_bias != NULL), ATTN_ERR_NO_DATA, "decay_bias");
    RETURN_IF(a->is_normalized && !(a->norm_eps >= 0 && a->norm_eps < INFINITY), ATTN_ERR_OPTION,
              "norm_eps");
    RETURN_IF(!(fabs(a->scale) < INFINITY), ATTN_ERR_OPTION, "scale");
    return ATTN_OK;
}

int64_t attn_linear_attention_state(const struct attn_linear_attention *attention)
{
    return attention->v_heads * attention->k_head_dim * attention->v_head_dim;
}

/* ------------------------------------------------------------------- what is prepared -- */

/* Each [ROWS][k_head_dim], of queries one for each read; beta is [ROWS]. */
struct prepared {
    float *key, *erase, *decay, *query, *beta;
    float *state; /* [k_head_dim][COLUMNS] */
};

static size_t cut_prepared(const struct attn_linear_attention *attention, void *workspace,
                           struct prepared *prepared)
{
    const int64_t numbers = ROWS * attention->k_head_dim;
    size_t bytes = 0;

    prepared->key = attn_cut(workspace, &bytes, numbers, sizeof(float));
    prepared->erase = attn_cut(workspace, &bytes, numbers, sizeof(float));
    prepared->decay = attn_cut(workspace, &bytes, numbers, sizeof(float));
    prepared->query = attn_cut(workspace, &bytes, numbers * reads_of(attention), sizeof(float));
    prepared->beta = attn_cut(workspace, &bytes, ROWS, sizeof(float));
    prepared->state = attn_cut(workspace, &bytes, attention->k_head_dim * COLUMNS, sizeof(float));
    return bytes;
}

/* to = from * factor, and normalized before that. */
static void prepare_row(const struct attn_linear_attention_problem *problem, const float *from,
                        double factor, float *to)
{
    const struct attn_linear_attention *a = problem->attention;
    const int64_t columns = a->k_head_dim;
    double squares = 0;

    if (a->is_normalized) {
        problem->kernels->dot_rows(&squares, from, columns, from, columns, 1, columns);
        factor /= sqrt(squares + a->norm_eps);
    }
    problem->kernels->copy_rows(to, columns, from, columns, 1, columns, (float)factor);
}

/* e^g of a head that has one g. log(1 + e^x) is x where e^x is large beside 1. */
static float decay_of(const struct attn_linear_attention *a, const float *row, int64_t head)
{
    double g = (double)row[head];

    if (a->decay_rate != NULL) {
        const double x = g + (double)a->decay_bias[head];
        g = (double)a->decay_rate[head] * (x > 40 ? x : log1p(exp(x)));
    }
    return (float)exp(g);
}

static void prepare_decay(const struct attn_linear_attention_problem *problem, int64_t i,
                          int64_t head, float *to)
{
    const struct attn_linear_attention *a = problem->attention;
    const int64_t columns = a->k_head_dim;
    const float *row = a->has_decay ? problem->decay + i * problem->decay_stride : NULL;
    const float shared = row != NULL && !a->decay_has_columns ? decay_of(a, row, head) : 1.0f;

    for (int64_t d = 0; d < columns; d++)
        to[d] = row != NULL && a->decay_has_columns ? (float)exp((double)row[head * columns + d])
                                                    : shared;
}

/* Of count heads the one that a head of values takes. */
static int64_t shared_head(const struct attn_linear_attention *a, int64_t head, int64_t count)
{
    return a->heads_take_turns ? head % count : head / (a->v_heads / count);
}

/* e^g S^T k is S^T (e^g k), so what the key erases is read of the state before its decay. */
static void prepare(const struct attn_linear_attention_problem *problem, int64_t i, int64_t head,
                    const struct prepared *prepared, int64_t at)
{
    const struct attn_linear_attention *a = problem->attention;
    const int64_t columns = a->k_head_dim, reads = reads_of(a);
    const int64_t key_head = shared_head(a, head, a->k_heads);
    const int64_t query_head =
        a->q_heads > a->v_heads ? head * reads : shared_head(a, head, a->q_heads);
    float *key = prepared->key + at * columns, *decay = prepared->decay + at * columns;
    float *erase = prepared->erase + at * columns;

    prepare_row(problem, problem->key + i * problem->key_stride + key_head * columns, 1, key);
    prepare_decay(problem, i, head, decay);
    if (a->has_beta) {
        const double beta = (double)problem->beta[i * problem->beta_stride + head];
        prepared->beta[at] = (float)(a->beta_is_logit ? 1 / (1 + exp(-beta)) : beta);
        memcpy(erase, key, (size_t)columns * sizeof *erase);
        problem->kernels->multiply_row(erase, decay, columns);
    }
    for (int64_t r = 0; problem->y != NULL && r < reads; r++)
        prepare_row(problem,
                    problem->query + i * problem->query_stride + (query_head + r) * columns,
                    a->scale, prepared->query + (at * reads + r) * columns);
}

/* ------------------------------------------------------------------------- running -- */

int64_t attn_linear_attention_tasks(const struct attn_linear_attention_problem *problem)
{
    const struct attn_linear_attention *a = problem->attention;

    return problem->row_count > 0 ? a->v_heads * parts_of(a) : 0;
}

size_t attn_linear_attention_workspace_bytes(const struct attn_linear_attention *attention)
{
    struct prepared prepared;

    return cut_prepared(attention, NULL, &prepared);
}

/* The task's columns of the state before the first row; before NULL: zeros. */
static void begin_state(const struct attn_state_rows *rows, const float *before, int64_t stride)
{
    const size_t bytes = (size_t)rows->columns * sizeof(float);

    for (int64_t d = 0; d < rows->depth && before != rows->state; d++)
        if (before == NULL)
            memset(rows->state + d * rows->state_stride, 0, bytes);
        else
            memcpy(rows->state + d * rows->state_stride, before + d * stride, bytes);
}

static void run_rows(const struct attn_linear_attention_problem *problem, int64_t head,
                     int64_t first, const struct prepared *prepared, struct attn_state_rows *rows)
{
    const struct attn_linear_attention *a = problem->attention;
    const int64_t y_head = head * reads_of(a);

    for (int64_t i = 0; i < problem->row_count; i += ROWS) {
        rows->count = attn_min(problem->row_count - i, ROWS);
        for (int64_t r = 0; r < rows->count; r++)
            prepare(problem, i + r, head, prepared, r);
        rows->value = problem->value + i * problem->value_stride + head * a->v_head_dim + first;
        if (problem->y != NULL)
            rows->y = problem->y + i * problem->y_stride + y_head * a->v_head_dim + first;
        problem->kernels->change_state(rows);
    }
}

void attn_linear_attention_run(const struct attn_linear_attention_problem *problem, int64_t task,
                               void *workspace)
{
    const struct attn_linear_attention *a = problem->attention;
    const int64_t head = task / parts_of(a), first = task % parts_of(a) * COLUMNS;
    const int64_t at = head * a->k_head_dim * a->v_head_dim + first;
    const bool is_copied = problem->row_count > ROWS_IN_PLACE;
    struct prepared prepared;

    cut_prepared(a, workspace, &prepared);
    struct attn_state_rows rows = {
        .state = is_copied ? prepared.state : problem->after + at,
        .state_stride = is_copied ? COLUMNS : a->v_head_dim,
        .depth = a->k_head_dim,
        .columns = attn_min(a->v_head_dim - first, COLUMNS),
        .key = prepared.key,
        .erase = prepared.erase,
        .decay = prepared.decay,
        .beta = a->has_beta ? prepared.beta : NULL,
        .query = prepared.query,
        .reads = problem->y != NULL ? reads_of(a) : 0,
        .value_stride = problem->value_stride,
        .y_stride = problem->y_stride,
        .y_step = a->v_head_dim,
    };
    begin_state(&rows, problem->before != NULL ? problem->before + at : NULL, a->v_head_dim);
    run_rows(problem, head, first, &prepared, &rows);
    for (int64_t d = 0; is_copied && d < rows.depth; d++)
        memcpy(problem->after + at + d * a->v_head_dim, prepared.state + d * COLUMNS,
               (size_t)rows.columns * sizeof(float));
}

void attn_linear_attention_work(const struct attn_linear_attention_problem *problem,
                                struct attn_work *work)
{
    const struct attn_linear_attention *a = problem->attention;
    const double rows = (double)problem->row_count;
    const double state = (double)attn_linear_attention_state(a);
    const double flops = 3 + (a->has_beta ? 2 : 0) + 2 * (double)reads_of(a);

    work->tasks += (double)attn_linear_attention_tasks(problem);
    work->decode_flops += rows * state * flops;
    work->double_flops += 100 * rows * (double)a->v_heads;
    work->stream_bytes += 8 * state;
}
