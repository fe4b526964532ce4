/* SPDX-License-Identifier: Apache-2.0 */
/* bench_gradient.c - what the backward pass costs beside the forward pass, on one core: medians
 * of alternating runs in CPU time.
 *
 * "kept" has what the forward pass answered (its context and lse), as FlashAttention's backward
 * has. "alone" starts from query, key and value. */
#include "gradient.h"
#include "own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 9 };

struct way_back {
    struct attn_gradient_plan plan;
    void *scratch, *workspace;
};

static const struct bench_shape shapes[] = {
    { 1, 12, 12, 512, 512, 64, 0, 1 },  { 1, 12, 12, 512, 512, 64, 1, 1 },
    { 1, 4, 4, 1024, 1024, 64, 0, 1 },  { 1, 2, 2, 2048, 2048, 64, 0, 1 },
    { 1, 2, 2, 2048, 2048, 64, 1, 1 },  { 1, 4, 4, 512, 512, 128, 0, 1 },
    { 1, 2, 2, 2048, 2048, 128, 0, 1 }, { 1, 8, 2, 512, 512, 64, 0, 1 },
    { 8, 12, 12, 128, 128, 64, 0, 1 },
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static void *memory(size_t bytes)
{
    void *made = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (!made)
        abort();
    return made;
}

static struct attn_tensor like(const struct attn_tensor *tensor)
{
    const int64_t *shape = tensor->shape;
    const size_t count = (size_t)(shape[0] * shape[1] * shape[2] * shape[3]);
    float *numbers = memory(count * sizeof(float));

    bench_fill(numbers, count, BENCH_VALUE);
    return attn_tensor_dense(numbers, ATTN_F32, shape[0], shape[1], shape[2], shape[3]);
}

static void way_back_init(struct way_back *way, const struct attn_gradient_problem *problem)
{
    const char *where = "";

    if (attn_gradient_plan_init(&way->plan, problem, &where) != ATTN_OK) {
        fprintf(stderr, "%s\n", where);
        abort();
    }
    way->scratch = memory(way->plan.scratch_bytes);
    way->workspace = memory(way->plan.workspace_bytes);
}

static double way_back_time(const struct way_back *way)
{
    const double begin = now_s(1);

    for (int stage = 0; stage < ATTN_GRADIENT_STAGES; stage++)
        for (int64_t task = 0; task < way->plan.task_count[stage]; task++)
            attn_gradient_run(&way->plan, stage, task, way->scratch, way->workspace);
    return now_s(1) - begin;
}

static void bench(const struct bench_shape *shape)
{
    double forward_s[ROUNDS], kept_s[ROUNDS], alone_s[ROUNDS];
    struct way_back kept, alone;
    struct own own;

    own_init(&own, shape);
    struct attn_tensor lse = attn_tensor_dense(
        memory(sizeof(float) * (size_t)(shape->batch * shape->q_heads * shape->q_len)), ATTN_F32,
        shape->batch, shape->q_heads, shape->q_len, 1);
    own.problem.lse = lse;
    own_plan(&own);
    own_time(&own);
    struct attn_gradient_problem problem = {
        .attention = own.problem,
        .context_gradient = like(&own.problem.context),
        .query_gradient = like(&own.problem.query),
        .key_gradient = like(&own.problem.key),
        .value_gradient = like(&own.problem.value),
    };
    way_back_init(&alone, &problem);
    problem.has_forward = true;
    way_back_init(&kept, &problem);
    for (int i = 0; i < ROUNDS; i++) {
        forward_s[i] = own_time(&own);
        kept_s[i] = way_back_time(&kept);
        alone_s[i] = way_back_time(&alone);
    }
    const double forward = median(forward_s, ROUNDS);
    printf("%d,%d,%d,%d,%d,%d%-8s %9.2f ms  %8.2f %8.2f %10zu\n", shape->batch, shape->q_heads,
           shape->kv_heads, shape->q_len, shape->kv_len, shape->head_dim,
           shape->causal ? " causal" : "", forward * 1e3, median(kept_s, ROUNDS) / forward,
           median(alone_s, ROUNDS) / forward, kept.plan.workspace_bytes / 1024);
    fflush(stdout);
    free(kept.scratch);
    free(kept.workspace);
    free(alone.scratch);
    free(alone.workspace);
    free(problem.context_gradient.data);
    free(problem.query_gradient.data);
    free(problem.key_gradient.data);
    free(problem.value_gradient.data);
    free(lse.data);
    own_free(&own);
}

int main(void)
{
    printf("%-32s %12s %9s %8s %10s\n", "batch,heads,kv,q,keys,dim", "forward", "kept", "alone",
           "work KiB");
    for (int i = 0; i < SHAPES; i++)
        bench(&shapes[i]);
    return 0;
}
