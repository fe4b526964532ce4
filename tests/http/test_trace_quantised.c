/* test_trace_quantised.c - whole passes of checkpoints with quantised weights compared with POST
 * /v1/trace: FP8 in blocks, as DeepSeek and Qwen publish it. MXFP4 is in test_trace_mixtures.c.
 *
 * Written out of Fp8Dequantize in Hugging Face transformers, src/transformers/integrations/
 * finegrained_fp8.py, and of the OCP 8-bit Floating Point Specification 1.0. Activations are not
 * rounded. */
#include "fixture.h"
#include "forward_llama.h"
#include "test.h"

/* Sizes that no block of 12 rows and 7 columns divides. */
enum { BLOCK_ROWS = 12, BLOCK_COLUMNS = 7 };

/* E4M3: one bit of sign, four of exponent with a bias of 7, three of fraction. */
static double e4m3(int byte)
{
    const int exponent = byte / 8 % 16, fraction = byte % 8;
    const double magnitude =
        exponent > 0 ? ldexp(1 + fraction / 8.0, exponent - 7) : ldexp(fraction / 8.0, -6);
    return byte >= 128 ? -magnitude : magnitude;
}

/* torch.nn.Linear of name.weight and name.weight_scale_inv. */
static struct rows fp8_linear(struct rows x, const char *name, int layer)
{
    char names[2][128];
    snprintf(names[0], sizeof names[0], "%s.weight", name);
    snprintf(names[1], sizeof names[1], "%s.weight_scale_inv", name);
    const struct rows bytes = published_tensor(names[0], layer);
    const struct rows scales = published_tensor(names[1], layer);
    const struct rows weight = published_rows(bytes.count, bytes.columns);
    for (int64_t r = 0; r < bytes.count; r++)
        for (int64_t c = 0; c < bytes.columns; c++)
            weight.data[r * bytes.columns + c] =
                e4m3((int)bytes.data[r * bytes.columns + c])
                * scales.data[r / BLOCK_ROWS * scales.columns + c / BLOCK_COLUMNS];
    return forward_product(x, weight);
}

static struct decoder_projections project(struct rows x, int layer)
{
    const struct decoder_projections projections = {
        fp8_linear(x, LLAMA_ATTENTION "q_proj", layer),
        fp8_linear(x, LLAMA_ATTENTION "k_proj", layer),
        fp8_linear(x, LLAMA_ATTENTION "v_proj", layer),
    };
    published_rms_norm(projections.q, LLAMA_HEADS, LLAMA_ATTENTION "q_norm.weight", layer, 1e-6, 0);
    published_rms_norm(projections.k, LLAMA_KV_HEADS, LLAMA_ATTENTION "k_norm.weight", layer, 1e-6,
                       0);
    return projections;
}

static struct rows feed_forward(struct rows x, int layer)
{
    const struct rows gate =
        forward_activation(fp8_linear(x, LLAMA_BLOCK "mlp.gate_proj", layer), "silu");
    const struct rows up = fp8_linear(x, LLAMA_BLOCK "mlp.up_proj", layer);
    return fp8_linear(forward_multiply(gate, up), LLAMA_BLOCK "mlp.down_proj", layer);
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
