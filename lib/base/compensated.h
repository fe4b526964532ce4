/* SPDX-License-Identifier: Apache-2.0 */
/* compensated.h - compensated summation: long sums in two floats.
 *
 * A row's sum of weights and its context grow by one tile of keys at a time, and each addition
 * rounds to the last place of everything added before. So if there are more keys than
 * ATTN_COMPENSATED_TILES tiles hold, the tiles add to a part, and after every
 * ATTN_COMPENSATED_TILES tiles the part is added to a total whose rounding errors are kept beside
 * it (the two-sum of Knuth 1969, 4.2.2). This costs one pass over the context for each part, and
 * the error no longer grows with the number of keys. The moment of each addition depends only on
 * the positions of the keys: equal bits for any choice of outputs. */
#ifndef ATTN_COMPENSATED_H
#define ATTN_COMPENSATED_H

#include "base/internal.h"

/* Tiles of keys in one part. */
enum { ATTN_COMPENSATED_TILES = 8 };

/* Does this plan need compensated sums? If not, the functions below do nothing. */
bool attn_compensated_is_needed(const struct attn_plan_full *plan);

/* Set the totals to 0; work.sum may hold a sink. */
void attn_compensated_begin(const struct attn_plan_full *plan, const struct attn_workspace *work);

/* Call after softmax_tile(), to apply its rescale to the totals. */
void attn_compensated_rescale(const struct attn_plan_full *plan, const struct attn_workspace *work);

/* Call after the tile that begins at key: adds a complete part to the totals. has_context: also
 * that of context_t. */
void attn_compensated_tile(const struct attn_plan_full *plan, const struct attn_workspace *work,
                           int64_t key, bool has_context);

/* Call after the last tile: work.sum and context_t become the whole sums. */
void attn_compensated_end(const struct attn_plan_full *plan, const struct attn_workspace *work,
                          bool has_context);

#endif
