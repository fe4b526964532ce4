/* compensated.h - long sums, carried in two floats.
 *
 * A row's sum of weights and its context grow by a tile of keys at a time, and each addition rounds
 * to the last place of all that came before. So where there are more keys than
 * ATTN_COMPENSATED_TILES tiles, what the tiles add is a part, and every so many keys the part is
 * folded into a total whose rounding errors are kept beside it (the two-sum of Knuth 1969, 4.2.2).
 * It costs one pass over the context in so many tiles, and the error no longer grows with the
 * number of keys. When it happens follows from the keys' places alone: equal bits, whichever
 * outputs are asked for. */
#ifndef ATTN_COMPENSATED_H
#define ATTN_COMPENSATED_H

#include "base/internal.h"

/* Tiles of keys in one part. */
enum { ATTN_COMPENSATED_TILES = 8 };

/* Whether the sums of this plan are folded. */
bool attn_compensated_is_needed(const struct attn_plan *plan);

/* Makes the totals 0; work.sum may hold a sink. All of these do nothing where it is not needed. */
void attn_compensated_begin(const struct attn_plan *plan, const struct attn_workspace *work);

/* After softmax_tile(), whose rescale the totals have not seen. */
void attn_compensated_rescale(const struct attn_plan *plan, const struct attn_workspace *work);

/* After the tile that begins at key: folds where a part is whole. has_context: context_t too. */
void attn_compensated_tile(const struct attn_plan *plan, const struct attn_workspace *work,
                           int64_t key, bool has_context);

/* After the last tile: work.sum and context_t become the whole sums. */
void attn_compensated_end(const struct attn_plan *plan, const struct attn_workspace *work,
                          bool has_context);

#endif
