/* SPDX-License-Identifier: Apache-2.0 */
/* call.c - see call.h. */
#include "call/call.h"

#include "access/access_account.h"
#include "access/access_key.h"
#include "base/clock.h"
#include "base/unique_id.h"
#include "call/admission.h"
#include "call/call_answer.h"
#include "call/progress.h"
#include "formats/coding.h"

#include <stdlib.h>
#include <time.h>

/* The connection thread runs a call of at most this predicted cost itself, where a worker is idle.
 * Handing over a call below the first bound and taking its answer back would cost that thread more.
 * A call up to the second bound takes less CPU time and is answered sooner this way, but the
 * requests behind it wait, a probe of health among them. So that bound is for the first request of
 * a turn; and for others, up to a small sum, where the connection threads are as many as the
 * workers, so that no CPU is idle meanwhile. */
enum { INLINE_ALWAYS_NS = 20000, INLINE_MOST_NS = 250000, INLINE_TURN_NS = 250000 };

/* A refusal costs about half of what a small call does, and connection threads go before workers.
 * At a multiple of the load they would use up the CPUs for refusals while the queue stands. So for
 * each call that finds the queue full the thread runs a small one of the queue, up to this sum in a
 * turn. */
enum { RELIEF_TURN_NS = 1000000 };

/* With the first call of a turn it helps up to this predicted cost, which is a millisecond where
 * two CPUs share it: it reads the request and takes tasks beside the workers, until something has
 * come for it. Otherwise one worker more would be woken, and this thread by the answer. */
enum { HELP_MOST_NS = 2000000 };

/* A stage that takes less is run by one worker: to wake another one takes longer than it saves. */
enum { SHARED_STAGE_NS = 40000 };

static struct call *call_of(struct job *job)
{
    return (struct call *)job;
}

/* ----------------------------------------------------- memory of a call -- */

static void end_progress(struct call *call)
{
    progress_end(call->service->progress, call->progress);
    call->progress = NULL;
}

static void drop_memory(struct call *call)
{
    end_progress(call);
    free(call->body_memory);
    call->body_memory = NULL;
    text_free(&call->text);
    answer_pieces_free(&call->pieces);
    coding_blocks_free(&call->packed);
    call->kind->drop(call);
    regions_held_free(&call->regions);
}

/* On the connection thread, when neither the exchange nor the answer needs the call any more. */
static void release(void *owner)
{
    struct call *call = owner;
    if (--call->holders > 0)
        return;
    drop_memory(call);
    free(call->work);
    free(call);
}

/* --------------------------------------------------- stage 0: read and plan -- */

/* The job reads deadline and priority anew after stage 0. */
static void set_place_in_queue(struct call *call)
{
    const int64_t deadline_ns = call->clock.started_ns + call->timeout_ns;
    call->job.priority = call->priority;
    if (call->timeout_ns > 0 && deadline_ns < call->job.deadline_ns)
        call->job.deadline_ns = deadline_ns;
}

/* Reserves CPU time of the key in place of what was reserved for the call before. */
static bool reserve_time(struct call *call, int64_t ns, struct fault *fault)
{
    return !call->quota
           || access_quota_reserve(call->quota, &call->reserved_ns, ns, clock_now_ns(), fault);
}

void call_share_stages(struct call *call, int64_t stages)
{
    if (infer_cost_ns(&call->cost) < stages * SHARED_STAGE_NS)
        call->job.tasks_at_once = 1;
}

/* Plans, and asks again whether the call is taken, by what the plan says. */
static void plan(struct call *call)
{
    struct fault *fault = &call->fault;
    call->is_planned = !call->kind->plan || call->kind->plan(call, fault);
    if (call->is_planned
        && admission_takes_planned(call->service, &call->job, call->item_count,
                                   infer_cost_left_to_admit(&call->cost, call->service),
                                   &call->more_items, fault))
        reserve_time(call, infer_cost_ns(&call->cost), fault);
}

/* Has a body come into the cache of this CPU, all lines at once: where many requests wait, it has
 * left the cache since it was received. */
static void prefetch_body(const struct call *call)
{
    enum { LINE_BYTES = 64, MOST_BYTES = 128 * 1024 };
    const size_t bytes = call->body.size < MOST_BYTES ? call->body.size : MOST_BYTES;
    for (size_t at = 0; at < bytes; at += LINE_BYTES)
        __builtin_prefetch((const char *)call->body.data + at, 0, 2);
}

