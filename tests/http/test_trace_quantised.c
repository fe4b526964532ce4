/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_quantised.c - whole passes of checkpoints with quantised weights compared with POST
 * /v1/trace: FP8 in blocks, as DeepSeek and Qwen publish it. MXFP4 is in test_trace_mixtures.c.
 * A latent layer with such weights is in test_trace_deepseek.c. */
#include "fixture.h"
#include "forward_fp8.h"
#include "forward_llama.h"
#include "test.h"

static struct decoder_projections project(struct rows x, int layer)
{
    const struct decoder_projections projections = {
        forward_fp8_linear(x, LLAMA_ATTENTION "q_proj", layer),
        forward_fp8_linear(x, LLAMA_ATTENTION "k_proj", layer),
        forward_fp8_linear(x, LLAMA_ATTENTION "v_proj", layer),
    };
    published_rms_norm(projections.q, LLAMA_HEADS, LLAMA_ATTENTION "q_norm.weight", layer, 1e-6, 0);
    published_rms_norm(projections.k, LLAMA_KV_HEADS, LLAMA_ATTENTION "k_norm.weight", layer, 1e-6,
                       0);
    return projections;
}

static struct rows feed_forward(struct rows x, int layer)
{
    const struct rows gate =
        forward_activation(forward_fp8_linear(x, LLAMA_BLOCK "mlp.gate_proj", layer), "silu");
    const struct rows up = forward_fp8_linear(x, LLAMA_BLOCK "mlp.up_proj", layer);
    return forward_fp8_linear(forward_multiply(gate, up), LLAMA_BLOCK "mlp.down_proj", layer);
}

static void pass_qwen3(struct forward *forward)
{
    struct llama llama = LLAMA;
    llama.project = project;
    llama.feed_forward = feed_forward;
    llama_pass(forward, &llama);
}

#define FP8(name, shape, scales)                                                                   \
    name ".weight " shape ":F8_E4M3, " name ".weight_scale_inv " scales ", "

TEST(qwen3_fp8)
{
    llama_check(
        "qwen3_fp8",
        LLAMA_CONFIG("qwen3", "2",
                     ",\"head_dim\":4,\"quantization_config\":{\"activation_scheme\":\"dynamic\","
                     "\"fmt\":\"e4m3\",\"quant_method\":\"fp8\",\"weight_block_size\":[12,7],"
                     "\"modules_to_not_convert\":[\"lm_head\",\"o_proj\"]}"),
        FP8(LLAMA_ATTENTION "q_proj", "16x16", "2x3") FP8(LLAMA_ATTENTION "k_proj", "8x16", "1x3")
            FP8(LLAMA_ATTENTION "v_proj", "8x16", "1x3") LLAMA_ATTENTION
        "o_proj.weight 16x16, " FP8(LLAMA_BLOCK "mlp.gate_proj", "24x16", "2x3")
            FP8(LLAMA_BLOCK "mlp.up_proj", "24x16", "2x3")
                FP8(LLAMA_BLOCK "mlp.down_proj", "16x24", "2x4")
                    LLAMA_EMBEDDING LLAMA_NORMS LLAMA_HEAD_NORMS LLAMA_LAST_NORM LLAMA_HEAD,
        2, pass_qwen3);
}

ALL_TESTS(fixture_make_directory, fixture_clear);
