/* SPDX-License-Identifier: Apache-2.0 */
/* team.h - the threads of a rank: tasks in any order, the first thread is the caller's. */
#ifndef MPI_TEAM_H
#define MPI_TEAM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { TEAM_THREADS_MAX = 256 };

/* Runs task number on one of the threads, 0 <= thread < count. */
typedef void team_task(void *of, int64_t number, int thread);

struct team {
    int count; /* of threads, the caller's too */
    pthread_t threads[TEAM_THREADS_MAX];

    /* Private. */
    pthread_mutex_t mutex;
    pthread_cond_t begun, ended;
    uint64_t round; /* of team_run(), so that a thread knows a new one */
    int busy;
    bool stops;
    team_task *run;
    void *of;
    int64_t task_count;
    _Atomic int64_t next;
};

/* Returns false where the system has no more threads; the team is empty then. */
bool team_init(struct team *team, int count);
void team_free(struct team *team);

/* Runs task_count tasks and waits for all; after each of its own the caller's thread calls on_task
 * with told, if it is not NULL. */
void team_run(struct team *team, int64_t task_count, team_task *run, void *of,
              void (*on_task)(void *), void *told);

#endif
