/* SPDX-License-Identifier: Apache-2.0 */
/* What is taken and what is refused, tested on the pure function that decides it; and the memory
 * of what bodies of a kind cost. */
#include "call/admission.h"
#include "test.h"

#define SECOND INT64_C(1000000000)

/* A queue for 10 items and 4 s of two workers, half full. */
static struct admission_limits limits;
static struct admission_queue queue;
static struct admission_request request;
static int retry_after_s;

static int setup(void **state)
{
    limits = (struct admission_limits){ .items_max = 10,
                                        .cost_ns_max = 4 * SECOND,
                                        .one_ns_max = 4 * SECOND };
    queue = (struct admission_queue){
        .items = 5, .cost_ns = 4 * SECOND, .before_ns = 4 * SECOND, .worker_count = 2, .slowdown = 1
    };
    request = (struct admission_request){
        .items = 1, .certain_ns = SECOND, .likely_ns = SECOND, .left_ns = 60 * SECOND
    };
    return 0;
}

static enum admission_verdict judge(void)
{
    retry_after_s = -1;
    const enum admission_verdict verdict =
        admission_judge(&limits, &queue, &request, &retry_after_s);
    assert_true(retry_after_s >= 1);
    return verdict;
}

TEST(items)
{
    request.items = 5;
    assert_int_equal(judge(), ADMISSION_TAKEN);
    request.items = 6;
    assert_int_equal(judge(), ADMISSION_FULL);
    /* One in five of 4 s, which two workers share. */
    assert_int_equal(retry_after_s, 1);
    queue.cost_ns = queue.before_ns = 100 * SECOND;
    limits.cost_ns_max = 1000 * SECOND;
    assert_int_equal(judge(), ADMISSION_FULL);
    assert_int_equal(retry_after_s, 10);
    queue.slowdown = 3; /* workers get a third of their CPUs */
    assert_int_equal(judge(), ADMISSION_FULL);
    assert_int_equal(retry_after_s, 30);
    request.items = 11;
    queue.batch_items = 1;
    assert_int_equal(judge(), ADMISSION_FULL);
    queue.items = queue.cost_ns = queue.before_ns = 0;
    request.items = 10;
    assert_int_equal(judge(), ADMISSION_TAKEN);
    request.items = 11; /* alone it is taken all the same */
    assert_int_equal(judge(), ADMISSION_TAKEN);
}

TEST(cost)
{
    request.likely_ns = 4 * SECOND; /* 8 s of work: what two workers do in 4 */
    assert_int_equal(judge(), ADMISSION_TAKEN);
    request.likely_ns += 1;
    assert_int_equal(judge(), ADMISSION_FULL);
    assert_int_equal(retry_after_s, 1);
    request.likely_ns = 12 * SECOND; /* 8 s too much, for two workers together */
    assert_int_equal(judge(), ADMISSION_FULL);
    assert_int_equal(retry_after_s, 4);
    queue.cost_ns = INT64_MAX / 1024;
    assert_int_equal(judge(), ADMISSION_FULL);
    assert_int_equal(retry_after_s, 3600);
    /* While nothing waits, a likely cost is no reason to refuse a request. A certain cost is. */
    queue.cost_ns = queue.before_ns = queue.items = 0;
    assert_int_equal(judge(), ADMISSION_TAKEN);
    request.by_size_ns = 16 * SECOND; /* twice too much: the real cost may be half of it */
    assert_int_equal(judge(), ADMISSION_TAKEN);
    request.by_size_ns += 2;
    assert_int_equal(judge(), ADMISSION_TOO_LARGE);
    request.by_size_ns = INT64_MAX / 1024;
    assert_int_equal(judge(), ADMISSION_TOO_LARGE);
    limits.one_ns_max = INT64_MAX; /* then the deadline refuses it */
    request.certain_ns = INT64_MAX / 1024;
    assert_int_equal(judge(), ADMISSION_TOO_LATE);
}

