/* SPDX-License-Identifier: Apache-2.0 */
/* model_recurrence.h - what a layer computes that keeps a state in place of keys and values, as
 * plain data for the steps of recurrence.h:
 *
 *     row = in[0](x), in[1](x), ... side by side, in order       [columns]
 *     row = row * column_scales
 *     convolved = convolution(columns of row)
 *     mixed = recurrence(convolved, other columns of row)        of its kind
 *     y = out(norm and gate(mixed))
 *
 * Its state is that of the convolution and, behind it, that of the recurrence, in F32. */
#ifndef ATTND_MODEL_RECURRENCE_H
#define ATTND_MODEL_RECURRENCE_H

#include "linear_attention.h"
#include "recurrence.h"
#include "rows.h"

/* The kind of a layer that is a block's feed-forward alone, which keeps nothing. */
#define MODEL_FEED_FORWARD "feed_forward"

enum { MODEL_RECURRENCE_PRODUCTS_MAX = 4 };

/* What follows the convolution. */
enum model_recurrence_kind {
    MODEL_RECURRENCE_NONE, /* nothing: convolved rows are mixed rows */
    MODEL_RECURRENCE_SSD,  /* convolved rows are x, b, c side by side */
    MODEL_RECURRENCE_DELTA /* convolved rows are queries, keys, values side by side */
};

/* Products whose columns are not in order: in groups, each of some columns of each of count parts.
 * They become the columns of part 0 of all groups, then those of part 1, and so on. */
struct model_column_groups {
    int64_t first, groups; /* groups 0: all columns are in order */
    int64_t parts[MODEL_RECURRENCE_PRODUCTS_MAX];
    int count;
};

struct model_recurrence {
    enum model_recurrence_kind kind;
    struct attn_linear in[MODEL_RECURRENCE_PRODUCTS_MAX]; /* [in_count] */
    int in_count;
    int64_t columns; /* of all of them */
    struct model_column_groups groups[2];
    const float *column_scales; /* [columns], once they are in order; NULL: none */

    struct attn_convolution convolution;
    int64_t convolved_at;            /* its columns of a row begin here */
    int64_t factor_at, conv_gate_at; /* those of its factor and of its gate; -1: none */

    struct attn_ssd ssd;
    int64_t dt_at; /* the columns of dt */

    struct attn_linear_attention attention;
    int64_t decay_at, beta_at; /* the columns of decay and beta */

    int64_t mixed;   /* columns of mixed rows */
    int64_t gate_at; /* columns of a row whose activation multiplies mixed rows; -1: none */
    enum attn_activation gate_activation;
    bool gate_follows_norm; /* else it precedes it */
    struct attn_norm norm;  /* of mixed rows, of each of norm_groups parts alone; its weight is
                               [mixed]. Weight NULL: none */
    int64_t norm_groups;
    struct attn_linear out;
};

/* The numbers of its state. */
static inline int64_t model_recurrence_state(const struct model_recurrence *recurrence)
{
    return attn_convolution_state(&recurrence->convolution)
           + (recurrence->kind == MODEL_RECURRENCE_SSD ? attn_ssd_state(&recurrence->ssd)
              : recurrence->kind == MODEL_RECURRENCE_DELTA
                  ? attn_linear_attention_state(&recurrence->attention)
                  : 0);
}

#endif
