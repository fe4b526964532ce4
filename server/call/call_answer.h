/* SPDX-License-Identifier: Apache-2.0 */
/* call_answer.h - a call's results to the bytes of its answer, at once or by tasks.
 *
 * A short answer is written where its job ends. A long one takes up to three more stages: one task
 * that writes what stands between the tensors and converts their dtypes, then the pieces of the
 * tensors' text (answer_pieces.h), then, where the client takes that, the blocks of the packed
 * answer (coding_blocks.h). */
#ifndef ATTND_CALL_ANSWER_H
#define ATTND_CALL_ANSWER_H

#include "call/call.h"

/* When all is computed, and after each stage of writing: the tasks of the next one, 0 where there
 * is none. A fault ends it. */
int64_t call_answer_tasks(struct call *call);

void call_answer_run(struct call *call, int64_t task);

/* When all tasks have run, if there were any: completes the answer. */
void call_answer_finish(struct call *call);

/* Frees what an answer of parts does not need, and reserves no more than what it holds. */
void call_answer_drop_rest(struct call *call);

#endif
