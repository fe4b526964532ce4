/* SPDX-License-Identifier: Apache-2.0 */
/* forward_parts.h - a pass in double, part by part: what each part adds to the logits if the scale
 * of every norm is held.
 *
 * The pass runs once as it is, and everything that a part puts into the residual is recorded, and
 * the scale of each norm. Then it runs again for each part: norms have the scales that they had,
 * and all parts but the one put in nothing. Such a pass is linear, so its logits, without those of
 * a pass in which no part puts in anything, are what the part adds. Nothing here knows how the
 * daemon finds the same. */
#ifndef FORWARD_PARTS_H
#define FORWARD_PARTS_H

#include "published.h"

enum forward_part {
    FORWARD_PART_NONE,
    FORWARD_PART_EMBEDDING, /* what enters the first block of the kind */
    FORWARD_PART_HEAD,
    FORWARD_PART_ATTENTION_BIAS,
    FORWARD_PART_FEED_FORWARD,
    FORWARD_PART_EDITS, /* of the layer's attention_output, and of hidden_states before it */
};

/* Passes from now on are recorded; then each takes in one part alone, of this layer of the model. A
 * pass of NONE comes first. End: passes are as always. */
void forward_parts_record(void);
void forward_parts_take(enum forward_part part, const char *kind, int layer, int64_t head);
void forward_parts_end(void);

/* Blocks behind that of a layer, whose attention and feed-forward edits take away, are cut: the
 * rest of them adds nothing and scales nothing. -1: none is. */
void forward_parts_cut(int layer);
bool forward_parts_are_cut(int layer);

/* Whether this pass takes in one part alone. */
bool forward_parts_are_taken(void);

/* For the functions of a pass. The scale of a norm of one row, which is recorded or replaced. */
double forward_parts_norm_scale(double scale);

/* What a place of the pass leaves, x or something else: the edited rows that enter a block; a
 * feed-forward's; contexts; the output of attention, as the projection left it and edited. */
struct rows forward_parts_entering(const char *kind, int block, int layer, struct rows x,
                                   struct rows edited);
struct rows forward_parts_fed(int layer, struct rows x);
struct rows forward_parts_beside(int layer, struct rows x); /* counts as the feed-forward's */
struct rows forward_parts_context(int layer, int64_t heads, struct rows context);
struct rows forward_parts_output(int layer, struct rows x, struct rows edited);

#endif
