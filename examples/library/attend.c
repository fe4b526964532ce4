/* SPDX-License-Identifier: Apache-2.0 */
/* attend.c - attention in a program of one's own, over libattn: causal rows on all processors, and
 * one new row over many keys, which has few tasks and therefore parts.
 *
 * libattn starts no threads. Its plans have tasks that may run in any order on any threads, and
 * pool.c runs them; the bits are the same for each number of threads, which this program checks.
 *
 *     make install-library
 *     cc -O2 examples/library/attend.c examples/library/pool.c $(pkg-config --cflags --libs attn) \
 *         -lpthread -o attend
 *     ./attend */
#include "pool.h"

#include <attn/attn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEADS = 8, HEAD_DIM = 64 };

static void run_task(const void *plan, int64_t task, void *workspace)
{
    attn_plan_run(plan, task, workspace);
}

struct parted {
    const struct attn_plan *plan;
    void *shared;
};

static void run_part(const void *argument, int64_t part, void *workspace)
{
    const struct parted *parted = argument;
    attn_plan_run_part(parted->plan, part, parted->shared, workspace);
}

static void run_join(const void *argument, int64_t join, void *workspace)
{
    const struct parted *parted = argument;
    attn_plan_run_join(parted->plan, join, parted->shared, workspace);
}

/* Runs a plan on the pool: in parts where it has them, because then there are more of them. */
static int run(struct pool *pool, const struct attn_plan *plan)
{
    if (plan->part_count == 0)
        return pool_run(pool, plan->task_count, plan->workspace_bytes, run_task, plan);
    struct parted parted = { plan, aligned_alloc(64, (plan->shared_bytes + 63) / 64 * 64) };
    const size_t bytes = plan->part_workspace_bytes;
    const int result = parted.shared
                               && pool_run(pool, plan->part_count, bytes, run_part, &parted) == 0
                               && pool_run(pool, plan->join_count, bytes, run_join, &parted) == 0
                           ? 0
                           : -1;
    free(parted.shared);
    return result;
}

static float *numbers(int64_t count, uint32_t seed)
{
    float *made = malloc((size_t)count * sizeof *made);
    for (int64_t i = 0; made && i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        made[i] = (float)(int32_t)seed / 2147483648.0f;
    }
    return made;
}

/* The last q_len rows of kv_len, causal, on a pool; the context is the caller's to free. */
static float *attend(struct pool *pool, int64_t q_len, int64_t kv_len)
{
    float *q = numbers(HEADS * q_len * HEAD_DIM, 1), *k = numbers(HEADS * kv_len * HEAD_DIM, 2);
    float *v = numbers(HEADS * kv_len * HEAD_DIM, 3), *out = numbers(HEADS * q_len * HEAD_DIM, 4);
    const int64_t past_len = kv_len - q_len;
    struct attn_problem problem = { .options = attn_options_default(HEAD_DIM) };
    struct attn_plan plan;
    const char *where = "";

    problem.options.causal = true;
    problem.past_len = &past_len;
    problem.query = attn_tensor_dense(q, ATTN_F32, 1, HEADS, q_len, HEAD_DIM);
    problem.key = attn_tensor_dense(k, ATTN_F32, 1, HEADS, kv_len, HEAD_DIM);
    problem.value = attn_tensor_dense(v, ATTN_F32, 1, HEADS, kv_len, HEAD_DIM);
    problem.context = attn_tensor_dense(out, ATTN_F32, 1, HEADS, q_len, HEAD_DIM);
    const enum attn_status status = attn_plan_init(&plan, &problem, &where);
    if (status != ATTN_OK || run(pool, &plan) != 0) {
        fprintf(stderr, "%s: %s\n", where, status ? attn_status_message(status) : "no memory");
        exit(1);
    }
    free(q);
    free(k);
    free(v);
    return out;
}

int main(void)
{
    static const int64_t LENGTHS[][2] = { { 512, 512 }, { 1, 4096 } };
    const int threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
    struct pool *one = pool_create(1), *all = pool_create(threads > 1 ? threads : 2);

    if (!one || !all)
        return 1;
    printf("kernels: %s\n", attn_kernels_name(attn_kernels_available()[0]));
    for (size_t i = 0; i < sizeof LENGTHS / sizeof LENGTHS[0]; i++) {
        const int64_t q_len = LENGTHS[i][0], kv_len = LENGTHS[i][1];
        float *alone = attend(one, q_len, kv_len), *together = attend(all, q_len, kv_len);
        const size_t bytes = (size_t)(HEADS * q_len * HEAD_DIM) * sizeof *alone;
        printf("%d heads, %d rows, %d keys: context %.6f %.6f ..., %s bits on all threads\n", HEADS,
               (int)q_len, (int)kv_len, alone[0], alone[1],
               memcmp(alone, together, bytes) == 0 ? "equal" : "OTHER");
        free(alone);
        free(together);
    }
    pool_free(one);
    pool_free(all);
    return 0;
}
