/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint_forward_images.c - what stands around the attention of published models that take
 * pictures. Sources are named beside the rows of checkpoint_images.c. */
#include "forward_case.h"
#include "test.h"

/* Pictures of 7 x 7 pixels with 2 channels, in 2 x 2 patches of 3 x 3 pixels. */
enum { WIDTH = 16, PATCHES = 4, COLUMNS = 2 * 3 * 3 };

#define CONFIG(type, more)                                                                         \
    "{\"model_type\":\"" type "\",\"hidden_size\":16,\"num_attention_heads\":2,"                   \
    "\"num_hidden_layers\":2,\"image_size\":7,\"patch_size\":3,\"num_channels\":2" more "}"

/* Lists of tensors; each ends with a comma. */
#define NORM(name)       name ".weight 16, " name ".bias 16, "
#define BIASED(name, in) name ".weight 16x" in ", " name ".bias 16, "
#define WIDE(name)       name ".weight 40x16, " name ".bias 40, "
#define KEYS(begin)      BIASED(begin "query", "16") BIASED(begin "key", "16")
#define ATTENTION(begin) KEYS(begin "attention.") VALUES(begin)
#define VALUES(begin)    BIASED(begin "attention.value", "16") BIASED(begin "output.dense", "16")
#define FEED(begin)      WIDE(begin "intermediate.dense") BIASED(begin "output.dense", "40")
#define NORMS(begin)     NORM(begin "layernorm_before") NORM(begin "layernorm_after")
#define BLOCK(begin)     ATTENTION(begin "attention.") FEED(begin) NORMS(begin)
#define PATCH            "embeddings.patch_embeddings.projection.bias 16, " PATCH_WEIGHT
#define PATCH_WEIGHT     "embeddings.patch_embeddings.projection.weight 16x2x3x3, "
#define CLASS            "embeddings.cls_token 1x1x16, "
#define POSITIONS(count) "embeddings.position_embeddings 1x" count "x16, "

static const struct model_stream *only_stream(const struct model_forward *forward)
{
    assert_int_equal(forward->stream_count, 1);
    assert_int_equal(forward->streams[0].width, WIDTH);
    assert_null(forward->head.output.weight);
    return &forward->streams[0];
}

static void expect_picture(const struct model_stream *stream, int class_rows)
{
    const struct model_embedding *embedding = &stream->embedding;
    assert_int_equal(embedding->input, MODEL_INPUT_PIXELS);
    assert_int_equal(embedding->channels, 2);
    assert_int_equal(embedding->image_height, 7);
    assert_int_equal(embedding->image_width, 7);
    assert_int_equal(embedding->patch, 3);
    assert_int_equal(embedding->patches.in, COLUMNS);
    assert_int_equal(embedding->patches.out, WIDTH);
    assert_int_equal(embedding->class_row_count, class_rows);
    assert_int_equal(stream->length_max, PATCHES + class_rows);
    if (embedding->positions.rows)
        assert_int_equal(embedding->positions.count, PATCHES + class_rows);
}

TEST(vit)
{
    const struct model_forward *forward = forward_case_open(
        CONFIG("vit", ""), BLOCK("encoder.layer.#.") PATCH CLASS POSITIONS("5") NORM("layernorm"),
        2);
    const struct model_stream *stream = only_stream(forward);
    expect_picture(stream, 1);
    forward_case_expect_linear(&stream->embedding.patches, "embeddings.patch_embeddings.projection",
                               0, WIDTH, COLUMNS);
    forward_case_expect(stream->embedding.class_rows, "embeddings.cls_token", 0);
    forward_case_expect(stream->embedding.positions.rows, "embeddings.position_embeddings", 0);
    forward_case_expect_norm(&stream->blocks[1].self.before, "encoder.layer.#.layernorm_before", 1,
                             1e-12, true);
    forward_case_expect_norm(&stream->blocks[1].feed_forward.before,
                             "encoder.layer.#.layernorm_after", 1, 1e-12, true);
    forward_case_expect_linear(&stream->blocks[1].dense.down, "encoder.layer.#.output.dense", 1,
                               WIDTH, 40);
    assert_int_equal(stream->blocks[1].dense.activation, ATTN_GELU);
    forward_case_expect_norm(&stream->final_norm, "layernorm", 0, 1e-12, true);
    published_close();
    forward_case_refused(CONFIG("vit", ""), BLOCK("encoder.layer.#.") PATCH CLASS POSITIONS("6"), 2,
                         "tensor 'embeddings.position_embeddings' is not of 80 numbers");
    forward_case_refused("{\"model_type\":\"vit\",\"hidden_size\":16,\"num_attention_heads\":2,"
                         "\"num_hidden_layers\":2,\"image_size\":[7,7,7],\"patch_size\":3}",
                         BLOCK("encoder.layer.#.") PATCH, 2,
                         "config.json's image_size is a list or an object");
    forward_case_refused("{\"model_type\":\"vit\",\"hidden_size\":16,\"num_attention_heads\":2,"
                         "\"num_hidden_layers\":2,\"image_size\":7,\"patch_size\":[3,2]}",
                         BLOCK("encoder.layer.#.") PATCH, 2,
                         "patches of 3 by 2 pixels (patch_size); only squares");
    forward_case_refused("{\"model_type\":\"vit\",\"hidden_size\":16,\"num_attention_heads\":2,"
                         "\"num_hidden_layers\":2,\"image_size\":2,\"patch_size\":3}",
                         BLOCK("encoder.layer.#.") PATCH, 2,
                         "2 pixels (image_size), 3 channels (num_channels) and patches of 3 "
                         "(patch_size)");
}

