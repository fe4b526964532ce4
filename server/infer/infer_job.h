/* infer_job.h - an inference as a call (call.h), whatever wire its bytes come by. */
#ifndef ATTND_INFER_JOB_H
#define ATTND_INFER_JOB_H

#include "infer/infer_wire.h"

/* In a handler: takes the body, and answers when all is computed. */
void infer_job_handle(struct exchange *exchange, const struct infer_wire *wire);

/* Runs a request of this body, which is not freed, on the caller's thread. Drops the answer. */
bool infer_job_try(struct service *service, const struct infer_wire *wire, struct byte_slice body,
                   struct fault *fault);

#endif
