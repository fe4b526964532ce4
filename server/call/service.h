/* SPDX-License-Identifier: Apache-2.0 */
/* service.h - the parts of the daemon that all handlers use. */
#ifndef ATTND_SERVICE_H
#define ATTND_SERVICE_H

#include "host/blas_product.h"
#include "host/config.h"
#include "http/http.h"
#include "models/store/model_store.h"
#include "scheduler/scheduler.h"

#include <stdatomic.h>

/* Workspace of each worker. A plan that needs more allocates its own. */
enum { SERVICE_WORKSPACE_BYTES = 1 << 20 };

enum service_state {
    SERVICE_LOADING, /* connections are accepted, models are being loaded */
    SERVICE_SERVING,
    SERVICE_DRAINING, /* SIGTERM came: not ready any more, but requests are still served */
};

struct access_keys;
struct batcher;
struct kept_store;
struct progress_store;
struct regions;
struct session_mover;
struct session_store;
struct span_exporter;
struct spread_home;

struct service {
    const struct config *config;
    const struct attn_kernels *kernels; /* with OpenBLAS beside them for blas_use */
    enum blas_use blas_use;
    struct access_keys *keys;  /* NULL: --keys is not given, and everybody may do everything */
    struct model_store *store; /* not to be read while state is SERVICE_LOADING */
    struct scheduler *scheduler;
    struct batcher *batcher;
    struct kept_store *kept;         /* traces that are kept, of the room forward */
    struct session_store *sessions;  /* of the room session */
    struct session_mover *mover;     /* NULL: --move-to is not given */
    struct progress_store *progress; /* of calls in flight */
    struct regions *regions;     /* of shared memory; NULL: --shared-memory-prefix is not given */
    struct span_exporter *spans; /* NULL: no spans are sent */
    struct spread_home *spread;  /* peers of sessions (spread.h); NULL: --peers is not given */
    struct scheduler *disk_jobs; /* of jobs that wait for the disk (disk_job.h) */
    bool repeats;      /* equal requests of one id get equal bytes: of attnd batch (call.h) */
    _Atomic int state; /* enum service_state */
    _Atomic int64_t more_items; /* admission.h: of open batches, what counts but the first item */
};

/* Chooses what computes attention: --kernels, or the best that this CPU runs and Linux permits.
 * False, with the fault, where --kernels names what this process cannot use. Call it before any
 * thread begins. */
bool service_choose_kernels(struct service *service, struct fault *fault);

/* False, with the fault, while the models are being loaded. */
bool service_accepts(struct service *service, struct fault *fault);

/* The same, and false where the operator does not let clients change the models. */
bool service_may_change_models(struct service *service, struct fault *fault);

/* False where the operator does not let clients change what is logged; the same flag as above. */
bool service_may_change_logging(const struct service *service, struct fault *fault);

/* Whether Content-Type says JSON. No Content-Type, and the one that curl sends by default, count as
 * JSON. */
bool service_is_json(const struct exchange *exchange);

/* The same, with a fault that names the types the path takes where it is false: a list that begins
 * with application/json. */
bool service_takes_json(const struct exchange *exchange, const char *types, struct fault *fault);

/* The deadline of a request, on the monotonic clock. X-Timeout-Ms may shorten the configured time,
 * not lengthen it. False, with the fault, where the header is not a number above 0. */
bool service_read_deadline(const struct service *service, const struct exchange *exchange,
                           int64_t *deadline_ns, struct fault *fault);

/* Whether the key of the request is not in debt of CPU time, as far as it has a budget; else the
 * fault is set. */
bool service_has_time(const struct exchange *exchange, struct fault *fault);

/* Sets the fault of a job that ended early, and counts it. No effect for JOB_FINISHED. */
void service_check_outcome(enum job_outcome outcome, struct fault *fault);

/* Sets the fault of a request for which the queue has no room, and counts it. Returns false. */
bool service_refuse_overloaded(int retry_after_s, struct fault *fault);

/* The memory that one request may use to compute, in bytes. */
size_t service_request_bytes_max(const struct config *config);

/* Opens the keys of --keys, at start. Without --keys, service->keys stays NULL. */
bool service_open_keys(struct service *service, struct fault *fault);

/* Logs where the keys come from. */
void service_log_keys(const struct service *service);

/* Reads them again, at SIGHUP. Where the file is wrong, a warning is logged and those of before
 * stay. What names without a key had registered ends. */
void service_read_keys_again(struct service *service);

#endif
