/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_patches.c - traces of SigLIP, SigLIP 2, DINOv2 with registers and MAE beside their
 * families' source in double: transformers, src/transformers/models/, at the commit that stands
 * with each. */
#include "fixture.h"
#include "forward_block.h"
#include "picture_case.h"
#include "test.h"
#include "trace_client.h"
#include "vector_case.h"

/* Pictures of 6 x 6 pixels make 3 x 3 patches. */
enum { LAYERS = 2, HEADS = 2, WIDTH = 12 };

static struct forward run(const struct forward_block *block, struct rows x, const char *norm)
{
    struct forward want = { .layer_count = 0 };
    for (int layer = 0; layer < LAYERS; layer++)
        x = forward_block_run(&want, block, x, FORWARD_NONE, layer);
    want.final_hidden_states = forward_layer_norm(x, norm, 0, block->eps);
    return want;
}

/* ------------------------------------------------------------------ SigLIP -- */

#define SIGLIP_LAYER(begin)                                                                        \
    FORWARD_LINEAR(begin "self_attn.q_proj", 12, 12)                                               \
    FORWARD_LINEAR(begin "self_attn.k_proj", 12, 12)                                               \
    FORWARD_LINEAR(begin "self_attn.v_proj", 12, 12)                                               \
    FORWARD_LINEAR(begin "self_attn.out_proj", 12, 12)                                             \
    FORWARD_NORM(begin "layer_norm1", 12)                                                          \
    FORWARD_NORM(begin "layer_norm2", 12)                                                          \
    FORWARD_LINEAR(begin "mlp.fc1", 20, 12)                                                        \
    FORWARD_LINEAR(begin "mlp.fc2", 12, 20)
#define SIGLIP_NAMES(name, begin)                                                                  \
    .self = { .kind = name,                                                                        \
              .q = begin "self_attn.q_proj",                                                       \
              .k = begin "self_attn.k_proj",                                                       \
              .v = begin "self_attn.v_proj",                                                       \
              .output = begin "self_attn.out_proj",                                                \
              .norm = begin "layer_norm1",                                                         \
              .of = { .heads = HEADS, .scale = 0.408248290463863 } },                              \
    .up = begin "mlp.fc1", .down = begin "mlp.fc2", .norm = begin "layer_norm2",                   \
    .activation = "gelu_pytorch_tanh", .is_norm_first = true, .eps = 1e-6

#define SIGLIP_TEXT                                                                                \
    FORWARD_TABLE("text_model.embeddings.token_embedding.weight", 40x12)                           \
    FORWARD_TENSOR("text_model.embeddings.position_embedding.weight", 16x12)                       \
    SIGLIP_LAYER("text_model.encoder.layers.#.")                                                   \
    FORWARD_NORM("text_model.final_layer_norm", 12)                                                \
    FORWARD_LINEAR("text_model.head", 12, 12)
#define SIGLIP_VISION                                                                              \
    FORWARD_LINEAR("vision_model.embeddings.patch_embedding", 12, 3x2x2)                           \
    FORWARD_TENSOR("vision_model.embeddings.position_embedding.weight", 9x12)                      \
    SIGLIP_LAYER("vision_model.encoder.layers.#.")                                                 \
    FORWARD_NORM("vision_model.post_layernorm", 12)

#define FIELDS                                                                                     \
    "\"hidden_size\":12,\"num_attention_heads\":2,\"num_hidden_layers\":2,"                        \
    "\"intermediate_size\":20"
#define TEXT_FIELDS   FIELDS ",\"vocab_size\":40,\"max_position_embeddings\":16"
#define VISION_FIELDS FIELDS ",\"patch_size\":2,\"image_size\":6"
#define TOKENS        "\"tokens\":[38,7,30,12,12,39]"

