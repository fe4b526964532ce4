/* SPDX-License-Identifier: Apache-2.0 */
/* given.h - rows of attention whose weights the caller gives, in place of those of the softmax.
 *
 * Given weights are used as they are: any finite numbers, of any sum. They change the row's context
 * and its weights; scores, masked scores and lse stay those of the problem. What calls this says in
 * a table of [q_heads][q_len] pointers which rows have given weights: [kv_len] numbers, or NULL for
 * a row that keeps its own. Several rows may share theirs. */
#ifndef ATTN_GIVEN_H
#define ATTN_GIVEN_H

#include "attn.h"

/* Which keys a row sees, seen[kv_len]: those that no mask, window or length hides from it. Batch
 * item 0 of a problem that attn_plan_init() takes. */
void attn_row_seen(const struct attn_problem *problem, int64_t head, int64_t row, bool *seen);

/* After attention of these rows is computed: gives the context and the weights outputs of batch
 * item 0, where the problem has them, what follows from the given weights. A context is summed in
 * double and rounded once. context and weights are F32, value any dtype but F64. */
void attn_given_run(const struct attn_problem *problem, const float *const *given, int64_t head,
                    int64_t first_row, int64_t row_count);

#endif
