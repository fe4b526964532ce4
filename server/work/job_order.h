/* job_order.h - which job gives the next task.
 *
 * The highest priority level goes first. Within a level a job's key is the time at which it would
 * be over if it got a sixteenth of the time: its arrival plus sixteen times its remaining cost,
 * or the middle between its arrival and its deadline, whichever is sooner. The smallest key goes
 * first. So short jobs go before long ones, and equal jobs in the order of their arrival; and once
 * a job has waited sixteen times its own cost, or half of its time, no later job passes it.
 *
 * That alone would let a low level, or a long job, starve under a stream of jobs that go before it.
 * So the job that has waited longest of all, whatever its level and cost, gets a sixteenth of one
 * worker besides.
 *
 * This file knows no threads, locks or clocks: callers hold their lock and pass the time. */
#ifndef ATTND_JOB_ORDER_H
#define ATTND_JOB_ORDER_H

#include "work/scheduler.h"

enum {
    JOB_LEVELS = 3, /* 1 is the highest */
    JOB_LEVEL_DEFAULT = 2,
    JOB_PASSES = 16,            /* times its cost that later jobs may pass a job */
    JOB_OLDEST_SHARE = 16,      /* the oldest job gets a sixteenth */
    JOB_PATIENCE_NS = 100000000 /* and only after it has waited so long */
};

struct job_order {
    struct job **heap; /* [count]; there is room for capacity */
    int64_t count, capacity;
    int64_t came;          /* jobs so far */
    int64_t oldest_due_ns; /* the oldest job gets no task of its share before */
};

/* Room for count jobs. False: no memory, and nothing has changed. */
bool job_order_reserve(struct job_order *order, int64_t count);

/* Notes that a job came at now_ns. It is not in the order yet. */
void job_order_admit(struct job_order *order, struct job *job, int64_t now_ns);

/* The level of a number that a request asks for; the default level for a number that is none. */
int job_order_level(int priority);

/* Puts a job at its place; the caller has reserved room. Moves a job that is in the order already,
 * when its cost has changed. */
void job_order_put(struct job_order *order, struct job *job);

/* Has no effect on a job that is not in the order. */
void job_order_remove(struct job_order *order, struct job *job);

/* The job that gives the next task; it stays in the order. NULL: none has a task. open is the list
 * of all jobs by in_open, oldest first. */
struct job *job_order_next(struct job_order *order, struct job *open, int64_t now_ns);

/* The expected remaining cost: the rest of the prediction, or, where that is used up or there was
 * none, as much as the job has cost so far. */
int64_t job_order_rest_ns(const struct job *job);

/* Whether job goes before other, if other arrives at came_ns with the priority, cost and deadline
 * that its owner has set. */
bool job_order_goes_before(const struct job *job, const struct job *other, int64_t came_ns);

void job_order_free(struct job_order *order);

#endif
