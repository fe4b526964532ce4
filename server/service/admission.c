/* admission.c - see admission.h. */
#include "service/admission.h"

#include "base/clock.h"
#include "watch/metrics.h"
#include "work/cost.h"

#include <inttypes.h>

/* The prediction for one request may be too high by this factor. */
enum { DOUBT = 2 };

/* The jobs before a request may take longer than predicted by this factor: shorter jobs that arrive
 * later also go before it, and the kernel does not tell how long a body was on its way. Only the
 * first judgement of a request uses it, so that work for a request that was taken is not wasted. */
static const double SLACK = 2;

enum { RETRY_AFTER_MAX_S = 3600 };

/* ------------------------------------------------------------ the decision -- */

static int seconds_of(double ns)
{
    const double seconds = ns / 1e9;
    return seconds < 1                   ? 1
           : seconds > RETRY_AFTER_MAX_S ? RETRY_AFTER_MAX_S
                                         : (int)(seconds + 0.999999);
}

enum admission_verdict admission_judge(const struct admission_limits *limits,
                                       const struct admission_queue *queue,
                                       const struct admission_request *request, int *retry_after_s)
{
    const double workers = (double)queue->worker_count;
    const double cost_max = (double)limits->cost_ns_max * workers;
    const double certain = (double)request->certain_ns / DOUBT;
    const double over_items =
        (double)queue->items + (double)request->items - (double)limits->items_max;
    const double over_cost = (double)queue->cost_ns + (double)request->likely_ns - cost_max;
    const double by_clock = queue->slowdown / workers;
    *retry_after_s = 1;
    if ((double)request->by_size_ns / DOUBT > (double)limits->one_ns_max * workers)
        return ADMISSION_TOO_LARGE;
    if (over_items > 0 && queue->items > 0 && request->items > request->counted_items) {
        /* As if all items had one size. */
        *retry_after_s =
            seconds_of((double)queue->cost_ns * by_clock * over_items / (double)queue->items);
        return ADMISSION_FULL;
    }
    if (over_cost > 0 && queue->items > 0 && request->likely_ns / DOUBT >= request->counted_ns) {
        *retry_after_s = seconds_of(over_cost * by_clock);
        return ADMISSION_FULL;
    }
    const double slack = request->was_judged ? 1 : SLACK;
    const double before = (double)queue->before_ns * by_clock;
    const double begins = before > (double)request->begins_ns ? before : (double)request->begins_ns;
    if (slack * begins + certain / workers > (double)request->left_ns)
        return ADMISSION_TOO_LATE;
    return ADMISSION_TAKEN;
}

/* ------------------------------------------------------------- in the daemon -- */

/* Without --queue-cost-max only the deadline bounds the cost of one request. */
bool admission_weighs_size(const struct service *service)
{
    return service->config->queue_cost_ns_max > 0;
}

static struct admission_limits limits_of(const struct service *service)
{
    const struct config *config = service->config;
    const int64_t given_ns = config->queue_cost_ns_max;
    return (struct admission_limits){
        .items_max = config->queue_max,
        .cost_ns_max = given_ns ? given_ns : config->timeout_ns,
        .one_ns_max = admission_weighs_size(service) ? given_ns : INT64_MAX,
    };
}

static bool refuse(const struct service *service, enum admission_verdict verdict,
                   const struct admission_request *request, int retry_after_s, struct fault *fault)
{
    const struct admission_limits limits = limits_of(service);
    const double seconds = (double)request->by_size_ns / DOUBT / 1e9;
    switch (verdict) {
    case ADMISSION_TAKEN:
        return true;
    case ADMISSION_TOO_LARGE:
        return fault_set(fault, FAULT_TOO_LARGE,
                         "the request is too large: it would take a worker more than %.3f s; the "
                         "queue takes what all workers do in %.3f s (--queue-cost-max)",
                         seconds, (double)limits.cost_ns_max / 1e9);
    case ADMISSION_FULL:
        return service_refuse_overloaded(retry_after_s, fault);
    case ADMISSION_TOO_LATE:
        metrics_refused("deadline");
        if (request->left_ns < 1000000)
            return fault_set(fault, FAULT_DEADLINE,
                             "the request could not be answered: of its time there is less than a "
                             "millisecond left");
        return fault_set(
            fault, FAULT_DEADLINE,
            "the request could not be answered in the %.3f s that are left of its time",
            (double)request->left_ns / 1e9);
    }
    return true;
}

