/* SPDX-License-Identifier: Apache-2.0 */
/* forward_edits.h - edits of a pass in double: the same text that a request has as "edits", read
 * again and applied by the passes of this folder at each place that an edit may name.
 *
 * Nothing here knows how the daemon edits a pass. Kept traces ("from") and texts ("hide_texts") are
 * not read. */
#ifndef FORWARD_EDITS_H
#define FORWARD_EDITS_H

#include "published.h"

/* Passes are edited from now on as this list in JSON says; NULL: they are not. */
void forward_edits_set(const char *edits);

/* The rows that enter block number `block` of a stream, whose own attention is layer `layer` of the
 * model: edited as embeddings before block 0, then as hidden_states. */
struct rows forward_edits_enter(const char *kind, int block, int layer, struct rows x);

/* The same as embeddings alone, for what a pass computes of them besides. */
struct rows forward_edits_embedded(const char *kind, struct rows x);

/* What leaves the feed-forward of the block. */
struct rows forward_edits_fed(const char *kind, int layer, struct rows x);

/* The layer whose attention is computed next. */
void forward_edits_layer(const char *kind, int layer);

/* published_attend() of that layer, with its edits of heads; and what leaves its output projection,
 * edited. */
struct published_answer forward_edits_attend(const struct published_attention *attention,
                                             struct rows q, struct rows k, struct rows v);
struct rows forward_edits_output(struct rows x);

/* A list of edits as text, to be freed: of the template, where $W stands for a list of width
 * numbers, $H for one of head_dim numbers, $2W, $2H and $2K for two rows of width, head_dim and
 * keys numbers, $L for the layers that have such heads, where others have not. */
char *forward_edits_text(const char *template, int64_t width, int64_t head_dim, int64_t keys);

/* The columns of a head of the last attention that was computed. */
int64_t forward_edits_head_dim(void);

#endif
