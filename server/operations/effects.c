/* SPDX-License-Identifier: Apache-2.0 */
/* effects.c - the kind of call that effects are: its plan, its price, its end. */
#include "call/infer_statistics.h"
#include "operations/effect.h"
#include "operations/operations.h"

static void init(struct call *call)
{
    struct effects *job = effects_of(call);
    job->request.arena = &call->arena;
    job->request.attention.model = call->model; /* whose statistics count the request */
    call->model = NULL;
    arena_init(&job->other_arena, call->limits.scratch_bytes_max);
    job->other_arena.memory = call->memory;
    job->other.arena = &job->other_arena;
    job->call = call;
}

static bool read_body(struct call *call, struct fault *fault)
{
    if (operation_answer(call)->writer->keeps_dtype)
        effects_of(call)->request.number_bytes = sizeof(float);
    return effect_fields_read(call, effects_of(call), fault);
}

static bool is_stopped(void *call)
{
    return call_is_stopped(call);
}

static bool plan(struct call *call, struct fault *fault)
{
    struct effects *job = effects_of(call);
    job->request.stop = job->other.stop = (struct tokenizer_stop){ is_stopped, call };
    job->request.kept = job->other.kept = call->service->kept;
    job->request.key = job->other.key = call->limits.key;
    const bool is_planned = effect_plan(job, fault);
    infer_cost_was_tokenized(&call->cost,
                             job->request.tokenized_bytes + job->other.tokenized_bytes);
    return is_planned && effect_price(job, fault);
}

static int64_t tasks(struct call *call, int stage)
{
    struct effects *job = effects_of(call);
    if (stage == 0)
        infer_statistics_pending(&job->request.attention, &job->pending, true);
    return effect_tasks(job, &call->fault);
}

static void run(struct call *call, int stage, int64_t task, const struct worker *worker)
{
    struct effects *job = effects_of(call);
    if (stage == 0 && task == 0)
        infer_statistics_pending(&job->request.attention, &job->pending, false);
    effect_run(job, task, worker);
}

static void end(struct call *call, struct fault *fault)
{
    struct effects *job = effects_of(call);
    effect_pass_end(job);
    infer_statistics_pending(&job->request.attention, &job->pending, false);
    infer_job_check_models(&job->request.attention, fault);
}

static void record(struct call *call, struct request_record *record)
{
    infer_statistics_record(record, &effects_of(call)->request.attention, &call->cost);
}

static void drop(struct call *call)
{
    struct effects *job = effects_of(call);
    effect_pass_end(job);
    operation_drop(call);
    trace_request_free(&job->other);
    trace_request_free(&job->request);
}

static const struct call_kind KIND = { .work_bytes = sizeof(struct effects),
                                       .init = init,
                                       .read = operation_read,
                                       .plan = plan,
                                       .tasks = tasks,
                                       .run = run,
                                       .end = end,
                                       .write = operation_write,
                                       .record = record,
                                       .drop = drop };
const struct operation effects_call = {
    .kind = &KIND, .formats = operation_formats_tensors, .read = read_body, .say = effect_say
};
