/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_images.c - the table of families that take pictures or sound. Pictures have the size
 * that config.json gives: positions are not interpolated.
 *
 * checkpoint_family.h says how a family is added. Its attention is compared with its own source in
 * tests/unit/test_checkpoint_encoders.c. */
#include "models/checkpoint/checkpoint_family_rows.h"

#include "models/checkpoint/checkpoint_fields.h"
#include "models/checkpoint/checkpoint_layer.h"

#include <inttypes.h>

#define VIT_NAMES                                                                                  \
    .kind = "self", .block = "encoder.layer.%.", .attention = "attention.",                        \
    .projections =                                                                                 \
        PROJECTIONS("attention.query", "attention.key", "attention.value", "output.dense"),        \
    SIZES(12, 768, 12)
#define VIT_SELF VIT_NAMES, .biases = O, .more_biases = Q | K | V, .more_biases_if = "qkv_bias=true"
#define CLIP_TEXT                                                                                  \
    .kind = "text", .prefixes = "text_model.", .block = "encoder.layers.%.",                       \
    .attention = "self_attn.", .projections = OUT_PROJ, .biases = Q | K | V | O,                   \
    SIZES(12, 512, 8), .causal = "=true",                                                          \
    .ignored = CLIP_IGNORED "|image_size|patch_size|num_channels"
#define CLIP_VISION                                                                                \
    .kind = "vision", .prefixes = "vision_model.", .block = "encoder.layers.%.",                   \
    .attention = "self_attn.", .projections = OUT_PROJ, .biases = Q | K | V | O,                   \
    SIZES(12, 768, 12), .ignored = CLIP_IGNORED
#define PICTURE_IGNORED                                                                            \
    "encoder_stride|mlp_ratio|layerscale_value|use_swiglu_ffn|"                                    \
    "out_features|out_indices|stage_names|apply_layernorm|reshape_hidden_states|use_mask_token|"   \
    "pooler_output_size|pooler_act"
#define BEIT_IGNORED                                                                               \
    "use_mask_token|"                                                                              \
    "pool_scales|use_auxiliary_head|auxiliary_*|semantic_loss_ignore_index|"                       \
    "segmentation_indices|out_features|out_indices|stage_names|add_fpn|reshape_hidden_states|"     \
    "encoder_stride"
#define CLIP_IGNORED   "projection_dim|logit_scale_init_value"
#define SIGLIP_IGNORED "projection_dim|projection_size|logit_scale_init_value|vision_use_head"
#define MAE_IGNORED    "decoder_*|mask_ratio|norm_pix_loss"
#define SOUND_IGNORED                                                                              \
    "feat_extract_*|feat_proj_*|conv_*|num_conv_*|num_feat_extract_layers|"                        \
    "apply_spec_augment|mask_time_*|mask_feature_*|mask_channel_*|num_codevector*|"                \
    "contrastive_logits_temperature|num_negatives|codevector_dim|proj_codevector_dim|ctc_*|"       \
    "use_weighted_layer_sum|tdnn_*|xvector_*|adapter_kernel_size|adapter_stride|"                  \
    "num_adapter_layers|hidden_size_*|num_ctc_classes|gumbel_*|freeze_feat_extract_train|"         \
    "feature_grad_mult|replace_prob|final_proj_size|quantize_targets"

/* ---------------------------------------------------------- around attention -- */

/* beit/modeling_beit.py: BeitEmbeddings, BeitLayer and BeitModel, which has no last norm where the
 * mean of all rows is pooled. */
static bool adjust_beit(struct checkpoint_pass *pass, const cJSON *section, struct fault *fault)
{
    bool has_positions, has_mean;
    double scale;
    if (!checkpoint_read_flag(section, "use_absolute_position_embeddings", &has_positions, fault)
        || !checkpoint_read_flag(section, "use_mean_pooling=true", &has_mean, fault)
        || !checkpoint_read_number(section, "layer_scale_init_value=0.1", &scale, fault))
        return false;
    if (!has_positions)
        pass->patch_positions = NULL;
    if (has_mean)
        pass->final_norm = NULL;
    if (scale == 0)
        pass->attention_scales = pass->feed_forward_scales = NULL;
    return true;
}

