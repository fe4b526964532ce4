/* clock.c - see clock.h: the one thing of it that needs threads. A condition waits by the calendar
 * clock unless it is told otherwise, and that one may be set. */
#include "base/clock.h"

#include <pthread.h>

void clock_init_condition(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}
