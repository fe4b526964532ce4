/* SPDX-License-Identifier: Apache-2.0 */
/* disk_job.c - see disk_job.h. */
#include "call/disk_job.h"

#include "access/access_account.h"
#include "access/access_key.h"
#include "base/clock.h"
#include "call/admission.h"
#include "formats/coding.h"

#include <stdio.h>
#include <stdlib.h>

static struct disk_job *disk_job_of(struct job *job)
{
    return (struct disk_job *)job;
}

static int64_t stage_tasks(struct job *job, int stage)
{
    (void)job;
    (void)stage;
    return 0;
}

static void disk_task_run(struct job *job, int stage, int64_t task, const struct worker *worker)
{
    struct disk_job *disk_job = disk_job_of(job);
    (void)stage;
    (void)task;
    (void)worker;
    void *memory = (void *)disk_job->body.data;
    disk_job->ran = true;
    const int64_t begun_ns = clock_thread_ns();
    if (coding_unpack(disk_job->coding, &disk_job->body, &memory,
                      disk_job->service->config->body_bytes_max,
                      exchange_memory(disk_job->exchange), &disk_job->fault))
        disk_job->run(disk_job);
    access_quota_charge(exchange_quota(disk_job->exchange), 0, clock_thread_ns() - begun_ns);
}

/* What a change of the models costs is not known before it is done: the key goes into debt. */
bool disk_job_takes_body(const struct exchange *exchange, struct body_outlook *outlook,
                         struct fault *fault)
{
    (void)outlook;
    return service_has_time(exchange, fault);
}

/* If run was called, its result is the answer, even if the deadline has passed meanwhile. */
static void done(struct job *job, enum job_outcome outcome)
{
    struct disk_job *disk_job = disk_job_of(job);
    free((void *)disk_job->body.data);
    if (!disk_job->ran)
        service_check_outcome(outcome, &disk_job->fault);
    if (disk_job->fault.code != FAULT_NONE) {
        text_free(&disk_job->answer);
        exchange_fail(disk_job->exchange, &disk_job->fault);
    } else if (disk_job->answer.used == 0 && disk_job->answer.failed == FAULT_NONE) {
        exchange_reply(disk_job->exchange, disk_job->status, NULL, NULL, 0);
    } else {
        exchange_reply_text(disk_job->exchange, disk_job->status, "application/json",
                            &disk_job->answer);
    }
}

static const struct job_kind disk_job_kind = { stage_tasks, disk_task_run, done };

static void disk_exchange_end(void *owner, enum exchange_end why)
{
    struct disk_job *disk_job = owner;
    scheduler_stop_job(disk_job->service->disk_jobs, &disk_job->job,
                       why == EXCHANGE_LEFT ? JOB_LEFT : JOB_DEADLINE);
}

void disk_job_start(struct exchange *exchange, const char *name, disk_job_run *run_it)
{
    struct service *service = exchange_context(exchange);
    struct job_share *share = access_key_share(exchange_key(exchange));
    struct fault fault = { .code = FAULT_NONE };
    int64_t deadline_ns = 0;
    struct disk_job *disk_job = NULL;
    if (service_read_deadline(service, exchange, &deadline_ns, &fault)
        && admission_takes_disk_job(service, share, &fault)) {
        disk_job = calloc(1, sizeof *disk_job);
        if (!disk_job)
            fault_no_memory(&fault);
    }
    if (!disk_job) {
        exchange_fail(exchange, &fault);
        return;
    }
    disk_job->job.kind = &disk_job_kind;
    disk_job->job.deadline_ns = deadline_ns;
    disk_job->job.share = share;
    disk_job->service = service;
    disk_job->exchange = exchange;
    disk_job->run = run_it;
    disk_job->status = 200;
    disk_job->coding = exchange_body_coding(exchange);
    disk_job->body = exchange_take_body(exchange);
    text_init(&disk_job->answer, service->config->answer_bytes_max);
    snprintf(disk_job->name, sizeof disk_job->name, "%s", name);
    exchange_park(exchange, deadline_ns, disk_exchange_end, free, disk_job);
    if (scheduler_submit(service->disk_jobs, &disk_job->job))
        return;
    service_refuse_overloaded(1, &fault);
    free((void *)disk_job->body.data);
    exchange_fail(exchange, &fault);
}
