/* SPDX-License-Identifier: Apache-2.0 */
/* published_disentangled.h - what DeBERTa's disentangled attention adds to scores, in double,
 * written out of DisentangledSelfAttention.disentangled_attention_bias() and
 * make_log_bucket_position() of Hugging Face transformers, deberta_v2/modeling_deberta_v2.py at
 * 0038a3caa5c7. */
#ifndef PUBLISHED_DISENTANGLED_H
#define PUBLISHED_DISENTANGLED_H

#include "published.h"

enum { PUBLISHED_DISENTANGLED_LENGTH = 64, PUBLISHED_DISENTANGLED_HEADS = 4 };

struct published_disentangled {
    struct rows pos_key, pos_query; /* [2 * att_span]; pos_query without data: no p2c */
    int64_t heads, att_span;
    int64_t bucket_size, max_position; /* bucket_size 0: distances are not in buckets */
    double scale;
};

/* Sets published_disentangled_bias() for these queries and keys. */
void published_disentangled_set(const struct published_disentangled *of, struct rows q,
                                struct rows k);
double published_disentangled_bias(int64_t head, int64_t query, int64_t key);

#endif
