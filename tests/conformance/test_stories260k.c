/* SPDX-License-Identifier: Apache-2.0 */
/* test_stories260k.c - three attention layers of a trained model, against its own tensors.
 *
 * stories260K (karpathy/tinyllamas): width 64, 8 query heads and 4 key and value
 * heads of 8, interleaved rotary embedding with theta 10000, causal. Each layer
 * is run four times: whole; without its output projection, which gives y; with
 * queries and keys that are already rotated; and decoding, one row at a time over
 * the keys so far. */
#include "attention_case.h"
#include "tensor_file.h"
#include "test.h"

#include <cblas.h>
#include <inttypes.h>

static const double TOLERANCE = 1e-5;

enum { LENGTH = 64, WIDTH = 64, HEADS = 8, KV_HEADS = 4, HEAD_DIM = 8, KV_WIDTH = 32 };
enum { MAP = HEADS * LENGTH * LENGTH };

/* Stored tensors of a layer, and its parameters. */
struct stored {
    float *x, *q, *k, *v, *q_rope, *k_rope, *weights, *y, *out;
    float *wq, *wk, *wv, *wo;
};

static float *get(const struct tensor_file *file, const char *name, int64_t count)
{
    const struct tensor tensor = tensor_file_get(file, name);
    assert_int_equal(tensor.count, count);
    return tensor_floats(&tensor);
}

static float *get_parameter(const struct tensor_file *model, int layer, const char *name,
                            int64_t out)
{
    char full[64];
    snprintf(full, sizeof full, "layers.%d.attention.%s.weight", layer, name);
    return get(model, full, out * WIDTH);
}

static void stored_load(struct stored *s, int layer)
{
    char path[64];
    struct tensor_file file, model;
    snprintf(path, sizeof path, "tests/conformance/stories260K/layer%d.safetensors", layer);
    tensor_file_open(&file, path);
    tensor_file_open(&model, "examples/models/stories260K/model.safetensors");
    s->x = get(&file, "x", LENGTH * WIDTH);
    s->q = get(&file, "q", LENGTH * WIDTH);
    s->k = get(&file, "k", LENGTH * KV_WIDTH);
    s->v = get(&file, "v", LENGTH * KV_WIDTH);
    s->q_rope = get(&file, "q_rope", LENGTH * WIDTH);
    s->k_rope = get(&file, "k_rope", LENGTH * KV_WIDTH);
    s->weights = get(&file, "weights", MAP);
    s->y = get(&file, "y", LENGTH * WIDTH);
    s->out = get(&file, "out", LENGTH * WIDTH);
    s->wq = get_parameter(&model, layer, "wq", WIDTH);
    s->wk = get_parameter(&model, layer, "wk", KV_WIDTH);
    s->wv = get_parameter(&model, layer, "wv", KV_WIDTH);
    s->wo = get_parameter(&model, layer, "wo", WIDTH);
    tensor_file_close(&file);
    tensor_file_close(&model);
}