/* siglip/modeling_siglip.py at 00b206564aa2, SiglipTextTransformer: no row is hidden. */
static struct forward siglip_text(void)
{
    enum { COUNT = 6 };
    static const int ids[COUNT] = { 38, 7, 30, 12, 12, 39 };
    static const struct forward_block block = { SIGLIP_NAMES("text",
                                                             "text_model.encoder.layers.#.") };
    const struct rows x = forward_embed(
        published_tensor("text_model.embeddings.token_embedding.weight", 0), ids, COUNT);
    return run(&block,
               forward_add(x, forward_slice(published_tensor("text_model.embeddings."
                                                             "position_embedding.weight",
                                                             0),
                                            0, COUNT)),
               "text_model.final_layer_norm");
}

/* The picture of the case: of the model's size, and of others, whose last pixels are of no patch.
 */
static const int SIZES[][2] = { { 6, 6 }, { 5, 9 }, { 16, 3 }, { 2, 2 } };
enum { SIZE_COUNT = 4 };
static int height = 6, width = 6;

static struct forward siglip_vision(struct rows patches, enum picture_mode mode)
{
    static const struct forward_block block = { SIGLIP_NAMES("vision",
                                                             "vision_model.encoder.layers.#.") };
    const struct rows x = published_linear(patches, "vision_model.embeddings.patch_embedding", 0);
    return run(
        &block,
        forward_add(x, picture_case_positions(
                           published_tensor("vision_model.embeddings.position_embedding.weight", 0),
                           0, 3, height, width, mode)),
        "vision_model.post_layernorm");
}

static struct rows siglip_patches(void)
{
    return picture_case_patches(picture_case(height, width), height, width);
}

TEST(siglip)
{
    static const char CONFIG[] = "{\"model_type\":\"siglip\",\"text_config\":{" TEXT_FIELDS
                                 "},\"vision_config\":{" VISION_FIELDS "}}";
    published_open(CONFIG, SIGLIP_TEXT SIGLIP_VISION "logit_scale 1, logit_bias 1", LAYERS, "F32");
    const struct forward text = siglip_text();
    struct forward vision = siglip_vision(siglip_patches(), PICTURE_BICUBIC);
    vision.first_layer = LAYERS;
    picture_case_compare("siglip", CONFIG, TOKENS, &text);
    picture_case_check("siglip", CONFIG, 6, 6, &vision);
}

/* SiglipTextTransformer.head: of the last row. */
TEST(siglip_text_vector)
{
    static const char CONFIG[] = "{\"model_type\":\"siglip_text_model\"," TEXT_FIELDS "}";
    published_open(CONFIG, SIGLIP_TEXT, LAYERS, "F32");
    const struct rows last = forward_slice(siglip_text().final_hidden_states, 5, 1);
    const struct rows vector = published_linear(last, "text_model.head", 0);
    published_save(fixture_path("text"), CONFIG);
    fixture_serve("--models", directory);
    vector_expect(&client, "text", TOKENS, "embedding", vector);
    fixture_stop(NULL);
    published_close();
}

#define SIGLIP_HEAD                                                                                \
    FORWARD_TABLE("vision_model.head.probe", 1x1x12)                                               \
    FORWARD_TABLE("vision_model.head.attention.in_proj_weight", 36x12)                             \
    FORWARD_TENSOR("vision_model.head.attention.in_proj_bias", 36)                                 \
    FORWARD_LINEAR("vision_model.head.attention.out_proj", 12, 12)                                 \
    FORWARD_NORM("vision_model.head.layernorm", 12)                                                \
    FORWARD_LINEAR("vision_model.head.mlp.fc1", 20, 12)                                            \
    FORWARD_LINEAR("vision_model.head.mlp.fc2", 12, 20)

/* The part of torch.nn.MultiheadAttention's in_proj that query, key or value is: 0, 1, 2. */
static struct rows siglip_in(struct rows x, int part)
{
    const struct rows weight = published_tensor("vision_model.head.attention.in_proj_weight", 0);
    const struct rows bias = published_tensor("vision_model.head.attention.in_proj_bias", 0);
    const struct rows some = { 1, 12, bias.data + part * 12 };
    return forward_add_row(forward_product(x, forward_slice(weight, part * 12, 12)), some);
}

