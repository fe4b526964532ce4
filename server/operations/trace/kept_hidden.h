/* SPDX-License-Identifier: Apache-2.0 */
/* kept_hidden.h - which pairs of a kept layer may not be seen: a weight of 0 does not say whether
 * it is hidden or small. */
#ifndef ATTND_KEPT_HIDDEN_H
#define ATTND_KEPT_HIDDEN_H

#include "operations/trace/kept_trace.h"

/* Whether no row of rows may see a key of keys, [first, end) each: by causal and windows, by the
 * mask of what edits hide, and by padding. */
bool kept_pairs_are_hidden(const struct kept_layer *layer, int64_t head, const int64_t rows[2],
                           const int64_t keys[2]);

#endif