static void read_and_plan(struct call *call)
{
    prefetch_body(call);
    if (!coding_unpack(call->body_coding, &call->body, &call->body_memory,
                       call->service->config->body_bytes_max, call->memory, &call->fault))
        return;
    if (call->body_coding != CODING_IDENTITY)
        infer_cost_was_unpacked(&call->cost, call->body.size);
    if (!call->kind->read(call, &call->fault))
        return;
    set_place_in_queue(call);
    if (!call->order)
        plan(call);
}

/* -------------------------------------------------------------- the stages -- */

int64_t call_continue(struct call *call, int64_t count)
{
    if (count > 0)
        return count;
    call->clock.computed_ns = clock_now_ns();
    return call_answer_tasks(call);
}

static int64_t stage_tasks(struct job *job, int stage)
{
    struct call *call = call_of(job);
    if (call->fault.code != FAULT_NONE)
        return 0;
    if (stage == 1)
        call->clock.parsed_ns = clock_now_ns();
    if (call->answer_stages > 0)
        return call_answer_tasks(call);
    if (!call->is_planned) {
        call->first_stage = stage + 1;
        return call->order->is_turn(call) ? 1 : JOB_WAITS;
    }
    const int64_t count = call->kind->tasks(call, stage - call->first_stage);
    return count == JOB_WAITS ? JOB_WAITS : call_continue(call, count);
}

static void run(struct job *job, int stage, int64_t task, const struct worker *worker)
{
    struct call *call = call_of(job);
    struct infer_stopwatch watch;
    if (call->answer_stages > 0) {
        call_answer_run(call, task);
        return;
    }
    const enum infer_phase phase = stage == 0 ? INFER_READ : INFER_COMPUTE;
    if (stage == 0) {
        call->clock.begun_ns = clock_now_ns();
        progress_start(call->progress);
    }
    infer_cost_start(&call->cost, phase, &watch);
    if (stage == 0)
        read_and_plan(call);
    else if (call->is_planned)
        call->kind->run(call, stage - call->first_stage, task, worker);
    else if (call->order->prepare(call, &call->fault))
        plan(call);
    infer_cost_stop(&call->cost, phase, &watch);
}

/* ------------------------------------------------------------------ the end -- */

static void finish(struct call *call, enum job_outcome outcome)
{
    struct infer_stopwatch watch;
    if (call->answer_stages == 0)
        call->clock.computed_ns = clock_now_ns();
    admission_ends(call->service, &call->job, call->more_items);
    infer_cost_start(&call->cost, INFER_WRITE, &watch);
    service_check_outcome(outcome, &call->fault);
    if (call->kind->end)
        call->kind->end(call, &call->fault);
    if (call->fault.code == FAULT_NONE)
        call_answer_finish(call);
    if (call->kind->settle)
        call->kind->settle(call);
    if (call->order)
        call->order->end(call, &call->fault);
    infer_cost_stop(&call->cost, INFER_WRITE, &watch);
}

static void record(struct call *call)
{
    struct request_record *record = exchange_record(call->exchange);
    record->fault = call->fault.code;
    request_record_durations(record, &call->clock, clock_now_ns());
    call->kind->record(call, record);
}

static void reply(struct call *call)
{
    if (call->part_count == 0) {
        struct text text = call->text;
        call->text.data = NULL;
        drop_memory(call);
        text_trim(&text);
        memory_hold(call->memory, text.capacity);
        exchange_reply_text(call->exchange, call->status,
                            call->status == 204 ? NULL : call->content_type, &text);
        return;
    }
    call_answer_drop_rest(call); /* by this worker, and before the answer is sent */
    call->holders = 2;
    exchange_set_header_length(call->exchange, call->has_header_length ? call->text_bytes : 0);
    exchange_reply_parts(call->exchange, call->status, call->content_type, call->parts,
                         call->part_count, release, call);
}

/* The latest phase that the call came to. A short answer is packed when it is replied. */
static enum infer_phase last_phase(const struct call *call)
{
    bool is_required;
    if (call->fault.code != FAULT_NONE)
        return call->clock.parsed_ns > 0 ? INFER_COMPUTE : INFER_READ;
    return call->answer_stages == 0
                   && exchange_packs(call->exchange, call->text_bytes, &is_required)
               ? INFER_PACK
               : INFER_WRITE;
}

/* The key pays what the call used, also where it was cancelled or failed. A lack of memory is said
 * as what it is. */
