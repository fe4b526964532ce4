/* service.h - what the handlers share: one daemon. */
#ifndef ATTND_SERVICE_H
#define ATTND_SERVICE_H

#include "config/config.h"
#include "http/http.h"
#include "store/model_store.h"
#include "work/scheduler.h"

#include <stdatomic.h>

/* What each worker holds; a plan that needs more brings its own. */
enum { SERVICE_WORKSPACE_BYTES = 1 << 20 };

enum service_state {
    SERVICE_LOADING, /* connections are taken, models are not there yet */
    SERVICE_SERVING,
    SERVICE_DRAINING, /* SIGTERM came: not ready, but requests are still served */
};

struct batcher;

struct service {
    const struct config *config;
    const struct attn_kernels *kernels;
    struct model_store *store; /* to be read once state is past SERVICE_LOADING */
    struct scheduler *scheduler;
    struct batcher *batcher;
    struct scheduler *disk_jobs; /* what waits for the disk (disk_job.h) */
    _Atomic int state;           /* enum service_state */
    _Atomic int64_t more_items; /* admission.h: of batches that are not done, beside one for each */
};

/* False while the models are being loaded; the fault says so. */
bool service_accepts(struct service *service, struct fault *fault);

/* The same, and false where the operator did not allow clients to change the models. */
bool service_may_change_models(struct service *service, struct fault *fault);

/* False where the operator did not allow clients to change what is logged: by the same flag. */
bool service_may_change_logging(const struct service *service, struct fault *fault);

/* Whether the body is said to be JSON. No Content-Type, and the one that curl sends by default,
 * count as JSON. */
bool service_is_json(const struct exchange *exchange);

/* False, with a fault, where it is not. */
bool service_takes_json(const struct exchange *exchange, struct fault *fault);

/* By when a request has to be done. X-Timeout-Ms may shorten the time that it may take, not
 * lengthen it. */
bool service_read_deadline(const struct service *service, const struct exchange *exchange,
                           int64_t *deadline_ns, struct fault *fault);

/* Sets the fault of a job that ended early, and counts it; a job that finished changes nothing. */
void service_check_outcome(enum job_outcome outcome, struct fault *fault);

/* The fault of a job that the scheduler did not take; counts it. */
void service_refuse_overloaded(const struct service *service, struct fault *fault);

/* What one request may take to compute in, in bytes. */
size_t service_request_bytes_max(const struct config *config);

#endif
