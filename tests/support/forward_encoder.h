/* SPDX-License-Identifier: Apache-2.0 */
/* forward_encoder.h - what the tests of encoders share that predict masked tokens or make vectors
 * of sentences: small models of three layers, and parts of their passes. */
#ifndef FORWARD_ENCODER_H
#define FORWARD_ENCODER_H

#include "forward_decoder.h"

enum { ENCODER_HEADS = 4, ENCODER_WIDTH = 16, ENCODER_LAYERS = 3 };

/* Tensors; each ends with a comma. */
#define ENCODER_LINEAR(name, shape, size) name ".weight " shape ", " name ".bias " size ", "
#define ENCODER_NORM(name)                name ".weight 16*4, " name ".bias 16, "
#define ENCODER_SMALL_NORM(name)          name ".weight 16*2, " name ".bias 16, "
#define ENCODER_BARE_NORM(name)           name ".weight 16*4, "

/* decoder_case_check() of an encoder, of length tokens; 0: the default. A model whose head has a
 * layer of its own is named masked_... */
void encoder_check(const char *name, const char *config, const char *tensors, int64_t length,
                   void (*pass)(struct forward *forward));

/* The rows of the tokens of the case, from the table called name. */
struct rows encoder_embed(const char *name);

/* Query, key and value under three names; of one tensor. */
struct decoder_projections encoder_project(struct rows x, const char *q, const char *k,
                                           const char *v, int layer);
struct decoder_projections encoder_project_fused(struct rows x, const char *name, int layer);

/* A head that is like RoBERTa's: norm(gelu(dense(x))) . table^T + bias. */
struct rows encoder_masked_head(struct rows x, const char *dense, const char *norm, double eps,
                                const char *table, const char *bias);

#endif
