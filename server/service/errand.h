/* errand.h - what a handler has to do that waits for the disk: done by another thread, then
 * answered.
 *
 * A connection thread never waits, so such a request becomes a job of one task, of a scheduler of
 * its own: a model that is being read holds no worker. */
#ifndef ATTND_ERRAND_H
#define ATTND_ERRAND_H

#include "model/model.h"
#include "service/service.h"

struct errand;

/* On that thread. Writes the answer and its status, or returns false with errand->fault. */
typedef bool errand_run(struct errand *errand);

struct errand {
    struct job job; /* first: a job is its errand */
    struct service *service;
    struct byte_slice body;
    enum coding coding;            /* of the body, before run */
    char name[MODEL_NAME_MAX + 2]; /* one that is too long stays too long */

    int status; /* 200 until run says otherwise */
    struct text answer;
    struct fault fault;

    /* The errand's own. */
    struct exchange *exchange;
    errand_run *run;
    bool ran;
};

/* Takes the exchange and its body, and answers with what run did, or with why it could not be run.
 * name is copied. */
void errand_start(struct exchange *exchange, const char *name, errand_run *run);

#endif
