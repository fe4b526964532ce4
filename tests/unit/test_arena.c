/* SPDX-License-Identifier: Apache-2.0 */
/* test_arena.c - alignment, the limit, and that pieces never overlap. */
#include "base/arena.h"
#include "test.h"

TEST(pieces_are_apart_and_aligned)
{
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
TEST(large_piece_leaves_the_block)
{
    struct arena arena;
    arena_init(&arena, SIZE_MAX);
    char *first = arena_alloc(&arena, 64);
    assert_non_null(arena_alloc(&arena, 1000000));
    char *second = arena_alloc(&arena, 64);
    assert_ptr_equal(second, first + 64);
    arena_free(&arena);
}

TEST(limit)
{
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

/* More than the bound never fits; what was refused for another reason may fit later. */
TEST(what_never_fits_is_said)
{
    struct arena arena;
    struct fault fault = { .code = FAULT_MEMORY };
    arena_init(&arena, 1 << 20);
    assert_null(arena_alloc(&arena, SIZE_MAX));
    arena_explain(&arena, &fault);
    assert_int_equal(fault.code, FAULT_MEMORY);
    assert_null(arena_alloc(&arena, (1 << 20) + 1));
    arena_explain(&arena, &fault);
    assert_int_equal(fault.code, FAULT_TOO_LARGE);
    assert_non_null(strstr(fault.message, "1048576 bytes"));
    arena_free(&arena);
}

TEST(sizes_that_overflow)
{
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

TEST(calloc_clears_and_strdup_copies)
{
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

TEST(free_of_nothing)
{
    arena_free(NULL);
    struct arena arena = { 0 };
    arena_free(&arena);
    arena_init(&arena, 10);
    arena_free(&arena);
    arena_free(&arena);
    assert_null(arena.blocks);
}
