/* checkpoint_forward_encoders.c - what stands around the attention of encoders, and of encoders
 * with decoders.
 *
 * To add a family, put a row for each of its streams before the last row, as checkpoint_forward.h
 * says. */
#include "checkpoint/checkpoint_forward.h"

#define LAYER_NORMS                                                                                \
    .norm_is_centred = true, .norm_bias = "=true", .norm_eps = "layer_norm_eps=0.000000000001"

/* bert/modeling_bert.py: BertEmbeddings, BertLayer. */
#define BERT                                                                                       \
    .tokens = "embeddings.word_embeddings", .positions = "embeddings.position_embeddings",         \
    .types = "embeddings.token_type_embeddings", .embedding_norm = "embeddings.LayerNorm",         \
    .layer = "encoder.layer.%.", .attention = { .after = "attention.output.LayerNorm" },           \
    .feed_forward = { .after = "output.LayerNorm" }, LAYER_NORMS, .up = "intermediate.dense",      \
    .down = "output.dense", .biases = "=true", .activation = "hidden_act=gelu",                    \
    .tied = "tie_word_embeddings=true"

const struct checkpoint_forward_row checkpoint_forward_encoders[] = {
    { .model_type = "bert",
      BERT,
      .transform = "/cls.predictions.transform.dense",
      .head_activation = "hidden_act=gelu",
      .head_norm = "/cls.predictions.transform.LayerNorm",
      .output = "/cls.predictions.decoder",
      .output_bias = "/cls.predictions.bias|/cls.predictions.decoder.bias" },
    { .model_type = NULL },
};
