/* checkpoint_encoders.c - the table of encoders, and of encoders with decoders.
 *
 * To add a family, put a row for each kind of its layers before the last row, as
 * checkpoint_families.h says: for an encoder with a decoder that is encoder, decoder and cross.
 * Compare it with the family's own source in tests/unit/test_checkpoint_encoders.c. Put a published
 * config.json into tests/unit/published_configs.json. */
#include "checkpoint/checkpoint_families.h"

#include "checkpoint/checkpoint_fields.h"
#include "checkpoint/checkpoint_layer.h"
#include "checkpoint/checkpoint_rows.h"

#include <inttypes.h>
#include <string.h>

#define ENCODER_FIELDS                                                                             \
    .layers = "num_hidden_layers=12", .width = "hidden_size=768",                                  \
    .q_heads = "num_attention_heads=12"

/* The layers of ALBERT share the parameters of a few groups, or of one. The number in a tensor's
 * name is that of the layer's group. A group is inner_group_num attention layers, one after the
 * other. */
static int64_t number_albert(const cJSON *section, int64_t index)
{
    const cJSON *groups = cJSON_GetObjectItemCaseSensitive(section, "num_hidden_groups");
    const cJSON *layers = cJSON_GetObjectItemCaseSensitive(section, "num_hidden_layers");
    const double group_count = cJSON_IsNumber(groups) ? groups->valuedouble : 1;
    const double layer_count = cJSON_IsNumber(layers) ? layers->valuedouble : 12;
    if (!(group_count >= 1 && layer_count >= group_count && layer_count <= MODEL_LAYERS_MAX))
        return index;
    return (int64_t)((double)index / (layer_count / group_count));
}

#define BERT_SELF                                                                                  \
    .kind = "self", .layer = "encoder.layer.%.attention.",                                         \
    .projections = PROJECTIONS("self.query", "self.key", "self.value", "output.dense"),            \
    .biases = Q | K | V | O, .causal = "is_decoder", .distances = "self.distance_embedding"

#define BERT_CROSS                                                                                 \
    .kind = "cross", .layer = "encoder.layer.%.crossattention.",                                   \
    .projections = PROJECTIONS("self.query", "self.key", "self.value", "output.dense"),            \
    .biases = Q | K | V | O

#define VIT_NAMES                                                                                  \
    .kind = "self", .layer = "encoder.layer.%.attention.",                                         \
    .projections =                                                                                 \
        PROJECTIONS("attention.query", "attention.key", "attention.value", "output.dense"),        \
    ENCODER_FIELDS
#define VIT_SELF VIT_NAMES, .biases = O, .more_biases = Q | K | V, .more_biases_if = "qkv_bias=true"

/* BART and Whisper have the same names of tensors, but other fields and biases. */
#define SEQ2SEQ_ENCODER                                                                            \
    .kind = "encoder", .prefixes = "model.|", .layer = "encoder.layers.%.self_attn.",              \
    .projections = OUT_PROJ
#define SEQ2SEQ_DECODER                                                                            \
    .kind = "decoder", .prefixes = "model.|", .layer = "decoder.layers.%.self_attn.",              \
    .projections = OUT_PROJ, .causal = "=true"
#define SEQ2SEQ_CROSS                                                                              \
    .kind = "cross", .prefixes = "model.|", .layer = "decoder.layers.%.encoder_attn.",             \
    .projections = OUT_PROJ

#define BART "bart|mbart|marian|pegasus|m2m_100"
#define BART_ENCODER                                                                               \
    .layers = "encoder_layers=12", .q_heads = "num_attention_heads|encoder_attention_heads=16",    \
    .width = "hidden_size|d_model=1024", .biases = Q | K | V | O
#define BART_DECODER                                                                               \
    .layers = "decoder_layers=12", .q_heads = "decoder_attention_heads=16",                        \
    .width = "hidden_size|d_model=1024", .biases = Q | K | V | O
#define WHISPER_ENCODER                                                                            \
    .layers = "encoder_layers=4",                                                                  \
    .q_heads = "num_key_value_heads|num_attention_heads|encoder_attention_heads=6",                \
    .width = "hidden_size|d_model=384", .biases = Q | V | O
#define WHISPER_DECODER                                                                            \
    .layers = "decoder_layers=4", .q_heads = "decoder_attention_heads=6",                          \
    .width = "hidden_size|d_model=384", .biases = Q | V | O

#define CLIP_TEXT                                                                                  \
    .kind = "text", .prefixes = "text_model.", .layer = "encoder.layers.%.self_attn.",             \
    .projections = OUT_PROJ, .biases = Q | K | V | O, .layers = "num_hidden_layers=12",            \
    .width = "hidden_size=512", .q_heads = "num_attention_heads=8", .causal = "=true",             \
    .ignored = CLIP_IGNORED "|image_size|patch_size|num_channels"
