/* disk_job.h - what a handler has to do that waits for the disk: done by another thread, then
 * answered.
 *
 * A connection thread never waits, so such a request becomes a job of one task, of a scheduler of
 * its own: a model that is being read holds no worker. */
#ifndef ATTND_DISK_JOB_H
#define ATTND_DISK_JOB_H

#include "model/model.h"
#include "service/service.h"

struct disk_job;

/* On that thread. Writes the answer and its status, or returns false with disk_job->fault. */
typedef bool disk_job_run(struct disk_job *disk_job);

struct disk_job {
    struct job job; /* first: a job is its disk_job */
    struct service *service;
    struct byte_slice body;
    enum coding coding;            /* of the body, before run */
    char name[MODEL_NAME_MAX + 2]; /* one that is too long stays too long */

    int status; /* 200 until run says otherwise */
    struct text answer;
    struct fault fault;

    /* The disk job's own. */
    struct exchange *exchange;
    disk_job_run *run;
    bool ran;
};

/* Takes the exchange and its body, and answers with what run did, or with why it could not be run.
 * name is copied. */
void disk_job_start(struct exchange *exchange, const char *name, disk_job_run *run);

#endif
