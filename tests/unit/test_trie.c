/* SPDX-License-Identifier: Apache-2.0 */
/* test_trie.c - a trie finds the strings that it was built of, and no others. */
#include "models/tokenizer/trie.h"
#include "test.h"

static void build(struct trie *trie, struct trie_entry *entries, int64_t count, struct arena *arena)
{
    struct fault fault;
    arena_init(arena, SIZE_MAX);
    if (!trie_build(trie, entries, count, arena, &fault))
        fail_msg("%s", fault.message);
}

TEST(prefixes)
{
    struct trie_entry entries[] = { { { "abc", 3 }, 0 }, { { "a", 1 }, 1 }, { { "\xFF\0z", 3 }, 2 },
                                    { { "ab", 2 }, 3 },  { { "b", 1 }, 4 }, { { "ab", 2 }, 7 } };
    struct trie trie;
    struct arena arena;
    build(&trie, entries, 6, &arena);
    assert_int_equal(trie_find(&trie, "abc", 3), 0);
    assert_int_equal(trie_find(&trie, "a", 1), 1);
    assert_int_equal(trie_find(&trie, "ab", 2), 7); /* the larger value of two equal strings */
    assert_int_equal(trie_find(&trie, "\xFF\0z", 3), 2);
    assert_int_equal(trie_find(&trie, "\xFF", 1), -1);
    assert_int_equal(trie_find(&trie, "abcd", 4), -1);
    assert_int_equal(trie_find(&trie, "c", 1), -1);
    assert_int_equal(trie_find(&trie, "", 0), -1);
    assert_int_equal(trie_walk(&trie, TRIE_ROOT, "abd", 3), TRIE_NONE);
    arena_free(&arena);
}

TEST(empty)
{
    struct trie_entry none[1] = { 0 };
    struct trie trie;
    struct arena arena;
    build(&trie, none, 0, &arena);
    assert_int_equal(trie_find(&trie, "", 0), -1);
    assert_int_equal(trie_step(&trie, TRIE_ROOT, 0), TRIE_NONE);
    arena_free(&arena);
}

/* Every string of up to four bytes over a few letters is found or not as a plain search says. */
TEST(random)
{
    enum { COUNT = 3000, SIZE = 8 };
    static char texts[COUNT][SIZE];
    static struct trie_entry entries[COUNT];
    srand(1);
    for (int i = 0; i < COUNT; i++) {
        const size_t size = 1 + (size_t)rand() % (SIZE - 1);
        for (size_t k = 0; k < size; k++)
            texts[i][k] = (char)(rand() % 4 == 0 ? rand() : 'a' + rand() % 5);
        entries[i] = (struct trie_entry){ { texts[i], size }, i };
    }
    struct trie trie;
    struct arena arena;
    build(&trie, entries, COUNT, &arena);
    for (int i = 0; i < COUNT; i++) {
        const struct byte_slice string = entries[i].string;
        const int32_t found = trie_find(&trie, string.data, string.size);
        assert_true(found >= entries[i].value);
        assert_memory_equal(texts[found], string.data, string.size);
    }
    for (int code = 0; code < 26 * 26 * 26; code++) {
        const char text[] = { (char)('a' + code % 26), (char)('a' + code / 26 % 26),
                              (char)('a' + code / 676) };
        bool expected = false;
        for (int i = 0; i < COUNT && !expected; i++)
            expected = entries[i].string.size == 3 && memcmp(entries[i].string.data, text, 3) == 0;
        assert_int_equal(trie_find(&trie, text, 3) >= 0, expected);
    }
    assert_true(trie.count < 10 * COUNT * SIZE);
    arena_free(&arena);
}

/* One string of a million bytes: no recursion by depth. */
TEST(long)
{
    enum { SIZE = 1000000 };
    char *text = calloc(1, SIZE);
    struct trie_entry entry = { { text, SIZE }, 5 };
    struct trie trie;
    struct arena arena;
    build(&trie, &entry, 1, &arena);
    assert_int_equal(trie_find(&trie, text, SIZE), 5);
    assert_int_equal(trie_find(&trie, text, SIZE - 1), -1);
    arena_free(&arena);
    free(text);
}