static void charge(struct call *call)
{
    access_quota_explain(call->quota, call->memory, &call->fault);
    if (!call->quota)
        return;
    const bool was_begun = call->clock.begun_ns > 0;
    access_quota_charge(call->quota, call->reserved_ns,
                        was_begun ? infer_cost_used_ns(&call->cost, last_phase(call)) : 0);
}

static void done(struct job *job, enum job_outcome outcome)
{
    struct call *call = call_of(job);
    finish(call, outcome);
    end_progress(call); /* before the answer is seen */
    charge(call);
    record(call);
    if (call->fault.code != FAULT_NONE) {
        drop_memory(call);
        exchange_fail(call->exchange, &call->fault);
        return;
    }
    infer_cost_learn(&call->cost);
    reply(call);
}

bool call_is_stopped(struct call *call)
{
    return call->exchange && scheduler_is_stopped(call->service->scheduler, &call->job);
}

uint64_t call_unique(const struct call *call, int64_t index)
{
    return call->service->repeats
               ? unique_id_of(exchange_request_id(call->exchange), (uint64_t)index)
               : unique_id_next();
}

int64_t call_time_s(const struct call *call)
{
    return call->service->repeats ? 0 : (int64_t)time(NULL);
}

void call_on_settled(struct call *call, void (*settle)(void *settled, bool is_delivered),
                     void *settled)
{
    exchange_on_settled(call->exchange, settle, settled);
}

/* -------------------------------------------------------------- the handler -- */

static const struct job_kind call_job = { stage_tasks, run, done };

static void end(void *owner, enum exchange_end why)
{
    struct call *call = owner;
    scheduler_stop_job(call->service->scheduler, &call->job,
                       why == EXCHANGE_LEFT ? JOB_LEFT : JOB_DEADLINE);
}

static void init(struct call *call, struct service *service, struct memory_share *memory)
{
    call->job.kind = &call_job;
    call->service = service;
    call->holders = 1;
    call->first_stage = 1;
    call->clock.submitted_ns = clock_now_ns();
    call->content_type = "application/json";
    call->status = 200;
    text_init(&call->text, 2 * service->config->answer_bytes_max + 65536);
    call->memory = call->text.memory = memory;
}

static void take_body(struct call *call, struct exchange *exchange, int64_t deadline_ns)
{
    call->job.deadline_ns = deadline_ns;
    call->job.share = access_key_share(exchange_key(exchange));
    call->exchange = exchange;
    call->clock.started_ns = exchange_started_ns(exchange);
    call->body_coding = exchange_body_coding(exchange);
    call->answer_coding = exchange_answer_coding(exchange);
    call->body = exchange_take_body_in_place(exchange, &call->body_memory);
}

/* A body, whose data is NULL where it has not come: what reading it costs, and in *likely_ns what
 * recent calls of its path, type and size cost in all. */
static struct admission_cost predict(struct infer_cost *cost, const struct exchange *exchange,
                                     struct byte_slice body, uint64_t *guess_key,
                                     int64_t *likely_ns)
{
    const struct service *service = exchange_context(exchange);
    infer_cost_read(cost, exchange,
                    coding_unpacked_guess(exchange_body_coding(exchange), body.data, body.size,
                                          service->config->body_bytes_max));
    const struct admission_cost certain = infer_cost_to_admit(cost, service);
    *guess_key = cost_guess_key(exchange_path(exchange), exchange_body_type(exchange), body.size);
    const int64_t guess_ns = cost_guess_ns(*guess_key);
    *likely_ns = guess_ns > certain.ns ? guess_ns : certain.ns;
    return certain;
}

static bool admit_body(struct call *call, struct fault *fault)
{
    const struct admission_cost certain =
        predict(&call->cost, call->exchange, call->body, &call->guess_key, &call->job.cost_ns);
    if (call->quota)
        infer_cost_measure_reading(&call->cost);
    return admission_takes(call->service, &call->job, certain, exchange_was_judged(call->exchange),
                           fault);
}

/* Up to the job: false, with a fault, where the call is refused. */
static bool open_call(struct call *call, struct exchange *exchange, struct fault *fault)
{
    struct service *service = exchange_context(exchange);
    int64_t deadline_ns = 0;
    if (call)
        init(call, service, exchange_memory(exchange)); /* its kind may drop it from here on */
    if (!service_accepts(service, fault)
        || !service_read_deadline(service, exchange, &deadline_ns, fault))
        return false;
    if (!call)
        return fault_no_memory(fault);
    call->quota = exchange_quota(exchange);
    if (!call->kind->begin(call, exchange, fault))
        return false;
    take_body(call, exchange, deadline_ns);
    if (!admit_body(call, fault) || !reserve_time(call, call->job.cost_ns, fault))
        return false;
    if (exchange_header(exchange, HTTP_HEADER_REQUEST_ID))
        call->progress = progress_begin(service->progress, exchange_request_id(exchange),
                                        exchange_key(exchange));
    return true;
}

