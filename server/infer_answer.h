/* infer_answer.h - an inference's results to the bytes of its answer, at once or by tasks.
 *
 * A short answer is written where its job ends. A long one takes two more stages: one task that
 * writes what is between the tensors and converts what has to be, then the pieces of the tensors'
 * text (answer_pieces.h). */
#ifndef ATTND_INFER_ANSWER_H
#define ATTND_INFER_ANSWER_H

#include "infer_wire.h"

/* Zeroed to begin with. */
struct infer_answer {
    int stages; /* begun */
};

/* After the plan's last stage, and after each of its own: the tasks of the next one, 0 where there
 * is none. */
int64_t infer_answer_tasks(struct infer_answer *answer, const struct infer_call *call);

void infer_answer_run(const struct infer_answer *answer, struct infer_call *call, int64_t task,
                      struct fault *fault);

/* All tasks have been run, or there were none: what there is of the answer is whole then. */
bool infer_answer_finish(const struct infer_answer *answer, struct infer_call *call,
                         struct fault *fault);

#endif
