/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_encoders.c - the table of encoders of text.
 *
 * checkpoint_family.h says how a family is added. Its attention is compared with its own source in
 * tests/unit/test_checkpoint_encoders.c. */
#include "models/checkpoint/checkpoint_family_rows.h"

#include "models/checkpoint/checkpoint_fields.h"
#include "models/checkpoint/checkpoint_layer.h"
#include "models/checkpoint/checkpoint_tensors.h"

#include <math.h>
#include <string.h>

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

/* Every third layer of ModernBERT looks at all keys, the first of all among them. */
static bool has_window_modernbert(const cJSON *section, int64_t index)
{
    const cJSON *every = cJSON_GetObjectItemCaseSensitive(section, "global_attn_every_n_layers");
    const double count = cJSON_IsNumber(every) ? every->valuedouble : 3;
    return !(count >= 1 && fmod((double)index, count) == 0);
}

/* A ModernBERT without a bias of its decoder does not tell a head over tokens from that of a
 * classifier: it has predictions where it has a decoder of its own. */
static bool adjust_modernbert(struct checkpoint_pass *pass, const cJSON *section,
                              struct fault *fault)
{
    bool has_bias, has_output_bias;
    if (!checkpoint_read_flag(section, "classifier_bias", &has_bias, fault)
        || !checkpoint_read_flag(section, "decoder_bias=true", &has_output_bias, fault))
        return false;
    pass->transform_has_no_bias = !has_bias;
    if (!has_output_bias) {
        pass->output_bias = NULL;
        pass->output_bias_tells = false;
        pass->tied = NULL;
    }
    return true;
}

/* ESM-2 has a rotary embedding in place of positions. */
static bool read_esm_type(const cJSON *section, bool *is_rotary, struct fault *fault)
{
    const char *type;
    if (!checkpoint_read_string(section, "position_embedding_type=absolute", &type, fault))
        return false;
    *is_rotary = strcmp(type, "rotary") == 0;
    return *is_rotary || strcmp(type, "absolute") == 0
           || fault_set_at(fault, "/config/position_embedding_type", FAULT_OPTION,
                           "config.json's position_embedding_type is '%.40s'; expected rotary or "
                           "absolute",
                           type);
}

static bool adjust_esm(struct checkpoint_layer *layer, struct fault *fault)
{
    bool is_rotary;
    if (!read_esm_type(layer->run->section, &is_rotary, fault))
        return false;
    layer->lacks_rope = !is_rotary;
    return true;
}

/* The part of tokens that were masked in training is not in config.json: EsmEmbeddings.forward().
 */
static bool adjust_esm_pass(struct checkpoint_pass *pass, const cJSON *section, struct fault *fault)
{
    bool is_rotary, has_norm, has_dropout;
    if (!read_esm_type(section, &is_rotary, fault)
        || !checkpoint_read_flag(section, "emb_layer_norm_before", &has_norm, fault)
        || !checkpoint_read_flag(section, "token_dropout", &has_dropout, fault)
        || !checkpoint_read_integer(section, "mask_token_id", &pass->dropout_id, fault))
        return false;
    if (is_rotary)
        pass->positions = NULL;
    if (!has_norm)
        pass->embedding_norm = NULL;
    pass->dropout_ratio = has_dropout ? 0.15 * 0.8 : 0;
    return true;
}

/* A convolution beside the first layer is not computed; a table of positions is not used unless
 * position_biased_input says so. Without `legacy` the head is that of DebertaV2OnlyMLMHead. */
static bool adjust_deberta_pass(struct checkpoint_pass *pass, const cJSON *section,
                                struct fault *fault)
{
    int64_t types, kernel;
    bool has_positions, is_legacy;
    if (!checkpoint_read_flag(section, "position_biased_input=true", &has_positions, fault)
        || !checkpoint_read_integer(section, "type_vocab_size", &types, fault)
        || !checkpoint_read_integer(section, "conv_kernel_size", &kernel, fault))
        return false;
    if (!checkpoint_read_flag(section, "legacy=true", &is_legacy, fault))
        return false;
    if (!has_positions)
        pass->positions = NULL;
    if (types == 0)
        pass->types = NULL;
    if (!is_legacy) {
        pass->transform = "/lm_predictions.lm_head.dense";
        pass->head_norm = "/lm_predictions.lm_head.LayerNorm";
        pass->output = NULL;
        pass->tied = "=true";
        pass->output_bias = "/lm_predictions.lm_head.bias";
    }
    return kernel == 0
           || fault_set(fault, FAULT_OPTION,
                        "config.json sets conv_kernel_size, a convolution beside the first layer, "
                        "with which the whole pass is not computed here");
}

