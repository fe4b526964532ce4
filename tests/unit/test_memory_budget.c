/* SPDX-License-Identifier: Apache-2.0 */
/* test_memory_budget.c - what fits into the budget, from one thread and from several; and what
 * reserves from it: arenas, texts, JSON, bodies that are unpacked. */
#include "base/arena.h"
#include "base/memory_budget.h"
#include "formats/coding.h"
#include "test.h"
#include "json/json.h"
#include "json/text.h"

#include <pthread.h>

enum { KIB = 1024 };

/* How much is free now: the function tries reservations to find out. */
static size_t free_bytes(void)
{
    struct memory_share share = { 0 };
    size_t free = 0;
    for (size_t step = (size_t)1 << 40; step > 0; step /= 2)
        if (memory_reserve(&share, step))
            free += step;
    memory_return_all(&share);
    return free;
}

TEST(shares)
{
    struct memory_share one = { 0 }, other = { 0 };
    memory_budget_limit(1000);
    assert_true(memory_reserve(&one, 600));
    assert_false(memory_reserve(&other, 401));
    assert_true(memory_reserve(&other, 400));
    assert_int_equal(free_bytes(), 0);
    assert_false(memory_reserve(&one, SIZE_MAX));
    memory_return(&one, 100);
    assert_int_equal(free_bytes(), 100);
    memory_return(&one, 10000);
    assert_int_equal(one.bytes, 0);
    memory_return(&one, 1);
    assert_int_equal(free_bytes(), 600);
    memory_take(&one, 5000);
    assert_int_equal(free_bytes(), 0);
    memory_return_all(&one);
    memory_return_all(&other);
    assert_int_equal(free_bytes(), 1000);
    assert_true(memory_reserve(NULL, SIZE_MAX));
    memory_return_all(NULL);
}

enum { MIB = 1 << 20, BUDGET = 160 * MIB, PART = BUDGET / 16 };

/* Bodies leave a half of the budget for what is computed from them. What is computed leaves
 * three sixteenths for bodies. Small requests can still use the last sixteenth. */
TEST(bodies)
{
    struct memory_share body = { 0 }, arena = { 0 }, small = { 0 };
    memory_budget_limit(BUDGET);
    assert_int_equal(memory_budget_body_bytes_max(), 8 * PART);
    assert_int_equal(memory_budget_request_bytes_max(), 12 * PART);
    assert_false(memory_reserve_body(&body, 8 * PART + 1));
    assert_true(memory_reserve_body(&body, 8 * PART));
    assert_false(memory_reserve_body(&body, 1));
    assert_true(memory_reserve(&arena, 7 * PART));
    assert_false(memory_reserve(&arena, 1));
    assert_true(memory_reserve_body(&small, MEMORY_SMALL_BODY_BYTES));
    assert_true(memory_reserve(&small, MEMORY_SMALL_BYTES - MEMORY_SMALL_BODY_BYTES));
    assert_false(memory_reserve(&small, 1));
    memory_return_all(&body);
    assert_true(memory_reserve_body(&small, 1));
    assert_true(small.is_large);
    assert_true(memory_reserve(&arena, 4 * PART));
    assert_false(memory_reserve(&arena, PART)); /* twelve, and the small one's */
    assert_true(memory_has_room_for_body(&body, 2 * PART));
    assert_false(memory_has_room_for_body(&body, 8 * PART));
    assert_true(memory_reserve_body(&body, 2 * PART));
    memory_return_all(&body);
    memory_return_all(&arena);
    memory_return_all(&small);
    assert_int_equal(body.body_bytes + small.body_bytes + body.waiting_bytes, 0);
}

/* Slow bodies of one peer may have half of the budget. They leave two sixteenths for another
 * peer, which may use one of them. A whole body no longer counts against its peer. */
TEST(peers)
{
    struct memory_share slow = { .peer = 1 }, same = { .peer = 1 }, other = { .peer = 2 };
    memory_budget_limit(BUDGET);
    assert_true(memory_reserve_body(&slow, 5 * PART));
    assert_true(memory_reserve_body(&same, 3 * PART));
    assert_false(memory_reserve_body(&same, 1));
    assert_true(memory_has_room_for_body(&other, PART));
    assert_true(memory_reserve_body(&other, PART));
    assert_false(memory_reserve_body(&other, 1));
    memory_body_is_whole(&other);
    assert_true(memory_reserve_body(&other, PART));
    assert_false(memory_reserve_body(&other, 1));
    memory_return(&slow, 3 * PART);
    assert_true(memory_reserve_body(&other, PART));
    memory_return_all(&slow);
    memory_return_all(&same);
    memory_return_all(&other);
    assert_true(memory_reserve_body(&same, 8 * PART));
    memory_return_all(&same);
}