/* SiglipMultiheadAttentionPoolingHead. */
static struct rows siglip_vision_head(struct rows rows)
{
    const struct published_attention attention = { .heads = HEADS,
                                                   .scale = 1 / sqrt(12.0 / HEADS) };
    const struct rows probe = forward_view(published_tensor("vision_model.head.probe", 0), 12);
    struct rows x =
        published_attend(&attention, siglip_in(probe, 0), siglip_in(rows, 1), siglip_in(rows, 2))
            .context;
    x = published_linear(x, "vision_model.head.attention.out_proj", 0);
    struct rows inner = forward_layer_norm(x, "vision_model.head.layernorm", 0, 1e-6);
    inner = forward_activation(published_linear(inner, "vision_model.head.mlp.fc1", 0),
                               "gelu_pytorch_tanh");
    return forward_add(x, published_linear(inner, "vision_model.head.mlp.fc2", 0));
}

TEST(siglip_vision_vector)
{
    static const char CONFIG[] = "{\"model_type\":\"siglip_vision_model\"," VISION_FIELDS "}";
    published_open(CONFIG, SIGLIP_VISION SIGLIP_HEAD, LAYERS, "F32");
    const struct rows vector =
        siglip_vision_head(siglip_vision(siglip_patches(), PICTURE_BICUBIC).final_hidden_states);
    char *pixels = picture_case_field(picture_case(6, 6), 6, 6);
    published_save(fixture_path("vision"), CONFIG);
    fixture_serve("--models", directory);
    vector_expect(&client, "vision", pixels, "embedding", vector);
    fixture_stop(NULL);
    free(pixels);
    published_close();
}

static void vision_model_agrees(void)
{
    static const char CONFIG[] = "{\"model_type\":\"siglip_vision_model\"," VISION_FIELDS "}";
    published_open(CONFIG, SIGLIP_VISION, LAYERS, "F16");
    const struct forward want = siglip_vision(siglip_patches(), PICTURE_BICUBIC);
    picture_case_check("vision", CONFIG, height, width, &want);
}

TEST(siglip_vision_model)
{
    for (int i = 0; i < SIZE_COUNT; i++) {
        height = SIZES[i][0];
        width = SIZES[i][1];
        vision_model_agrees();
    }
    height = width = 6;
}

/* siglip2/modular_siglip2.py at 020a37d2264e, Siglip2VisionEmbeddings, and
 * convert_image_to_patches() of image_processing_siglip2.py: a patch is [y][x][channel]. */
static struct rows siglip2_patches(void)
{
    const struct rows from = siglip_patches();
    const struct rows to = published_rows(from.count, from.columns);
    for (int64_t p = 0; p < to.count; p++)
        for (int c = 0; c < PICTURE_CHANNELS; c++)
            for (int n = 0; n < PICTURE_PATCH * PICTURE_PATCH; n++)
                to.data[p * to.columns + n * PICTURE_CHANNELS + c] =
                    from.data[p * to.columns + c * PICTURE_PATCH * PICTURE_PATCH + n];
    return to;
}

#define SIGLIP2_VISION                                                                             \
    FORWARD_LINEAR("vision_model.embeddings.patch_embedding", 12, 12)                              \
    FORWARD_TENSOR("vision_model.embeddings.position_embedding.weight", 9x12)                      \
    SIGLIP_LAYER("vision_model.encoder.layers.#.")                                                 \
    FORWARD_NORM("vision_model.post_layernorm", 12)

