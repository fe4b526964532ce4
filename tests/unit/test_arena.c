/* test_arena.c - alignment, the limit, and that pieces never overlap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"

#include <string.h>

/* Without this AddressSanitizer ends the program where malloc() would return NULL. */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static void test_pieces_are_apart_and_aligned(void **state)
{
    (void)state;
    enum { PIECES = 600 };
    unsigned char *pieces[PIECES];
    size_t sizes[PIECES];
    struct arena arena;
    arena_init(&arena, SIZE_MAX);
    for (size_t i = 0; i < PIECES; i++) {
        sizes[i] = i % 50 == 49 ? 20000 + 1000 * i % 300000 : i * 37 % 3000;
        pieces[i] = arena_alloc(&arena, sizes[i]);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % 64, 0);
        memset(pieces[i], (int)(i % 251), sizes[i]);
    }
    for (size_t i = 0; i < PIECES; i++)
        for (size_t j = 0; j < sizes[i]; j++)
            assert_int_equal(pieces[i][j], i % 251);
    arena_free(&arena);
}

/* A large piece must not end the use of the block that small ones are cut from. */
static void test_large_piece_leaves_the_block(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, SIZE_MAX);
    char *first = arena_alloc(&arena, 64);
    assert_non_null(arena_alloc(&arena, 1000000));
    char *second = arena_alloc(&arena, 64);
    assert_ptr_equal(second, first + 64);
    arena_free(&arena);
}

static void test_limit(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, 1 << 20);
    assert_null(arena_alloc(&arena, (1 << 20) + 1));
    assert_non_null(arena_alloc(&arena, 1 << 19));
    assert_null(arena_alloc(&arena, (1 << 19) + 1));
    assert_non_null(arena_alloc(&arena, 1 << 19));
    assert_int_equal(arena.used, 1 << 20);
    assert_null(arena_alloc(&arena, 1));
    assert_non_null(arena_alloc(&arena, 0));
    arena_free(&arena);
    assert_int_equal(arena.used, 0);
    assert_non_null(arena_alloc(&arena, 1 << 20)); /* free makes it new */
    arena_free(&arena);
}

static void test_sizes_that_overflow(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, SIZE_MAX);
    assert_null(arena_alloc(&arena, SIZE_MAX));
    assert_null(arena_alloc(&arena, SIZE_MAX - 63));
    assert_null(arena_alloc(&arena, SIZE_MAX - 200));
    assert_null(arena_calloc(&arena, SIZE_MAX / 2, 3));
    assert_null(arena_calloc(&arena, (size_t)1 << 32, (size_t)1 << 32));
    assert_int_equal(arena.used, 0);
    arena_free(&arena);
}

static void test_calloc_clears_and_strdup_copies(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, SIZE_MAX);
    for (int i = 0; i < 100; i++)
        memset(arena_alloc(&arena, 500), 0xFF, 500);
    const unsigned char *cleared = arena_calloc(&arena, 300, 7);
    assert_non_null(cleared);
    for (int i = 0; i < 2100; i++)
        assert_int_equal(cleared[i], 0);
    assert_non_null(arena_calloc(&arena, 0, 8));
    char source[] = "copied";
    const char *copy = arena_strdup(&arena, source);
    source[0] = 'x';
    assert_string_equal(copy, "copied");
    assert_string_equal(arena_strdup(&arena, ""), "");
    arena_free(&arena);
}

static void test_free_of_nothing(void **state)
{
    (void)state;
    arena_free(NULL);
    struct arena arena = { 0 };
    arena_free(&arena);
    arena_init(&arena, 10);
    arena_free(&arena);
    arena_free(&arena);
    assert_null(arena.blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_are_apart_and_aligned),
        cmocka_unit_test(test_large_piece_leaves_the_block),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_sizes_that_overflow),
        cmocka_unit_test(test_calloc_clears_and_strdup_copies),
        cmocka_unit_test(test_free_of_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
