/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h - threads that run numbered tasks, as libattn's plans have them. */
#ifndef POOL_H
#define POOL_H

#include <stddef.h>
#include <stdint.h>

struct pool;

/* A pool of threads workers, the caller of pool_run() being one of them; NULL if there is no
 * memory. */
struct pool *pool_create(int threads);
void pool_free(struct pool *pool);

/* Runs task(argument, number, workspace) for each number below count, in any order, each at most
 * once at a time on a workspace of workspace_bytes, 64-byte aligned. Returns when all have ended:
 * 0, or -1 if there is no memory for the workspaces, and then none has run. */
int pool_run(struct pool *pool, int64_t count, size_t workspace_bytes,
             void (*task)(const void *argument, int64_t number, void *workspace),
             const void *argument);

#endif