static void siglip2_agrees(void)
{
    static const char CONFIG[] =
        "{\"model_type\":\"siglip2\",\"text_config\":{" TEXT_FIELDS "},\"vision_config\":{" FIELDS
        ",\"patch_size\":2,\"num_patches\":9}}";
    published_open(CONFIG, SIGLIP_TEXT SIGLIP2_VISION "logit_scale 1, logit_bias 1", LAYERS, "F16");
    const struct forward text = siglip_text();
    struct forward vision = siglip_vision(siglip2_patches(), PICTURE_BILINEAR_SMOOTH);
    vision.first_layer = LAYERS;
    picture_case_compare("siglip2", CONFIG, TOKENS, &text);
    picture_case_check("siglip2", CONFIG, height, width, &vision);
}

TEST(siglip2)
{
    for (int i = 0; i < SIZE_COUNT; i++) {
        height = SIZES[i][0];
        width = SIZES[i][1];
        siglip2_agrees();
    }
    height = width = 6;
}

TEST(siglip2_of_no_square)
{
    static const struct {
        const char *field, *words;
    } faults[] = { { "\"num_patches\":8", "num_patches" },
                   { "\"num_patches\":9,\"patch_size\":0", "patch_size" } };
    for (int i = 0; i < 2; i++) {
        char config[512];
        snprintf(config, sizeof config, "{\"model_type\":\"siglip2_vision_model\"," FIELDS ",%s}",
                 faults[i].field);
        published_open(config, SIGLIP2_VISION, LAYERS, "F32");
        published_save(fixture_path("vision"), config);
        fixture_serve("--models", directory);
        trace_client_expect_none(&client, "vision", "\"pixels\":[[[1]]]", faults[i].words);
        fixture_stop(NULL);
        published_close();
    }
}

/* ------------------------------------------------- DINOv2 with registers, MAE -- */

#define LAYER "encoder.layer.#."
#define ATTENTION                                                                                  \
    FORWARD_LINEAR(LAYER "attention.attention.query", 12, 12)                                      \
    FORWARD_LINEAR(LAYER "attention.attention.key", 12, 12)                                        \
    FORWARD_LINEAR(LAYER "attention.attention.value", 12, 12)                                      \
    FORWARD_LINEAR(LAYER "attention.output.dense", 12, 12)
#define EMBEDDINGS                                                                                 \
    FORWARD_TABLE("embeddings.cls_token", 1x1x12)                                                  \
    FORWARD_LINEAR("embeddings.patch_embeddings.projection", 12, 3x2x2)                            \
    FORWARD_TENSOR("embeddings.position_embeddings", 1x10x12)
#define NAMES                                                                                      \
    .self = { .kind = "self",                                                                      \
              .q = LAYER "attention.attention.query",                                              \
              .k = LAYER "attention.attention.key",                                                \
              .v = LAYER "attention.attention.value",                                              \
              .output = LAYER "attention.output.dense",                                            \
              .of = { .heads = HEADS, .scale = 0.408248290463863 } },                              \
    .activation = "gelu", .is_norm_first = true

/* Class row and patches, with their positions. */
static struct rows embed(void)
{
    const struct rows x = forward_join(
        forward_view(published_tensor("embeddings.cls_token", 0), WIDTH),
        published_linear(siglip_patches(), "embeddings.patch_embeddings.projection", 0));
    return forward_add(
        x, picture_case_positions(
               forward_view(published_tensor("embeddings.position_embeddings", 0), WIDTH), 1, 3,
               height, width, PICTURE_BICUBIC_SMOOTH));
}

#define DINOV2_LAYER                                                                               \
    FORWARD_NORM(LAYER "norm1", 12)                                                                \
    FORWARD_NORM(LAYER "norm2", 12)                                                                \
    ATTENTION                                                                                      \
    FORWARD_TABLE(LAYER "layer_scale1.lambda1", 12)                                                \
    FORWARD_TABLE(LAYER "layer_scale2.lambda1", 12)                                                \
    FORWARD_LINEAR(LAYER "mlp.fc1", 24, 12)                                                        \
    FORWARD_LINEAR(LAYER "mlp.fc2", 12, 24)

/* dinov2_with_registers/modular_dinov2_with_registers.py at 052b1dcdbe75: registers stand between
 * the class row and the patches, without positions. */