#define CLIP_VISION                                                                                \
    .kind = "vision", .prefixes = "vision_model.", .layer = "encoder.layers.%.self_attn.",         \
    .projections = OUT_PROJ, .biases = Q | K | V | O, ENCODER_FIELDS, .ignored = CLIP_IGNORED

#define T5_PROJECTIONS(fields)                                                                     \
    .prefixes = "|transformer.", .projections = PROJECTIONS("q", "k", "v", "o"),                   \
    .width = "hidden_size|d_model=512", .head_dim = "head_dim|d_kv=64", .unscaled = true, fields
#define T5_BIAS                                                                                    \
    .bias_table = "relative_attention_bias", .buckets = "relative_attention_num_buckets=32",       \
    .max_distance = "relative_attention_max_distance=128"
#define T5_ENCODER(fields)                                                                         \
    .kind = "encoder", .layer = "encoder.block.%.layer.0.SelfAttention.", T5_PROJECTIONS(fields),  \
    T5_BIAS
#define T5_DECODER(fields)                                                                         \
    .kind = "decoder", .layer = "decoder.block.%.layer.0.SelfAttention.", .causal = "=true",       \
    T5_PROJECTIONS(fields), T5_BIAS
#define T5_CROSS(fields)                                                                           \
    .kind = "cross", .layer = "decoder.block.%.layer.1.EncDecAttention.", T5_PROJECTIONS(fields)

/* Fields of BERT's pooler, and of its older files. */
#define BERT_KNOWN                                                                                 \
    .reads = "position_embedding_type", .ignored = "directionality|pooler_*|embedding_size"

#define PICTURE_IGNORED                                                                            \
    "encoder_stride|mlp_ratio|layerscale_value|use_swiglu_ffn|"                                    \
    "out_features|out_indices|stage_names|apply_layernorm|reshape_hidden_states|use_mask_token|"   \
    "pooler_output_size|pooler_act"
#define BEIT_IGNORED                                                                               \
    "use_mask_token|"                                                                              \
    "pool_scales|use_auxiliary_head|auxiliary_*|semantic_loss_ignore_index|"                       \
    "segmentation_indices|out_features|out_indices|stage_names|add_fpn|reshape_hidden_states|"     \
    "encoder_stride"
#define CLIP_IGNORED "projection_dim|logit_scale_init_value"
#define WAV2VEC2_IGNORED                                                                           \
    "feat_extract_*|conv_*|num_conv_*|num_feat_extract_layers|do_stable_layer_norm|"               \
    "apply_spec_augment|mask_time_*|mask_feature_*|mask_channel_*|num_codevector*|"                \
    "contrastive_logits_temperature|num_negatives|codevector_dim|proj_codevector_dim|ctc_*|"       \
    "use_weighted_layer_sum|tdnn_*|xvector_*|add_adapter|adapter_*|num_adapter_layers|"            \
    "hidden_size_*|num_ctc_classes|gumbel_*|freeze_feat_extract_train"
#define SEQ2SEQ_IGNORED                                                                            \
    "num_hidden_layers|add_bias_logits|add_final_layer_norm|normalize_before|"                     \
    "normalize_embedding|static_position_embeddings|extra_pos_embeddings|"                         \
    "do_blenderbot_90_layernorm|force_bos_token_to_be_generated|save_step|replacing_rate|"         \
    "share_encoder_decoder_embeddings|student_*"
#define WHISPER_IGNORED                                                                            \
    "num_hidden_layers|max_target_positions|scale_embedding|"                                      \
    "use_weighted_layer_sum|apply_spec_augment|mask_time_*|mask_feature_*|median_filter_width|"    \
    "alignment_heads|lang_*|task*|no_timestamps*|is_multilingual"
#define T5_IGNORED "dense_act_fn|is_gated_act|dropout_rate"