/* 504 says when so much less goes before the request that it would be in time. */
TEST(too_late)
{
    limits.cost_ns_max = 1000 * SECOND;
    queue.cost_ns = queue.before_ns = 100 * SECOND; /* 50 s by the clock, doubted: 100 */
    request.certain_ns = 4 * SECOND;                /* 1 s by the clock, at best */
    request.left_ns = 101 * SECOND;
    assert_int_equal(judge(), ADMISSION_TAKEN);
    request.left_ns = 41 * SECOND;
    assert_int_equal(judge(), ADMISSION_TOO_LATE);
    assert_int_equal(retry_after_s, 30); /* when 20 s are left before it */
    request.left_ns = SECOND / 2;
    assert_int_equal(judge(), ADMISSION_TOO_LATE);
    assert_int_equal(retry_after_s, 50); /* when nothing is: it takes too long even alone */
}

/* Whatever the load makes of a prediction: a request that its size does not make too large is
 * never refused for good. A request that its size makes too large is refused for good at any
 * time. */
TEST(for_good_by_size_alone)
{
    request.by_size_ns = 4 * SECOND;
    request.left_ns = INT64_MAX;
    for (int64_t ns = SECOND; ns < INT64_MAX / 2048; ns *= 2) {
        request.certain_ns = request.likely_ns = ns;
        queue.items = 5;
        queue.cost_ns = 4 * SECOND;
        const enum admission_verdict busy = judge();
        assert_int_equal(busy, ns > 4 * SECOND ? ADMISSION_FULL : ADMISSION_TAKEN);
        queue.items = queue.cost_ns = 0;
        assert_int_equal(judge(), ADMISSION_TAKEN);
    }
    request.by_size_ns = 17 * SECOND;
    request.certain_ns = request.likely_ns = 1;
    assert_int_equal(judge(), ADMISSION_TOO_LARGE);
}

TEST(deadlines)
{
    /* 2 s for the work before it, 2 s for work that may pass it, and half of its own second,
     * which two workers share: 0.25 s. */
    request.left_ns = 4250000000;
    assert_int_equal(judge(), ADMISSION_TAKEN);
    request.left_ns -= 1;
    assert_int_equal(judge(), ADMISSION_TOO_LATE);
    request.was_judged = true; /* then no work may pass it any more */
    request.left_ns = 2250000000;
    assert_int_equal(judge(), ADMISSION_TAKEN);
    request.left_ns -= 1;
    assert_int_equal(judge(), ADMISSION_TOO_LATE);
    request.was_judged = false;
    queue.before_ns = 0; /* it passes all of that work */
    assert_int_equal(judge(), ADMISSION_TAKEN);
    queue.before_ns = SECOND;
    assert_int_equal(judge(), ADMISSION_TAKEN);
    queue.slowdown = 5;
    assert_int_equal(judge(), ADMISSION_TOO_LATE);
    queue.cost_ns = queue.before_ns = 0;
    request.left_ns = 249999999;
    assert_int_equal(judge(), ADMISSION_TOO_LATE);
    request.left_ns = 250000000;
    assert_int_equal(judge(), ADMISSION_TAKEN);
    request.left_ns = -1;
    request.certain_ns = 0;
    assert_int_equal(judge(), ADMISSION_TOO_LATE);
    request.left_ns = INT64_MAX;
    assert_int_equal(judge(), ADMISSION_TAKEN);
    /* Other requests have waited for 2 s to be read, however busy the workers are. */
    request.begins_ns = 2 * SECOND;
    request.left_ns = 4 * SECOND;
    assert_int_equal(judge(), ADMISSION_TAKEN);
    request.left_ns -= 1;
    assert_int_equal(judge(), ADMISSION_TOO_LATE);
}

/* Once planned, a request that costs what was predicted keeps its place. Requests that came
 * meanwhile do not push it out. */
TEST(places_are_kept)
{
    queue.items = 10;
    queue.cost_ns = 9 * SECOND;
    queue.before_ns = 0;
    assert_int_equal(judge(), ADMISSION_FULL);
    request.counted_items = 1;
    request.counted_ns = SECOND;
    assert_int_equal(judge(), ADMISSION_TAKEN);
    request.likely_ns = 2 * SECOND - 1;
    assert_int_equal(judge(), ADMISSION_TAKEN);
    request.likely_ns = 2 * SECOND;
    assert_int_equal(judge(), ADMISSION_FULL);
    request.likely_ns = SECOND;
    request.items = 2;
    assert_int_equal(judge(), ADMISSION_FULL);
}