/* A client may read slowly an answer that lies in the memory of its body. That memory no longer
 * counts as a body. */
TEST(answered_bodies)
{
    struct memory_share answered = { 0 }, body = { 0 };
    memory_budget_limit(BUDGET);
    assert_true(memory_reserve_body(&answered, 7 * PART));
    assert_false(memory_reserve_body(&body, 7 * PART));
    memory_body_is_whole(&answered);
    memory_body_is_answered(&answered);
    assert_true(memory_reserve_body(&body, 7 * PART));
    memory_return_all(&body);
    memory_return(&answered, PART);
    assert_int_equal(answered.bytes, 6 * PART);
    memory_return_all(&answered);
    assert_true(memory_reserve_body(&body, 8 * PART));
    memory_return_all(&body);
}

/* Unfinished small bodies of one peer have a little room beside its large bodies. They leave
 * other peers their room. */
TEST(small_bodies)
{
    enum { COUNT = BUDGET / MEMORY_SMALL_BODY_BYTES };
    static struct memory_share flood[COUNT];
    struct memory_share large = { .peer = 1 }, other = { .peer = 2 };
    memory_budget_limit(BUDGET);
    assert_true(memory_reserve_body(&large, 8 * PART));
    size_t taken = 0;
    for (int i = 0; i < COUNT; i++) {
        flood[i].peer = 1;
        taken += memory_reserve_body(&flood[i], MEMORY_SMALL_BODY_BYTES);
    }
    assert_int_equal(taken, PART / 2 / MEMORY_SMALL_BODY_BYTES);
    assert_true(memory_reserve_body(&other, MEMORY_SMALL_BODY_BYTES));
    assert_false(other.is_large);
    for (int i = 0; i < COUNT; i++)
        memory_return_all(&flood[i]);
    memory_return_all(&large);
    memory_return_all(&other);
}

static void *reserve_often(void *argument)
{
    struct memory_share share = { 0 };
    int *refused = argument;
    for (int i = 0; i < 20000; i++) {
        if (!memory_reserve(&share, (size_t)(1 + i % 300)))
            ++*refused;
        if (i % 3 == 0)
            memory_return_all(&share);
    }
    memory_return_all(&share);
    return NULL;
}

TEST(threads)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    int refused[THREADS] = { 0 };
    memory_budget_limit(1000);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, reserve_often, &refused[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(free_bytes(), 1000);
}

TEST(arena_and_text)
{
    struct memory_share share = { 0 };
    struct arena arena;
    struct text text;
    memory_budget_limit(200 * KIB);
    arena_init(&arena, SIZE_MAX);
    arena.memory = &share;
    assert_non_null(arena_alloc(&arena, 100 * KIB));
    assert_true(share.bytes >= 100 * KIB && share.bytes < 101 * KIB);
    assert_null(arena_alloc(&arena, 100 * KIB));
    assert_non_null(arena_alloc(&arena, 64)); /* a block of 64 KiB */

    text_init(&text, SIZE_MAX);
    text.memory = &share;
    for (int i = 0; i < 100 * KIB; i++)
        text_bytes(&text, "x", 1);
    struct fault fault;
    assert_false(text_finish(&text, &fault));
    assert_int_equal(fault.code, FAULT_MEMORY);
    text_free(&text);
    arena_free(&arena);
    memory_return_all(&share);
    assert_int_equal(free_bytes(), 200 * KIB);
}

/* What would be refused in an idle daemon too is told from what finds no room beside others. */
TEST(never_fits)
{
    struct memory_share one = { 0 }, other = { 0 };
    struct fault fault;
    memory_budget_limit(BUDGET);
    const size_t bytes_max = memory_budget_request_bytes_max();
    assert_true(memory_reserve(&other, bytes_max));
    assert_false(memory_reserve(&one, 2 * MIB));
    assert_int_equal(one.never_over, 0);
    fault_no_memory(&fault);
    memory_explain(&one, &fault);
    assert_int_equal(fault.code, FAULT_MEMORY);
    assert_false(memory_reserve(&one, bytes_max + 1));
    assert_int_equal(one.never_over, bytes_max);
    memory_explain(&one, &fault);
    assert_int_equal(fault.code, FAULT_TOO_LARGE);
    memory_return_all(&other);
    assert_true(memory_reserve(&one, 2 * MIB)); /* another part of what was refused */
    assert_int_equal(one.never_over, bytes_max);
    assert_true(memory_reserve(&other, bytes_max - 3 * MIB));
    assert_false(memory_reserve(&one, 2 * MIB));
    assert_int_equal(one.never_over, 0); /* of the latest refusal */
    memory_return_all(&other);
    assert_false(memory_reserve(&one, bytes_max));
    assert_int_equal(one.never_over, bytes_max);
    assert_true(memory_reserve_body(&one, 1));
    struct arena arena;
    arena_init(&arena, 1000);
    arena.memory = &one;
    assert_null(arena_alloc(&arena, 2000));
    assert_int_equal(one.never_over, 1000);
    memory_return_all(&one);
}

