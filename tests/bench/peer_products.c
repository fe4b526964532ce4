/* SPDX-License-Identifier: Apache-2.0 */
/* peer_products.c - the matrix products of BERT's pass and nothing else, as a child of load_trace.
 *
 * In the words of peer_main.h a batch is so many layers, of q_heads * head_dim columns and a
 * feed-forward of four times as many: of each layer the projections of query, key, value and
 * output, up and down, and of each head the scores and the context. Each layer has parameters of
 * its own, as a model has.
 *
 * OpenBLAS computes with one thread; with two threads each has half of the rows, or of the heads,
 * and waits for the other nowhere. OPENBLAS_CORETYPE says, before the program starts, which core
 * OpenBLAS takes this machine for. */
#include "peer_main.h"

#include <cblas.h>
#include <stdlib.h>

enum { SQUARES = 4, WIDENING = 4, THREADS_MAX = 2 };

static struct bench_shape shape;
static const float *query, *key, *value;
static float *context;
static float *parameters; /* of all layers: squares, up, down */
static float *rows, *panel, *scores[THREADS_MAX];

static int columns(void)
{
    return shape.q_heads * shape.head_dim;
}

static size_t layer_parameters(void)
{
    return (size_t)columns() * (size_t)columns() * (SQUARES + 2 * WIDENING);
}

static float *numbers(size_t count)
{
    float *made = aligned_alloc(64, (count * sizeof(float) + 63) / 64 * 64);
    if (made)
        bench_fill(made, count, BENCH_KEY);
    return made;
}

const char *peer_setup(const struct bench_shape *s, const float *q, const float *k, const float *v,
                       float *c)
{
    shape = *s;
    query = q;
    key = k;
    value = v;
    context = c;
    openblas_set_num_threads(1);
    const size_t row_numbers = (size_t)s->q_len * (size_t)columns();
    parameters = numbers((size_t)s->batch * layer_parameters());
    rows = numbers(row_numbers);
    panel = numbers(row_numbers * WIDENING);
    for (int i = 0; i < THREADS_MAX; i++)
        scores[i] = numbers((size_t)s->q_len * (size_t)s->kv_len);
    return s->threads > THREADS_MAX                                ? "two threads at the most"
           : parameters && rows && panel && scores[0] && scores[1] ? NULL
                                                                   : "memory";
}

void peer_release(void)
{
    free(parameters);
    free(rows);
    free(panel);
    for (int i = 0; i < THREADS_MAX; i++)
        free(scores[i]);
}

/* y = x . weight^T for the rows of one thread. */
static void multiply(int thread, const float *x, const float *weight, int out, int in, float *y)
{
    const int first = shape.q_len * thread / shape.threads;
    const int count = shape.q_len * (thread + 1) / shape.threads - first;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, count, out, in, 1.0f,
                x + (size_t)first * (size_t)in, in, weight, in, 0.0f,
                y + (size_t)first * (size_t)out, out);
}

static void attend(int thread, int layer)
{
    const int d = shape.head_dim, n = shape.kv_len;
    for (int head = thread; head < shape.q_heads; head += shape.threads) {
        const size_t at = (size_t)(layer * shape.q_heads + head) * (size_t)shape.q_len * (size_t)d;
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, shape.q_len, n, d, 1.0f, query + at, d,
                    key + at, d, 0.0f, scores[thread], n);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, shape.q_len, d, n, 1.0f,
                    scores[thread], n, value + at, d, 0.0f, context + at, d);
    }
}

static void compute(int thread)
{
    const int d = columns();
    const size_t square = (size_t)d * (size_t)d;
    for (int layer = 0; layer < shape.batch; layer++) {
        const float *weight = parameters + (size_t)layer * layer_parameters();
        for (int i = 0; i < SQUARES; i++, weight += square)
            multiply(thread, query, weight, d, d, rows);
        attend(thread, layer);
        multiply(thread, query, weight, d * WIDENING, d, panel);
        multiply(thread, panel, weight + square * WIDENING, d, d * WIDENING, rows);
    }
}

void peer_run(void)
{
    peer_share(compute, shape.threads);
}
