/* SPDX-License-Identifier: Apache-2.0 */
/* traffic_checkpoint.h - checkpoints of the shapes that people publish, with random parameters:
 * what a trace costs does not depend on what a model has learned. */
#ifndef BENCH_TRAFFIC_CHECKPOINT_H
#define BENCH_TRAFFIC_CHECKPOINT_H

#include <stdbool.h>

struct traffic_checkpoint {
    int layers, width, inner, heads; /* inner: of the feed-forward */
    int vocabulary, positions;       /* positions: of an encoder's table */
    bool is_f16;                     /* else F32 */
};

/* Write folder/config.json and folder/model.safetensors. If that fails, they end the program. An
 * encoder has BERT's form, with the head for masked tokens; a decoder has Llama's. */
void traffic_checkpoint_encoder(const char *folder, const struct traffic_checkpoint *shape);
void traffic_checkpoint_decoder(const char *folder, const struct traffic_checkpoint *shape);

/* Writes such an encoder as a GGUF file, in F32, with other random parameters and the mean of the
 * last rows as its vector. */
void traffic_checkpoint_gguf(const char *path, const struct traffic_checkpoint *shape);

#endif