TEST(json)
{
    enum { NUMBERS = 50000 };
    struct memory_share share = { 0 };
    struct json_document document;
    struct fault fault;
    const struct json_options options = { .memory = &share };
    char *body = malloc(2 * NUMBERS + 3);
    memset(body, ',', 2 * NUMBERS + 2);
    body[0] = '[';
    for (int i = 0; i < NUMBERS; i++)
        body[2 * i + 1] = '1';
    body[2 * NUMBERS] = ']';
    memory_budget_limit(4 * NUMBERS / 2);
    assert_false(json_read(&document, body, 2 * NUMBERS + 1, &options, &fault));
    assert_int_equal(fault.code, FAULT_MEMORY);
    memory_return_all(&share);
    memory_budget_limit(8 * NUMBERS);
    assert_true(json_read(&document, body, 2 * NUMBERS + 1, &options, &fault));
    assert_true(share.bytes >= 4 * NUMBERS);
    json_free(&document);
    memory_return_all(&share);
    free(body);
}

TEST(unpacking)
{
    struct memory_share share = { 0 };
    struct fault fault;
    size_t size;
    char *zeros = calloc(1, 1000 * KIB);
    const struct byte_slice part = { zeros, 1000 * KIB };
    void *memory = coding_pack(CODING_GZIP, &part, 1, true, &size);
    assert_non_null(memory);
    struct byte_slice body = { memory, size };
    memory_budget_limit(300 * KIB);
    assert_false(coding_unpack(CODING_GZIP, &body, &memory, SIZE_MAX, &share, &fault));
    assert_int_equal(fault.code, FAULT_MEMORY);
    memory_return_all(&share);
    memory_budget_limit(3000 * KIB);
    assert_true(coding_unpack(CODING_GZIP, &body, &memory, SIZE_MAX, &share, &fault));
    assert_int_equal(body.size, 1000 * KIB);
    assert_true(share.bytes >= body.size - size);
    memory_return_all(&share);
    free(memory);
    free(zeros);
}

/* ----------------------------------------------------------------- owners -- */

TEST(owner)
{
    struct memory_owner owner = { .bytes_max = 1000 };
    struct memory_share one = { .owner = &owner }, two = { .owner = &owner }, other = { 0 };
    memory_budget_limit(3000);
    const uint64_t refused = memory_budget_state().refused_count;
    assert_true(memory_reserve(&one, 600));
    assert_false(memory_reserve(&two, 401));
    assert_true(two.owner_refused);
    assert_int_equal(owner.bytes, 600);
    assert_true(memory_reserve(&two, 400));
    assert_false(two.owner_refused);
    assert_true(memory_reserve(&other, 500)); /* another owner has room */
    assert_int_equal(memory_budget_state().refused_count, refused);
    memory_take(&one, 500); /* which is never refused, but counted */
    assert_int_equal(owner.bytes, 1500);
    assert_false(memory_reserve(&one, 1));
    memory_return(&one, 700);
    assert_true(memory_reserve(&one, 200));
    owner.bytes_max = 0; /* no bound but the budget's */
    assert_false(memory_reserve(&one, 5000));
    assert_false(one.owner_refused);
    assert_int_equal(memory_budget_state().refused_count, refused + 1);
    assert_int_equal(owner.bytes, 1000);
    memory_return_all(&one);
    memory_return_all(&two);
    memory_return_all(&other);
    assert_int_equal(owner.bytes, 0);
    assert_int_equal(free_bytes(), 3000);
}

TEST(bodies_of_an_owner)
{
    struct memory_owner owner = { .bytes_max = 2 * MIB };
    struct memory_share one = { .owner = &owner }, two = { .owner = &owner };
    memory_budget_limit(BUDGET);
    assert_true(memory_has_room_for_body(&one, 2 * MIB));
    assert_false(memory_has_room_for_body(&one, 2 * MIB + 1));
    assert_true(one.owner_refused);
    assert_true(memory_reserve_body(&one, 1 * MIB));
    assert_false(memory_reserve_body(&two, 1 * MIB + 1));
    assert_true(two.owner_refused);
    assert_int_equal(memory_budget_state().body_bytes, 1 * MIB);
    assert_true(memory_reserve(&one, 1 * MIB));
    assert_false(memory_reserve_body(&two, 1));
    memory_body_is_answered(&one); /* what is left is held all the same */
    assert_int_equal(owner.bytes, 2 * MIB);
    memory_return_all(&one);
    assert_true(memory_reserve_body(&two, 2 * MIB));
    memory_return_all(&two);
    assert_int_equal(owner.bytes, 0);
}