/* dinov2/modeling_dinov2.py: Dinov2MLP or Dinov2SwiGLUFFN. */
static bool adjust_dinov2(struct checkpoint_pass *pass, const cJSON *section, struct fault *fault)
{
    bool has_gate;
    if (!checkpoint_read_flag(section, "use_swiglu_ffn", &has_gate, fault))
        return false;
    if (has_gate) {
        pass->up = "mlp.weights_in";
        pass->down = "mlp.weights_out";
        pass->up_has_gate = true;
        pass->activation = "=silu";
    }
    return true;
}

/* dinov3_vit/modeling_dinov3_vit.py, DINOv3ViTRopePositionEmbedding: patches turn by their row and
 * column, class row and registers do not. */
static bool adjust_dinov3_layer(struct checkpoint_layer *layer, struct fault *fault)
{
    static const struct {
        const char *flag;
        unsigned bias;
    } biases[] = { { "query_bias=true", Q },
                   { "key_bias", K },
                   { "value_bias=true", V },
                   { "proj_bias=true", O } };
    const cJSON *section = layer->run->section;
    const struct json_document *document = layer->run->document;
    struct attn_rope_grid *grid = &layer->config.rope.grid;
    int64_t image[2], patch[2], registers;
    bool has_bias;
    for (size_t i = 0; i < sizeof biases / sizeof biases[0]; i++) {
        if (!checkpoint_read_flag(section, biases[i].flag, &has_bias, fault))
            return false;
        layer->biases |= has_bias ? biases[i].bias : 0;
    }
    if (!checkpoint_read_pair(document, section, "image_size=224", image, fault)
        || !checkpoint_read_pair(document, section, "patch_size=16", patch, fault)
        || !checkpoint_read_integer(section, "num_register_tokens", &registers, fault))
        return false;
    *grid = (struct attn_rope_grid){ 1 + registers, patch[0] > 0 ? image[0] / patch[0] : 0,
                                     patch[1] > 0 ? image[1] / patch[1] : 0 };
    return (grid->height > 0 && grid->height <= INT32_MAX && grid->width > 0
            && grid->width <= INT32_MAX && registers < INT32_MAX)
           || fault_set_at(fault, "/config", FAULT_OPTION,
                           "config.json gives pictures of %" PRId64 " by %" PRId64
                           " pixels (image_size) and patches of %" PRId64
                           " (patch_size), which are no patches of a picture",
                           image[0], image[1], patch[0]);
}

/* DINOv3ViTMLP or DINOv3ViTGatedMLP. */
static bool adjust_dinov3(struct checkpoint_pass *pass, const cJSON *section, struct fault *fault)
{
    bool has_gate;
    if (!checkpoint_read_flag(section, "use_gated_mlp", &has_gate, fault))
        return false;
    if (has_gate)
        pass->gate = "mlp.gate_proj";
    return true;
}

/* wav2vec2/modeling_wav2vec2.py: Wav2Vec2EncoderStableLayerNorm, in place of Wav2Vec2Encoder. */
static bool adjust_sound(struct checkpoint_pass *pass, const cJSON *section, struct fault *fault)
{
    bool is_stable;
    const cJSON *other =
        checkpoint_find_set(section, "add_adapter|adapter_attn_dim|conv_pos_batch_norm");
    if (other)
        return fault_set(fault, FAULT_OPTION,
                         "config.json sets %s: the whole pass of such a model is not computed here",
                         other->string);
    if (!checkpoint_read_flag(section, "do_stable_layer_norm", &is_stable, fault))
        return false;
    if (!is_stable)
        return true;
    pass->attention = (struct checkpoint_norms){ .before = pass->attention.after };
    pass->feed_forward = (struct checkpoint_norms){ .before = pass->feed_forward.after };
    pass->final_norm = pass->embedding_norm;
    pass->embedding_norm = NULL;
    return true;
}

/* Source: transformers, image_utils.py (IMAGENET_STANDARD, IMAGENET_DEFAULT, OPENAI_CLIP), and the
 * preprocessor_config.json of google/vit-base-patch16-224, microsoft/beit-base-patch16-224,
 * facebook/deit-base-distilled-patch16-224, facebook/dinov2-base, facebook/vit-mae-base,
 * facebook/dinov3-vitb16-pretrain-lvd1689m,
 * google/siglip-base-patch16-224 and openai/clip-vit-base-patch32.
 */
static const struct model_pixel_range halves = { { 0.5, 0.5, 0.5 }, { 0.5, 0.5, 0.5 }, false };
static const struct model_pixel_range imagenet = { { 0.485, 0.456, 0.406 },
                                                   { 0.229, 0.224, 0.225 },
                                                   true };
