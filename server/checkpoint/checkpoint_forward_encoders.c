/* checkpoint_forward_encoders.c - what stands around the attention of encoders of text.
 *
 * To add a family, put a row before the last row, as checkpoint_forward.h says. */
#include "checkpoint/checkpoint_forward.h"

#define LAYER_NORMS(eps) .norm_is_centred = true, .norm_bias = "=true", .norm_eps = (eps)

/* bert/modeling_bert.py: BertEmbeddings, BertLayer. */
#define BERT                                                                                       \
    .tokens = "embeddings.word_embeddings", .positions = "embeddings.position_embeddings",         \
    .types = "embeddings.token_type_embeddings", .embedding_norm = "embeddings.LayerNorm",         \
    .layer = "encoder.layer.%.", .attention = { .after = "attention.output.LayerNorm" },           \
    .feed_forward = { .after = "output.LayerNorm" }, LAYER_NORMS("layer_norm_eps=0.000000000001"), \
    .up = "intermediate.dense", .down = "output.dense", .biases = "=true",                         \
    .activation = "hidden_act=gelu", .tied = "tie_word_embeddings=true"

const struct checkpoint_forward_row checkpoint_forward_encoders[] = {
    { .model_type = "bert",
      BERT,
      .transform = "/cls.predictions.transform.dense",
      .head_activation = "hidden_act=gelu",
      .head_norm = "/cls.predictions.transform.LayerNorm",
      .output = "/cls.predictions.decoder",
      .output_bias = "/cls.predictions.bias|/cls.predictions.decoder.bias" },
    /* roberta/modeling_roberta.py: RobertaLMHead always has GELU. */
    { .model_type = "roberta|xlm-roberta|camembert",
      BERT,
      .padding = "pad_token_id=1",
      .transform = "/lm_head.dense",
      .head_activation = "=gelu",
      .head_norm = "/lm_head.layer_norm",
      .output = "/lm_head.decoder",
      .output_bias = "/lm_head.bias|/lm_head.decoder.bias" },
    /* electra/modeling_electra.py: ElectraGeneratorPredictions always has GELU. A discriminator has
     * no head over tokens. */
    { .model_type = "electra",
      BERT,
      .projection = "embeddings_project",
      .transform = "/generator_predictions.dense",
      .head_activation = "=gelu",
      .head_norm = "/generator_predictions.LayerNorm",
      .output = "/generator_lm_head",
      .output_bias = "/generator_lm_head.bias" },
    /* distilbert/modeling_distilbert.py: Embeddings, TransformerBlock, DistilBertForMaskedLM. The
     * file has its positions, sinusoidal ones too. */
    { .model_type = "distilbert",
      .tokens = "embeddings.word_embeddings",
      .positions = "embeddings.position_embeddings",
      .embedding_norm = "embeddings.LayerNorm",
      .layer = "transformer.layer.%.",
      .attention = { .after = "sa_layer_norm" },
      .feed_forward = { .after = "output_layer_norm" },
      LAYER_NORMS("=0.000000000001"),
      .up = "ffn.lin1",
      .down = "ffn.lin2",
      .biases = "=true",
      .activation = "activation=gelu",
      .transform = "/vocab_transform",
      .head_activation = "activation=gelu",
      .head_norm = "/vocab_layer_norm",
      .output = "/vocab_projector",
      .output_bias = "/vocab_projector.bias",
      .tied = "tie_word_embeddings=true" },
    /* albert/modeling_albert.py: AlbertEmbeddings, AlbertTransformer, AlbertLayer, AlbertMLMHead.
     */
    { .model_type = "albert",
      .tokens = "embeddings.word_embeddings",
      .positions = "embeddings.position_embeddings",
      .types = "embeddings.token_type_embeddings",
      .embedding_norm = "embeddings.LayerNorm",
      .projection = "encoder.embedding_hidden_mapping_in",
      .projection_is_always = true,
      .layer = "encoder.albert_layer_groups.%.albert_layers.%.",
      .attention = { .after = "attention.LayerNorm" },
      .feed_forward = { .after = "full_layer_layer_norm" },
      LAYER_NORMS("layer_norm_eps=0.000000000001"),
      .up = "ffn",
      .down = "ffn_output",
      .biases = "=true",
      .activation = "hidden_act=gelu_new",
      .transform = "/predictions.dense",
      .head_activation = "hidden_act=gelu_new",
      .head_norm = "/predictions.LayerNorm",
      .output = "/predictions.decoder",
      .output_bias = "/predictions.bias|/predictions.decoder.bias",
      .tied = "tie_word_embeddings=true" },
    { .model_type = NULL },
};
