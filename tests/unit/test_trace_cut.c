/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace_cut.c - which tokens of a text, or of two, stay when they are cut.
 *
 * Expected lengths are those of the reference's own tests: Hugging Face tokenizers,
 * tokenizers/src/utils/truncation.rs, truncate_encodings_longest_first and
 * truncate_encodings_empty (Apache-2.0). */
#include "operations/plan/trace_plan.h"
#include "test.h"

enum { EMPTY = 0, SHORT = 2, MEDIUM = 4, LONG = 8, TEMPLATE = 3 };

static struct arena arena;

/* [CLS] text [SEP] pair [SEP], whose tokens are numbered from 1 and from 101 on. */
static struct token_list make_list(int text, int pair)
{
    struct token_list list = {
        arena_calloc(&arena, (size_t)(text + pair + TEMPLATE), sizeof *list.tokens), 0
    };
    assert_non_null(list.tokens);
    list.tokens[list.count++] = (struct token){ .id = 1000, .is_special = true };
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < (s == 0 ? text : pair); i++)
            list.tokens[list.count++] =
                (struct token){ .id = s * 100 + i + 1, .sequence = s, .is_of_text = true };
        list.tokens[list.count++] = (struct token){ .id = 1001 + s, .is_special = true };
    }
    return list;
}

/* The ids of both in order, and the template's three. */
static void expect_cut(int text, int pair, int most, bool cuts_first, int text_kept, int pair_kept)
{
    const struct trace_item item = { .tokens_max = most, .cuts_first = cuts_first };
    struct token_list list = make_list(text, pair);
    const struct token_list whole = list;
    struct fault fault;
    int64_t at = 0;
    assert_true(trace_cut(&item, &list, &arena, &fault));
    assert_int_equal(list.count, text_kept + pair_kept + TEMPLATE);
    assert_int_equal(list.tokens[at++].id, 1000);
    for (int s = 0; s < 2; s++) {
        const int kept = s == 0 ? text_kept : pair_kept, count = s == 0 ? text : pair;
        for (int i = 0; i < kept; i++)
            assert_int_equal(list.tokens[at++].id,
                             s * 100 + 1 + i + (cuts_first ? count - kept : 0));
        assert_int_equal(list.tokens[at++].id, 1001 + s);
    }
    assert_int_equal(whole.tokens[text].id, text > 0 ? text : 1000); /* as it was */
}

TEST(longest_first)
{
    static const int CASES[][4] = {
        { EMPTY, EMPTY, 0, 0 },  { EMPTY, SHORT, 0, 2 },   { EMPTY, MEDIUM, 0, 4 },
        { EMPTY, LONG, 0, 7 },   { SHORT, EMPTY, 2, 0 },   { SHORT, SHORT, 2, 2 },
        { SHORT, MEDIUM, 2, 4 }, { SHORT, LONG, 2, 5 },    { MEDIUM, EMPTY, 4, 0 },
        { MEDIUM, SHORT, 4, 2 }, { MEDIUM, MEDIUM, 3, 4 }, { MEDIUM, LONG, 3, 4 },
        { LONG, EMPTY, 7, 0 },   { LONG, SHORT, 5, 2 },    { LONG, MEDIUM, 4, 3 },
        { LONG, LONG, 3, 4 },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        for (int left = 0; left < 2; left++)
            expect_cut(CASES[i][0], CASES[i][1], 7 + TEMPLATE, left, CASES[i][2], CASES[i][3]);
    arena_free(&arena);
}

/* Where the template alone has as many, nothing of the texts stays. */
TEST(nothing_left)
{
    expect_cut(EMPTY, SHORT, TEMPLATE, false, 0, 0);
    expect_cut(MEDIUM, MEDIUM, TEMPLATE, true, 0, 0);
    expect_cut(LONG, LONG, 1, false, 0, 0);
    arena_free(&arena);
}

/* 0: texts are not cut. */
TEST(uncut)
{
    expect_cut(LONG, LONG, 0, false, LONG, LONG);
    arena_free(&arena);
}

static int make_arena(void **state)
{
    (void)state;
    arena_init(&arena, SIZE_MAX);
    return 0;
}

EACH_TEST(make_arena, NULL);
