/* SPDX-License-Identifier: Apache-2.0 */
/* peer_onednn.c - attention by oneDNN's batched matmul, softmax and matmul.
 *
 * Query heads that share a key head are rows of one product, which saves oneDNN copies of the
 * keys. A loop of our own between the products applies the causal mask: oneDNN 2.6 runs its
 * reference code for a post-operation whose operand broadcasts, and that is 300 times slower
 * than the product. The number of threads is OMP_NUM_THREADS. With BENCH_BF16 queries, keys, values
 * and weights are BF16, converted before the clock starts, and scores and context are floats. */
#include "peer_main.h"

#include <dnnl.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct step {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t arguments[3];
    int argument_count;
};

static dnnl_engine_t engine;
static dnnl_stream_t stream;
static struct step steps[3];
static dnnl_memory_t memories[6];
static int memory_count;
static struct bench_shape shape;
static float *scores;       /* [q_heads][q_len][kv_len] */
static void *weights;       /* the same; in place of the scores where they are floats */
static uint16_t *halves[3]; /* query, key and value of BF16 */

static void must(dnnl_status_t status)
{
    if (status != dnnl_success)
        abort();
}

static dnnl_memory_desc_t describe(int64_t a, int64_t b, int64_t c, dnnl_data_type_t type,
                                   dnnl_format_tag_t tag)
{
    const dnnl_dims_t dims = { a, b, c };
    dnnl_memory_desc_t desc;
    must(dnnl_memory_desc_init_by_tag(&desc, 3, dims, type, tag));
    return desc;
}

/* The nearest numbers of BF16. */
static const void *narrow(uint16_t **half, const float *numbers, int64_t count)
{
    *half = malloc((size_t)count * sizeof **half);
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &numbers[i], sizeof bits);
        (*half)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
    return *half;
}

static dnnl_memory_t place(const dnnl_memory_desc_t *desc, const void *data)
{
    dnnl_memory_t *memory = &memories[memory_count++];
    must(dnnl_memory_create(memory, desc, engine, (void *)(uintptr_t)data));
    return *memory;
}

static void finish(struct step *step, dnnl_primitive_desc_t desc)
{
    must(dnnl_primitive_create(&step->primitive, desc));
    must(dnnl_primitive_desc_destroy(desc));
}

static void hide_later_keys(void)
{
    const int rows = shape.batch * shape.q_heads * shape.q_len;
    for (int row = 0; row < rows; row++)
        for (int j = shape.kv_len - shape.q_len + row % shape.q_len + 1; j < shape.kv_len; j++)
            scores[(size_t)row * (size_t)shape.kv_len + (size_t)j] = -INFINITY;
}