/* A share may have as much as is free besides. */
TEST(a_flood_leaves_half)
{
    limits.items_max = 100;
    queue = (struct admission_queue){
        .worker_count = 2, .slowdown = 1, .is_shared = true, .share_part = 1
    };
    request.likely_ns = SECOND / 100;
    while (judge() == ADMISSION_TAKEN) {
        queue.share_items = ++queue.items;
        queue.share_cost_ns = queue.cost_ns += request.likely_ns;
    }
    assert_int_equal(queue.items, 50);
    queue.share_items = queue.share_cost_ns = 0; /* another share */
    while (judge() == ADMISSION_TAKEN) {
        queue.share_items++;
        queue.items++;
    }
    assert_int_equal(queue.share_items, 25);
    queue.is_shared = false; /* without shares the whole queue is there */
    while (judge() == ADMISSION_TAKEN)
        queue.items++;
    assert_int_equal(queue.items, 100);
}

TEST(a_flood_leaves_half_of_the_cost)
{
    limits.items_max = 1000;
    queue = (struct admission_queue){
        .worker_count = 2, .slowdown = 1, .is_shared = true, .share_part = 1
    };
    request.likely_ns = SECOND / 10;
    while (judge() == ADMISSION_TAKEN) {
        queue.share_items = ++queue.items;
        queue.share_cost_ns = queue.cost_ns += request.likely_ns;
    }
    assert_int_equal(queue.cost_ns, 4 * SECOND);
    queue.share_items = queue.share_cost_ns = 0;
    request.likely_ns = 4 * SECOND; /* a share that has nothing gets all that is free */
    assert_int_equal(judge(), ADMISSION_TAKEN);
    request.likely_ns = 4 * SECOND + 1;
    assert_int_equal(judge(), ADMISSION_FULL);
}

/* Each item that ends makes the share's part less and what is free more. */
TEST(when_there_is_room_for_a_share)
{
    limits.items_max = 100;
    limits.cost_ns_max = 10000 * SECOND;
    queue = (struct admission_queue){ .items = 60,
                                      .cost_ns = 600 * SECOND,
                                      .worker_count = 2,
                                      .slowdown = 1,
                                      .is_shared = true,
                                      .share_part = 1,
                                      .share_items = 50,
                                      .share_cost_ns = 100 * SECOND };
    assert_int_equal(judge(), ADMISSION_FULL); /* by eleven, of which six items end in 6 s */
    assert_int_equal(retry_after_s, 6);
    queue.share_part = 0.25;
    assert_int_equal(judge(), ADMISSION_FULL);
    assert_int_equal(retry_after_s, 22);
    request.counted_items = 1; /* it has its place */
    assert_int_equal(judge(), ADMISSION_TAKEN);
    limits.cost_ns_max = 350 * SECOND; /* 700 s of two workers, 100 of them free */
    request.counted_items = 0;
    queue.share_items = 1;
    request.likely_ns = 3 * SECOND;
    assert_int_equal(judge(), ADMISSION_FULL);
    assert_int_equal(retry_after_s, 3); /* half of 3 s too much, by a quarter of two workers */
}

/* A batch that is taken because its share has nothing in the queue: for others it counts as half of
 * what was free, whatever its size. */
TEST(a_batch_leaves_half)
{
    limits.items_max = 1024;
    for (int64_t items = 1; items <= 65536; items *= 2) {
        queue = (struct admission_queue){
            .worker_count = 2, .slowdown = 1, .is_shared = true, .share_part = 1
        };
        request.items = items;
        assert_int_equal(judge(), ADMISSION_TAKEN);
        queue.items = admission_counted_items(&limits, &queue, items);
        assert_int_equal(queue.items, items < 512 ? items : 512);
        request.items = 512; /* of another share */
        assert_int_equal(judge(), ADMISSION_TAKEN);
        queue.share_items = items; /* of the same share */
        assert_int_equal(judge(), items <= 256 ? ADMISSION_TAKEN : ADMISSION_FULL);
    }
}

