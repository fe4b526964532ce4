/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_statistics.c - the counters of a model: more batch sizes than places, and many
 * threads. */
#include "telemetry/model_statistics.h"
#include "test.h"

#include <pthread.h>

static struct model_statistics statistics;

static int clear(void **state)
{
    statistics = (struct model_statistics){ .inference_count = 0 };
    return 0;
}

TEST(one)
{
    const struct model_execution execution = { 7, 1, 20, 300, 4000 };
    model_statistics_success(&statistics, &execution);
    model_statistics_failure(&statistics, FAULT_LEFT, 50000);
    assert_int_equal(statistics.inference_count, 7);
    assert_int_equal(statistics.execution_count, 1);
    assert_int_equal(statistics.success.count, 1);
    assert_int_equal(statistics.success.ns, 4321);
    assert_int_equal(statistics.fail.count, 1);
    assert_int_equal(statistics.fail.ns, 50000);
    assert_int_equal(statistics.failures[MODEL_FAILURE_CANCELED], 1);
    assert_int_equal(statistics.queue.ns, 1);
    assert_int_equal(statistics.compute_input.ns, 20);
    assert_int_equal(statistics.compute_infer.ns, 300);
    assert_int_equal(statistics.compute_output.ns, 4000);
    assert_int_equal(statistics.batches[0].batch_size, 7);
    assert_int_equal(statistics.batches[0].compute_infer.ns, 300);
    assert_int_equal(statistics.batches[1].batch_size, 0);
    assert_true(statistics.last_inference_ms > 1600000000000);
}

enum { THREADS = 4, ROUNDS = 5000, THREAD_SIZES = 8 };

static void *count(void *context)
{
    (void)context;
    for (int i = 0; i < ROUNDS; i++) {
        const struct model_execution execution = { 1 + i % THREAD_SIZES, 1, 2, 3, 4 };
        model_statistics_success(&statistics, &execution);
        model_statistics_failure(&statistics, FAULT_SHAPE, 1);
    }
    return NULL;
}

/* Each code is one of Triton's reasons. */
TEST_WITH(failures, NULL, NULL)
{
    static const struct {
        enum fault_code code;
        enum model_failure failure;
    } cases[] = {
        { FAULT_DEADLINE, MODEL_FAILURE_REJECTED }, { FAULT_OVERLOADED, MODEL_FAILURE_REJECTED },
        { FAULT_DRAINING, MODEL_FAILURE_REJECTED }, { FAULT_LEFT, MODEL_FAILURE_CANCELED },
        { FAULT_MEMORY, MODEL_FAILURE_BACKEND },    { FAULT_LOADING, MODEL_FAILURE_BACKEND },
        { FAULT_SHAPE, MODEL_FAILURE_OTHER },       { FAULT_JSON, MODEL_FAILURE_OTHER },
        { FAULT_FULL, MODEL_FAILURE_BACKEND },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t sum = 0;
        statistics = (struct model_statistics){ .inference_count = 0 };
        model_statistics_failure(&statistics, cases[i].code, 1);
        assert_int_equal(statistics.failures[cases[i].failure], 1);
        for (int k = 0; k < MODEL_FAILURE_COUNT; k++)
            sum += statistics.failures[k];
        assert_int_equal(sum, statistics.fail.count);
    }
}

/* Sizes without a place still count in all other counters. */
TEST(more_sizes_than_places)
{
    enum { SIZES = MODEL_BATCH_SIZES_MAX + 5 };
    int64_t items = 0;
    for (int round = 0; round < 2; round++)
        for (int size = 1; size <= SIZES; size++) {
            const struct model_execution execution = { size, 1, 1, 1, 1 };
            model_statistics_success(&statistics, &execution);
            items += size;
        }
    assert_int_equal(statistics.inference_count, items);
    assert_int_equal(statistics.execution_count, 2 * SIZES);
    assert_int_equal(statistics.compute_infer.count, 2 * SIZES);
    for (int i = 0; i < MODEL_BATCH_SIZES_MAX; i++) {
        assert_int_equal(statistics.batches[i].batch_size, i + 1);
        assert_int_equal(statistics.batches[i].compute_infer.count, 2);
    }
}

/* Each size has one place, whichever thread came first, and nothing is lost. */
TEST(many_threads)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(statistics.execution_count, THREADS * ROUNDS);
    assert_int_equal(statistics.success.ns, 10 * THREADS * ROUNDS);
    assert_int_equal(statistics.fail.ns, THREADS * ROUNDS);
    int64_t sizes = 0;
    for (int i = 0; i < THREAD_SIZES; i++) {
        sizes += statistics.batches[i].batch_size;
        assert_int_equal(statistics.batches[i].compute_output.count,
                         THREADS * ROUNDS / THREAD_SIZES);
    }
    assert_int_equal(sizes, THREAD_SIZES * (THREAD_SIZES + 1) / 2);
    assert_int_equal(statistics.batches[THREAD_SIZES].batch_size, 0);
}

EACH_TEST(clear, NULL);
