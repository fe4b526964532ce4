/* infer_job.h - an inference as a call (call.h), for whichever operation. */
#ifndef ATTND_INFER_JOB_H
#define ATTND_INFER_JOB_H

#include "infer/infer.h"
#include "infer/operation.h"

struct infer_call {
    struct call base; /* first: the call of an inference is its infer_call */
    struct infer_limits limits;
    struct infer_request request;
};

static inline struct infer_request *infer_request_of(const struct call *call)
{
    return &((struct infer_call *)call)->request;
}

/* What planning needs, for a request; exchange is NULL in call_try(). */
struct infer_limits infer_job_limits(const struct service *service,
                                     const struct exchange *exchange);

/* In a handler: takes the body, and answers when all is computed. */
void infer_job_handle(struct exchange *exchange, const struct operation *operation);

/* The same in memory of at least so many bytes, so that the operation, when it has read what is
 * asked, may turn the call into one of another kind. The other kind then reads on. */
void infer_job_handle_in(struct exchange *exchange, const struct operation *operation,
                         size_t bytes);

/* Runs a request of this body, which is not freed, on the caller's thread. Drops the answer. */
bool infer_job_try(struct service *service, const struct operation *operation,
                   struct byte_slice body, struct fault *fault);

/* At the end of a job: sets the fault, unless there is one, where the file of a model was cut short
 * or written into while the tasks ran. */
void infer_job_check_models(const struct infer_request *request, struct fault *fault);

#endif
