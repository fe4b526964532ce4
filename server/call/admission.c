/* SPDX-License-Identifier: Apache-2.0 */
/* admission.c - the decision, what asks for it, and the likely cost of a body by the recent ones of
 * its path and size. */
#include "call/admission.h"

#include "access/access_key.h"
#include "base/clock.h"
#include "scheduler/cost.h"
#include "scheduler/job_share.h"
#include "telemetry/metrics.h"

#include <inttypes.h>
#include <stdatomic.h>

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

/* What is there, and by how much it is too much with the request. */
struct fill {
    double items, over_items;
    double cost_ns, over_cost_ns;
    double ns_by_clock; /* for a nanosecond of cost that is too much: when there is room for it */
};

static bool is_over(const struct fill *fill, const struct admission_request *request,
                    int *retry_after_s)
{
    if (fill->items <= 0)
        return false;
    if (fill->over_items > 0 && request->items > request->counted_items) {
        /* As if all items had one size. */
        *retry_after_s =
            seconds_of(fill->cost_ns * fill->ns_by_clock * fill->over_items / fill->items);
        return true;
    }
    if (fill->over_cost_ns > 0 && request->likely_ns / DOUBT >= request->counted_ns) {
        *retry_after_s = seconds_of(fill->over_cost_ns * fill->ns_by_clock);
        return true;
    }
    return false;
}

/* The items for which there have to be places. */
static int64_t places_of(const struct admission_limits *limits, const struct admission_queue *queue,
                         const struct admission_request *request)
{
    const bool may_be_larger = request->items > limits->items_max && queue->batch_items == 0;
    return may_be_larger ? admission_counted_items(limits, queue, request->items) : request->items;
}

/* Whether the queue is full, or what the request's share has in it is more than what is free. Each
 * job of the share that ends makes the one less and the other more, so half of what is too much has
 * to be done, by the share's part of the workers. Jobs of other shares make nothing free for sure,
 * since new ones may take their places. */
static bool is_full(const struct admission_limits *limits, const struct admission_queue *queue,
                    const struct admission_request *request, int *retry_after_s)
{
    const double workers = (double)queue->worker_count;
    const double free_items = (double)limits->items_max - (double)queue->items;
    const double free_cost_ns = (double)limits->cost_ns_max * workers - (double)queue->cost_ns;
    const double items = (double)places_of(limits, queue, request);
    const double cost_ns = (double)request->likely_ns;
    const double own_items = (double)queue->share_items, own_ns = (double)queue->share_cost_ns;
    const double by_clock = queue->slowdown / workers;
    const struct fill all = { (double)queue->items, items - free_items, (double)queue->cost_ns,
                              cost_ns - free_cost_ns, by_clock };
    if (is_over(&all, request, retry_after_s))
        return true;
    if (!queue->is_shared)
        return false;
    const struct fill own = { own_items, own_items + items - free_items, own_ns,
                              own_ns + cost_ns - free_cost_ns, by_clock / queue->share_part / 2 };
    return is_over(&own, request, retry_after_s);
}

enum admission_verdict admission_judge(const struct admission_limits *limits,
                                       const struct admission_queue *queue,
                                       const struct admission_request *request, int *retry_after_s)
{
    const double workers = (double)queue->worker_count;
    const double certain = (double)request->certain_ns / DOUBT;
    *retry_after_s = 1;
    if ((double)request->by_size_ns / DOUBT > (double)limits->one_ns_max * workers)
        return ADMISSION_TOO_LARGE;
    if (is_full(limits, queue, request, retry_after_s))
        return ADMISSION_FULL;
    const double slack = request->was_judged ? 1 : SLACK;
    const double before = (double)queue->before_ns * queue->slowdown / workers;
    const double begins = before > (double)request->begins_ns ? before : (double)request->begins_ns;
    const double late_ns = slack * begins + certain / workers - (double)request->left_ns;
    if (late_ns > 0) {
        *retry_after_s = seconds_of(late_ns / slack < begins ? late_ns / slack : begins);
        return ADMISSION_TOO_LATE;
    }
    return ADMISSION_TAKEN;
}

int64_t admission_counted_items(const struct admission_limits *limits,
                                const struct admission_queue *queue, int64_t items)
{
    const int64_t free_items = limits->items_max - queue->items;
    const int64_t most = queue->is_shared ? (free_items - queue->share_items) / 2
                                          : free_items - (free_items + 3) / 4;
    return items < most ? items : most > 1 ? most : 1;
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
            fault_set(fault, FAULT_DEADLINE,
                      "the request could not be answered: of its time there is less than a "
                      "millisecond left");
        else
            fault_set(fault, FAULT_DEADLINE,
                      "the request could not be answered in the %.3f s that are left of its time",
                      (double)request->left_ns / 1e9);
        fault->retry_after_s = retry_after_s;
        return false;
    }
    return true;
}

static int64_t less_ns(int64_t cost_ns, int64_t counted_ns)
{
    return cost_ns > counted_ns ? cost_ns - counted_ns : 0;
}

/* What waits without the request. outlook: of a body that has not arrived yet, else NULL. */
static struct admission_queue queue_without(struct service *service,
                                            const struct admission_request *request,
                                            const struct body_outlook *outlook)
{
    const struct scheduler_load load = scheduler_load(service->scheduler);
    return (struct admission_queue){
        .items = load.job_count + scheduler_load(service->disk_jobs).job_count
                 + atomic_load(&service->more_items) + (outlook ? outlook->others_count : 0)
                 - request->counted_items,
        .cost_ns =
            (outlook ? outlook->others_cost_ns : 0) + less_ns(load.cost_ns, request->counted_ns),
        .worker_count = scheduler_worker_count(service->scheduler),
        .slowdown = cost_slowdown(),
        .batch_items = atomic_load(&service->more_items),
        .more_ns = load.more_ns,
    };
}

