/* SPDX-License-Identifier: Apache-2.0 */
/* disk_job.h - a request that waits for the disk: run by another thread, then answered.
 *
 * A connection thread never waits, so such a request becomes a job of one task. It has its
 * scheduler, service->disk_jobs, so that reading a model holds no worker. */
#ifndef ATTND_DISK_JOB_H
#define ATTND_DISK_JOB_H

#include "call/service.h"
#include "models/model/model.h"

struct disk_job;

/* Runs on that thread. Writes the answer and its status, or returns false with disk_job->fault. */
typedef bool disk_job_run(struct disk_job *disk_job);

struct disk_job {
    struct job job; /* first: a job is its disk_job */
    struct service *service;
    struct byte_slice body;
    enum coding coding;            /* of the body, before run */
    char name[MODEL_NAME_MAX + 2]; /* cut, but a name that is too long stays too long */

    int status; /* 200 until run says otherwise */
    struct text answer;
    struct fault fault;

    /* disk_job.c's own. */
    struct exchange *exchange;
    disk_job_run *run;
    bool ran;
};

/* Whether the body of such a request may come, see http.h: not while its key is in debt. */
bool disk_job_takes_body(const struct exchange *exchange, struct body_outlook *outlook,
                         struct fault *fault);

/* Takes the exchange and its body, and answers with the answer of run, or with the fault why it did
 * not run. name is copied. */
void disk_job_start(struct exchange *exchange, const char *name, disk_job_run *run);

#endif