static void stored_free(struct stored *s)
{
    float *const all[] = { s->x, s->q,   s->k,  s->v,  s->q_rope, s->k_rope, s->weights,
                           s->y, s->out, s->wq, s->wk, s->wv,     s->wo };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

static struct attn_linear linear(const float *weight, int64_t out)
{
    return (struct attn_linear){ .weight = weight, .out = out, .in = WIDTH };
}

static struct attn_layer make_layer(const struct stored *s)
{
    struct attn_layer layer = {
        .q_heads = HEADS, .kv_heads = KV_HEADS, .head_dim = HEAD_DIM, .v_head_dim = HEAD_DIM
    };
    layer.q_proj = linear(s->wq, WIDTH);
    layer.k_proj = linear(s->wk, KV_WIDTH);
    layer.v_proj = linear(s->wv, KV_WIDTH);
    layer.o_proj = linear(s->wo, WIDTH);
    layer.rope = (struct attn_rope){ .dim = HEAD_DIM, .theta = 10000.0, .interleaved = true };
    return layer;
}

static struct attn_tensor rows(float *data, int64_t length, int64_t columns)
{
    return attn_tensor_dense(data, ATTN_F32, 1, 1, length, columns);
}

static struct attn_layer_problem make_problem(const struct attn_layer *layer, float *query,
                                              float *key, float *value)
{
    struct attn_layer_problem problem = { .layer = layer };
    problem.options = attn_options_default(HEAD_DIM);
    problem.options.causal = true;
    problem.query = rows(query, LENGTH, WIDTH);
    problem.key = rows(key, LENGTH, layer->k_proj.weight != NULL ? WIDTH : KV_WIDTH);
    problem.value = rows(value, LENGTH, layer->v_proj.weight != NULL ? WIDTH : KV_WIDTH);
    return problem;
}

static void expect_near(const char *name, const float *got, const float *want, int64_t count)
{
    double worst = 0;
    for (int64_t i = 0; i < count; i++) {
        const double error = fabs((double)got[i] - (double)want[i]);
        worst = error > worst ? error : worst;
        if (!(error <= TOLERANCE))
            fail_msg("%s[%" PRId64 "] = %.9g, want %.9g", name, i, (double)got[i], (double)want[i]);
    }
    print_message("  %-24s largest error %.2g\n", name, worst);
}

/* The map on every table of kernels, with the output projection and without. */
static void check_whole(const struct stored *s)
{
    static float context[LENGTH * WIDTH], weights[MAP];
    struct attn_layer layer = make_layer(s);
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++) {
        print_message(" %s\n", attn_kernels_name(*k));
        layer.o_proj = linear(s->wo, WIDTH);
        struct attn_layer_problem problem = make_problem(&layer, s->x, s->x, s->x);
        problem.kernels = *k;
        problem.context = context;
        problem.weights = weights;
        attention_run_layer(&problem);
        expect_near("out", context, s->out, LENGTH * WIDTH);
        expect_near("weights", weights, s->weights, MAP);
        layer.o_proj = (struct attn_linear){ 0 };
        problem.weights = NULL;
        attention_run_layer(&problem);
        expect_near("y", context, s->y, LENGTH * WIDTH);
    }
}

/* Stored q, k and v instead of the products; then those already rotated, without rotary
 * embedding. */
static void check_projected(const struct stored *s)
{
    static float context[LENGTH * WIDTH], weights[MAP];
    struct attn_layer layer = make_layer(s);
    layer.q_proj = layer.k_proj = layer.v_proj = layer.o_proj = (struct attn_linear){ 0 };
    struct attn_layer_problem problem = make_problem(&layer, s->q, s->k, s->v);
    problem.context = context;
    problem.weights = weights;
    attention_run_layer(&problem);
    expect_near("y of q, k, v", context, s->y, LENGTH * WIDTH);
    expect_near("weights of q, k, v", weights, s->weights, MAP);
    layer.rope.dim = 0;
    problem = make_problem(&layer, s->q_rope, s->k_rope, s->v);
    problem.context = context;
    attention_run_layer(&problem);
    expect_near("y of q_rope, k_rope", context, s->y, LENGTH * WIDTH);
}

/* Row i alone, with the i rows before it in the past. */
static void check_decoding(const struct stored *s)
{
    static float context[LENGTH * WIDTH];
    const struct attn_layer layer = make_layer(s);
    for (int64_t i = 0; i < LENGTH; i++) {
        struct attn_layer_problem problem = make_problem(&layer, s->x, s->x, s->x);
        problem.query = rows(s->x + i * WIDTH, 1, WIDTH);
        problem.key = problem.value = rows(s->x, i + 1, WIDTH);
        problem.past_len = i;
        problem.context = context + i * WIDTH;
        attention_run_layer(&problem);
    }
    expect_near("out, decoded", context, s->out, LENGTH * WIDTH);
}

static void check_layer(int number)
{
    struct stored stored;
    stored_load(&stored, number);
    check_whole(&stored);
    check_projected(&stored);
    check_decoding(&stored);
    stored_free(&stored);
}

TEST(layer_0)
{
    check_layer(0);
}

TEST(layer_2)
{
    check_layer(2);
}

TEST(layer_4)
{
    check_layer(4);
}

int main(void)
{
    openblas_set_num_threads(1);
    return test_run(NULL);
}
