/* access_budget.c - see access_budget.h. */
#include "access/access_budget.h"

#include <limits.h>
#include <math.h>

/* Sums of doubles are not exact, so a debt of less than a nanosecond is none. */
static const double DEBT_MIN_NS = 1;

void access_budget_init(struct access_budget *budget, double rate, int64_t burst_ns)
{
    *budget = (struct access_budget){ .rate = rate, .burst_ns = (double)burst_ns };
    pthread_mutex_init(&budget->mutex, NULL);
}

void access_budget_free(struct access_budget *budget)
{
    pthread_mutex_destroy(&budget->mutex);
}

/* Brings the level up to now. Only time is bounded by the depth: what a request took and did not
 * use goes back in full, even where the level has risen to the depth meanwhile. Threads read the
 * clock before they take the mutex, so now_ns may be earlier than the last time. */
static void fill(struct access_budget *budget, int64_t now_ns)
{
    const int64_t passed_ns = now_ns - budget->seen_ns;
    if (passed_ns <= 0)
        return;
    if (budget->seen_ns > 0 && budget->level_ns < budget->burst_ns)
        budget->level_ns =
            fmin(budget->level_ns + (double)passed_ns * budget->rate, budget->burst_ns);
    budget->seen_ns = now_ns;
}

/* The time until a level is not below zero; 0 where it is not now. */
static int64_t wait_of(const struct access_budget *budget, double level_ns)
{
    if (budget->rate <= 0 || level_ns > -DEBT_MIN_NS)
        return 0;
    const double wait_ns = ceil(-level_ns / budget->rate);
    return wait_ns < (double)(INT64_MAX / 2) ? (int64_t)wait_ns : INT64_MAX / 2;
}

void access_budget_change(struct access_budget *budget, double rate, int64_t burst_ns,
                          int64_t now_ns)
{
    pthread_mutex_lock(&budget->mutex);
    fill(budget, now_ns);
    if (budget->rate <= 0) /* what was used without a bound is no debt */
        budget->level_ns = 0;
    budget->rate = rate;
    budget->burst_ns = (double)burst_ns;
    budget->level_ns = fmin(budget->level_ns, budget->burst_ns);
    pthread_mutex_unlock(&budget->mutex);
}

bool access_budget_has(struct access_budget *budget, int64_t now_ns, int64_t *wait_ns)
{
    pthread_mutex_lock(&budget->mutex);
    fill(budget, now_ns);
    *wait_ns = wait_of(budget, budget->level_ns);
    pthread_mutex_unlock(&budget->mutex);
    return *wait_ns == 0;
}

bool access_budget_take(struct access_budget *budget, int64_t reserved_ns, int64_t predicted_ns,
                        int64_t now_ns, int64_t *wait_ns)
{
    pthread_mutex_lock(&budget->mutex);
    fill(budget, now_ns);
    const double level_ns = budget->level_ns + (double)reserved_ns;
    *wait_ns = wait_of(budget, level_ns);
    if (*wait_ns == 0)
        budget->level_ns = level_ns - (double)predicted_ns;
    pthread_mutex_unlock(&budget->mutex);
    return *wait_ns == 0;
}

void access_budget_correct(struct access_budget *budget, int64_t reserved_ns, int64_t used_ns)
{
    pthread_mutex_lock(&budget->mutex);
    budget->level_ns += (double)reserved_ns - (double)used_ns;
    pthread_mutex_unlock(&budget->mutex);
}

int access_budget_wait_s(int64_t wait_ns)
{
    const int64_t seconds = wait_ns / 1000000000 + (wait_ns % 1000000000 > 0);
    return seconds < 1 ? 1 : seconds < INT_MAX ? (int)seconds : INT_MAX;
}