const struct checkpoint_stack checkpoint_encoders[] = {
    { .model_type = "bert", .prefixes = "bert.|", BERT_SELF, ENCODER_FIELDS, BERT_KNOWN },
    { .model_type = "bert", .prefixes = "bert.|", BERT_CROSS, ENCODER_FIELDS },
    { .model_type = "roberta|xlm-roberta|camembert",
      .prefixes = "roberta.|",
      BERT_SELF,
      ENCODER_FIELDS,
      BERT_KNOWN },
    { .model_type = "roberta|xlm-roberta|camembert",
      .prefixes = "roberta.|",
      BERT_CROSS,
      ENCODER_FIELDS },
    { .model_type = "electra",
      .prefixes = "electra.|",
      BERT_SELF,
      .layers = "num_hidden_layers=12",
      .width = "hidden_size=256",
      .q_heads = "num_attention_heads=4",
      BERT_KNOWN },
    { .model_type = "distilbert",
      .kind = "self",
      .prefixes = "distilbert.|",
      .layer = "transformer.layer.%.attention.",
      .projections = PROJECTIONS("q_lin", "k_lin", "v_lin", "out_lin"),
      .biases = Q | K | V | O,
      .layers = "num_hidden_layers|n_layers=6",
      .width = "hidden_size|dim=768",
      .q_heads = "num_attention_heads|n_heads=12",
      .ignored = "sinusoidal_pos_embds|hidden_dim" },
    { .model_type = "albert",
      .kind = "self",
      .prefixes = "albert.|",
      .layer = "encoder.albert_layer_groups.%.albert_layers.%.attention.",
      .projections = PROJECTIONS("query", "key", "value", "dense"),
      .biases = Q | K | V | O,
      .layers = "num_hidden_layers=12",
      .width = "hidden_size=4096",
      .q_heads = "num_attention_heads=64",
      .number = number_albert,
      .inner = "inner_group_num=1",
      .expected = "gap_size=0|num_memory_blocks=0|net_structure_type=0|down_scale_factor=1",
      .reads = "position_embedding_type|num_hidden_groups",
      .ignored = "embedding_size",
      .distances = "distance_embedding" },
    { .model_type = "vit", .prefixes = "vit.|", VIT_SELF, .ignored = PICTURE_IGNORED },
    { .model_type = "deit", .prefixes = "deit.|", VIT_SELF, .ignored = PICTURE_IGNORED },
    { .model_type = "dinov2", .prefixes = "dinov2.|", VIT_SELF, .ignored = PICTURE_IGNORED },
    { .model_type = "beit",
      .prefixes = "beit.|",
      VIT_NAMES,
      .biases = Q | V | O,
      .image_bias = "attention.relative_position_bias.relative_position_bias_table",
      .image_bias_if = "use_relative_position_bias",
      .shared_bias = "encoder.relative_position_bias.relative_position_bias_table",
      .shared_bias_if = "use_shared_relative_position_bias",
      .reads = "image_size|patch_size",
      .ignored = BEIT_IGNORED },
    { .model_type = "clip", .section = "text_config_dict|text_config", CLIP_TEXT },
    { .model_type = "clip", .section = "vision_config_dict|vision_config", CLIP_VISION },
    { .model_type = "clip_text_model", CLIP_TEXT },
    { .model_type = "clip_vision_model", CLIP_VISION },
    { .model_type = "wav2vec2",
      .kind = "self",
      .prefixes = "wav2vec2.|",
      .layer = "encoder.layers.%.attention.",
      .projections = OUT_PROJ,
      .biases = Q | K | V | O,
      ENCODER_FIELDS,
      .ignored = WAV2VEC2_IGNORED },
    { .model_type = BART, SEQ2SEQ_ENCODER, BART_ENCODER, .ignored = SEQ2SEQ_IGNORED },
    { .model_type = BART, SEQ2SEQ_DECODER, BART_DECODER },
    { .model_type = BART, SEQ2SEQ_CROSS, BART_DECODER },
    { .model_type = "whisper", SEQ2SEQ_ENCODER, WHISPER_ENCODER, .ignored = WHISPER_IGNORED },
    { .model_type = "whisper", SEQ2SEQ_DECODER, WHISPER_DECODER },
    { .model_type = "whisper", SEQ2SEQ_CROSS, WHISPER_DECODER },
    { .model_type = "t5",
      T5_ENCODER(.q_heads = "num_attention_heads|num_heads=8"),
      .layers = "num_hidden_layers|num_layers=6",
      .ignored = T5_IGNORED },
    { .model_type = "t5",
      T5_DECODER(.q_heads = "num_attention_heads|num_heads=8"),
      .layers = "num_decoder_layers|num_layers=6" },
    { .model_type = "t5",
      T5_CROSS(.q_heads = "num_attention_heads|num_heads=8"),
      .layers = "num_decoder_layers|num_layers=6" },
    { .model_type = "mt5",
      T5_ENCODER(.q_heads = "num_attention_heads|num_heads=6"),
      .layers = "num_hidden_layers|num_layers=8",
      .ignored = T5_IGNORED },
    { .model_type = "mt5",
      T5_DECODER(.q_heads = "num_attention_heads|num_heads=6"),
      .layers = "num_decoder_layers|num_layers=8" },
    { .model_type = "mt5",
      T5_CROSS(.q_heads = "num_attention_heads|num_heads=6"),
      .layers = "num_decoder_layers|num_layers=8" },
    { .model_type = NULL },
};
