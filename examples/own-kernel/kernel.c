/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.c - a kernel to be checked; put your own in its place. It goes over the keys in tiles, as
 * flash attention does (Dao et al. 2022), and holds only the largest score so far, the sum of exp
 * below it, and the context so far.
 *
 * -DBUG leaves a line out that is easily forgotten. */
#include "kernel.h"

#include <math.h>

enum { TILE = 16, HEAD_DIM_MAX = 256 };

/* One row of one head. */
struct row {
    const struct kernel_problem *problem;
    int query, query_head, key_head;
    float max, sum;
    float context[HEAD_DIM_MAX]; /* not yet divided by the sum */
};

static const float *key_row(const float *rows, const struct row *row, int key)
{
    const struct kernel_problem *p = row->problem;
    return rows + (key * p->kv_heads + row->key_head) * p->head_dim;
}

static int is_visible(const struct row *row, int key)
{
    const struct kernel_problem *p = row->problem;
    const int position = p->past_len + row->query;
    return key < p->kv_len_of_row[row->query] && (!p->causal || key <= position)
           && (p->window_left < 0 || key >= position - p->window_left);
}

/* -INFINITY where the row does not see the key. */
static float score(const struct row *row, int key)
{
    const struct kernel_problem *p = row->problem;
    const float *q = p->query + (row->query * p->q_heads + row->query_head) * p->head_dim;
    const float *k = key_row(p->key, row, key);
    float sum = 0;
    if (!is_visible(row, key))
        return -INFINITY;
    for (int i = 0; i < p->head_dim; i++)
        sum += q[i] * k[i];
    return p->scale * sum;
}

/* Adds the keys from first on, count of them, to what the row has. */
static void add_tile(struct row *row, int first, int count)
{
    const int head_dim = row->problem->head_dim;
    float scores[TILE], max = row->max;
    for (int j = 0; j < count; j++) {
        scores[j] = score(row, first + j);
        max = fmaxf(max, scores[j]);
    }
    if (max == -INFINITY)
        return;
    /* What was summed below the old maximum is worth less below the new one. */
    const float rescale = expf(row->max - max);
    row->sum *= rescale;
#ifndef BUG
    for (int i = 0; i < head_dim; i++)
        row->context[i] *= rescale;
#endif
    row->max = max;
    for (int j = 0; j < count; j++) {
        const float weight = expf(scores[j] - max);
        if (weight == 0)
            continue; /* so that NaN in a masked value stays there */
        row->sum += weight;
        for (int i = 0; i < head_dim; i++)
            row->context[i] += weight * key_row(row->problem->value, row, first + j)[i];
    }
}

static void do_row(struct row *row, float *context, float *lse, float *weights)
{
    const struct kernel_problem *p = row->problem;
    for (int first = 0; first < p->kv_len; first += TILE)
        add_tile(row, first, p->kv_len - first < TILE ? p->kv_len - first : TILE);
    *lse = row->sum > 0 ? row->max + logf(row->sum) : -INFINITY;
    for (int i = 0; i < p->head_dim; i++)
        context[i] = row->sum > 0 ? row->context[i] / row->sum : 0;
    for (int j = 0; j < p->kv_len; j++)
        weights[j] = row->sum > 0 ? expf(score(row, j) - *lse) : 0;
}

void kernel(const struct kernel_problem *problem, float *context, float *lse, float *weights)
{
    for (int h = 0; h < problem->q_heads; h++)
        for (int i = 0; i < problem->q_len; i++) {
            struct row row = { .problem = problem,
                               .query = i,
                               .query_head = h,
                               .key_head = h / (problem->q_heads / problem->kv_heads),
                               .max = -INFINITY };
            const int at = h * problem->q_len + i;
            do_row(&row, context + (i * problem->q_heads + h) * problem->head_dim, lse + at,
                   weights + at * problem->kv_len);
        }
}