/* Judges a request. outlook: of a body that has not arrived yet, else NULL. */
static bool ask(struct service *service, const struct job *job, struct admission_request *request,
                const struct body_outlook *outlook, struct fault *fault)
{
    const int64_t others_count = outlook ? outlook->others_count : 0;
    const int64_t others_ns = outlook ? outlook->others_cost_ns : 0;
    const struct admission_limits limits = limits_of(service);
    const struct scheduler_load load = scheduler_load(service->scheduler);
    struct admission_queue queue = {
        .items = load.job_count + scheduler_load(service->disk_jobs).job_count
                 + atomic_load(&service->more_items) + others_count - request->counted_items,
        .cost_ns = others_ns
                   + (load.cost_ns > request->counted_ns ? load.cost_ns - request->counted_ns : 0),
        .worker_count = scheduler_worker_count(service->scheduler),
        .slowdown = cost_slowdown(),
    };
    int retry_after_s;
    queue.before_ns = queue.cost_ns;
    request->left_ns = job->deadline_ns ? job->deadline_ns - clock_now_ns() : INT64_MAX;
    enum admission_verdict verdict = admission_judge(&limits, &queue, request, &retry_after_s);
    if (verdict == ADMISSION_TOO_LATE && queue.before_ns > 0) {
        /* Too late if all open jobs went before it. Count only those that do. */
        queue.before_ns = others_ns + scheduler_before_ns(service->scheduler, job);
        verdict = admission_judge(&limits, &queue, request, &retry_after_s);
    }
    return refuse(service, verdict, request, retry_after_s, fault);
}

bool admission_takes_body(struct service *service, const struct exchange *exchange,
                          struct body_outlook *outlook, struct admission_cost certain,
                          struct fault *fault)
{
    struct admission_request request = { .items = 1,
                                         .by_size_ns = certain.by_size_ns,
                                         .certain_ns = certain.ns,
                                         .likely_ns = outlook->cost_ns,
                                         .begins_ns = outlook->wait_ns,
                                         .was_judged = outlook->is_counted };
    struct job job = { .cost_ns = outlook->cost_ns };
    if (atomic_load(&service->state) == SERVICE_LOADING || outlook->bytes < ADMISSION_EARLY_BYTES
        || !service_read_deadline(service, exchange, &job.deadline_ns, fault)) {
        fault->code = FAULT_NONE; /* the handler reports it */
        return true;
    }
    outlook->latest_ns = job.deadline_ns;
    if (outlook->is_counted)
        request.counted_items = 1;
    return ask(service, &job, &request, outlook, fault);
}

bool admission_takes(struct service *service, const struct job *job, struct admission_cost certain,
                     bool was_judged, struct fault *fault)
{
    struct admission_request request = {
        .items = 1,
        .by_size_ns = certain.by_size_ns,
        .certain_ns = certain.ns,
        .likely_ns = job->cost_ns,
        .was_judged = was_judged,
    };
    return ask(service, job, &request, NULL, fault);
}

bool admission_takes_disk_job(struct service *service, struct fault *fault)
{
    const struct job job = { .deadline_ns = 0 };
    return admission_takes(service, &job, (struct admission_cost){ 0 }, false, fault);
}

bool admission_takes_planned(struct service *service, struct job *job, int64_t items,
                             struct admission_cost left, int64_t *more_items, struct fault *fault)
{
    struct admission_request request = { .items = items > 1 ? items : 1,
                                         .by_size_ns = left.by_size_ns,
                                         .certain_ns = left.ns,
                                         .likely_ns = left.ns,
                                         .was_judged = true,
                                         .counted_items = 1,
                                         .counted_ns = job->cost_ns };
    job->cost_ns = left.ns;
    if (!ask(service, job, &request, NULL, fault))
        return false;
    *more_items = request.items - 1;
    atomic_fetch_add(&service->more_items, *more_items);
    return true;
}

void admission_ends(struct service *service, int64_t more_items)
{
    atomic_fetch_sub(&service->more_items, more_items);
}