static void registers_agree(void)
{
    static const char CONFIG[] = "{\"model_type\":\"dinov2_with_registers\"," VISION_FIELDS
                                 ",\"num_register_tokens\":3,\"mlp_ratio\":2}";
    struct forward_block block = { NAMES };
    published_open(CONFIG,
                   EMBEDDINGS FORWARD_TABLE("embeddings.register_tokens", 1x3x12)
                       FORWARD_TENSOR("embeddings.mask_token", 1x12)
                           DINOV2_LAYER FORWARD_NORM("layernorm", 12),
                   LAYERS, "F32");
    block.self.norm = LAYER "norm1";
    block.self_scale = LAYER "layer_scale1.lambda1";
    block.norm = LAYER "norm2";
    block.feed_forward_scale = LAYER "layer_scale2.lambda1";
    block.up = LAYER "mlp.fc1";
    block.down = LAYER "mlp.fc2";
    block.eps = 1e-6;
    const struct rows x = embed();
    const struct rows registers =
        forward_view(published_tensor("embeddings.register_tokens", 0), WIDTH);
    const struct forward want = run(&block,
                                    forward_join(forward_join(forward_slice(x, 0, 1), registers),
                                                 forward_slice(x, 1, x.count - 1)),
                                    "layernorm");
    picture_case_check("registers", CONFIG, height, width, &want);
}

TEST(dinov2_with_registers)
{
    for (int i = 0; i < SIZE_COUNT; i++) {
        height = SIZES[i][0];
        width = SIZES[i][1];
        registers_agree();
    }
    height = width = 6;
}

/* vit_mae/modeling_vit_mae.py at 015e68769f98: ViT, where no patch is masked. */
TEST(vit_mae)
{
    static const char CONFIG[] = "{\"model_type\":\"vit_mae\"," VISION_FIELDS
                                 ",\"mask_ratio\":0.75,\"decoder_hidden_size\":8}";
    struct forward_block block = { NAMES };
    published_open(CONFIG,
                   EMBEDDINGS ATTENTION FORWARD_NORM(LAYER "layernorm_before", 12)
                       FORWARD_NORM(LAYER "layernorm_after", 12)
                           FORWARD_LINEAR(LAYER "intermediate.dense", 20, 12)
                               FORWARD_LINEAR(LAYER "output.dense", 12, 20)
                                   FORWARD_NORM("layernorm", 12),
                   LAYERS, "F32");
    block.self.norm = LAYER "layernorm_before";
    block.norm = LAYER "layernorm_after";
    block.up = LAYER "intermediate.dense";
    block.down = LAYER "output.dense";
    block.eps = 1e-12;
    const struct forward want = run(&block, embed(), "layernorm");
    picture_case_check("mae", CONFIG, 6, 6, &want);
}

/* --------------------------------------------------------------------- DINOv3 -- */

/* dinov3_vit/modeling_dinov3_vit.py at 015e68769f98: get_patches_center_coordinates(),
 * DINOv3ViTRopePositionEmbedding and apply_rotary_pos_emb(), for heads of 4 columns, of which two
 * turn by the patch's row and two by its column. */
static void turn_patches(struct rows x, int64_t heads)
{
    enum { DOWN = 2, ACROSS = 3 };
    const double pi = acos(-1);
    for (int64_t i = x.count - (int64_t)DOWN * ACROSS, patch = 0; i < x.count; i++, patch++)
        for (int64_t h = 0; h < heads; h++)
            for (int c = 0; c < 2; c++) {
                const double at = c == 0 ? ((double)(patch / ACROSS) + 0.5) / DOWN
                                         : ((double)(patch % ACROSS) + 0.5) / ACROSS;
                const double angle = 2 * pi * (2 * at - 1);
                double *first = x.data + i * x.columns + h * 4 + c, *second = first + 2;
                const double a = *first, b = *second;
                *first = a * cos(angle) - b * sin(angle);
                *second = b * cos(angle) + a * sin(angle);
            }
}

