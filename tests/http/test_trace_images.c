/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_images.c - traces of encoders of pictures, and of CLIP's of texts, beside their
 * families' source in double.
 *
 * "The source" is Hugging Face transformers 4.34, in the file of each family's name,
 * models/vit/modeling_vit.py and so on. */
#include "answer.h"
#include "edited_client.h"
#include "fixture.h"
#include "forward_block.h"
#include "picture_case.h"
#include "request_text.h"
#include "test.h"
#include "trace_client.h"
#include "vector_case.h"

/* Pictures of 4 x 6 pixels make 2 x 3 patches, those of 6 x 6 pixels 3 x 3. */
enum { LAYERS = 2, HEADS = 2, WIDTH = 12 };

/* ---------------------------------------------------- ViT, DeiT, BEiT, DINOv2 -- */

#define EMBEDDINGS(begin)                                                                          \
    FORWARD_TABLE(begin "embeddings.cls_token", 1x1x12)                                            \
    FORWARD_LINEAR(begin "embeddings.patch_embeddings.projection", 12, 3x2x2)
#define POSITIONS(begin, count)                                                                    \
    FORWARD_TENSOR(begin "embeddings.position_embeddings", 1x##count##x12)
#define ATTENTION(begin)                                                                           \
    FORWARD_LINEAR(begin "attention.attention.query", 12, 12)                                      \
    FORWARD_TENSOR(begin "attention.attention.key.weight", 12x12)                                  \
    FORWARD_LINEAR(begin "attention.attention.value", 12, 12)                                      \
    FORWARD_LINEAR(begin "attention.output.dense", 12, 12)
#define KEY_BIAS(begin) FORWARD_TENSOR(begin "attention.attention.key.bias", 12)
#define REST(begin)                                                                                \
    FORWARD_NORM(begin "layernorm_before", 12)                                                     \
    FORWARD_NORM(begin "layernorm_after", 12)                                                      \
    FORWARD_LINEAR(begin "intermediate.dense", 20, 12)                                             \
    FORWARD_LINEAR(begin "output.dense", 12, 20)
#define VIT_TENSORS(begin, layer, count)                                                           \
    EMBEDDINGS(begin)                                                                              \
    POSITIONS(begin, count)                                                                        \
    ATTENTION(layer)                                                                               \
    KEY_BIAS(layer)                                                                                \
    REST(layer)                                                                                    \
    FORWARD_NORM(begin "layernorm", 12)

#define VIT_CONFIG(type, more)                                                                     \
    "{\"model_type\":\"" type "\",\"hidden_size\":12,\"num_attention_heads\":2,"                   \
    "\"num_hidden_layers\":2,\"intermediate_size\":20,\"patch_size\":2,\"image_size\":6" more "}"

#define VIT_NAMES(begin)                                                                           \
    .self = { .kind = "self",                                                                      \
              .q = begin "attention.attention.query",                                              \
              .k = begin "attention.attention.key",                                                \
              .v = begin "attention.attention.value",                                              \
              .output = begin "attention.output.dense",                                            \
              .norm = begin "layernorm_before",                                                    \
              .of = { .heads = HEADS, .scale = 0.408248290463863 } },                              \
    .up = begin "intermediate.dense", .down = begin "output.dense",                                \
    .norm = begin "layernorm_after", .activation = "gelu", .is_norm_first = true, .eps = 1e-12

/* Class token, patches, positions: ViTEmbeddings. A second token is DeiT's. positions NULL: none
 * are added. */
static struct rows embed(const char *begin, struct rows pixels, int height, int width,
                         const char *second, const char *positions)
{
    char name[2][96];
    snprintf(name[0], sizeof name[0], "%sembeddings.patch_embeddings.projection", begin);
    snprintf(name[1], sizeof name[1], "%sembeddings.cls_token", begin);
    struct rows x = published_linear(picture_case_patches(pixels, height, width), name[0], 0);
    if (second)
        x = forward_join(forward_view(published_tensor(second, 0), WIDTH), x);
    x = forward_join(forward_view(published_tensor(name[1], 0), WIDTH), x);
    return positions ? forward_add(x, forward_view(published_tensor(positions, 0), WIDTH)) : x;
}

static struct forward run(const struct forward_block *block, struct rows x, const char *norm)
{
    struct forward want = { .layer_count = 0 };
    for (int layer = 0; layer < LAYERS; layer++)
        x = forward_block_run(&want, block, x, FORWARD_NONE, layer);
    want.final_hidden_states = norm ? forward_layer_norm(x, norm, 0, block->eps) : x;
    return want;
}

TEST(vit)
{
    static const char CONFIG[] = VIT_CONFIG("vit", "");
    static const struct forward_block block = { VIT_NAMES("vit.encoder.layer.#.") };
    published_open(CONFIG, VIT_TENSORS("vit.", "vit.encoder.layer.#.", 10), LAYERS, "F32");
    const struct forward want = run(
        &block, embed("vit.", picture_case(6, 6), 6, 6, NULL, "vit.embeddings.position_embeddings"),
        "vit.layernorm");
    picture_case_check("vit", CONFIG, 6, 6, &want);
}

/* ViTEmbeddings.interpolate_pos_encoding(), at 020a37d2264e: as many patches as the picture has. */
TEST(vit_of_another_size)
{
    static const char CONFIG[] = VIT_CONFIG("vit", "");
    static const int SIZES[][2] = { { 8, 6 }, { 4, 11 }, { 3, 2 } };
    static const struct forward_block block = { VIT_NAMES("vit.encoder.layer.#.") };
    for (int i = 0; i < 3; i++) {
        const int height = SIZES[i][0], width = SIZES[i][1];
        published_open(CONFIG, VIT_TENSORS("vit.", "vit.encoder.layer.#.", 10), LAYERS, "F32");
        const struct rows positions =
            forward_view(published_tensor("vit.embeddings.position_embeddings", 0), WIDTH);
        const struct rows x =
            forward_add(embed("vit.", picture_case(height, width), height, width, NULL, NULL),
                        picture_case_positions(positions, 1, 3, height, width, PICTURE_BICUBIC));
        const struct forward want = run(&block, x, "vit.layernorm");
        picture_case_check("vit", CONFIG, height, width, &want);
    }
}

static void pass_vit(struct forward *forward)
{
    static const struct forward_block block = { VIT_NAMES("vit.encoder.layer.#.") };
    *forward = run(
        &block, embed("vit.", picture_case(6, 6), 6, 6, NULL, "vit.embeddings.position_embeddings"),
        "vit.layernorm");
}

TEST(vit_edited)
{
    static const char CONFIG[] = VIT_CONFIG("vit", "");
    struct forward want;
    published_open(CONFIG, VIT_TENSORS("vit.", "vit.encoder.layer.#.", 10), LAYERS, "F32");
    char *fields = picture_case_field(picture_case(6, 6), 6, 6);
    published_save(fixture_path("vit"), CONFIG);
    pass_vit(&want);
    fixture_serve("--models", directory);
    edited_client_expect("vit", fields, &want, pass_vit);
    fixture_stop(NULL);
    free(fields);
    published_close();
}

/* A picture that is no square, an old GELU, another eps, names without "vit." before them. */
TEST(vit_of_a_rectangle)
{
    static const char CONFIG[] =
        "{\"model_type\":\"vit\",\"hidden_size\":12,\"num_attention_heads\":2,"
        "\"num_hidden_layers\":2,\"intermediate_size\":20,\"patch_size\":2,"
        "\"image_size\":[4,6],\"hidden_act\":\"gelu_new\",\"layer_norm_eps\":0.01}";
    struct forward_block block = { VIT_NAMES("encoder.layer.#.") };
    block.activation = "gelu_new";
    block.eps = 0.01;
    published_open(CONFIG, VIT_TENSORS("", "encoder.layer.#.", 7), LAYERS, "F16");
    const struct forward want =
        run(&block, embed("", picture_case(4, 6), 4, 6, NULL, "embeddings.position_embeddings"),
            "layernorm");
    picture_case_check("rectangle", CONFIG, 4, 6, &want);
}

#define DEIT_TENSORS                                                                               \
    VIT_TENSORS("deit.", "deit.encoder.layer.#.", 11)                                              \
    FORWARD_TABLE("deit.embeddings.distillation_token", 1x1x12)

TEST(deit)
{
    static const char CONFIG[] = VIT_CONFIG("deit", "");
    static const struct forward_block block = { VIT_NAMES("deit.encoder.layer.#.") };
    published_open(CONFIG, DEIT_TENSORS, LAYERS, "F32");
    const struct forward want =
        run(&block,
            embed("deit.", picture_case(6, 6), 6, 6, "deit.embeddings.distillation_token",
                  "deit.embeddings.position_embeddings"),
            "deit.layernorm");
    picture_case_check("deit", CONFIG, 6, 6, &want);
}

/* BeitRelativePositionBias over 3 x 3 patches: the table's last three rows are those of the class
 * token. */
static double beit_bias(const char *table, int layer, int64_t head, int64_t query, int64_t key)
{
    const struct rows rows = published_tensor(table, layer);
    int64_t index = (query - 1) / 3 - (key - 1) / 3 + 2;
    index = index * 5 + (query - 1) % 3 - (key - 1) % 3 + 2;
    if (query == 0)
        index = rows.count - 3;
    if (key == 0)
        index = rows.count - 2;
    if (query == 0 && key == 0)
        index = rows.count - 1;
    return rows.data[index * HEADS + head];
}

static int beit_layer;

static double beit_own_bias(int64_t head, int64_t query, int64_t key)
{
    return beit_bias("beit.encoder.layer.#.attention.attention.relative_position_bias."
                     "relative_position_bias_table",
                     beit_layer, head, query, key);
}

static double beit_shared_bias(int64_t head, int64_t query, int64_t key)
{
    return beit_bias("beit.encoder.relative_position_bias.relative_position_bias_table", 0, head,
                     query, key);
}

#define BEIT_LAYER "beit.encoder.layer.#."
#define BEIT_TABLE "relative_position_bias.relative_position_bias_table"
#define BEIT_TENSORS                                                                               \
    EMBEDDINGS("beit.")                                                                            \
    ATTENTION(BEIT_LAYER)                                                                          \
    REST(BEIT_LAYER)                                                                               \
    FORWARD_TABLE(BEIT_LAYER "lambda_1", 12)                                                       \
    FORWARD_TABLE(BEIT_LAYER "lambda_2", 12)                                                       \
    FORWARD_TABLE(BEIT_LAYER "attention.attention." BEIT_TABLE, 28x2)                              \
    FORWARD_NORM("beit.pooler.layernorm", 12)
#define BEIT_TENSORS_WITH_POSITIONS                                                                \
    EMBEDDINGS("beit.")                                                                            \
    POSITIONS("beit.", 10)                                                                         \
    ATTENTION(BEIT_LAYER)                                                                          \
    REST(BEIT_LAYER)                                                                               \
    FORWARD_TABLE("beit.encoder." BEIT_TABLE, 28x2)                                                \
    FORWARD_NORM("beit.layernorm", 12)

/* BeitModel with mean pooling, its default: the norm is the pooler's, so the hidden states have
 * none. lambda_1 and lambda_2 scale what is added to the residual. */
TEST(beit)
{
    static const char CONFIG[] = VIT_CONFIG("beit", ",\"use_relative_position_bias\":true");
    struct forward_block block = { VIT_NAMES(BEIT_LAYER) };
    struct forward want = { .layer_count = 0 };
    published_open(CONFIG, BEIT_TENSORS, LAYERS, "F32");
    block.self_scale = BEIT_LAYER "lambda_1";
    block.feed_forward_scale = BEIT_LAYER "lambda_2";
    block.self.of.bias = beit_own_bias;
    struct rows x = embed("beit.", picture_case(6, 6), 6, 6, NULL, NULL);
    for (beit_layer = 0; beit_layer < LAYERS; beit_layer++)
        x = forward_block_run(&want, &block, x, FORWARD_NONE, beit_layer);
    want.final_hidden_states = x;
    picture_case_check("beit", CONFIG, 6, 6, &want);
}

/* The other way: absolute positions, one table for all layers, a last norm, no scales. */
TEST(beit_with_positions)
{
    static const char CONFIG[] = VIT_CONFIG(
        "beit", ",\"use_absolute_position_embeddings\":true,\"layer_scale_init_value\":0,"
                "\"use_shared_relative_position_bias\":true,\"use_mean_pooling\":false");
    struct forward_block block = { VIT_NAMES(BEIT_LAYER) };
    published_open(CONFIG, BEIT_TENSORS_WITH_POSITIONS, LAYERS, "F32");
    block.self.of.bias = beit_shared_bias;
    const struct forward want =
        run(&block,
            embed("beit.", picture_case(6, 6), 6, 6, NULL, "beit.embeddings.position_embeddings"),
            "beit.layernorm");
    picture_case_check("shared", CONFIG, 6, 6, &want);
}

#define DINOV2_LAYER "encoder.layer.#."
#define DINOV2_TENSORS                                                                             \
    EMBEDDINGS("")                                                                                 \
    POSITIONS("", 10)                                                                              \
    FORWARD_TENSOR("embeddings.mask_token", 1x12)                                                  \
    FORWARD_NORM(DINOV2_LAYER "norm1", 12)                                                         \
    ATTENTION(DINOV2_LAYER)                                                                        \
    KEY_BIAS(DINOV2_LAYER)                                                                         \
    FORWARD_TABLE(DINOV2_LAYER "layer_scale1.lambda1", 12)                                         \
    FORWARD_NORM(DINOV2_LAYER "norm2", 12)                                                         \
    FORWARD_TABLE(DINOV2_LAYER "layer_scale2.lambda1", 12)                                         \
    FORWARD_NORM("layernorm", 12)
#define DINOV2_MLP                                                                                 \
    FORWARD_LINEAR(DINOV2_LAYER "mlp.fc1", 24, 12)                                                 \
    FORWARD_LINEAR(DINOV2_LAYER "mlp.fc2", 12, 24)
#define DINOV2_SWIGLU                                                                              \
    FORWARD_LINEAR(DINOV2_LAYER "mlp.weights_in", 64, 12)                                          \
    FORWARD_LINEAR(DINOV2_LAYER "mlp.weights_out", 12, 32)

/* Dinov2Layer; the feed-forward layer is the caller's. */
static struct forward_block dinov2_block(void)
{
    struct forward_block block = { VIT_NAMES(DINOV2_LAYER) };
    block.self.norm = DINOV2_LAYER "norm1";
    block.self_scale = DINOV2_LAYER "layer_scale1.lambda1";
    block.norm = DINOV2_LAYER "norm2";
    block.feed_forward_scale = DINOV2_LAYER "layer_scale2.lambda1";
    block.eps = 1e-6;
    return block;
}

#define DINOV2_CONFIG(more)                                                                        \
    "{\"model_type\":\"dinov2\",\"hidden_size\":12,\"num_attention_heads\":2,"                     \
    "\"num_hidden_layers\":2,\"patch_size\":2,\"image_size\":6" more "}"

TEST(dinov2)
{
    static const char CONFIG[] = DINOV2_CONFIG(",\"mlp_ratio\":2");
    struct forward_block block = dinov2_block();
    published_open(CONFIG, DINOV2_TENSORS DINOV2_MLP, LAYERS, "F32");
    block.up = DINOV2_LAYER "mlp.fc1";
    block.down = DINOV2_LAYER "mlp.fc2";
    const struct forward want =
        run(&block, embed("", picture_case(6, 6), 6, 6, NULL, "embeddings.position_embeddings"),
            "layernorm");
    picture_case_check("dinov2", CONFIG, 6, 6, &want);
}

/* Dinov2SwiGLUFFN: the first half of weights_in goes through SiLU, the second is the gate. */
TEST(dinov2_giant)
{
    static const char CONFIG[] = DINOV2_CONFIG(",\"use_swiglu_ffn\":true");
    struct forward_block block = dinov2_block();
    published_open(CONFIG, DINOV2_TENSORS DINOV2_SWIGLU, LAYERS, "F32");
    block.up = DINOV2_LAYER "mlp.weights_in";
    block.down = DINOV2_LAYER "mlp.weights_out";
    block.activation = "silu";
    block.is_gate_in_up = true;
    const struct forward want =
        run(&block, embed("", picture_case(6, 6), 6, 6, NULL, "embeddings.position_embeddings"),
            "layernorm");
    picture_case_check("giant", CONFIG, 6, 6, &want);
}

/* ------------------------------------------------------------------- CLIP -- */

#define CLIP_LAYER(begin)                                                                          \
    FORWARD_LINEAR(begin "self_attn.q_proj", 12, 12)                                               \
    FORWARD_LINEAR(begin "self_attn.k_proj", 12, 12)                                               \
    FORWARD_LINEAR(begin "self_attn.v_proj", 12, 12)                                               \
    FORWARD_LINEAR(begin "self_attn.out_proj", 12, 12)                                             \
    FORWARD_NORM(begin "layer_norm1", 12)                                                          \
    FORWARD_NORM(begin "layer_norm2", 12)                                                          \
    FORWARD_LINEAR(begin "mlp.fc1", 20, 12)                                                        \
    FORWARD_LINEAR(begin "mlp.fc2", 12, 20)
#define CLIP_NAMES(begin)                                                                          \
    .self = { .q = begin "self_attn.q_proj",                                                       \
              .k = begin "self_attn.k_proj",                                                       \
              .v = begin "self_attn.v_proj",                                                       \
              .output = begin "self_attn.out_proj",                                                \
              .norm = begin "layer_norm1",                                                         \
              .of = { .heads = HEADS, .scale = 0.408248290463863 } },                              \
    .up = begin "mlp.fc1", .down = begin "mlp.fc2", .norm = begin "layer_norm2",                   \
    .activation = "quick_gelu", .is_norm_first = true, .eps = 1e-5

#define CLIP_TEXT                                                                                  \
    FORWARD_TABLE("text_model.embeddings.token_embedding.weight", 40x12)                           \
    FORWARD_TENSOR("text_model.embeddings.position_embedding.weight", 16x12)                       \
    CLIP_LAYER("text_model.encoder.layers.#.")                                                     \
    FORWARD_NORM("text_model.final_layer_norm", 12)
#define CLIP_VISION                                                                                \
    FORWARD_TABLE("vision_model.embeddings.class_embedding", 12)                                   \
    FORWARD_TENSOR("vision_model.embeddings.patch_embedding.weight", 12x3x2x2)                     \
    FORWARD_TENSOR("vision_model.embeddings.position_embedding.weight", 10x12)                     \
    FORWARD_NORM("vision_model.pre_layrnorm", 12)                                                  \
    CLIP_LAYER("vision_model.encoder.layers.#.")                                                   \
    FORWARD_NORM("vision_model.post_layernorm", 12)

#define CLIP_FIELDS                                                                                \
    "\"hidden_size\":12,\"num_attention_heads\":2,\"num_hidden_layers\":2,"                        \
    "\"intermediate_size\":20"
#define CLIP_TEXT_FIELDS   CLIP_FIELDS ",\"vocab_size\":40,\"max_position_embeddings\":16"
#define CLIP_VISION_FIELDS CLIP_FIELDS ",\"patch_size\":2,\"image_size\":6"

/* CLIPTextTransformer: its attention is causal. */
static struct forward clip_text(void)
{
    enum { TOKENS = 6 };
    static const int ids[TOKENS] = { 38, 7, 30, 12, 12, 39 };
    struct forward_block block = { CLIP_NAMES("text_model.encoder.layers.#.") };
    block.self.kind = "text";
    block.self.of.causal = true;
    struct rows x = forward_embed(
        published_tensor("text_model.embeddings.token_embedding.weight", 0), ids, TOKENS);
    x = forward_add(
        x, forward_slice(published_tensor("text_model.embeddings.position_embedding.weight", 0), 0,
                         TOKENS));
    return run(&block, x, "text_model.final_layer_norm");
}

/* CLIPVisionTransformer: post_layernorm is for the pooled row alone, so last_hidden_state has no
 * norm behind the last block. */
static struct forward clip_vision(void)
{
    struct forward_block block = { CLIP_NAMES("vision_model.encoder.layers.#.") };
    block.self.kind = "vision";
    struct rows x =
        forward_product(picture_case_patches(picture_case(6, 6), 6, 6),
                        published_tensor("vision_model.embeddings.patch_embedding.weight", 0));
    x = forward_join(published_tensor("vision_model.embeddings.class_embedding", 0), x);
    x = forward_add(x, published_tensor("vision_model.embeddings.position_embedding.weight", 0));
    return run(&block, forward_layer_norm(x, "vision_model.pre_layrnorm", 0, 1e-5), NULL);
}

#define CLIP_TOKENS "\"tokens\":[38,7,30,12,12,39]"

TEST(clip)
{
    static const char CONFIG[] = "{\"model_type\":\"clip\",\"text_config\":{" CLIP_TEXT_FIELDS
                                 "},\"vision_config\":{" CLIP_VISION_FIELDS "}}";
    published_open(CONFIG, CLIP_TEXT CLIP_VISION "logit_scale 1", LAYERS, "F32");
    const struct forward text = clip_text();
    struct forward vision = clip_vision();
    vision.first_layer = LAYERS;
    picture_case_compare("clip", CONFIG, CLIP_TOKENS, &text);
    picture_case_check("clip", CONFIG, 6, 6, &vision);
}

/* CLIPModel.get_text_features() and get_image_features(): the row of the token that ends the text,
 * and post_layernorm of the class row, through projections without biases. With the end of CLIP's
 * first configs, 2, it is the row of the largest id; the text has one at row 2 here. */
TEST(clip_features)
{
    static const char CONFIG[] =
        "{\"model_type\":\"clip\",\"text_config\":{" CLIP_TEXT_FIELDS
        ",\"eos_token_id\":30},\"vision_config\":{" CLIP_VISION_FIELDS "}}";
    static const char OLD[] = "{\"model_type\":\"clip\",\"text_config\":{" CLIP_TEXT_FIELDS
                              ",\"eos_token_id\":2},\"vision_config\":{" CLIP_VISION_FIELDS "}}";
    published_open(CONFIG,
                   CLIP_TEXT CLIP_VISION "logit_scale 1, text_projection.weight 10x12, "
                                         "visual_projection.weight 10x12",
                   LAYERS, "F32");
    const struct rows text = clip_text().final_hidden_states;
    const struct rows vision =
        forward_layer_norm(forward_slice(clip_vision().final_hidden_states, 0, 1),
                           "vision_model.post_layernorm", 0, 1e-5);
    const struct rows weight = published_tensor("text_projection.weight", 0);
    const struct rows picture_vector =
        forward_product(vision, published_tensor("visual_projection.weight", 0));
    const struct rows at_end = forward_product(forward_slice(text, 2, 1), weight);
    char *pixels = picture_case_field(picture_case(6, 6), 6, 6);
    struct request_text both = { .data = NULL };
    request_text_add(&both, CLIP_TOKENS ",%s", pixels);
    published_save(fixture_path("clip"), CONFIG);
    published_save(fixture_path("old"), OLD);
    fixture_serve("--models", directory);
    vector_expect(&client, "clip", CLIP_TOKENS, "embedding", at_end);
    vector_expect(&client, "clip", pixels, "embedding", picture_vector);
    vector_expect(&client, "clip", both.data, "text_embedding", at_end);
    vector_expect(&client, "clip", both.data, "vision_embedding", picture_vector);
    vector_expect(&client, "old", CLIP_TOKENS, "embedding",
                  forward_product(forward_slice(text, 5, 1), weight));
    fixture_stop(NULL);
    free(both.data);
    free(pixels);
    published_close();
}

static void pass_clip_text(struct forward *forward)
{
    *forward = clip_text();
}

static void pass_clip_vision(struct forward *forward)
{
    *forward = clip_vision();
    forward->first_layer = LAYERS;
}

/* Edits name the kind of their stream; those of the other stream change nothing. */
#define CLIP_EDITS(kind, other)                                                                    \
    "[{\"kind\":\"" kind "\",\"hide\":[[1,3]],\"heads\":[1],\"rows\":[-1,2]},{\"kind\":\"" kind    \
    "\",\"at\":\"hidden_states\",\"add\":$W,\"rows\":[0]},{\"kind\":\"" kind                       \
    "\",\"at\":\"embeddings\",\"mean\":true,\"rows\":[1]},{\"kind\":\"" kind                       \
    "\",\"at\":\"feed_forward\",\"set\":$2W,\"rows\":[1,3]},{\"kind\":\"" kind                     \
    "\",\"weights\":\"first\",\"heads\":[0],\"rows\":[[0,2]]},{\"kind\":\"" other                  \
    "\",\"scale\":0}]"

TEST(clip_edited)
{
    static const char CONFIG[] = "{\"model_type\":\"clip\",\"text_config\":{" CLIP_TEXT_FIELDS
                                 "},\"vision_config\":{" CLIP_VISION_FIELDS "}}";
    published_open(CONFIG, CLIP_TEXT CLIP_VISION "logit_scale 1", LAYERS, "F32");
    const struct forward text = clip_text();
    struct forward vision = clip_vision();
    char *fields = picture_case_field(picture_case(6, 6), 6, 6);
    vision.first_layer = LAYERS;
    published_save(fixture_path("clip"), CONFIG);
    fixture_serve("--models", directory);
    edited_client_expect_one("clip", CLIP_TOKENS, CLIP_EDITS("text", "vision"), &text, 0,
                             pass_clip_text);
    edited_client_expect_one("clip", fields, CLIP_EDITS("vision", "text"), &vision, LAYERS,
                             pass_clip_vision);
    fixture_stop(NULL);
    free(fields);
    published_close();
}

TEST(clip_text_model)
{
    static const char CONFIG[] = "{\"model_type\":\"clip_text_model\"," CLIP_TEXT_FIELDS "}";
    published_open(CONFIG, CLIP_TEXT, LAYERS, "F16");
    const struct forward want = clip_text();
    picture_case_compare("text", CONFIG, CLIP_TOKENS, &want);
    published_close();
}

TEST(clip_vision_model)
{
    static const char CONFIG[] = "{\"model_type\":\"clip_vision_model\"," CLIP_VISION_FIELDS "}";
    published_open(CONFIG, CLIP_VISION, LAYERS, "F16");
    const struct forward want = clip_vision();
    picture_case_check("vision", CONFIG, 6, 6, &want);
}

EACH_TEST(fixture_make_directory, fixture_clear);