/* Batches that are larger than the queue do not keep each other out: among jobs that are not
 * planned, each of which may be one, the first is taken, and the next when it is done. */
TEST(one_large_batch_at_a_time)
{
    limits.items_max = 1024;
    for (int is_shared = 0; is_shared < 2; is_shared++) {
        queue = (struct admission_queue){ .items = 3,
                                          .worker_count = 2,
                                          .slowdown = 1,
                                          .is_shared = is_shared,
                                          .share_items = is_shared ? 3 : 0,
                                          .share_part = 1 };
        request.items = 3000;
        request.counted_items = 1;
        assert_int_equal(judge(), ADMISSION_TAKEN);
        queue.batch_items = admission_counted_items(&limits, &queue, request.items) - 1;
        queue.items += queue.batch_items;
        assert_int_equal(judge(), ADMISSION_FULL);
        request.items = 100; /* a smaller one finds a place beside it */
        queue.share_items = 0;
        assert_int_equal(judge(), ADMISSION_TAKEN);
    }
}

/* However a share's items come: they leave others as many places as they count for. */
TEST(batches_of_a_share_leave_half)
{
    limits.items_max = 1024;
    for (int64_t first = 1; first <= 2048; first += 7) {
        queue = (struct admission_queue){
            .worker_count = 2, .slowdown = 1, .is_shared = true, .share_part = 1
        };
        for (request.items = first; request.items > 0;) {
            queue.items += admission_counted_items(&limits, &queue, request.items);
            queue.share_items += request.items;
            request.items = 1024; /* then as many as are taken */
            while (request.items > 0 && judge() != ADMISSION_TAKEN)
                request.items--;
        }
        assert_true(queue.items <= 512);
    }
}

/* One share after the other, each with a batch: a place is left while there are two. Without
 * shares a batch leaves a quarter. */
TEST(batches_leave_a_place)
{
    limits.items_max = 1024;
    queue = (struct admission_queue){ .worker_count = 2, .slowdown = 1, .is_shared = true };
    for (int64_t left = 512; left > 0; left /= 2) {
        queue.items += admission_counted_items(&limits, &queue, 1024);
        assert_int_equal(1024 - queue.items, left);
    }
    assert_int_equal(admission_counted_items(&limits, &queue, 1), 1); /* it had its place before */
    queue = (struct admission_queue){ .worker_count = 2, .slowdown = 1 };
    assert_int_equal(admission_counted_items(&limits, &queue, 768), 768);
    assert_int_equal(admission_counted_items(&limits, &queue, 16384), 768);
    queue.items = 1022;
    assert_int_equal(admission_counted_items(&limits, &queue, 2), 1);
    queue.items = 1030;
    assert_int_equal(admission_counted_items(&limits, &queue, 2), 1);
}

TEST_WITH(guesses, NULL, NULL)
{
    const uint64_t key = cost_guess_key("/v1/attention", "application/json", 100000);
    assert_int_equal(cost_guess_ns(key), 0);
    cost_guess_learn(key, 8000);
    assert_int_equal(cost_guess_ns(key), 8000);
    cost_guess_learn(key, 16000);
    assert_int_equal(cost_guess_ns(key), 9000);
    /* Sizes that are about the same count as the same. Another size, path or type does not. */
    assert_true(cost_guess_key("/v1/attention", "application/json", 102000) == key);
    assert_false(cost_guess_key("/v1/attention", "application/json", 140000) == key);
    assert_false(cost_guess_key("/v1/attention", "application/json", 70000) == key);
    assert_false(cost_guess_key("/v1/attention/batch", "application/json", 100000) == key);
    assert_false(cost_guess_key("/v1/attention", "application/octet-stream", 100000) == key);
    /* Any size has a place. */
    size_t size = 0;
    for (int i = 0; i <= 64; i++, size = size * 2 + 1) {
        const uint64_t other = cost_guess_key("", "", size);
        cost_guess_learn(other, 1000 + i);
        assert_int_equal(cost_guess_ns(other), 1000 + i);
    }
    assert_int_equal(cost_guess_ns(cost_guess_key("", "", SIZE_MAX)), 1064);
}

EACH_TEST(setup, NULL);
