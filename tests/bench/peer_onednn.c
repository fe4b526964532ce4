/* peer_onednn.c - attention by oneDNN's batched matmul, softmax and matmul.
 *
 * Query heads that share a key head are rows of one product, which saves oneDNN copies of the
 * keys. A loop of our own between the products applies the causal mask: oneDNN 2.6 runs its
 * reference code for a post-operation whose operand broadcasts, and that is 300 times slower
 * than the product. The number of threads is OMP_NUM_THREADS. */
#include "peer_main.h"

#include <dnnl.h>
#include <math.h>
#include <stdlib.h>

struct step {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t arguments[3];
    int argument_count;
};

static dnnl_engine_t engine;
static dnnl_stream_t stream;
static struct step steps[3];
static dnnl_memory_t memories[5];
static int memory_count;
static struct bench_shape shape;
static float *weights; /* [q_heads][q_len][kv_len] */

static void must(dnnl_status_t status)
{
    if (status != dnnl_success)
        abort();
}

static dnnl_memory_desc_t describe(int64_t a, int64_t b, int64_t c, dnnl_format_tag_t tag)
{
    const dnnl_dims_t dims = { a, b, c };
    dnnl_memory_desc_t desc;
    must(dnnl_memory_desc_init_by_tag(&desc, 3, dims, dnnl_f32, tag));
    return desc;
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
            weights[(size_t)row * (size_t)shape.kv_len + (size_t)j] = -INFINITY;
}

const char *peer_setup(const struct bench_shape *s, const float *query, const float *key,
                       const float *value, float *context)
{
    const int64_t heads = s->batch * s->kv_heads;
    const int64_t rows = (int64_t)s->q_heads / s->kv_heads * s->q_len;
    dnnl_memory_desc_t q = describe(heads, rows, s->head_dim, dnnl_abc);
    dnnl_memory_desc_t k = describe(heads, s->head_dim, s->kv_len, dnnl_acb);
    dnnl_memory_desc_t v = describe(heads, s->kv_len, s->head_dim, dnnl_abc);
    dnnl_memory_desc_t p = describe(heads, rows, s->kv_len, dnnl_abc);
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
    must(dnnl_matmul_desc_init(&matmul, &q, &k, NULL, &p));
    must(dnnl_primitive_desc_create(&desc, &matmul, attr, engine, NULL));
    must(dnnl_primitive_attr_destroy(attr));
    finish(&steps[0], desc);
    must(dnnl_softmax_v2_forward_desc_init(&softmax, dnnl_forward_inference, dnnl_softmax_accurate,
                                           &p, &p, 2));
    must(dnnl_primitive_desc_create(&desc, &softmax, NULL, engine, NULL));
    finish(&steps[1], desc);
    must(dnnl_matmul_desc_init(&matmul, &p, &v, NULL, &q));
    must(dnnl_primitive_desc_create(&desc, &matmul, NULL, engine, NULL));
    finish(&steps[2], desc);

    weights = malloc(sizeof(float) * (size_t)(heads * rows * s->kv_len));
    const dnnl_memory_t map = place(&p, weights);
    steps[0].arguments[0] = (dnnl_exec_arg_t){ DNNL_ARG_SRC, place(&q, query) };
    steps[0].arguments[1] = (dnnl_exec_arg_t){ DNNL_ARG_WEIGHTS, place(&k, key) };
    steps[0].arguments[2] = (dnnl_exec_arg_t){ DNNL_ARG_DST, map };
    steps[0].argument_count = 3;
    steps[1].arguments[0] = (dnnl_exec_arg_t){ DNNL_ARG_SRC, map };
    steps[1].arguments[1] = (dnnl_exec_arg_t){ DNNL_ARG_DST, map };
    steps[1].argument_count = 2;
    steps[2].arguments[0] = (dnnl_exec_arg_t){ DNNL_ARG_SRC, map };
    steps[2].arguments[1] = (dnnl_exec_arg_t){ DNNL_ARG_WEIGHTS, place(&v, value) };
    steps[2].arguments[2] = (dnnl_exec_arg_t){ DNNL_ARG_DST, place(&q, context) };
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
    free(weights);
    weights = NULL;
}