TEST(deit)
{
    const struct model_forward *forward = forward_case_open(
        CONFIG("deit", ""),
        BLOCK("deit.encoder.layer.#.")
            NORM("deit.layernorm") "deit.embeddings.cls_token 1x1x16, "
                                   "deit.embeddings.distillation_token 1x1x16, "
                                   "deit.embeddings.position_embeddings 1x6x16, "
                                   "deit.embeddings.patch_embeddings.projection.weight 16x2x3x3, "
                                   "deit.embeddings.patch_embeddings.projection.bias 16",
        2);
    const struct model_stream *stream = only_stream(forward);
    expect_picture(stream, 2);
    forward_case_expect(stream->embedding.class_rows, "deit.embeddings.cls_token", 0);
    forward_case_expect(stream->embedding.class_rows + WIDTH, "deit.embeddings.distillation_token",
                        0);
    published_close();
}

#define BEIT_KEY(begin) begin "key.weight 16x16, " BIASED(begin "query", "16")
#define BEIT_BLOCK(begin)                                                                          \
    BEIT_KEY(begin "attention.attention.")                                                         \
    VALUES(begin "attention.")                                                                     \
    FEED(begin)                                                                                    \
    NORMS(begin)                                                                                   \
    begin "lambda_1 16, " begin "lambda_2 16, "

TEST(beit)
{
    const struct model_forward *forward =
        forward_case_open(CONFIG("beit", ""), BEIT_BLOCK("encoder.layer.#.") PATCH CLASS, 2);
    const struct model_stream *stream = only_stream(forward);
    expect_picture(stream, 1);
    assert_null(stream->embedding.positions.rows);
    assert_null(stream->final_norm.weight);
    forward_case_expect(stream->blocks[1].self.column_scales, "encoder.layer.#.lambda_1", 1);
    forward_case_expect(stream->blocks[1].feed_forward.column_scales, "encoder.layer.#.lambda_2",
                        1);
    published_close();
    forward = forward_case_open(
        CONFIG("beit", ",\"use_absolute_position_embeddings\":true,\"use_mean_pooling\":false,"
                       "\"layer_scale_init_value\":0"),
        BEIT_BLOCK("encoder.layer.#.") PATCH CLASS POSITIONS("5") NORM("layernorm"), 2);
    stream = only_stream(forward);
    assert_non_null(stream->embedding.positions.rows);
    assert_non_null(stream->final_norm.weight);
    assert_null(stream->blocks[1].self.column_scales);
    published_close();
}

#define DINO_NORMS(begin)  NORM(begin "norm1") NORM(begin "norm2")
#define DINO_SCALES(begin) begin "layer_scale1.lambda1 16, " begin "layer_scale2.lambda1 16, "
#define DINO_BLOCK(begin)  ATTENTION(begin "attention.") DINO_NORMS(begin) DINO_SCALES(begin)
#define DINO               DINO_BLOCK("encoder.layer.#.") PATCH CLASS POSITIONS("5") NORM("layernorm")

