/* SPDX-License-Identifier: Apache-2.0 */
/* test_span_queue.c - records through the queue: whole, in order, and refused where it is full;
 * with several threads that put. */
#include "telemetry/span_queue.h"
#include "test.h"

#include <pthread.h>
#include <sched.h>

enum { PLACES = 8, THREADS = 4, EACH = 5000 };

static struct span_record numbered(int number)
{
    struct span_record record = { .status = number };
    snprintf(record.path, sizeof record.path, "/%d", number);
    snprintf(record.state, sizeof record.state, "n=%d", number);
    return record;
}

static void expect_first(struct span_queue *queue, int number)
{
    const struct span_record want = numbered(number);
    const struct span_record *record = span_queue_first(queue);
    assert_non_null(record);
    assert_int_equal(record->status, number);
    assert_string_equal(record->path, want.path);
    assert_string_equal(record->state, want.state);
    span_queue_drop(queue);
}

TEST(in_order)
{
    struct span_queue *queue = span_queue_create(PLACES - 1);
    assert_int_equal(span_queue_places(queue), PLACES);
    assert_null(span_queue_first(queue));
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < PLACES; i++) {
            const struct span_record record = numbered(100 * round + i);
            assert_true(span_queue_put(queue, &record));
        }
        const struct span_record one_more = numbered(-1);
        assert_true(span_queue_is_full(queue));
        assert_false(span_queue_put(queue, &one_more));
        expect_first(queue, 100 * round);
        assert_false(span_queue_is_full(queue));
        assert_true(span_queue_put(queue, &one_more));
        for (int i = 1; i < PLACES; i++)
            expect_first(queue, 100 * round + i);
        expect_first(queue, -1);
        assert_null(span_queue_first(queue));
    }
    span_queue_free(queue);
    span_queue_free(NULL);
}

static struct span_queue *shared;

static void *putter(void *first)
{
    for (int i = 0; i < EACH; i++) {
        const struct span_record record = numbered(*(const int *)first + i);
        while (!span_queue_put(shared, &record))
            sched_yield();
    }
    return NULL;
}

/* Each thread's records come whole and in its order, and none is lost or twice there. */
TEST(many_threads)
{
    pthread_t threads[THREADS];
    int firsts[THREADS], next[THREADS];
    shared = span_queue_create(PLACES);
    for (int i = 0; i < THREADS; i++) {
        firsts[i] = next[i] = i * EACH;
        assert_int_equal(pthread_create(&threads[i], NULL, putter, &firsts[i]), 0);
    }
    for (int taken = 0; taken < THREADS * EACH;) {
        const struct span_record *record = span_queue_first(shared);
        if (!record) {
            sched_yield();
            continue;
        }
        const int thread = record->status / EACH;
        assert_in_range(thread, 0, THREADS - 1);
        expect_first(shared, next[thread]++);
        taken++;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_null(span_queue_first(shared));
    span_queue_free(shared);
}
