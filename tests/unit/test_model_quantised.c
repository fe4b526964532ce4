/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_quantised.c - weights of quantised checkpoints: numbers of E4M3, blocks of MXFP4, and
 * what is refused of both. Whole passes are in tests/http/test_trace_quantised.c and
 * test_trace_mixtures.c. */
#include "models/model/model_quantised.h"
#include "published.h"
#include "test.h"

/* OCP 8-bit Floating Point Specification 1.0, tables 1 and 2: all numbers of E4M3 in order, and its
 * extremes. */
TEST(e4m3)
{
    float before = -1;
    for (int bits = 0; bits < 127; bits++) {
        const float number = model_quantised_e4m3((unsigned char)bits);
        assert_true(number > before
                    && model_quantised_e4m3((unsigned char)(bits | 128)) == -number);
        before = number;
    }
    assert_true(model_quantised_e4m3(0x00) == 0 && signbit(model_quantised_e4m3(0x80)));
    assert_true(model_quantised_e4m3(0x01) == 0x1p-9f);
    assert_true(model_quantised_e4m3(0x07) == 0.875f * 0x1p-6f);
    assert_true(model_quantised_e4m3(0x08) == 0x1p-6f);
    assert_true(model_quantised_e4m3(0x38) == 1);
    assert_true(model_quantised_e4m3(0x7e) == 448);
    assert_true(isnan(model_quantised_e4m3(0x7f)) && isnan(model_quantised_e4m3(0xff)));
}

/* OCP Microscaling Formats specification 1.0: each number of E2M1 under some scales; those of a
 * file lie in pairs. */
TEST(mxfp4)
{
    static const float VALUES[16] = { 0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                                      -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6 };
    static const unsigned char SCALES[3] = { 127, 1, 250 };
    unsigned char blocks[3][MODEL_MXFP4_BYTES], made[3][17];
    float numbers[3 * MODEL_MXFP4_NUMBERS];
    for (int b = 0; b < 3; b++)
        for (int i = 0; i < MODEL_MXFP4_BYTES; i++)
            blocks[b][i] = (unsigned char)(i * 37 + b * 101);
    const struct model_converted_source source = { .bytes = blocks,
                                                   .decode = model_quantised_mxfp4,
                                                   .decoded_bytes = sizeof made,
                                                   .scales = SCALES };
    assert_int_equal(model_converted_size(&source), sizeof made);
    model_converted_read(made, &source);
    dtype_read(numbers, made, ATTN_MXFP4, 3 * MODEL_MXFP4_NUMBERS);
    for (int n = 0; n < 3 * MODEL_MXFP4_NUMBERS; n++) {
        const int byte = blocks[n / 32][n % 32 / 2], bits = n % 2 ? byte >> 4 : byte & 15;
        assert_true(numbers[n] == ldexpf(VALUES[bits], SCALES[n / 32] - 127));
    }
}

#define AT "model.layers.#.self_attn."
#define LLAMA(more)                                                                                \
    "{\"model_type\":\"llama\",\"hidden_size\":16,\"num_attention_heads\":4,"                      \
    "\"num_hidden_layers\":2,\"quantization_config\":{\"quant_method\":\"fp8\"" more "}}"
#define KVO AT "k_proj.weight 16x16, " AT "v_proj.weight 16x16, " AT "o_proj.weight 16x16"
#define Q   AT "q_proj.weight 16x16:F8_E4M3, "

/* All tensors count: numbers of E4M3, those in blocks of MXFP4, two in a byte, and scales that are
 * floats; scales that are exponents do not, nor do other integers. */
TEST(numbers_of_all_tensors)
{
    published_open(LLAMA(",\"weight_block_size\":[8,8]"),
                   Q AT "q_proj.weight_scale_inv 2x2, " KVO ", " AT
                        "rotary.ids 16:U8, x_blocks 4:U8, "
                        "experts_blocks 2x4x1x16:U8, experts_scales 2x4x1:SCALES",
                   2, "F32");
    assert_int_equal(published_model()->total_parameter_count, 2 * (4 * 256 + 4) + 2 * 4 * 32);
    published_close();
}

TEST(refused)
{
    static const char BLOCK[] = LLAMA(",\"weight_block_size\":[8,8]");
    published_refused(LLAMA(""), KVO, 2, FAULT_DTYPE, "expected fmt 'e4m3' and weight_block_size");
    published_refused(LLAMA(",\"weight_block_size\":[8]"), KVO, 2, FAULT_DTYPE,
                      "weight_block_size");
    published_refused(LLAMA(",\"weight_block_size\":[8,0]"), KVO, 2, FAULT_DTYPE,
                      "weight_block_size");
    published_refused(LLAMA(",\"weight_block_size\":[8,8],\"fmt\":\"e5m2\""), KVO, 2, FAULT_DTYPE,
                      "fmt 'e4m3'");
    published_refused(BLOCK, Q KVO, 2, FAULT_FIELD,
                      "no tensor 'model.layers.0.self_attn.q_proj.weight_scale_inv'");
    published_refused(BLOCK, Q AT "q_proj.weight_scale_inv 2x1, " KVO, 2, FAULT_SHAPE,
                      "has not one number for each 8 by 8 numbers of "
                      "'model.layers.0.self_attn.q_proj.weight'");
    published_open(BLOCK, Q AT "q_proj.weight_scale_inv 2x2, " KVO, 2, "F32");
    assert_string_equal(published_model()->dtype, "mixed");
    assert_int_equal(published_model()->parameter_count, 2 * 4 * 256);
    published_close();
    published_refused("{\"model_type\":\"llama\",\"hidden_size\":16,\"num_attention_heads\":4,"
                      "\"num_hidden_layers\":2}",
                      Q KVO, 2, FAULT_DTYPE, "is F8_E4M3; a parameter is");
    published_refused(
        "{\"model_type\":\"llama\",\"hidden_size\":16,\"num_attention_heads\":4,"
        "\"num_hidden_layers\":2,\"quantization_config\":{\"quant_method\":\"mxfp4\"}}",
        KVO, 2, FAULT_DTYPE, "quantised (quant_method 'mxfp4')");
}
