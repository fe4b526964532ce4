/* access_budget.h - a budget of CPU time: so many seconds of it a second, of which some may be
 * saved up for later.
 *
 * This is a token bucket whose tokens are nanoseconds of CPU time. Its level rises at the rate of
 * the budget up to the depth, burst_ns. A request is taken unless the budget is in debt, that is
 * unless the level is below zero. The predicted time of the request is then taken from the level,
 * which may fall below zero; when the request is over, the level is corrected by the time that the
 * request used. Therefore
 *
 * - a request that is larger than the depth is taken too, and the debt that it leaves is paid off
 *   before the next one;
 * - a wrong prediction does no harm that lasts: the time that all requests used until t is at most
 *   rate * t, plus the depth, plus the requests that were taken before the level fell below zero;
 * - the end of a debt is known exactly, and does not depend on what the next request will cost.
 *
 * The level begins at zero, not at the depth, so the first seconds of a budget are worth no more
 * than any later ones. Beyond the depth, time in which no request came is lost. A budget of rate 0
 * has no bound. Thread-safe; time is passed by the caller. */
#ifndef ATTND_ACCESS_BUDGET_H
#define ATTND_ACCESS_BUDGET_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct access_budget {
    pthread_mutex_t mutex;
    double rate;     /* CPU seconds a second */
    double burst_ns; /* the depth */
    double level_ns; /* at seen_ns */
    int64_t seen_ns; /* 0: the budget has not been used yet */
};

/* rate and burst_ns are 0 or more. */
void access_budget_init(struct access_budget *budget, double rate, int64_t burst_ns);
void access_budget_free(struct access_budget *budget);

/* From now on there is another rate and depth; the level stays, but is at most the new depth. */
void access_budget_change(struct access_budget *budget, double rate, int64_t burst_ns,
                          int64_t now_ns);

/* Whether a request would be taken now. If not, *wait_ns is the time until it would be, if no other
 * request used the budget meanwhile. */
bool access_budget_has(struct access_budget *budget, int64_t now_ns, int64_t *wait_ns);

/* Takes a request that is predicted to use predicted_ns. reserved_ns is the part of the level that
 * the same request has taken before, when less was known of it; it does not count as a debt, and is
 * replaced. Where the request is not taken, nothing changes and *wait_ns is set as above. */
bool access_budget_take(struct access_budget *budget, int64_t reserved_ns, int64_t predicted_ns,
                        int64_t now_ns, int64_t *wait_ns);

/* The request that took reserved_ns is over, and has used used_ns. */
void access_budget_correct(struct access_budget *budget, int64_t reserved_ns, int64_t used_ns);

/* A wait in whole seconds, for Retry-After: rounded up, at least 1. */
int access_budget_wait_s(int64_t wait_ns);

#endif
