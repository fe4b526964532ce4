/* infer_answer.h - an inference's results to the bytes of its answer, at once or by tasks.
 *
 * A short answer is written where its job ends. A long one takes up to three stages more: one task
 * that writes what is between the tensors and converts what has to be, then the pieces of the
 * tensors' text (answer_pieces.h), then, where the client takes that, the blocks of the packed
 * answer (coding_blocks.h). */
#ifndef ATTND_INFER_ANSWER_H
#define ATTND_INFER_ANSWER_H

#include "infer/infer_cost.h"
#include "infer/infer_wire.h"

/* Zeroed to begin with. */
struct infer_answer {
    int stages;              /* begun */
    struct byte_slice whole; /* of an answer that is all text */
};

/* After the plan's last stage, and after each of its own: the tasks of the next one, 0 where there
 * is none. A fault ends it. */
int64_t infer_answer_tasks(struct infer_answer *answer, struct infer_call *call,
                           struct exchange *exchange, struct fault *fault);

void infer_answer_run(const struct infer_answer *answer, struct infer_call *call,
                      struct infer_cost *cost, int64_t task, struct fault *fault);

/* All tasks have been run, or there were none: what there is of the answer is whole then. */
bool infer_answer_finish(const struct infer_answer *answer, struct infer_call *call,
                         struct exchange *exchange, struct infer_cost *cost, struct fault *fault);

/* Frees what an answer of parts does not need. */
void infer_answer_drop_rest(struct infer_call *call);

#endif