#define DINOV3 "layer.#."
#define DINOV3_TENSORS                                                                             \
    FORWARD_TABLE("embeddings.cls_token", 1x1x12)                                                  \
    FORWARD_TENSOR("embeddings.mask_token", 1x1x12)                                                \
    FORWARD_LINEAR("embeddings.patch_embeddings", 12, 3x2x2)                                       \
    FORWARD_LINEAR(DINOV3 "attention.q_proj", 12, 12)                                              \
    FORWARD_TENSOR(DINOV3 "attention.k_proj.weight", 12x12)                                        \
    FORWARD_LINEAR(DINOV3 "attention.v_proj", 12, 12)                                              \
    FORWARD_LINEAR(DINOV3 "attention.o_proj", 12, 12)                                              \
    FORWARD_NORM(DINOV3 "norm1", 12)                                                               \
    FORWARD_NORM(DINOV3 "norm2", 12)                                                               \
    FORWARD_TABLE(DINOV3 "layer_scale1.lambda1", 12)                                               \
    FORWARD_TABLE(DINOV3 "layer_scale2.lambda1", 12)                                               \
    FORWARD_LINEAR(DINOV3 "mlp.up_proj", 20, 12)                                                   \
    FORWARD_LINEAR(DINOV3 "mlp.down_proj", 12, 20)
#define DINOV3_CONFIG                                                                              \
    "{\"model_type\":\"dinov3_vit\",\"hidden_size\":12,\"num_attention_heads\":3,"                 \
    "\"num_hidden_layers\":2,\"intermediate_size\":20,\"patch_size\":2,\"image_size\":[4,6]"

static void check_dinov3(const char *config, const char *tensors, int registers, bool has_gate)
{
    struct forward_block block = {
        .self = { .kind = "self",
                  .q = DINOV3 "attention.q_proj",
                  .k = DINOV3 "attention.k_proj",
                  .v = DINOV3 "attention.v_proj",
                  .output = DINOV3 "attention.o_proj",
                  .norm = DINOV3 "norm1",
                  .of = { .heads = 3, .scale = 0.5 },
                  .turn = turn_patches },
        .self_scale = DINOV3 "layer_scale1.lambda1",
        .feed_forward_scale = DINOV3 "layer_scale2.lambda1",
        .norm = DINOV3 "norm2",
        .up = DINOV3 "mlp.up_proj",
        .down = DINOV3 "mlp.down_proj",
        .activation = "gelu",
        .is_norm_first = true,
        .eps = 1e-5,
    };
    if (has_gate) { /* DINOv3ViTGatedMLP: the activation is of gate_proj */
        block.up = DINOV3 "mlp.gate_proj";
        block.gate = DINOV3 "mlp.up_proj";
    }
    published_open(config, tensors, LAYERS, "F32");
    struct rows x = forward_view(published_tensor("embeddings.cls_token", 0), WIDTH);
    if (registers > 0)
        x = forward_join(x, forward_view(published_tensor("embeddings.register_tokens", 0), WIDTH));
    x = forward_join(x, published_linear(picture_case_patches(picture_case(4, 6), 4, 6),
                                         "embeddings.patch_embeddings", 0));
    const struct forward want = run(&block, x, "norm");
    picture_case_check("dinov3", config, 4, 6, &want);
}

TEST(dinov3)
{
    check_dinov3(DINOV3_CONFIG ",\"num_register_tokens\":3}",
                 DINOV3_TENSORS FORWARD_TABLE("embeddings.register_tokens", 1x3x12)
                     FORWARD_NORM("norm", 12),
                 3, false);
    check_dinov3(DINOV3_CONFIG ",\"use_gated_mlp\":true}",
                 DINOV3_TENSORS FORWARD_LINEAR(DINOV3 "mlp.gate_proj", 20, 12)
                     FORWARD_NORM("norm", 12),
                 0, true);
}

EACH_TEST(fixture_make_directory, fixture_clear);