#define BERT_SELF                                                                                  \
    .kind = "self", .block = "encoder.layer.%.", .attention = "attention.",                        \
    .projections = PROJECTIONS("self.query", "self.key", "self.value", "output.dense"),            \
    .biases = Q | K | V | O, .causal = "is_decoder", .distances = "self.distance_embedding"
#define BERT_CROSS                                                                                 \
    .kind = "cross", .block = "encoder.layer.%.", .attention = "crossattention.",                  \
    .projections = PROJECTIONS("self.query", "self.key", "self.value", "output.dense"),            \
    .biases = Q | K | V | O

/* Fields of BERT's pooler, and of its older files. */
#define BERT_KNOWN                                                                                 \
    .reads = "position_embedding_type", .ignored = "directionality|pooler_*|embedding_size"

/* ---------------------------------------------------------- around attention -- */

/* bert/modeling_bert.py: BertEmbeddings, BertLayer. */
#define BERT_PASS                                                                                  \
    .tokens = "embeddings.word_embeddings", .positions = "embeddings.position_embeddings",         \
    .types = "embeddings.token_type_embeddings", .embedding_norm = "embeddings.LayerNorm",         \
    NORMS_AFTER("attention.output.LayerNorm", "output.LayerNorm"),                                 \
    PASS_NORMS("layer_norm_eps=0.000000000001"),                                                   \
    FEED("intermediate.dense", "output.dense", "=true", "hidden_act=gelu"),                        \
    .tied = "tie_word_embeddings=true"

