/* SPDX-License-Identifier: Apache-2.0 */
/* peer_main.c - the conversation of peer_main.h for the peers that are written in C. */
#include "peer_main.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_s(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float *numbers(size_t count)
{
    float *memory = aligned_alloc(64, (count * sizeof(float) + 63) / 64 * 64);
    if (!memory)
        exit(1);
    return memory;
}

/* ------------------------------------------------------------------------------ threads -- */

static void (*second_work)(int thread);
static atomic_int turns_begun, turns_done;

/* A busy machine may start the second thread on the CPU of the first one, and leave both there for
 * longer than a series takes. */
static void keep_apart(pthread_t second)
{
    cpu_set_t first, others;
    const int cpu = sched_getcpu();

    if (cpu < 0 || sched_getaffinity(0, sizeof others, &others) != 0 || CPU_COUNT(&others) < 2)
        return;
    CPU_ZERO(&first);
    CPU_SET(cpu, &first);
    CPU_CLR(cpu, &others);
    sched_setaffinity(0, sizeof first, &first);
    pthread_setaffinity_np(second, sizeof others, &others);
}

static void *be_second(void *unused)
{
    (void)unused;
    for (int turn = 1;; turn++) {
        while (atomic_load(&turns_begun) < turn)
            ;
        second_work(1);
        atomic_store(&turns_done, turn);
    }
    return NULL;
}

void peer_share(void (*work)(int thread), int threads)
{
    pthread_t second;
    const int turn = atomic_load(&turns_begun) + 1;

    if (threads == 1) {
        work(0);
        return;
    }
    if (turn == 1) {
        if (pthread_create(&second, NULL, be_second, NULL) != 0)
            abort();
        keep_apart(second);
    }
    second_work = work;
    atomic_store(&turns_begun, turn);
    work(0);
    while (atomic_load(&turns_done) < turn)
        ;
}

/* ------------------------------------------------------------------------- conversation -- */

struct arrays {
    float *query, *key, *value, *context;
    size_t context_count;
};

static void release(struct arrays *arrays)
{
    if (arrays->query)
        peer_release();
    free(arrays->query);
    free(arrays->key);
    free(arrays->value);
    free(arrays->context);
    *arrays = (struct arrays){ 0 };
}

static void set_up(struct arrays *arrays, const struct bench_shape *s)
{
    const size_t rows = (size_t)s->batch * (size_t)s->q_heads * (size_t)s->q_len;
    const size_t keys = (size_t)s->batch * (size_t)s->kv_heads * (size_t)s->kv_len;
    const size_t query_count = rows * (size_t)s->head_dim, key_count = keys * (size_t)s->head_dim;
    *arrays = (struct arrays){ numbers(query_count), numbers(key_count), numbers(key_count),
                               numbers(query_count), query_count };
    bench_fill(arrays->query, query_count, BENCH_QUERY);
    bench_fill(arrays->key, key_count, BENCH_KEY);
    bench_fill(arrays->value, key_count, BENCH_VALUE);
    memset(arrays->context, 0, query_count * sizeof(float));
    const char *reason = peer_setup(s, arrays->query, arrays->key, arrays->value, arrays->context);
    if (reason) {
        printf("no %s\n", reason);
        return;
    }
    peer_run();
    double sum = 0, absolute = 0;
    for (size_t i = 0; i < query_count; i++) {
        sum += (double)arrays->context[i];
        absolute += fabs((double)arrays->context[i]);
    }
    printf("ok %.9g %.9g\n", sum, absolute);
}

int main(void)
{
    char line[256];
    struct bench_shape s = { 0 };
    struct arrays arrays = { 0 };
    int count;

    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "shape %d %d %d %d %d %d %d %d", &s.batch, &s.q_heads, &s.kv_heads,
                   &s.q_len, &s.kv_len, &s.head_dim, &s.causal, &s.threads)
            == 8) {
            release(&arrays);
            set_up(&arrays, &s);
        } else if (sscanf(line, "run %d", &count) == 1) {
            const clockid_t clock = s.threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
            printf("t");
            for (int i = 0; i < count; i++) {
                const double begin = now_s(clock);
                peer_run();
                printf(" %.9f", now_s(clock) - begin);
            }
            printf("\n");
        }
    }
    release(&arrays);
    return 0;
}