/* After a call was refused: see RELIEF_TURN_NS. */
static void relieve(const struct exchange *exchange, const struct fault *fault)
{
    struct service *service = exchange_context(exchange);
    if (fault->code == FAULT_OVERLOADED && exchange_turn_cost_ns(exchange) < RELIEF_TURN_NS)
        exchange_add_turn_cost(exchange, scheduler_relieve(service->scheduler, INLINE_MOST_NS));
}

/* The most that the call may cost to be run by the connection thread itself. */
static int64_t inline_most_ns(const struct call *call, const struct exchange *exchange)
{
    if (call->is_for_worker)
        return 0;
    if (exchange_is_first(exchange))
        return INLINE_MOST_NS;
    const bool computes_own =
        exchange_thread_count(exchange) >= scheduler_worker_count(call->service->scheduler);
    return computes_own && exchange_turn_cost_ns(exchange) < INLINE_TURN_NS ? INLINE_MOST_NS
                                                                            : INLINE_ALWAYS_NS;
}

static bool goes_on(void *exchange)
{
    return !exchange_thread_is_wanted(exchange);
}

/* Runs the job of an exchange that is parked, or has it run. False: the queue is full. */
static bool run_job(struct exchange *exchange, struct call *call)
{
    const int64_t inline_ns = inline_most_ns(call, exchange);
    const struct scheduler_help help = { HELP_MOST_NS, INLINE_MOST_NS, goes_on, exchange };
    const bool helps = inline_ns == INLINE_MOST_NS && exchange_is_first(exchange)
                       && call->cost.ns[INFER_READ] <= INLINE_MOST_NS;
    if (call->job.cost_ns <= (helps ? HELP_MOST_NS : inline_ns))
        exchange_add_turn_cost(exchange, call->job.cost_ns);
    return scheduler_run(call->service->scheduler, &call->job, inline_ns, helps ? &help : NULL);
}

void call_handle(struct exchange *exchange, struct call *call)
{
    struct fault fault = { .code = FAULT_NONE };
    if (!open_call(call, exchange, &fault)) {
        if (call)
            release(call);
        relieve(exchange, &fault);
        exchange_fail(exchange, &fault);
        return;
    }
    exchange_park(exchange, call->job.deadline_ns, end, release, call);
    if (run_job(exchange, call))
        return;
    charge(call);
    drop_memory(call); /* others may wait for what it holds */
    service_refuse_overloaded(1, &fault);
    exchange_fail(exchange, &fault);
}

bool call_takes_body(const struct exchange *exchange, struct body_outlook *outlook,
                     struct fault *fault)
{
    struct infer_cost cost = { .flops = 0 };
    uint64_t guess_key;
    if (!service_has_time(exchange, fault))
        return false;
    if (outlook->bytes < ADMISSION_EARLY_BYTES)
        return true;
    const struct admission_cost certain =
        predict(&cost, exchange, (struct byte_slice){ NULL, outlook->bytes }, &guess_key,
                &outlook->cost_ns);
    if (admission_takes_body(exchange_context(exchange), exchange, outlook, certain, fault))
        return true;
    relieve(exchange, fault);
    return false;
}

static void run_all(struct call *call, const struct worker *worker)
{
    int64_t count = 1;
    for (int stage = 0; count > 0; stage++) {
        for (int64_t task = 0; task < count; task++)
            run(&call->job, stage, task, worker);
        count = stage_tasks(&call->job, stage + 1);
    }
}

bool call_try(struct service *service, struct call *call, struct byte_slice body,
              struct fault *fault)
{
    if (!call)
        return fault_no_memory(fault);
    init(call, service, NULL);
    call->body = body;
    void *workspace = aligned_alloc(64, SERVICE_WORKSPACE_BYTES);
    const struct worker worker = { workspace, SERVICE_WORKSPACE_BYTES, 0 };
    if (!workspace)
        fault_no_memory(&call->fault);
    else if (call->kind->begin(call, NULL, &call->fault))
        run_all(call, &worker);
    if (call->fault.code == FAULT_NONE)
        call_answer_finish(call);
    free(workspace);
    *fault = call->fault;
    release(call);
    return fault->code == FAULT_NONE;
}
