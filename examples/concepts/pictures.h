/* SPDX-License-Identifier: Apache-2.0 */
/* pictures.h - the pictures of the concepts, each drawn from answers of the daemon. */
#ifndef PICTURES_H
#define PICTURES_H

#include "../sessions/daemon.h"

/* One layer alone: rows of numbers under "sdpa". */
void picture_attention(struct daemon *daemon);
void picture_masks(struct daemon *daemon);
void picture_lse(struct daemon *daemon);
void picture_gradients(struct daemon *daemon);

/* A text through the model stories260K. */
void picture_heads(struct daemon *daemon);
void picture_layers(struct daemon *daemon);
void picture_decode(struct daemon *daemon);

/* The same with edits of the pass. */
void picture_causes(struct daemon *daemon);
void picture_residual(struct daemon *daemon);

/* The answer to a request that is written as JSON; the caller frees it. */
cJSON *picture_ask(struct daemon *daemon, const char *path, const char *request);

#endif