const struct checkpoint_stack checkpoint_encoders[] = {
    { .model_type = "bert",
      .prefixes = "bert.|",
      BERT_SELF,
      SIZES(12, 768, 12),
      BERT_KNOWN,
      .pass = { BERT_PASS,
                MASKED_HEAD("/cls.predictions", ".transform", "LayerNorm", "hidden_act=gelu") } },
    { .model_type = "bert", .prefixes = "bert.|", BERT_CROSS, SIZES(12, 768, 12) },
    /* roberta/modeling_roberta.py: RobertaLMHead always has GELU. */
    { .model_type = "roberta|xlm-roberta|camembert",
      .prefixes = "roberta.|",
      BERT_SELF,
      SIZES(12, 768, 12),
      BERT_KNOWN,
      .pass = { BERT_PASS, .padding = "pad_token_id=1",
                MASKED_HEAD("/lm_head", "", "layer_norm", "=gelu") } },
    { .model_type = "roberta|xlm-roberta|camembert",
      .prefixes = "roberta.|",
      BERT_CROSS,
      SIZES(12, 768, 12) },
    /* electra/modeling_electra.py: ElectraGeneratorPredictions always has GELU. A discriminator has
     * no head over tokens. */
    { .model_type = "electra",
      .prefixes = "electra.|",
      BERT_SELF,
      SIZES(12, 256, 4),
      BERT_KNOWN,
      .pass = { BERT_PASS, .projection = "embeddings_project",
                .transform = "/generator_predictions.dense", .head_activation = "=gelu",
                .head_norm = "/generator_predictions.LayerNorm", .output = "/generator_lm_head",
                .output_bias = "/generator_lm_head.bias" } },
    /* distilbert/modeling_distilbert.py: Embeddings, TransformerBlock, DistilBertForMaskedLM. The
     * file has its positions, sinusoidal ones too. */
    { .model_type = "distilbert",
      SELF("distilbert.|", "transformer.layer.%.", "attention."),
      .projections = PROJECTIONS("q_lin", "k_lin", "v_lin", "out_lin"),
      .biases = Q | K | V | O,
      .layers = "num_hidden_layers|n_layers=6",
      .width = "hidden_size|dim=768",
      .q_heads = "num_attention_heads|n_heads=12",
      .ignored = "sinusoidal_pos_embds|hidden_dim",
      .pass = { .tokens = "embeddings.word_embeddings",
                .positions = "embeddings.position_embeddings",
                .embedding_norm = "embeddings.LayerNorm",
                NORMS_AFTER("sa_layer_norm", "output_layer_norm"),
                PASS_NORMS("=0.000000000001"),
                FEED("ffn.lin1", "ffn.lin2", "=true", "activation=gelu"),
                .transform = "/vocab_transform",
                .head_activation = "activation=gelu",
                .head_norm = "/vocab_layer_norm",
                .output = "/vocab_projector",
                .output_bias = "/vocab_projector.bias",
                .tied = "tie_word_embeddings=true" } },
    /* albert/modeling_albert.py: AlbertEmbeddings, AlbertTransformer, AlbertLayer, AlbertMLMHead.
     */
    { .model_type = "albert",
      SELF("albert.|", "encoder.albert_layer_groups.%.albert_layers.%.", "attention."),
      .projections = PROJECTIONS("query", "key", "value", "dense"),
      .biases = Q | K | V | O,
      SIZES(12, 4096, 64),
      .number = number_albert,
      .inner = "inner_group_num=1",
      .expected = "gap_size=0|num_memory_blocks=0|net_structure_type=0|down_scale_factor=1",
      .reads = "position_embedding_type|num_hidden_groups",
      .ignored = "embedding_size",
      .distances = "distance_embedding",
      .pass = { .tokens = "embeddings.word_embeddings",
                .positions = "embeddings.position_embeddings",
                .types = "embeddings.token_type_embeddings",
                .embedding_norm = "embeddings.LayerNorm",
                .projection = "encoder.embedding_hidden_mapping_in",
                .projection_is_always = true,
                NORMS_AFTER("attention.LayerNorm", "full_layer_layer_norm"),
                PASS_NORMS("layer_norm_eps=0.000000000001"),
                FEED("ffn", "ffn_output", "=true", "hidden_act=gelu_new"),
                MASKED_HEAD("/predictions", "", "LayerNorm", "hidden_act=gelu_new"),
                .tied = "tie_word_embeddings=true" } },
    /* mpnet/modeling_mpnet.py: MPNetEmbeddings, MPNetLayer, MPNetLMHead. compute_position_bias()
     * always has 32 buckets up to a distance of 128. */
    { .model_type = "mpnet",
      SELF("mpnet.|", "encoder.layer.%.", "attention.attn."),
      .projections = PROJECTIONS("q", "k", "v", "o"),
      .biases = Q | K | V | O,
      SIZES(12, 768, 12),
      .shared_table = "encoder.relative_attention_bias",
      .buckets = "relative_attention_num_buckets=32",
      .max_distance = "=128",
      .expected = "relative_attention_num_buckets=32",
      .pass = { .tokens = "embeddings.word_embeddings",
                .positions = "embeddings.position_embeddings",
                .padding = "=1",
                .embedding_norm = "embeddings.LayerNorm",
                NORMS_AFTER("attention.LayerNorm", "output.LayerNorm"),
                PASS_NORMS("layer_norm_eps=0.000000000001"),
                FEED("intermediate.dense", "output.dense", "=true", "hidden_act=gelu"),
                MASKED_HEAD("/lm_head", "", "layer_norm", "=gelu"),
                .tied = "tie_word_embeddings=true" } },
    /* modernbert/modeling_modernbert.py: ModernBertEmbeddings, ModernBertEncoderLayer,
     * ModernBertPredictionHead, which classifiers have too, and ModernBertForMaskedLM. */
    { .model_type = "modernbert",
      SELF("model.|", "layers.%.", "attn."),
      .projections = FUSED("Wqkv", "Wo"),
      .fusion = CHECKPOINT_ROWS,
      .more_biases = Q | O,
      .more_biases_if = "attention_bias",
      SIZES(22, 768, 12),
      .both_ways = "=true",
      .window = "local_attention=128",
      .has_window = has_window_modernbert,
      .theta = "global_rope_theta=160000",
      .local_theta = "local_rope_theta=10000",
      .refused = "rope_scaling",
      .reads = "global_attn_every_n_layers",
      .ignored =
          "initializer_cutoff_factor|deterministic_flash_attn|sparse_pred*|reference_compile|"
          "repad_logits_with_grad|position_embedding_type",
      .pass = { .tokens = "embeddings.tok_embeddings",
                .embedding_norm = "embeddings.norm",
                NORMS_BEFORE("attn_norm", "mlp_norm"),
                .first_has_no_norm = true,
                .norm_is_centred = true,
                .norm_bias = "norm_bias",
                .norm_eps = "norm_eps=0.00001",
                FEED("mlp.Wi", "mlp.Wo", "mlp_bias", "hidden_activation=gelu"),
                .up_has_gate = true,
                .final_norm = "final_norm",
                .transform = "/head.dense",
                .head_activation = "classifier_activation=gelu",
                .head_norm = "/head.norm",
                .output = "/decoder",
                .output_bias = "/decoder.bias",
                .output_bias_tells = true,
                .tied = "tie_word_embeddings=true",
                .adjust = adjust_modernbert,
                .reads = "classifier_bias|decoder_bias" } },
    /* esm/modeling_esm.py: EsmEmbeddings, EsmLayer, EsmLMHead, whose gelu() is always the one of
     * the error function. */
    { .model_type = "esm",
      SELF("esm.|", "encoder.layer.%.", "attention."),
      .projections = PROJECTIONS("self.query", "self.key", "self.value", "output.dense"),
      .biases = Q | K | V | O,
      SIZES(12, 768, 12),
      .theta = "=10000",
      .adjust = adjust_esm,
      .refused = "is_folding_model|is_decoder",
      .reads = "position_embedding_type",
      .ignored = "vocab_list",
      .pass = { .tokens = "embeddings.word_embeddings",
                .positions = "embeddings.position_embeddings",
                .padding = "pad_token_id",
                .embedding_norm = "embeddings.layer_norm",
                NORMS_BEFORE("attention.LayerNorm", "LayerNorm"),
                PASS_NORMS("layer_norm_eps=0.000000000001"),
                FEED("intermediate.dense", "output.dense", "=true", "=gelu"),
                .final_norm = "encoder.emb_layer_norm_after",
                .contacts = "contact_head.regression",
                .contacts_end = 2,
                MASKED_HEAD("/lm_head", "", "layer_norm", "=gelu"),
                .tied = "tie_word_embeddings=true",
                .adjust = adjust_esm_pass,
                .reads = "emb_layer_norm_before|token_dropout|mask_token_id" } },
    /* deberta_v2/modeling_deberta_v2.py: DebertaV2Embeddings, DebertaV2Layer. DeBERTa-v3 has the
     * same model_type. */
    { .model_type = "deberta-v2",
      SELF("deberta.|", "encoder.layer.%.", "attention."),
      .projections =
          PROJECTIONS("self.query_proj", "self.key_proj", "self.value_proj", "output.dense"),
      .biases = Q | K | V | O,
      SIZES(24, 1536, 24),
      .head_dim = "attention_head_size",
      .distance_rows = "encoder.rel_embeddings",
      .distance_norm = "encoder.LayerNorm",
      .row_projections = { "self.pos_key_proj", "self.pos_query_proj" },
      .adjust = checkpoint_disentangled_adjust,
      .reads = "relative_attention|share_att_key|pos_att_type|norm_rel_ebd|position_buckets|"
               "max_relative_positions",
      .ignored = "pooler_*|conv_*|embedding_size",
      .pass = { .tokens = "embeddings.word_embeddings",
                .token_projection = "embeddings.embed_proj",
                .positions = "embeddings.position_embeddings",
                .types = "embeddings.token_type_embeddings",
                .embedding_norm = "embeddings.LayerNorm",
                NORMS_AFTER("attention.output.LayerNorm", "output.LayerNorm"),
                PASS_NORMS("layer_norm_eps=0.0000001"),
                FEED("intermediate.dense", "output.dense", "=true", "hidden_act=gelu"),
                MASKED_HEAD("/cls.predictions", ".transform", "LayerNorm", "hidden_act=gelu"),
                .tied = "tie_word_embeddings=true",
                .adjust = adjust_deberta_pass,
                .reads = "position_biased_input|type_vocab_size|conv_kernel_size|legacy" } },
    { .model_type = NULL },
};
