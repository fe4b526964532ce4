/* infer_job.h - an inference as the scheduler's job, whatever wire its bytes come by. */
#ifndef ATTND_INFER_JOB_H
#define ATTND_INFER_JOB_H

#include "infer/infer_wire.h"
#include "service/service.h"

/* In a handler: takes the body, and answers when it has been computed. */
void infer_job_handle(struct exchange *exchange, const struct infer_wire *wire);

/* Whether so long a body of an inference, or of a softmax, may come: asked when its headers are
 * there (http.h). */
bool infer_job_takes_body(const struct exchange *exchange, struct body_outlook *outlook,
                          struct fault *fault);

/* Runs a request of this body, which is not freed, on the caller's thread. Its answer is dropped.
 */
bool infer_job_try(struct service *service, const struct infer_wire *wire, struct byte_slice body,
                   struct fault *fault);

#endif