TEST(dinov2)
{
    const struct model_forward *forward = forward_case_open(
        CONFIG("dinov2", ""),
        DINO WIDE("encoder.layer.#.mlp.fc1") BIASED("encoder.layer.#.mlp.fc2", "40"), 2);
    const struct model_stream *stream = only_stream(forward);
    expect_picture(stream, 1);
    forward_case_expect_norm(&stream->blocks[1].feed_forward.before, "encoder.layer.#.norm2", 1,
                             1e-6, true);
    forward_case_expect(stream->blocks[1].self.column_scales,
                        "encoder.layer.#.layer_scale1.lambda1", 1);
    published_close();
    forward = forward_case_open(CONFIG("dinov2", ",\"use_swiglu_ffn\":true"),
                                DINO WIDE("encoder.layer.#.mlp.weights_in")
                                    BIASED("encoder.layer.#.mlp.weights_out", "20"),
                                2);
    const struct model_feed_forward *dense = &only_stream(forward)->blocks[1].dense;
    assert_int_equal(dense->gate.out, 20);
    assert_int_equal(dense->activation, ATTN_SILU);
    forward_case_expect_linear(&dense->down, "encoder.layer.#.mlp.weights_out", 1, WIDTH, 20);
    assert_ptr_equal(dense->up.bias, dense->gate.bias + 20);
    published_close();
}

#define CLIP_ATTENTION(begin)                                                                      \
    PUBLISHED_LINEARS(begin "self_attn.", "q_proj", "k_proj", "v_proj", "out_proj", "16") ", "
#define CLIP_NORMS(begin) NORM(begin "layer_norm1") NORM(begin "layer_norm2")
#define CLIP_FEED(begin)  WIDE(begin "mlp.fc1") BIASED(begin "mlp.fc2", "40")
#define CLIP_BLOCK(begin) CLIP_ATTENTION(begin) CLIP_NORMS(begin) CLIP_FEED(begin)
#define CLIP_TEXT                                                                                  \
    CLIP_BLOCK("text_model.encoder.layers.#.")                                                     \
    NORM("text_model.final_layer_norm")                                                            \
    "text_model.embeddings.token_embedding.weight 30x16, "                                         \
    "text_model.embeddings.position_embedding.weight 9x16, "
#define CLIP_VISION                                                                                \
    CLIP_BLOCK("vision_model.encoder.layers.#.")                                                   \
    NORM("vision_model.pre_layrnorm")                                                              \
    NORM("vision_model.post_layernorm")                                                            \
    "vision_model.embeddings.class_embedding 16, "                                                 \
    "vision_model.embeddings.patch_embedding.weight 16x2x3x3, "                                    \
    "vision_model.embeddings.position_embedding.weight 5x16, "
#define CLIP_TEXT_FIELDS "\"hidden_size\":16,\"num_attention_heads\":2,\"num_hidden_layers\":2"

TEST(clip)
{
    const struct model_forward *forward = forward_case_open(
        "{\"model_type\":\"clip\",\"text_config\":{" CLIP_TEXT_FIELDS "},\"vision_config\":{" //
        CLIP_TEXT_FIELDS ",\"image_size\":7,\"patch_size\":3,\"num_channels\":2}}",
        CLIP_TEXT CLIP_VISION, 2);
    const struct model_stream *text = &forward->streams[0], *vision = &forward->streams[1];
    assert_int_equal(forward->stream_count, 2);
    assert_false(forward->is_encoder_decoder);
    assert_string_equal(text->name, "text");
    assert_string_equal(vision->name, "vision");
    assert_int_equal(text->embedding.input, MODEL_INPUT_TOKENS);
    assert_int_equal(text->length_max, 9);
    assert_non_null(text->final_norm.weight);
    assert_int_equal(vision->blocks[1].self_layer, 3);
    expect_picture(vision, 1);
    assert_null(vision->embedding.patches.bias);
    assert_null(vision->final_norm.weight);
    forward_case_expect_norm(&vision->embedding.norm, "vision_model.pre_layrnorm", 0, 1e-5, true);
    forward_case_expect(vision->embedding.positions.rows,
                        "vision_model.embeddings.position_embedding.weight", 0);
    assert_int_equal(vision->blocks[1].dense.activation, ATTN_GELU_QUICK);
    assert_null(forward->head.output.weight);
    published_close();
    forward = forward_case_open("{\"model_type\":\"clip_text_model\"," CLIP_TEXT_FIELDS "}",
                                CLIP_TEXT, 2);
    assert_int_equal(only_stream(forward)->length_max, 9);
    published_close();
}
