/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint_forward_t5.c - what stands around the attention of T5 and mT5: t5/modeling_t5.py
 * and t5/configuration_t5.py. */
#include "forward_case.h"
#include "test.h"

#define FIELDS "\"d_model\":16,\"d_kv\":8,\"num_heads\":2,\"num_layers\":1"

/* Lists of tensors; each ends with a comma. */
#define WEIGHT(name, shape) name ".weight " shape ", "
#define NORM(name)          WEIGHT(name, "16")
#define QK(begin)           WEIGHT(begin "q", "16x16") WEIGHT(begin "k", "16x16")
#define VO(begin)           WEIGHT(begin "v", "16x16") WEIGHT(begin "o", "16x16")
#define BIAS(begin)         WEIGHT(begin "relative_attention_bias", "32x2")
#define ENCODER                                                                                    \
    QK("encoder.block.#.layer.0.SelfAttention.")                                                   \
    VO("encoder.block.#.layer.0.SelfAttention.")                                                   \
    BIAS("encoder.block.0.layer.0.SelfAttention.")                                                 \
    NORM("encoder.block.#.layer.0.layer_norm")                                                     \
    NORM("encoder.block.#.layer.1.layer_norm")                                                     \
    NORM("encoder.final_layer_norm")                                                               \
    WEIGHT("encoder.block.#.layer.1.DenseReluDense.wo", "16x40")                                   \
    WEIGHT("shared", "30x16")
#define DECODER                                                                                    \
    QK("decoder.block.#.layer.0.SelfAttention.")                                                   \
    VO("decoder.block.#.layer.0.SelfAttention.")                                                   \
    BIAS("decoder.block.0.layer.0.SelfAttention.")                                                 \
    QK("decoder.block.#.layer.1.EncDecAttention.")                                                 \
    VO("decoder.block.#.layer.1.EncDecAttention.")                                                 \
    NORM("decoder.block.#.layer.0.layer_norm")                                                     \
    NORM("decoder.block.#.layer.1.layer_norm")                                                     \
    NORM("decoder.block.#.layer.2.layer_norm")                                                     \
    NORM("decoder.final_layer_norm")                                                               \
    WEIGHT("decoder.block.#.layer.2.DenseReluDense.wo", "16x40")
#define ENCODER_PLAIN ENCODER WEIGHT("encoder.block.#.layer.1.DenseReluDense.wi", "40x16")
#define PLAIN         ENCODER_PLAIN DECODER WEIGHT("decoder.block.#.layer.2.DenseReluDense.wi", "40x16")
#define GATED                                                                                      \
    ENCODER DECODER WEIGHT("encoder.block.#.layer.1.DenseReluDense.wi_0", "40x16")                 \
        WEIGHT("encoder.block.#.layer.1.DenseReluDense.wi_1", "40x16")                             \
            WEIGHT("decoder.block.#.layer.2.DenseReluDense.wi_0", "40x16")                         \
                WEIGHT("decoder.block.#.layer.2.DenseReluDense.wi_1", "40x16")
#define HEAD WEIGHT("lm_head", "30x16")

TEST(t5)
{
    const struct model_forward *forward =
        forward_case_open("{\"model_type\":\"t5\"," FIELDS "}", PLAIN, 1);
    const struct model_block *block = &forward->streams[1].blocks[0];
    assert_int_equal(forward->stream_count, 2);
    assert_true(forward->is_encoder_decoder);
    assert_int_equal(block->self_layer, 1);
    assert_int_equal(block->cross_layer, 2);
    assert_null(forward->streams[0].embedding.positions.rows);
    forward_case_expect_norm(&block->cross.before, "decoder.block.#.layer.1.layer_norm", 0, 1e-6,
                             false);
    forward_case_expect_norm(&block->feed_forward.before, "decoder.block.#.layer.2.layer_norm", 0,
                             1e-6, false);
    assert_int_equal(block->dense.activation, ATTN_RELU);
    assert_null(block->dense.gate.weight);
    assert_true(forward->head.scale == 0.25);
    assert_int_equal(forward->start_id, 0);
    published_close();
    forward = forward_case_open("{\"model_type\":\"t5\",\"tie_word_embeddings\":false,"
                                "\"feed_forward_proj\":\"gated-gelu\"," FIELDS "}",
                                GATED HEAD, 1);
    block = &forward->streams[1].blocks[0];
    forward_case_expect_linear(&block->dense.gate, "decoder.block.#.layer.2.DenseReluDense.wi_0", 0,
                               40, 16);
    forward_case_expect_linear(&block->dense.up, "decoder.block.#.layer.2.DenseReluDense.wi_1", 0,
                               40, 16);
    assert_int_equal(block->dense.activation, ATTN_GELU_TANH);
    assert_true(forward->head.scale == 0);
    forward_case_expect_linear(&forward->head.output, "lm_head", 0, 30, 16);
    published_close();
    forward = forward_case_open("{\"model_type\":\"mt5\",\"feed_forward_proj\":\"gated-gelu\","
                                "\"tie_word_embeddings\":true," FIELDS "}",
                                GATED HEAD, 1);
    assert_true(forward->head.scale == 0);
    forward_case_expect_linear(&forward->head.output, "lm_head", 0, 30, 16);
    published_close();
    forward_case_refused("{\"model_type\":\"t5\",\"feed_forward_proj\":\"gated-mish\"," FIELDS "}",
                         GATED, 1, "config.json's feed_forward_proj is 'gated-mish'");
}

/* T5EncoderModel: a file of the encoder alone is one stream without predictions. */
TEST(t5_encoder)
{
    const struct model_forward *forward =
        forward_case_open("{\"model_type\":\"t5\"," FIELDS "}", ENCODER_PLAIN, 1);
    assert_int_equal(forward->stream_count, 1);
    assert_false(forward->is_encoder_decoder);
    assert_null(forward->head.output.weight);
    assert_int_equal(forward->start_id, -1);
    published_close();
}
