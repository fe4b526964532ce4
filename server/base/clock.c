/* clock.c - see clock.h. Only conditions need pthread.h, so they have a file of their own.
 *
 * A condition waits by the calendar clock by default. The calendar clock may be set while a thread
 * waits; the monotonic clock may not. */
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
