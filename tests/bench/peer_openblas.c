/* SPDX-License-Identifier: Apache-2.0 */
/* peer_openblas.c - attention as most programs write it: a product, a softmax and a product for
 * each head. OpenBLAS computes the products with one thread; the heads are shared out among the
 * threads.
 *
 * OPENBLAS_CORETYPE says, before the program starts, which core OpenBLAS takes this machine for.
 * The softmax is compiled for this very CPU with -ffast-math, so that its exp is a vector's. */
#include "peer_main.h"

#include <cblas.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

static struct bench_shape shape;
static const float *query, *key, *value;
static float *context;
static float *scores[2]; /* of each thread, [q_len][kv_len] */
static atomic_int next_head;

const char *peer_setup(const struct bench_shape *s, const float *q, const float *k, const float *v,
                       float *c)
{
    shape = *s;
    query = q;
    key = k;
    value = v;
    context = c;
    openblas_set_num_threads(1);
    for (int i = 0; i < 2; i++)
        scores[i] = malloc(sizeof(float) * (size_t)s->q_len * (size_t)s->kv_len);
    return s->threads > 2 ? "two threads at the most" : scores[0] && scores[1] ? NULL : "memory";
}

void peer_release(void)
{
    for (int i = 0; i < 2; i++)
        free(scores[i]);
}

/* Makes weights of the first seen of kv_len scores; the rest become 0. */
static void softmax(float *row, int seen, int kv_len)
{
    float max = row[0], sum = 0.0f;
    for (int j = 1; j < seen; j++)
        max = row[j] > max ? row[j] : max;
    for (int j = 0; j < seen; j++) {
        row[j] = expf(row[j] - max);
        sum += row[j];
    }
    const float factor = 1.0f / sum;
    for (int j = 0; j < seen; j++)
        row[j] *= factor;
    for (int j = seen; j < kv_len; j++)
        row[j] = 0.0f;
}

static void attend(int head, float *work)
{
    const int d = shape.head_dim;
    const int group = shape.q_heads / shape.kv_heads;
    const float *q = query + (size_t)head * (size_t)shape.q_len * (size_t)d;
    const size_t keys = (size_t)(head / group) * (size_t)shape.kv_len * (size_t)d;
    float *c = context + (size_t)head * (size_t)shape.q_len * (size_t)d;
    const float scale = 1.0f / sqrtf((float)d);

    if (shape.q_len == 1)
        cblas_sgemv(CblasRowMajor, CblasNoTrans, shape.kv_len, d, scale, key + keys, d, q, 1, 0.0f,
                    work, 1);
    else
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, shape.q_len, shape.kv_len, d, scale, q,
                    d, key + keys, d, 0.0f, work, shape.kv_len);
    for (int i = 0; i < shape.q_len; i++)
        softmax(work + (size_t)i * (size_t)shape.kv_len,
                shape.causal ? shape.kv_len - shape.q_len + i + 1 : shape.kv_len, shape.kv_len);
    if (shape.q_len == 1)
        cblas_sgemv(CblasRowMajor, CblasTrans, shape.kv_len, d, 1.0f, value + keys, d, work, 1,
                    0.0f, c, 1);
    else
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, shape.q_len, d, shape.kv_len, 1.0f,
                    work, shape.kv_len, value + keys, d, 0.0f, c, d);
}

static void work_on(int thread)
{
    for (int head; (head = atomic_fetch_add(&next_head, 1)) < shape.batch * shape.q_heads;)
        attend(head, scores[thread]);
}

void peer_run(void)
{
    atomic_store(&next_head, 0);
    peer_share(work_on, shape.threads);
}
