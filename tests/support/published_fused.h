/* SPDX-License-Identifier: Apache-2.0 */
/* published_fused.h - attention whose queries, keys and values are the outputs of one tensor,
 * written with the functions of published.h.
 *
 * Each difference between families is a field. The test that sets a field says where the
 * family's source does so. */
#ifndef PUBLISHED_FUSED_H
#define PUBLISHED_FUSED_H

#include "published.h"

struct published_fused {
    const char *qkv, *output; /* names of the two projections */
    bool is_conv1d;           /* of transformers' Conv1D; else torch.nn.Linear */
    int64_t width;            /* columns of the input */

    /* The outputs of qkv are groups groups, one after the other. Each group has queries columns
     * of queries, then keys columns of keys, then as many columns of values. */
    int64_t groups, queries, keys;

    double clip;               /* of all outputs of qkv; 0: none */
    int64_t rotary_dim;        /* columns of a head that rotate_half() turns; 0: none */
    double theta;              /* of their frequencies */
    const double *frequencies; /* in place of theta's; NULL: none */
    double factor;             /* of what is rotated by them */
    struct published_attention attention;
};

/* What the layer computes from hidden, after its output projection. */
struct published_answer published_fused_answer(const struct published_fused *fused,
                                               struct rows hidden, int layer);

/* Compares layer number layer of the model, which is of kind "self". */
void published_expect_fused(const struct published_fused *fused, int layer);

#endif
