/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint_mistral.c - releases of Mistral's own, by their params.json.
 *
 * Source: transformer.py, transformer_layers.py, rope.py and cache.py of mistral-inference's
 * src/mistral_inference/ at 2557e12, and what vLLM makes of "yarn" in
 * vllm/transformers_utils/configs/mistral.py, _remap_mistral_yarn_args(), at 01da88c5bef9. */
#include "published_rotary.h"
#include "test.h"

#define TENSORS                                                                                    \
    "layers.#.attention.wq.weight 32x16, layers.#.attention.wk.weight 16x16, "                     \
    "layers.#.attention.wv.weight 16x16, layers.#.attention.wo.weight 16x32"

#define PARAMS(more)                                                                               \
    "{\"dim\":16,\"n_layers\":4,\"head_dim\":8,\"hidden_dim\":32,\"n_heads\":4,\"n_kv_heads\":2,"  \
    "\"norm_eps\":1e-05,\"vocab_size\":32000" more "}"

static const struct published_rotary MISTRAL = {
    .begin = "layers.#.attention.",
    .output = "wo",
    .projections = { "wq", "wk", "wv" },
    .width = 16,
    .heads = 4,
    .kv_heads = 2,
    .rotary_dim = 8,
    .theta = 1e6,
    .scale = 0.35355339059327373, /* 1/sqrt(8) */
    .is_every_two = true,
};

static void expect(const char *config, const struct published_rotary *want,
                   const int64_t windows[4])
{
    published_open(config, TENSORS, 4, "F32");
    for (int layer = 0; layer < 4; layer++) {
        struct published_rotary rotary = *want;
        rotary.window = windows[layer];
        published_expect_rotary(&rotary, layer);
    }
    published_close();
}

/* theta, and the window of the first release, whose code took 10000 beside it. */
TEST(theta)
{
    struct published_rotary want = MISTRAL;
    expect(PARAMS(""), &want, (int64_t[]){ 0, 0, 0, 0 });
    expect(PARAMS(",\"model_type\":\"transformer\",\"sliding_window\":null"), &want,
           (int64_t[]){ 0, 0, 0, 0 });
    want.theta = 1e8;
    expect(PARAMS(",\"rope_theta\":100000000.0"), &want, (int64_t[]){ 0, 0, 0, 0 });
    expect(PARAMS(",\"rope_theta\":100000000.0,\"sliding_window\":3"), &want,
           (int64_t[]){ 3, 3, 3, 3 });
    want.theta = 1e4;
    expect(PARAMS(",\"sliding_window\":2"), &want, (int64_t[]){ 2, 2, 2, 2 });
}

/* Ministral 8B: a window on three layers of four. */
TEST(windows)
{
    expect(PARAMS(",\"_sliding_window\":[null,3,3,3]"), &MISTRAL, (int64_t[]){ 0, 3, 3, 3 });
    expect(PARAMS(",\"sliding_window\":null,\"_sliding_window\":[2,null]"), &MISTRAL,
           (int64_t[]){ 2, 0, 2, 0 });
    expect(PARAMS(",\"sliding_window\":[4]"), &MISTRAL, (int64_t[]){ 4, 4, 4, 4 });
    expect(PARAMS(",\"_sliding_window\":3,\"rope_theta\":1000000"), &MISTRAL,
           (int64_t[]){ 3, 3, 3, 3 });
}

/* _compute_yarn_parameters() of transformers' modeling_rope_utils.py, which vLLM computes too, for
 * beta_fast = beta and beta_slow = alpha. */
static void yarn(double frequencies[4], double factor, double length, double beta, double alpha)
{
    const double dim = 8, theta = 1e6, pi = acos(-1);
    const double low = fmax(floor(dim * log(length / (beta * 2 * pi)) / (2 * log(theta))), 0);
    const double high =
        fmin(ceil(dim * log(length / (alpha * 2 * pi)) / (2 * log(theta))), dim - 1);
    for (int c = 0; c < 4; c++) {
        const double f = pow(theta, -2 * c / dim);
        const double ramp = fmin(fmax((c - low) / (low == high ? 0.001 : high - low), 0), 1);
        frequencies[c] = f / factor * ramp + f * (1 - ramp);
    }
}

TEST(yarn)
{
    double frequencies[4];
    struct published_rotary want = MISTRAL;
    yarn(frequencies, 4, 64, 6, 0.5);
    want.frequencies = frequencies;
    want.factor = 0.1 * log(4) + 1;
    expect(PARAMS(",\"yarn\":{\"original_max_position_embeddings\":64,\"factor\":4,"
                  "\"apply_scale\":true,\"beta\":6,\"alpha\":0.5}"),
           &want, (int64_t[]){ 0, 0, 0, 0 });
    want.factor = 1;
    expect(
        PARAMS(",\"yarn\":{\"original_max_position_embeddings\":64,\"factor\":4,"
               "\"apply_scale\":false,\"beta\":6,\"alpha\":0.5},\"max_position_embeddings\":256"),
        &want, (int64_t[]){ 0, 0, 0, 0 });
    yarn(frequencies, 4, 64, 32, 1);
    want.factor = 0.1 * log(4) + 1;
    expect(PARAMS(",\"yarn\":{\"original_max_position_embeddings\":64,\"factor\":4}"), &want,
           (int64_t[]){ 0, 0, 0, 0 });
}

TEST(refused)
{
    published_refused(PARAMS(",\"llama_4_scaling\":{\"original_max_position_embeddings\":16384,"
                             "\"beta\":0.1}"),
                      TENSORS, 4, FAULT_OPTION, "config.json sets llama_4_scaling");
    published_refused(PARAMS(",\"_sliding_window\":[null,3,3]"), TENSORS, 4, FAULT_SHAPE,
                      "sliding_window has 3 entries for 4 layers");
    published_refused(PARAMS(",\"sliding_window\":\"3\""), TENSORS, 4, FAULT_TYPE,
                      "sliding_window is a string");
    published_refused(PARAMS(",\"yarn\":{\"original_max_position_embeddings\":64,\"factor\":4,"
                             "\"gamma\":2}"),
                      TENSORS, 4, FAULT_FIELD, "gamma");
}
