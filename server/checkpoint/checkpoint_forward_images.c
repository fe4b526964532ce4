/* checkpoint_forward_images.c - what stands around the attention of families that take pictures
 * or sound.
 *
 * To add a family, put a row for each of its streams before the last row, as checkpoint_forward.h
 * says. Pictures have the size that config.json gives: positions are not interpolated. */
#include "checkpoint/checkpoint_fields.h"
#include "checkpoint/checkpoint_forward.h"

/* beit/modeling_beit.py: BeitEmbeddings, BeitLayer and BeitModel, which has no last norm where the
 * mean of all rows is pooled. */
static bool adjust_beit(struct checkpoint_forward_row *row, const cJSON *section,
                        struct fault *fault)
{
    bool has_positions, has_mean;
    double scale;
    if (!checkpoint_read_flag(section, "use_absolute_position_embeddings", &has_positions, fault)
        || !checkpoint_read_flag(section, "use_mean_pooling=true", &has_mean, fault)
        || !checkpoint_read_number(section, "layer_scale_init_value=0.1", &scale, fault))
        return false;
    if (!has_positions)
        row->patch_positions = NULL;
    if (has_mean)
        row->final_norm = NULL;
    if (scale == 0)
        row->attention_scales = row->feed_forward_scales = NULL;
    return true;
}

/* dinov2/modeling_dinov2.py: Dinov2MLP or Dinov2SwiGLUFFN. */
static bool adjust_dinov2(struct checkpoint_forward_row *row, const cJSON *section,
                          struct fault *fault)
{
    bool has_gate;
    if (!checkpoint_read_flag(section, "use_swiglu_ffn", &has_gate, fault))
        return false;
    if (has_gate) {
        row->up = "mlp.weights_in";
        row->down = "mlp.weights_out";
        row->up_has_gate = true;
        row->activation = "=silu";
    }
    return true;
}

/* Source: transformers, image_utils.py (IMAGENET_STANDARD, IMAGENET_DEFAULT, OPENAI_CLIP), and the
 * preprocessor_config.json of google/vit-base-patch16-224, microsoft/beit-base-patch16-224,
 * facebook/deit-base-distilled-patch16-224, facebook/dinov2-base and openai/clip-vit-base-patch32.
 */
static const struct model_pixel_range halves = { { 0.5, 0.5, 0.5 }, { 0.5, 0.5, 0.5 }, false };
static const struct model_pixel_range imagenet = { { 0.485, 0.456, 0.406 },
                                                   { 0.229, 0.224, 0.225 },
                                                   true };
static const struct model_pixel_range clip = { { 0.48145466, 0.4578275, 0.40821073 },
                                               { 0.26862954, 0.26130258, 0.27577711 },
                                               true };

#define LAYER_NORMS(eps) .norm_is_centred = true, .norm_bias = "=true", .norm_eps = (eps)
#define PICTURE(patch)                                                                             \
    .image_size = "image_size=224", .patch_size = "patch_size=" patch, .channels = "num_channels=3"

/* vit/modeling_vit.py: ViTEmbeddings, ViTLayer; deit and beit have the same blocks. */
#define VIT                                                                                        \
    PICTURE("16"), .patches = "embeddings.patch_embeddings.projection",                            \
                   .patch_positions = "embeddings.position_embeddings",                            \
                   .layer = "encoder.layer.%.", .attention = { .before = "layernorm_before" },     \
                   .feed_forward = { .before = "layernorm_after" },                                \
                   LAYER_NORMS("layer_norm_eps=0.000000000001"), .up = "intermediate.dense",       \
                   .down = "output.dense", .biases = "=true", .activation = "hidden_act=gelu",     \
                   .final_norm = "layernorm"

/* clip/modeling_clip.py: CLIPEncoderLayer; CLIPTextTransformer norms its last rows,
 * CLIPVisionTransformer its first ones, and of the last only the one that it pools. */
#define CLIP                                                                                       \
    .layer = "encoder.layers.%.", .attention = { .before = "layer_norm1" },                        \
    .feed_forward = { .before = "layer_norm2" }, LAYER_NORMS("layer_norm_eps=0.00001"),            \
    .up = "mlp.fc1", .down = "mlp.fc2", .biases = "=true", .activation = "hidden_act=quick_gelu"

const struct checkpoint_forward_row checkpoint_forward_images[] = {
    { .model_type = "vit", VIT, .pixel_range = &halves, .class_rows = { "embeddings.cls_token" } },
    { .model_type = "deit",
      VIT,
      .pixel_range = &imagenet,
      .class_rows = { "embeddings.cls_token", "embeddings.distillation_token" } },
    { .model_type = "beit",
      VIT,
      .pixel_range = &halves,
      .class_rows = { "embeddings.cls_token" },
      .attention_scales = "lambda_1",
      .feed_forward_scales = "lambda_2",
      .adjust = adjust_beit,
      .reads = "use_absolute_position_embeddings|use_mean_pooling|layer_scale_init_value" },
    { .model_type = "dinov2",
      PICTURE("14"),
      .pixel_range = &imagenet,
      .patches = "embeddings.patch_embeddings.projection",
      .class_rows = { "embeddings.cls_token" },
      .patch_positions = "embeddings.position_embeddings",
      .layer = "encoder.layer.%.",
      .attention = { .before = "norm1" },
      .feed_forward = { .before = "norm2" },
      .attention_scales = "layer_scale1.lambda1",
      .feed_forward_scales = "layer_scale2.lambda1",
      LAYER_NORMS("layer_norm_eps=0.000001"),
      .up = "mlp.fc1",
      .down = "mlp.fc2",
      .biases = "=true",
      .activation = "hidden_act=gelu",
      .final_norm = "layernorm",
      .adjust = adjust_dinov2,
      .reads = "use_swiglu_ffn" },
    { .model_type = "clip|clip_text_model",
      .name = "text",
      .kind = "text",
      .tokens = "embeddings.token_embedding",
      .positions = "embeddings.position_embedding",
      CLIP,
      .final_norm = "final_layer_norm" },
    { .model_type = "clip|clip_vision_model",
      .name = "vision",
      .kind = "vision",
      PICTURE("32"),
      .pixel_range = &clip,
      .patches = "embeddings.patch_embedding",
      .patches_have_no_bias = true,
      .class_rows = { "embeddings.class_embedding" },
      .patch_positions = "embeddings.position_embedding.weight",
      .embedding_norm = "pre_layrnorm",
      CLIP },
    { .model_type = "wav2vec2",
      .refused =
          "the whole pass of model_type 'wav2vec2' is not computed here: its first rows come "
          "from convolutions over sound" },
    { .model_type = NULL },
};
