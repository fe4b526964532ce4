/* job_order.h - which of the jobs that have a task to give gives the next one.
 *
 * The highest priority level goes first. In a level a job stands where it would be
 * over if it were served a sixteenth of the time: at the time it came plus sixteen
 * times what it is expected to cost still, or at half of the time until its deadline,
 * whichever is sooner. So short ones go before long ones, equals in the order they came,
 * and what has waited sixteen times its own cost, or half of the time it had, is passed
 * by nothing that comes later.
 *
 * That alone would let a level, or long jobs, starve under a stream of what goes
 * before them. So who has waited longest of all, whatever its level and cost, is given
 * a sixteenth of one worker's time besides.
 *
 * No thread, lock or clock is known here: callers hold their lock and say the time. */
#ifndef ATTND_JOB_ORDER_H
#define ATTND_JOB_ORDER_H

#include "work/scheduler.h"

enum {
    JOB_LEVELS = 3, /* 1 is the highest */
    JOB_LEVEL_DEFAULT = 2,
    JOB_PASSES = 16,            /* times its cost that a job may be passed */
    JOB_OLDEST_SHARE = 16,      /* one part in so many is the oldest's */
    JOB_PATIENCE_NS = 100000000 /* before it is that, it has waited so long */
};

struct job_order {
    struct job **heap; /* [count], of room for capacity */
    int64_t count, capacity;
    int64_t came; /* jobs so far */
    int64_t oldest_due_ns;
};

/* Room for count jobs. False: no memory, and nothing has changed. */
bool job_order_reserve(struct job_order *order, int64_t count);

/* A job has come at now_ns; it is not in the order yet. */
void job_order_admit(struct job_order *order, struct job *job, int64_t now_ns);

/* The level that a request asks for by a number; the default one, where there is no such level. */
int job_order_level(int priority);

/* Puts a job, of which there is room for, where it belongs; also one that is in the order already,
 * when what it costs has changed. */
void job_order_put(struct job_order *order, struct job *job);

/* A job that is not in the order is left alone. */
void job_order_remove(struct job_order *order, struct job *job);

/* The job to give a task of now; it stays in the order. NULL: there is none. open is the list of
 * all jobs by in_open, oldest first. */
struct job *job_order_next(struct job_order *order, struct job *open, int64_t now_ns);

/* What it is expected to cost still: what was predicted, or, where that has been used up or nothing
 * was, as much again as it has cost so far. */
int64_t job_order_rest_ns(const struct job *job);

/* Whether a job that has come goes before another that came at came_ns, or would come then, of the
 * priority, cost and deadline that are its owner's. */
bool job_order_goes_before(const struct job *job, const struct job *other, int64_t came_ns);

void job_order_free(struct job_order *order);

#endif
