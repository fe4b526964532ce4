/* SPDX-License-Identifier: Apache-2.0 */
/* forward_block.h - a block of attention, perhaps cross-attention, and a feed-forward layer in
 * double, written with the functions of forward_reference.h.
 *
 * Each difference between families is a field. The test that sets a field says where the
 * family's source does so. In a name # stands for the number of the block. */
#ifndef FORWARD_BLOCK_H
#define FORWARD_BLOCK_H

#include "forward_reference.h"

struct forward_attention {
    const char *kind;
    int first_layer; /* the place of block 0's in struct forward */
    const char *q, *k, *v, *output;
    const char *norm; /* before the projections, or after the residual */
    struct published_attention of;
    void (*see)(struct rows inputs, int layer); /* what of.bias depends on; NULL: nothing */
    void (*turn)(struct rows x, int64_t heads); /* query and key, in place; NULL: nothing */
};

struct forward_block {
    struct forward_attention self, cross; /* cross.kind NULL: none */
    const char *up, *down;
    const char *gate;   /* multiplied with the activation of up; NULL: none */
    bool is_gate_in_up; /* the second half of the outputs of up is the gate */
    const char *norm;   /* of the feed-forward layer */
    const char *activation;
    const char *self_scale, *feed_forward_scale; /* what is multiplied before the residual is
                                                    added; NULL: nothing */
    bool is_norm_first;
    bool is_rms; /* else torch.nn.LayerNorm */
    double eps;
};

/* What leaves block number layer, whose layers are added to forward. memory is what
 * cross-attention looks at. */
struct rows forward_block_run(struct forward *forward, const struct forward_block *block,
                              struct rows hidden, struct rows memory, int layer);

#endif