/* Sets in queue what of it is the share's. */
static void add_share(struct admission_queue *queue, struct service *service,
                      const struct admission_request *request, const struct body_outlook *outlook,
                      struct job_share *share)
{
    const struct scheduler_share_load load = scheduler_share_load(service->scheduler, share);
    queue->is_shared = true;
    queue->batch_items = atomic_load(&share->more_items);
    queue->share_part = load.part;
    queue->share_items = load.job_count + scheduler_share_load(service->disk_jobs, share).job_count
                         + atomic_load(&share->more_items) + (outlook ? outlook->own_count : 0)
                         - request->counted_items;
    queue->share_cost_ns =
        (outlook ? outlook->own_cost_ns : 0) + less_ns(load.cost_ns, request->counted_ns);
}

/* Judges a request; outlook as above. Where it is taken, sets request->counted_items to what it
 * counts as for others. */
static bool ask(struct service *service, const struct job *job, struct admission_request *request,
                const struct body_outlook *outlook, struct fault *fault)
{
    const struct admission_limits limits = limits_of(service);
    struct admission_queue queue = queue_without(service, request, outlook);
    int retry_after_s;
    if (job->share)
        add_share(&queue, service, request, outlook, job->share);
    queue.before_ns = queue.cost_ns + (queue.items > 0 ? queue.items * queue.more_ns : 0);
    request->left_ns = job->deadline_ns ? job->deadline_ns - clock_now_ns() : INT64_MAX;
    enum admission_verdict verdict = admission_judge(&limits, &queue, request, &retry_after_s);
    if (verdict == ADMISSION_TOO_LATE && queue.before_ns > 0) {
        /* Too late if all open jobs went before it. Count only those that do; of the bodies on
         * their way, those of its own share. */
        const int64_t coming_ns = !outlook     ? 0
                                  : job->share ? outlook->own_cost_ns
                                               : outlook->others_cost_ns;
        const int64_t coming_count = !outlook     ? 0
                                     : job->share ? outlook->own_count
                                                  : outlook->others_count;
        queue.before_ns =
            coming_ns + coming_count * queue.more_ns + scheduler_before_ns(service->scheduler, job);
        verdict = admission_judge(&limits, &queue, request, &retry_after_s);
    }
    request->counted_items = admission_counted_items(&limits, &queue, request->items);
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
    struct job job = { .cost_ns = outlook->cost_ns,
                       .share = access_key_share(exchange_key(exchange)) };
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

bool admission_takes_disk_job(struct service *service, struct job_share *share, struct fault *fault)
{
    const struct job job = { .share = share };
    return admission_takes(service, &job, (struct admission_cost){ 0 }, false, fault);
}

bool admission_takes_planned(struct service *service, struct job *job, int64_t items,
                             struct admission_cost left, struct admission_more_items *more_items,
                             struct fault *fault)
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
    *more_items = (struct admission_more_items){ request.counted_items - 1, request.items - 1 };
    atomic_fetch_add(&service->more_items, more_items->counted);
    if (job->share)
        atomic_fetch_add(&job->share->more_items, more_items->own);
    return true;
}

void admission_ends(struct service *service, const struct job *job,
                    struct admission_more_items more_items)
{
    atomic_fetch_sub(&service->more_items, more_items.counted);
    if (job->share)
        atomic_fetch_sub(&job->share->more_items, more_items.own);
}

/* ----------------------------------------------------------- likely costs -- */

/* A table of fixed size, in which each key has one place; a key replaces another key in its place.
 * Any thread may read and write. Two threads that write one place at once may leave the key of one
 * and the number of the other, which is only a bad guess. */

enum { PLACES = 4096 };

static const size_t SIZE_STEPS = 4; /* of each power of two */

static struct {
    _Atomic uint64_t key;
    _Atomic int64_t ns;
} places[PLACES];

/* FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv/). */
static uint64_t hash(uint64_t so_far, const char *text)
{
    for (; *text; text++)
        so_far = (so_far ^ (unsigned char)*text) * 1099511628211u;
    return (so_far ^ 0xff) * 1099511628211u; /* the end counts: "ab" "c" is not "a" "bc" */
}

/* Numbers the steps of all powers of two. */
static size_t size_step(size_t bytes)
{
    size_t power = 0;
    if (bytes < SIZE_STEPS)
        return bytes;
    while (bytes >> power >= 2 * SIZE_STEPS)
        power++;
    return power * SIZE_STEPS + (bytes >> power);
}

uint64_t cost_guess_key(const char *path, const char *type, size_t body_bytes)
{
    const uint64_t text = hash(hash(14695981039346656037u, path), type);
    const uint64_t key = (text ^ size_step(body_bytes)) * 1099511628211u;
    return key ? key : 1;
}

int64_t cost_guess_ns(uint64_t key)
{
    const size_t place = (key ^ key >> 32) % PLACES;
    if (atomic_load_explicit(&places[place].key, memory_order_relaxed) != key)
        return 0;
    return atomic_load_explicit(&places[place].ns, memory_order_relaxed);
}

void cost_guess_learn(uint64_t key, int64_t ns)
{
    const size_t place = (key ^ key >> 32) % PLACES;
    const int64_t old_ns = cost_guess_ns(key);
    const int64_t new_ns = old_ns ? old_ns + (ns - old_ns) / 8 : ns;
    atomic_store_explicit(&places[place].ns, new_ns, memory_order_relaxed);
    atomic_store_explicit(&places[place].key, key, memory_order_relaxed);
}
