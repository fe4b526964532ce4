/* SPDX-License-Identifier: Apache-2.0 */
/* forward_bert.h - BertModel without its pooler in double, and its tensors, for tests that build on
 * it; source: transformers, models/bert/modeling_bert.py. */
#ifndef FORWARD_BERT_H
#define FORWARD_BERT_H

#include "forward_reference.h"

enum { FORWARD_BERT_LAYERS = 2, FORWARD_BERT_HEADS = 2, FORWARD_BERT_TOKENS = 7 };

#define BERT_EMBEDDINGS(begin, types, width, NORM)                                                 \
    FORWARD_TENSOR(begin "embeddings.word_embeddings.weight", 40x##width)                          \
    FORWARD_TENSOR(begin "embeddings.position_embeddings.weight", 16x##width)                      \
    FORWARD_TENSOR(begin "embeddings.token_type_embeddings.weight", types##x##width)               \
    NORM(begin "embeddings.LayerNorm", width)
#define BERT_BLOCK(begin, width, inner, NORM)                                                      \
    FORWARD_LINEAR(begin "attention.self.query", width, width)                                     \
    FORWARD_LINEAR(begin "attention.self.key", width, width)                                       \
    FORWARD_LINEAR(begin "attention.self.value", width, width)                                     \
    FORWARD_LINEAR(begin "attention.output.dense", width, width)                                   \
    NORM(begin "attention.output.LayerNorm", width)                                                \
    FORWARD_LINEAR(begin "intermediate.dense", inner, width)                                       \
    FORWARD_LINEAR(begin "output.dense", width, inner) NORM(begin "output.LayerNorm", width)

/* DistilBERT of two heads and rows of 12, and ALBERT, whose embeddings have 8 columns. */
#define DISTILBERT_LAYER "distilbert.transformer.layer.#."
#define DISTILBERT                                                                                 \
    FORWARD_TENSOR("distilbert.embeddings.word_embeddings.weight", 40x12)                          \
    FORWARD_TENSOR("distilbert.embeddings.position_embeddings.weight", 16x12)                      \
    FORWARD_NORM("distilbert.embeddings.LayerNorm", 12)                                            \
    FORWARD_LINEAR(DISTILBERT_LAYER "attention.q_lin", 12, 12)                                     \
    FORWARD_LINEAR(DISTILBERT_LAYER "attention.k_lin", 12, 12)                                     \
    FORWARD_LINEAR(DISTILBERT_LAYER "attention.v_lin", 12, 12)                                     \
    FORWARD_LINEAR(DISTILBERT_LAYER "attention.out_lin", 12, 12)                                   \
    FORWARD_NORM(DISTILBERT_LAYER "sa_layer_norm", 12)                                             \
    FORWARD_LINEAR(DISTILBERT_LAYER "ffn.lin1", 20, 12)                                            \
    FORWARD_LINEAR(DISTILBERT_LAYER "ffn.lin2", 12, 20)                                            \
    FORWARD_NORM(DISTILBERT_LAYER "output_layer_norm", 12)
#define ALBERT_EMBEDDINGS                                                                          \
    BERT_EMBEDDINGS("albert.", 2, 8, FORWARD_NORM)                                                 \
    FORWARD_LINEAR("albert.encoder.embedding_hidden_mapping_in", 12, 8)
#define ALBERT_BLOCK(begin)                                                                        \
    FORWARD_LINEAR(begin "attention.query", 12, 12)                                                \
    FORWARD_LINEAR(begin "attention.key", 12, 12)                                                  \
    FORWARD_LINEAR(begin "attention.value", 12, 12)                                                \
    FORWARD_LINEAR(begin "attention.dense", 12, 12)                                                \
    FORWARD_NORM(begin "attention.LayerNorm", 12)                                                  \
    FORWARD_LINEAR(begin "ffn", 20, 12)                                                            \
    FORWARD_LINEAR(begin "ffn_output", 12, 20)                                                     \
    FORWARD_NORM(begin "full_layer_layer_norm", 12)

struct forward_bert {
    const char *begin; /* of all names, "bert." or "" */
    const char *activation;
    double eps;
    const int *ids, *types, *positions;
    int64_t layers, heads; /* 0: FORWARD_BERT_LAYERS and FORWARD_BERT_HEADS */
};

/* BertEmbeddings, before dropout; names begin with begin. */
struct rows forward_bert_embeddings(const char *begin, const int *ids, const int *types,
                                    const int *positions, double eps);

/* BertModel; ElectraModel where embeddings have other columns than blocks. */
struct forward forward_bert(const struct forward_bert *model);

#endif