static const struct model_pixel_range imagenet_whole = { { 0.485, 0.456, 0.406 },
                                                         { 0.229, 0.224, 0.225 },
                                                         false };
static const struct model_pixel_range clip = { { 0.48145466, 0.4578275, 0.40821073 },
                                               { 0.26862954, 0.26130258, 0.27577711 },
                                               true };

#define PICTURE(patch)                                                                             \
    .image_size = "image_size=224", .patch_size = "patch_size=" patch, .channels = "num_channels=3"

/* vit/modeling_vit.py: ViTEmbeddings, ViTLayer; deit and beit have the same blocks. */
#define VIT_PASS                                                                                   \
    PICTURE("16"), .patches = "embeddings.patch_embeddings.projection",                            \
                   .patch_positions = "embeddings.position_embeddings",                            \
                   NORMS_BEFORE("layernorm_before", "layernorm_after"),                            \
                   PASS_NORMS("layer_norm_eps=0.000000000001"),                                    \
                   FEED("intermediate.dense", "output.dense", "=true", "hidden_act=gelu"),         \
                   .final_norm = "layernorm"

/* clip/modeling_clip.py: CLIPEncoderLayer; CLIPTextTransformer norms its last rows,
 * CLIPVisionTransformer its first ones, and of the last only the one that it pools. */
#define CLIP_PASS                                                                                  \
    NORMS_BEFORE("layer_norm1", "layer_norm2"), PASS_NORMS("layer_norm_eps=0.00001"),              \
        FEED("mlp.fc1", "mlp.fc2", "=true", "hidden_act=quick_gelu")

/* siglip/modeling_siglip.py: SiglipEncoderLayer, SiglipTextTransformer, SiglipVisionTransformer;
 * the text is not causal, and both have a last norm. */
#define SIGLIP_LAYERS                                                                              \
    .block = "encoder.layers.%.", .attention = "self_attn.", .projections = OUT_PROJ,              \
    .biases = Q | K | V | O, SIZES(12, 768, 12)
#define SIGLIP_PASS                                                                                \
    NORMS_BEFORE("layer_norm1", "layer_norm2"), PASS_NORMS("layer_norm_eps=0.000001"),             \
        FEED("mlp.fc1", "mlp.fc2", "=true", "hidden_act=gelu_pytorch_tanh")
#define SIGLIP_TEXT                                                                                \
    .kind = "text", SIGLIP_LAYERS,                                                                 \
    .ignored = SIGLIP_IGNORED "|image_size|patch_size|num_channels|num_patches",                   \
    .pass = { .name = "text",                                                                      \
              .tokens = "embeddings.token_embedding",                                              \
              .positions = "embeddings.position_embedding",                                        \
              SIGLIP_PASS,                                                                         \
              .final_norm = "final_layer_norm" }
#define SIGLIP_VISION .kind = "vision", SIGLIP_LAYERS, .ignored = SIGLIP_IGNORED
#define SIGLIP_VISION_PASS                                                                         \
    .name = "vision", .patch_size = "patch_size=16", .channels = "num_channels=3",                 \
    .pixel_range = &halves, .patches = "embeddings.patch_embedding",                               \
    .patch_positions = "embeddings.position_embedding.weight", SIGLIP_PASS,                        \
    .final_norm = "post_layernorm"
#define SIGLIP_PICTURE                                                                             \
    SIGLIP_VISION_PASS, .image_size = "image_size=224", .resize = MODEL_RESIZE_CUBIC
/* siglip2/modular_siglip2.py, Siglip2VisionEmbeddings: a patch ends with its channels. Positions
 * are those of a square picture of num_patches patches. */
#define SIGLIP2_PICTURE                                                                            \
    SIGLIP_VISION_PASS, .patch_count = "num_patches=256", .patches_end_with_channel = true,        \
                        .resize = MODEL_RESIZE_SMOOTH_LINEAR

/* dinov2/modeling_dinov2.py: Dinov2Layer. */
#define DINOV2_PASS                                                                                \
    .pixel_range = &imagenet, .patches = "embeddings.patch_embeddings.projection",                 \
    .class_rows = { "embeddings.cls_token" }, .patch_positions = "embeddings.position_embeddings", \
    NORMS_BEFORE("norm1", "norm2"), .attention_scales = "layer_scale1.lambda1",                    \
    .feed_forward_scales = "layer_scale2.lambda1", PASS_NORMS("layer_norm_eps=0.000001"),          \
    FEED("mlp.fc1", "mlp.fc2", "=true", "hidden_act=gelu"), .final_norm = "layernorm",             \
    .adjust = adjust_dinov2, .reads = "use_swiglu_ffn"