const char *peer_setup(const struct bench_shape *s, const float *query, const float *key,
                       const float *value, float *context)
{
    const int64_t heads = s->batch * s->kv_heads;
    const int64_t rows = (int64_t)s->q_heads / s->kv_heads * s->q_len;
    const bool is_bf16 = getenv(BENCH_BF16) != NULL;
    const dnnl_data_type_t type = is_bf16 ? dnnl_bf16 : dnnl_f32;
    const int64_t q_count = heads * rows * s->head_dim;
    const int64_t k_count = heads * s->kv_len * s->head_dim;
    dnnl_memory_desc_t q = describe(heads, rows, s->head_dim, type, dnnl_abc);
    dnnl_memory_desc_t k = describe(heads, s->head_dim, s->kv_len, type, dnnl_acb);
    dnnl_memory_desc_t v = describe(heads, s->kv_len, s->head_dim, type, dnnl_abc);
    dnnl_memory_desc_t map = describe(heads, rows, s->kv_len, dnnl_f32, dnnl_abc);
    dnnl_memory_desc_t p = describe(heads, rows, s->kv_len, type, dnnl_abc);
    dnnl_memory_desc_t out = describe(heads, rows, s->head_dim, dnnl_f32, dnnl_abc);
    dnnl_primitive_attr_t attr;
    dnnl_matmul_desc_t matmul;
    dnnl_softmax_v2_desc_t softmax;
    dnnl_primitive_desc_t desc;

    shape = *s;
    if (s->causal && s->q_heads != s->kv_heads)
        return "causal grouped heads";
    must(dnnl_engine_create(&engine, dnnl_cpu, 0));
    must(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    memory_count = 0;
    must(dnnl_primitive_attr_create(&attr));
    const float scale = 1.0f / sqrtf((float)s->head_dim);
    must(dnnl_primitive_attr_set_output_scales(attr, 1, 0, &scale));
    must(dnnl_matmul_desc_init(&matmul, &q, &k, NULL, &map));
    must(dnnl_primitive_desc_create(&desc, &matmul, attr, engine, NULL));
    must(dnnl_primitive_attr_destroy(attr));
    finish(&steps[0], desc);
    must(dnnl_softmax_v2_forward_desc_init(&softmax, dnnl_forward_inference, dnnl_softmax_accurate,
                                           &map, &p, 2));
    must(dnnl_primitive_desc_create(&desc, &softmax, NULL, engine, NULL));
    finish(&steps[1], desc);
    must(dnnl_matmul_desc_init(&matmul, &p, &v, NULL, &out));
    must(dnnl_primitive_desc_create(&desc, &matmul, NULL, engine, NULL));
    finish(&steps[2], desc);

    scores = malloc(sizeof(float) * (size_t)(heads * rows * s->kv_len));
    weights = is_bf16 ? malloc(sizeof(uint16_t) * (size_t)(heads * rows * s->kv_len)) : scores;
    const dnnl_memory_t made = place(&map, scores), soft = place(&p, weights);
    const void *queries = is_bf16 ? narrow(&halves[0], query, q_count) : query;
    const void *keys = is_bf16 ? narrow(&halves[1], key, k_count) : key;
    const void *values = is_bf16 ? narrow(&halves[2], value, k_count) : value;
    steps[0].arguments[0] = (dnnl_exec_arg_t){ DNNL_ARG_SRC, place(&q, queries) };
    steps[0].arguments[1] = (dnnl_exec_arg_t){ DNNL_ARG_WEIGHTS, place(&k, keys) };
    steps[0].arguments[2] = (dnnl_exec_arg_t){ DNNL_ARG_DST, made };
    steps[0].argument_count = 3;
    steps[1].arguments[0] = (dnnl_exec_arg_t){ DNNL_ARG_SRC, made };
    steps[1].arguments[1] = (dnnl_exec_arg_t){ DNNL_ARG_DST, soft };
    steps[1].argument_count = 2;
    steps[2].arguments[0] = (dnnl_exec_arg_t){ DNNL_ARG_SRC, soft };
    steps[2].arguments[1] = (dnnl_exec_arg_t){ DNNL_ARG_WEIGHTS, place(&v, values) };
    steps[2].arguments[2] = (dnnl_exec_arg_t){ DNNL_ARG_DST, place(&out, context) };
    steps[2].argument_count = 3;
    return NULL;
}

void peer_run(void)
{
    for (int i = 0; i < 3; i++) {
        must(dnnl_primitive_execute(steps[i].primitive, stream, steps[i].argument_count,
                                    steps[i].arguments));
        if (i == 0 && shape.causal)
            hide_later_keys();
    }
    must(dnnl_stream_wait(stream));
}

void peer_release(void)
{
    for (int i = 0; i < 3 && steps[i].primitive; i++) {
        must(dnnl_primitive_destroy(steps[i].primitive));
        steps[i].primitive = NULL;
    }
    while (memory_count > 0)
        must(dnnl_memory_destroy(memories[--memory_count]));
    if (stream) {
        must(dnnl_stream_destroy(stream));
        must(dnnl_engine_destroy(engine));
        stream = NULL;
    }
    if (weights != (void *)scores)
        free(weights);
    free(scores);
    weights = scores = NULL;
    for (int i = 0; i < 3; i++) {
        free(halves[i]);
        halves[i] = NULL;
    }
}
