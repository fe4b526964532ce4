/* errand.c - see errand.h. */
#include "service/errand.h"

#include "format/coding.h"
#include "service/admission.h"

#include <stdio.h>
#include <stdlib.h>

static struct errand *errand_of(struct job *job)
{
    return (struct errand *)job;
}

static int64_t stage_tasks(struct job *job, int stage)
{
    (void)job;
    (void)stage;
    return 0;
}

static void run(struct job *job, int stage, int64_t task, const struct worker *worker)
{
    struct errand *errand = errand_of(job);
    (void)stage;
    (void)task;
    (void)worker;
    void *memory = (void *)errand->body.data;
    errand->ran = true;
    if (coding_unpack(errand->coding, &errand->body, &memory,
                      errand->service->config->body_bytes_max, exchange_memory(errand->exchange),
                      &errand->fault))
        errand->run(errand);
}

/* What was done is answered as done, whatever has become of the time meanwhile. */
static void done(struct job *job, enum job_outcome outcome)
{
    struct errand *errand = errand_of(job);
    free((void *)errand->body.data);
    if (!errand->ran)
        service_check_outcome(outcome, &errand->fault);
    if (errand->fault.code != FAULT_NONE) {
        text_free(&errand->answer);
        exchange_fail(errand->exchange, &errand->fault);
    } else if (errand->answer.used == 0 && errand->answer.failed == FAULT_NONE) {
        exchange_reply(errand->exchange, errand->status, NULL, NULL, 0);
    } else {
        exchange_reply_text(errand->exchange, errand->status, "application/json", &errand->answer);
    }
}

static const struct job_kind errand_kind = { stage_tasks, run, done };

static void end(void *owner, enum exchange_end why)
{
    struct errand *errand = owner;
    scheduler_stop_job(errand->service->errands, &errand->job,
                       why == EXCHANGE_LEFT ? JOB_LEFT : JOB_DEADLINE);
}

void errand_start(struct exchange *exchange, const char *name, errand_run *run_it)
{
    struct service *service = exchange_context(exchange);
    struct fault fault = { .code = FAULT_NONE };
    int64_t deadline_ns = 0;
    struct errand *errand = NULL;
    if (service_read_deadline(service, exchange, &deadline_ns, &fault)
        && admission_takes_errand(service, &fault)) {
        errand = calloc(1, sizeof *errand);
        if (!errand)
            fault_no_memory(&fault);
    }
    if (!errand) {
        exchange_fail(exchange, &fault);
        return;
    }
    errand->job.kind = &errand_kind;
    errand->job.deadline_ns = deadline_ns;
    errand->service = service;
    errand->exchange = exchange;
    errand->run = run_it;
    errand->status = 200;
    errand->coding = exchange_body_coding(exchange);
    errand->body = exchange_take_body(exchange);
    text_init(&errand->answer, service->config->answer_bytes_max);
    snprintf(errand->name, sizeof errand->name, "%s", name);
    exchange_park(exchange, deadline_ns, end, free, errand);
    if (scheduler_submit(service->errands, &errand->job))
        return;
    service_refuse_overloaded(service, &fault);
    free((void *)errand->body.data);
    exchange_fail(exchange, &fault);
}
