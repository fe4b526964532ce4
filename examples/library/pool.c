/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c - see pool.h. A worker takes the next number by an atomic addition, until none is left. */
#include "pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

struct pool {
    pthread_mutex_t mutex; /* of what follows, up to ends */
    pthread_cond_t begun, ended;
    uint64_t run;           /* the number of the run that the workers are in, or wait behind */
    int running, next_name; /* workers that have not ended this run; the next worker's number */
    bool ends;

    int64_t count;
    size_t workspace_bytes;
    void (*task)(const void *argument, int64_t number, void *workspace);
    const void *argument;
    _Atomic int64_t next;

    char *workspaces; /* one for each worker, the caller's first */
    size_t workspaces_bytes;
    int threads;
    pthread_t workers[];
};

static void run_tasks(struct pool *pool, int worker)
{
    void *workspace = pool->workspaces + (size_t)worker * pool->workspace_bytes;
    int64_t number;

    while ((number = atomic_fetch_add(&pool->next, 1)) < pool->count)
        pool->task(pool->argument, number, workspace);
}

static void *work(void *argument)
{
    struct pool *pool = argument;
    uint64_t seen = 0;

    pthread_mutex_lock(&pool->mutex);
    const int worker = pool->next_name++;
    for (;;) {
        while (pool->run == seen && !pool->ends)
            pthread_cond_wait(&pool->begun, &pool->mutex);
        if (pool->ends)
            break;
        seen = pool->run;
        pthread_mutex_unlock(&pool->mutex);
        run_tasks(pool, worker);
        pthread_mutex_lock(&pool->mutex);
        if (--pool->running == 0)
            pthread_cond_signal(&pool->ended);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

struct pool *pool_create(int threads)
{
    struct pool *pool = calloc(1, sizeof *pool + (size_t)threads * sizeof pool->workers[0]);

    if (!pool)
        return NULL;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->begun, NULL);
    pthread_cond_init(&pool->ended, NULL);
    pool->next_name = 1;
    pool->threads = 1;
    while (pool->threads < threads
           && pthread_create(&pool->workers[pool->threads], NULL, work, pool) == 0)
        pool->threads++;
    return pool;
}

void pool_free(struct pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->mutex);
    pool->ends = true;
    pthread_cond_broadcast(&pool->begun);
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 1; i < pool->threads; i++)
        pthread_join(pool->workers[i], NULL);
    free(pool->workspaces);
    free(pool);
}

static bool make_room(struct pool *pool, size_t workspace_bytes)
{
    const size_t wanted = (size_t)pool->threads * workspace_bytes;

    pool->workspace_bytes = workspace_bytes;
    if (wanted <= pool->workspaces_bytes)
        return true;
    free(pool->workspaces);
    pool->workspaces = aligned_alloc(64, wanted);
    pool->workspaces_bytes = pool->workspaces ? wanted : 0;
    return pool->workspaces != NULL;
}

int pool_run(struct pool *pool, int64_t count, size_t workspace_bytes,
             void (*task)(const void *argument, int64_t number, void *workspace),
             const void *argument)
{
    if (!make_room(pool, (workspace_bytes + 63) / 64 * 64))
        return -1;
    pthread_mutex_lock(&pool->mutex);
    pool->count = count;
    pool->task = task;
    pool->argument = argument;
    atomic_store(&pool->next, 0);
    pool->running = pool->threads - 1;
    pool->run++;
    pthread_cond_broadcast(&pool->begun);
    pthread_mutex_unlock(&pool->mutex);
    run_tasks(pool, 0);
    pthread_mutex_lock(&pool->mutex);
    while (pool->running > 0)
        pthread_cond_wait(&pool->ended, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
    return 0;
}
