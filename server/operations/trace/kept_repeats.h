/* SPDX-License-Identifier: Apache-2.0 */
/* kept_repeats.h - where the tokens of a text stood before: what a head that finds repeats looks
 * at. */
#ifndef ATTND_KEPT_REPEATS_H
#define ATTND_KEPT_REPEATS_H

#include "models/tokenizer/tokenizer.h"

/* Positions in the order of their tokens' ids, and of one id ascending. */
struct kept_repeats {
    int64_t *order; /* [count] */
    int64_t *first; /* [count]: where in order the positions of the same token begin, */
    int64_t *own;   /* [count]: and the place of this one */
    int64_t count;  /* of tokens; 0: they are not known */
    int64_t rows;   /* positions whose token stood before */
};

/* Lies in the arena. False: no memory. */
bool kept_repeats_make(struct kept_repeats *repeats, const struct token_list *tokens,
                       struct arena *arena);

/* Of weights of keys [first, first + count) by the row at position i: those of keys with the row's
 * token before the row, and those of the keys behind these, are added to the sums. */
void kept_repeats_add(const struct kept_repeats *repeats, int64_t i, const float *weights,
                      int64_t first, int64_t count, double *duplicate, double *induction);

#endif
