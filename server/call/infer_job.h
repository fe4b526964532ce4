/* SPDX-License-Identifier: Apache-2.0 */
/* infer_job.h - an inference as a call (call.h), for whichever operation. */
#ifndef ATTND_INFER_JOB_H
#define ATTND_INFER_JOB_H

#include "call/infer.h"
#include "call/operation.h"

/* The kind of operations that fill an infer_request. */
extern const struct call_kind infer_kind;

/* The work of such a call begins with its request. */
static inline struct infer_request *infer_request_of(const struct call *call)
{
    return call->work;
}

/* At the end of a job: sets the fault, unless there is one, where the file of a model was cut short
 * or written into while the tasks ran. */
void infer_job_check_models(const struct infer_request *request, struct fault *fault);

#endif