/* wav2vec2/modeling_wav2vec2.py: Wav2Vec2EncoderLayer, hubert/modeling_hubert.py and
 * wavlm/modeling_wavlm.py alike. */
#define SOUND_SELF(prefix)                                                                         \
    SELF(prefix, "encoder.layers.%.", "attention."), .projections = OUT_PROJ,                      \
                                                     .biases = Q | K | V | O, SIZES(12, 768, 12)
#define SOUND_PASS                                                                                 \
    .takes_sound = true, .embedding_norm = "encoder.layer_norm",                                   \
    NORMS_AFTER("layer_norm", "final_layer_norm"), PASS_NORMS("layer_norm_eps=0.00001"),           \
    FEED("feed_forward.intermediate_dense", "feed_forward.output_dense", "=true",                  \
         "hidden_act=gelu"),                                                                       \
    .adjust = adjust_sound,                                                                        \
    .reads = "do_stable_layer_norm|add_adapter|adapter_attn_dim|conv_pos_batch_norm"

const struct checkpoint_stack checkpoint_images[] = {
    { .model_type = "vit",
      .prefixes = "vit.|",
      VIT_SELF,
      .ignored = PICTURE_IGNORED,
      .pass = { VIT_PASS, .resize = MODEL_RESIZE_CUBIC, .pixel_range = &halves,
                .class_rows = { "embeddings.cls_token" } } },
    { .model_type = "deit",
      .prefixes = "deit.|",
      VIT_SELF,
      .ignored = PICTURE_IGNORED,
      .pass = { VIT_PASS, .resize = MODEL_RESIZE_CUBIC, .pixel_range = &imagenet,
                .class_rows = { "embeddings.cls_token", "embeddings.distillation_token" } } },
    { .model_type = "dinov2",
      .prefixes = "dinov2.|",
      VIT_SELF,
      .ignored = PICTURE_IGNORED,
      .pass = { PICTURE("14"), .resize = MODEL_RESIZE_CUBIC, DINOV2_PASS } },
    /* dinov2_with_registers/modular_dinov2_with_registers.py: Dinov2WithRegistersEmbeddings. */
    { .model_type = "dinov2_with_registers",
      .prefixes = "dinov2_with_registers.|",
      VIT_SELF,
      .ignored = PICTURE_IGNORED "|interpolate_antialias|interpolate_offset",
      .pass = { PICTURE("16"), .resize = MODEL_RESIZE_SMOOTH_CUBIC, DINOV2_PASS,
                .register_rows = "embeddings.register_tokens",
                .register_count = "num_register_tokens=4" } },
    { .model_type = "dinov3_vit",
      SELF("dinov3_vit.|model.|", "layer.%.", "attention."),
      .projections = PROJECTIONS("q_proj", "k_proj", "v_proj", "o_proj"),
      SIZES(12, 384, 6),
      .theta = "rope_theta=100",
      .adjust = adjust_dinov3_layer,
      .reads = "query_bias|key_bias|value_bias|proj_bias|image_size|patch_size|num_register_tokens",
      .ignored = PICTURE_IGNORED "|pos_embed_*",
      .pass = { PICTURE("16"), .pixel_range = &imagenet_whole,
                .patches = "embeddings.patch_embeddings", .class_rows = { "embeddings.cls_token" },
                .register_rows = "embeddings.register_tokens",
                .register_count = "num_register_tokens", NORMS_BEFORE("norm1", "norm2"),
                .attention_scales = "layer_scale1.lambda1",
                .feed_forward_scales = "layer_scale2.lambda1", PASS_NORMS("layer_norm_eps=0.00001"),
                FEED("mlp.up_proj", "mlp.down_proj", "mlp_bias=true", "hidden_act=gelu"),
                .final_norm = "norm", .adjust = adjust_dinov3, .reads = "use_gated_mlp" } },
    /* vit_mae/modeling_vit_mae.py, the encoder over all patches: with a mask_ratio of 0. */
    { .model_type = "vit_mae",
      .prefixes = "vit.|",
      VIT_SELF,
      .ignored = PICTURE_IGNORED "|" MAE_IGNORED,
      .pass = { VIT_PASS, .pixel_range = &imagenet_whole,
                .class_rows = { "embeddings.cls_token" } } },
    { .model_type = "beit",
      .prefixes = "beit.|",
      VIT_NAMES,
      .biases = Q | V | O,
      .image_bias = "attention.relative_position_bias.relative_position_bias_table",
      .image_bias_if = "use_relative_position_bias",
      .shared_bias = "encoder.relative_position_bias.relative_position_bias_table",
      .shared_bias_if = "use_shared_relative_position_bias",
      .reads = "image_size|patch_size",
      .ignored = BEIT_IGNORED,
      .pass = { VIT_PASS, .pixel_range = &halves, .class_rows = { "embeddings.cls_token" },
                .attention_scales = "lambda_1", .feed_forward_scales = "lambda_2",
                .adjust = adjust_beit,
                .reads =
                    "use_absolute_position_embeddings|use_mean_pooling|layer_scale_init_value" } },
    { .model_type = "clip",
      .section = "text_config_dict|text_config",
      CLIP_TEXT,
      .pass = { .name = "text",
                .tokens = "embeddings.token_embedding",
                .positions = "embeddings.position_embedding",
                CLIP_PASS,
                .final_norm = "final_layer_norm" } },
    { .model_type = "clip",
      .section = "vision_config_dict|vision_config",
      CLIP_VISION,
      .pass = { .name = "vision",
                PICTURE("32"),
                .resize = MODEL_RESIZE_CUBIC,
                .pixel_range = &clip,
                .patches = "embeddings.patch_embedding",
                .patches_have_no_bias = true,
                .class_rows = { "embeddings.class_embedding" },
                .patch_positions = "embeddings.position_embedding.weight",
                .embedding_norm = "pre_layrnorm",
                CLIP_PASS } },
    { .model_type = "clip_text_model",
      CLIP_TEXT,
      .pass = { .name = "text",
                .tokens = "embeddings.token_embedding",
                .positions = "embeddings.position_embedding",
                CLIP_PASS,
                .final_norm = "final_layer_norm" } },
    { .model_type = "clip_vision_model",
      CLIP_VISION,
      .pass = { .name = "vision",
                PICTURE("32"),
                .resize = MODEL_RESIZE_CUBIC,
                .pixel_range = &clip,
                .patches = "embeddings.patch_embedding",
                .patches_have_no_bias = true,
                .class_rows = { "embeddings.class_embedding" },
                .patch_positions = "embeddings.position_embedding.weight",
                .embedding_norm = "pre_layrnorm",
                CLIP_PASS } },
    { .model_type = "siglip",
      .section = "text_config_dict|text_config",
      .prefixes = "text_model.",
      SIGLIP_TEXT },
    { .model_type = "siglip",
      .section = "vision_config_dict|vision_config",
      .prefixes = "vision_model.",
      SIGLIP_VISION,
      .pass = { SIGLIP_PICTURE } },
    { .model_type = "siglip_text_model", .prefixes = "text_model.|", SIGLIP_TEXT },
    { .model_type = "siglip_vision_model",
      .prefixes = "vision_model.|",
      SIGLIP_VISION,
      .pass = { SIGLIP_PICTURE } },
    { .model_type = "siglip2", .section = "text_config", .prefixes = "text_model.", SIGLIP_TEXT },
    { .model_type = "siglip2",
      .section = "vision_config",
      .prefixes = "vision_model.",
      SIGLIP_VISION,
      .pass = { SIGLIP2_PICTURE } },
    { .model_type = "siglip2_text_model", .prefixes = "text_model.|", SIGLIP_TEXT },
    { .model_type = "siglip2_vision_model",
      .prefixes = "vision_model.|",
      SIGLIP_VISION,
      .pass = { SIGLIP2_PICTURE } },
    { .model_type = "wav2vec2",
      SOUND_SELF("wav2vec2.|"),
      .ignored = SOUND_IGNORED,
      .pass = { SOUND_PASS } },
    { .model_type = "hubert",
      SOUND_SELF("hubert.|"),
      .ignored = SOUND_IGNORED,
      .pass = { SOUND_PASS } },
    { .model_type = "wavlm",
      SOUND_SELF("wavlm.|"),
      .bias_table = "rel_attn_embed",
      .gate = "gru_rel_pos_",
      .buckets = "num_buckets=320",
      .max_distance = "max_bucket_distance=800",
      .ignored = SOUND_IGNORED,
      .pass = { SOUND_PASS } },
    { .model_type = NULL },
};
