/* SPDX-License-Identifier: Apache-2.0 */
/* team.c - threads that wait for a round of tasks and take them one by one. */
#include "mpi/team.h"

#include <stddef.h>

static bool run_next(struct team *team, int thread)
{
    const int64_t number = atomic_fetch_add(&team->next, 1);

    if (number >= team->task_count)
        return false;
    team->run(team->of, number, thread);
    return true;
}

/* The number of a thread is the order in which it came. */
static void *work(void *argument)
{
    struct team *team = argument;
    uint64_t seen = 0;

    pthread_mutex_lock(&team->mutex);
    const int thread = ++team->busy;
    pthread_cond_signal(&team->ended);
    for (;;) {
        while (team->round == seen && !team->stops)
            pthread_cond_wait(&team->begun, &team->mutex);
        if (team->stops)
            break;
        seen = team->round;
        pthread_mutex_unlock(&team->mutex);
        while (run_next(team, thread)) {
        }
        pthread_mutex_lock(&team->mutex);
        if (--team->busy == 0)
            pthread_cond_signal(&team->ended);
    }
    pthread_mutex_unlock(&team->mutex);
    return NULL;
}

bool team_init(struct team *team, int count)
{
    *team = (struct team){ .count = 1 };
    pthread_mutex_init(&team->mutex, NULL);
    pthread_cond_init(&team->begun, NULL);
    pthread_cond_init(&team->ended, NULL);
    for (; team->count < count; team->count++)
        if (pthread_create(&team->threads[team->count], NULL, work, team) != 0) {
            team_free(team);
            return false;
        }
    pthread_mutex_lock(&team->mutex);
    while (team->busy < count - 1)
        pthread_cond_wait(&team->ended, &team->mutex);
    team->busy = 0;
    pthread_mutex_unlock(&team->mutex);
    return true;
}

void team_free(struct team *team)
{
    pthread_mutex_lock(&team->mutex);
    team->stops = true;
    pthread_cond_broadcast(&team->begun);
    pthread_mutex_unlock(&team->mutex);
    for (int i = 1; i < team->count; i++)
        pthread_join(team->threads[i], NULL);
    pthread_cond_destroy(&team->ended);
    pthread_cond_destroy(&team->begun);
    pthread_mutex_destroy(&team->mutex);
    team->count = 0;
}

void team_run(struct team *team, int64_t task_count, team_task *run, void *of,
              void (*on_task)(void *), void *told)
{
    pthread_mutex_lock(&team->mutex);
    team->run = run;
    team->of = of;
    team->task_count = task_count;
    atomic_store(&team->next, 0);
    if (team->count > 1 && task_count > 1) {
        team->busy = team->count - 1;
        team->round++;
        pthread_cond_broadcast(&team->begun);
    }
    pthread_mutex_unlock(&team->mutex);
    while (run_next(team, 0))
        if (on_task)
            on_task(told);
    pthread_mutex_lock(&team->mutex);
    while (team->busy > 0)
        pthread_cond_wait(&team->ended, &team->mutex);
    pthread_mutex_unlock(&team->mutex);
}
