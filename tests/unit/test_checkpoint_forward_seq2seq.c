/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint_forward_seq2seq.c - what stands around the attention of published encoders with
 * decoders. Sources are named beside the rows of checkpoint_seq2seq.c. */
#include "forward_case.h"
#include "test.h"

enum { WIDTH = 16 };

/* Lists of tensors; each ends with a comma. */
#define NORM(name) name ".weight 16, " name ".bias 16, "
#define ATTENTION(begin)                                                                           \
    PUBLISHED_LINEARS(begin, "q_proj", "k_proj", "v_proj", "out_proj", "16") ", "
#define FC(begin)   begin "fc1.weight 40x16, " begin "fc1.bias 40, " FC2(begin)
#define FC2(begin)  begin "fc2.weight 16x40, " begin "fc2.bias 16, "
#define REST(begin) NORM(begin "self_attn_layer_norm") NORM(begin "final_layer_norm") FC(begin)
#define CROSS_NORM  NORM("model.decoder.layers.#.encoder_attn_layer_norm")
#define DECODER                                                                                    \
    ATTENTION("model.decoder.layers.#.self_attn.")                                                 \
    ATTENTION("model.decoder.layers.#.encoder_attn.")                                              \
    REST("model.decoder.layers.#.")                                                                \
    CROSS_NORM
#define LAYERS                                                                                     \
    ATTENTION("model.encoder.layers.#.self_attn.")                                                 \
    REST("model.encoder.layers.#.")                                                                \
    DECODER
#define SHARED LAYERS "model.shared.weight 30x16, "
#define FIELDS                                                                                     \
    "\"d_model\":16,\"encoder_layers\":1,\"decoder_layers\":1,\"encoder_attention_heads\":2,"      \
    "\"decoder_attention_heads\":2"
#define LEARNED                                                                                    \
    "model.encoder.embed_positions.weight 12x16, model.decoder.embed_positions.weight "            \
    "12x16, " NORM("model.encoder.layernorm_embedding") NORM("model.decoder.layernorm_embedding")
#define LAST NORM("model.encoder.layer_norm") NORM("model.decoder.layer_norm")

static void expect_streams(const struct model_forward *forward)
{
    assert_int_equal(forward->stream_count, 2);
    assert_true(forward->is_encoder_decoder);
    assert_string_equal(forward->streams[0].name, "encoder");
    assert_string_equal(forward->streams[1].name, "decoder");
    assert_int_equal(forward->streams[0].blocks[0].self_layer, 0);
    assert_int_equal(forward->streams[0].blocks[0].cross_layer, -1);
    assert_int_equal(forward->streams[1].blocks[0].self_layer, 1);
    assert_int_equal(forward->streams[1].blocks[0].cross_layer, 2);
    assert_false(forward->head.is_masked);
}

