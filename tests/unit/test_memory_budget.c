/* test_memory_budget.c - what fits into the budget, from one thread and from several; and who
 * reserves from it: arenas, texts, JSON, bodies that are unpacked. */
#include "arena.h"
#include "coding.h"
#include "json.h"
#include "memory_budget.h"
#include "text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { KIB = 1024 };

/* What is free now, found by asking. */
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

static void test_shares(void **state)
{
    (void)state;
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

/* Bodies leave a half for what is computed of them. */
static void test_bodies(void **state)
{
    (void)state;
    struct memory_share body = { 0 }, arena = { 0 };
    memory_budget_limit(1000);
    assert_int_equal(memory_budget_body_bytes_max(), 500);
    assert_false(memory_reserve_body(&body, 501));
    assert_true(memory_reserve_body(&body, 300));
    assert_true(memory_reserve(&arena, 400));
    assert_false(memory_reserve_body(&body, 1));
    memory_return_all(&arena);
    assert_true(memory_reserve_body(&body, 200));
    memory_return_all(&body);
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

static void test_threads(void **state)
{
    (void)state;
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

static void test_arena_and_text(void **state)
{
    (void)state;
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

static void test_json(void **state)
{
    (void)state;
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

static void test_unpacking(void **state)
{
    (void)state;
    struct memory_share share = { 0 };
    struct fault fault;
    size_t size;
    char *zeros = calloc(1, 1000 * KIB);
    const struct exchange_part part = { zeros, 1000 * KIB };
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares),  cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_threads), cmocka_unit_test(test_arena_and_text),
        cmocka_unit_test(test_json),    cmocka_unit_test(test_unpacking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