/* That the decoder's three norms stand before their parts, or after them. */
static void expect_norms(const struct model_forward *forward, bool is_before)
{
    const struct model_block *block = &forward->streams[1].blocks[0];
    const struct model_part *const parts[] = { &block->self, &block->cross, &block->feed_forward };
    static const char *const NAMES[] = { "self_attn", "encoder_attn", "final" };
    for (int i = 0; i < 3; i++) {
        char name[96];
        snprintf(name, sizeof name, "model.decoder.layers.#.%s_layer_norm", NAMES[i]);
        forward_case_expect_norm(is_before ? &parts[i]->before : &parts[i]->after, name, 0, 1e-5,
                                 true);
        assert_null(is_before ? parts[i]->after.weight : parts[i]->before.weight);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(forward->streams[i].final_norm.weight != NULL, is_before);
}

TEST(bart)
{
    const struct model_forward *forward =
        forward_case_open("{\"model_type\":\"bart\",\"scale_embedding\":true," FIELDS "}",
                          SHARED LEARNED "final_logits_bias 1x30", 1);
    expect_streams(forward);
    expect_norms(forward, false);
    for (int i = 0; i < 2; i++) {
        const struct model_embedding *embedding = &forward->streams[i].embedding;
        assert_true(embedding->scale == 4);
        assert_int_equal(embedding->position_offset, 2);
        assert_int_equal(forward->streams[i].length_max, 10);
        assert_non_null(embedding->norm.weight);
        forward_case_expect(embedding->tokens.rows, "model.shared.weight", 0);
    }
    assert_int_equal(forward->streams[1].blocks[0].dense.activation, ATTN_GELU);
    assert_int_equal(forward->start_id, 2);
    assert_ptr_equal(forward->head.output.weight, forward->streams[1].embedding.tokens.rows);
    forward_case_expect(forward->head.output.bias, "final_logits_bias", 0);
    published_close();
    forward = forward_case_open("{\"model_type\":\"bart\"," FIELDS "}", SHARED LEARNED, 1);
    assert_null(forward->head.output.bias);
    assert_non_null(forward->head.output.weight);
    assert_true(forward->streams[0].embedding.scale == 0);
    published_close();
    forward_case_refused("{\"model_type\":\"bart\"," FIELDS "}", SHARED, 1,
                         "the file has no tensor 'model.encoder.embed_positions.weight'");
}

TEST(mbart)
{
    const struct model_forward *forward =
        forward_case_open("{\"model_type\":\"mbart\",\"activation_function\":\"relu\"," FIELDS "}",
                          SHARED LEARNED LAST, 1);
    expect_streams(forward);
    expect_norms(forward, true);
    assert_int_equal(forward->streams[0].blocks[0].dense.activation, ATTN_RELU);
    published_close();
}

/* Row 3 of the table, as numpy computes it in the source. */
static void expect_marian(const struct model_table *table)
{
    const float *row = (const float *)table->rows + 3 * WIDTH;
    assert_int_equal(table->width, WIDTH);
    for (int c = 0; c < WIDTH / 2; c++) {
        const double angle = 3 / pow(10000, 2.0 * c / WIDTH);
        assert_true(row[c] == (float)sin(angle));
        assert_true(row[WIDTH / 2 + c] == (float)cos(angle));
    }
}

TEST(marian)
{
    const struct model_forward *forward = forward_case_open(
        "{\"model_type\":\"marian\",\"max_position_embeddings\":20,\"activation_function\":"
        "\"swish\"," FIELDS "}",
        LAYERS "model.encoder.embed_tokens.weight 30x16, "
               "model.decoder.embed_tokens.weight 25x16, final_logits_bias 1x25",
        1);
    expect_streams(forward);
    expect_norms(forward, false);
    expect_marian(&forward->streams[0].embedding.positions);
    assert_int_equal(forward->streams[1].length_max, 20);
    assert_int_equal(forward->streams[0].blocks[0].dense.activation, ATTN_SILU);
    assert_null(forward->streams[0].embedding.norm.weight);
    assert_int_equal(forward->vocabulary, 25);
    assert_int_equal(forward->start_id, 58100);
    published_close();
    forward =
        forward_case_open("{\"model_type\":\"pegasus\",\"max_position_embeddings\":20," FIELDS "}",
                          SHARED LAST "model.encoder.embed_positions.weight 8x16", 1);
    expect_norms(forward, true);
    assert_int_equal(forward->streams[0].length_max, 8);
    forward_case_expect(forward->streams[0].embedding.positions.rows,
                        "model.encoder.embed_positions.weight", 0);
    expect_marian(&forward->streams[1].embedding.positions);
    assert_int_equal(forward->start_id, 0);
    published_close();
    forward_case_refused("{\"model_type\":\"pegasus\",\"max_position_embeddings\":99999999," FIELDS
                         "}",
                         SHARED LAST, 1, "config.json gives 99999999 positions");
}

TEST(m2m_100)
{
    const struct model_forward *forward = forward_case_open(
        "{\"model_type\":\"m2m_100\",\"max_position_embeddings\":20,\"pad_token_id\":1," FIELDS "}",
        SHARED LAST, 1);
    const struct model_embedding *embedding = &forward->streams[0].embedding;
    const float *row = embedding->positions.rows;
    expect_streams(forward);
    expect_norms(forward, true);
    assert_true(embedding->scale == 4);
    assert_int_equal(embedding->padding_id, 1);
    assert_int_equal(embedding->position_offset, 2);
    assert_int_equal(forward->streams[0].length_max, 20);
    for (int c = 0; c < WIDTH; c++)
        assert_true(row[WIDTH + c] == 0);
    for (int c = 0; c < WIDTH / 2; c++) {
        const double angle = 5 * exp(-log(10000) * c / (WIDTH / 2 - 1));
        assert_true(fabs(row[5 * WIDTH + c] - sin(angle)) < 1e-7);
        assert_true(fabs(row[5 * WIDTH + WIDTH / 2 + c] - cos(angle)) < 1e-7);
    }
    assert_int_equal(forward->streams[1].blocks[0].dense.activation, ATTN_RELU);
    assert_null(forward->head.output.bias);
    published_close();
}

#define PART(begin)                                                                                \
    PUBLISHED_LINEARS_BUT_KEY(begin, "q_proj", "k_proj", "v_proj", "out_proj", "16") ", "
#define WHISPER                                                                                    \
    PART("model.encoder.layers.#.self_attn.")                                                      \
    PART("model.decoder.layers.#.self_attn.")                                                      \
    PART("model.decoder.layers.#.encoder_attn.")                                                   \
    REST("model.encoder.layers.#.")                                                                \
    REST("model.decoder.layers.#.")                                                                \
    CROSS_NORM LAST                                                                                \
        "model.decoder.embed_tokens.weight 30x16, model.decoder.embed_positions.weight 9x16, "     \
        "model.encoder.embed_positions.weight 6x16, model.encoder.conv1.bias 16, "                 \
        "model.encoder.conv2.bias 16, model.encoder.conv2.weight 16x16x3, "

TEST(whisper)
{
    static const char CONFIG[] =
        "{\"model_type\":\"whisper\",\"num_mel_bins\":4,\"max_source_positions\":6," FIELDS "}";
    const struct model_forward *forward =
        forward_case_open(CONFIG, WHISPER "model.encoder.conv1.weight 16x4x3", 1);
    const struct model_embedding *embedding = &forward->streams[0].embedding;
    expect_streams(forward);
    expect_norms(forward, true);
    assert_int_equal(embedding->input, MODEL_INPUT_FEATURES);
    assert_int_equal(embedding->feature_count, 4);
    assert_int_equal(embedding->feature_length, 12);
    assert_int_equal(forward->streams[0].length_max, 6);
    forward_case_expect_linear(&embedding->convolutions[0], "model.encoder.conv1", 0, 16, 12);
    forward_case_expect_linear(&embedding->convolutions[1], "model.encoder.conv2", 0, 16, 48);
    assert_int_equal(forward->streams[1].embedding.input, MODEL_INPUT_TOKENS);
    assert_int_equal(forward->streams[1].length_max, 9);
    assert_int_equal(forward->start_id, 50257);
    assert_ptr_equal(forward->head.output.weight, forward->streams[1].embedding.tokens.rows);
    published_close();
    forward_case_refused(CONFIG, WHISPER "model.encoder.conv1.weight 16x5x3", 1,
                         "tensor 'model.encoder.conv1.weight' is not of 192 numbers");
}
