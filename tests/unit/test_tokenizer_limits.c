/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokenizer_limits.c - work that files ask for, and what ends it: the budget of a text, the
 * request that is over, the bounds of a load. */
#include "base/clock.h"
#include "models/tokenizer/normalizer.h"
#include "models/tokenizer/tokenizer_internal.h"
#include "models/tokenizer/work_limit.h"
#include "pipeline_case.h"
#include "test.h"

enum { TEXT_BYTES = 4 << 20 };

#define LETTERS "`model`:{`type`:`WordLevel`,`vocab`:{`[UNK]`:0},`unk_token`:`[UNK]`}"
#define FLAGS   "`single_word`:false,`lstrip`:false,`rstrip`:false,`special`:false"

static struct tokenizer *read_file(const char *file, struct fault *fault)
{
    char *json = pipeline_case_json(file);
    struct tokenizer *tokenizer = tokenizer_new();
    assert_true(json && tokenizer);
    *fault = (struct fault){ 0 };
    if (!tokenizer_read_json(tokenizer, json, strlen(json), fault)) {
        tokenizer_free(tokenizer);
        tokenizer = NULL;
    }
    free(json);
    return tokenizer;
}

static struct tokenizer *opened(const char *file)
{
    struct fault fault;
    struct tokenizer *tokenizer = read_file(file, &fault);
    if (!tokenizer)
        fail_msg("%s: %s", file, fault.message);
    return tokenizer;
}

/* Each piece of the text takes most of the budget of a text. */
TEST(pieces_share_the_budget)
{
    static const char *const STEPS[] = {
        "`pre_tokenizer`:{`type`:`Sequence`,`pretokenizers`:[{`type`:`WhitespaceSplit`},{`type`:"
        "`Split`,`pattern`:{`Regex`:`(a+)+b`},`behavior`:`Isolated`,`invert`:false}]}",
        "`added_tokens`:[{`id`:1,`content`:` `,`normalized`:false," FLAGS "}],`normalizer`:{`type`:"
        "`Replace`,`pattern`:{`Regex`:`(a+)+b`},`content`:`c`}",
    };
    char text[20 * 200 + 1] = "";
    for (int i = 0; i < 200; i++)
        memcpy(text + 20 * i, "aaaaaaaaaaaaaaaaaac ", 20);
    for (size_t i = 0; i < sizeof STEPS / sizeof STEPS[0]; i++) {
        char file[1024];
        struct arena arena;
        struct fault fault = { 0 };
        struct token_list list;
        snprintf(file, sizeof file, "{%s," LETTERS "}", STEPS[i]);
        struct tokenizer *tokenizer = opened(file);
        arena_init(&arena, SIZE_MAX);
        assert_true(tokenizer_encode(tokenizer, NULL, (struct byte_slice){ text, 20 }, NULL, true,
                                     &arena, &list, &fault));
        assert_false(tokenizer_encode(tokenizer, NULL, (struct byte_slice){ text, sizeof text - 1 },
                                      NULL, true, &arena, &list, &fault));
        assert_int_equal(fault.code, FAULT_LENGTH);
        arena_free(&arena);
        tokenizer_free(tokenizer);
    }
}

/* ------------------------------------------------------------------- stops -- */

static bool is_over(void *questions)
{
    return ++*(int *)questions >= 2;
}

/* A text of one letter; the file may ask for any time. */
static void expect_stop(const char *file)
{
    struct tokenizer *tokenizer = opened(file);
    struct arena arena;
    struct fault fault = { 0 };
    struct token_list list;
    int questions = 0;
    const struct tokenizer_stop stop = { is_over, &questions };
    char *text = malloc(TEXT_BYTES);
    assert_non_null(text);
    memset(text, 'a', TEXT_BYTES);
    arena_init(&arena, SIZE_MAX);
    if (tokenizer_encode(tokenizer, &stop, (struct byte_slice){ text, TEXT_BYTES }, NULL, true,
                         &arena, &list, &fault))
        fail_msg("%s was not stopped", file);
    assert_int_equal(fault.code, FAULT_LEFT);
    assert_int_equal(questions, 2);
    arena_free(&arena);
    free(text);
    tokenizer_free(tokenizer);
}

/* A piece of 1000 letters that no text of one letter has, so that each walk takes that long. */
static char *with_long_piece(const char *format)
{
    char piece[1001], *file = NULL;
    memset(piece, 'a', 999);
    strcpy(piece + 999, "z");
    assert_true(asprintf(&file, format, piece) > 0);
    return file;
}

TEST(a_request_that_is_over)
{
    static const char *const LONG[] = {
        "{`model`:{`type`:`Unigram`,`unk_id`:0,`vocab`:[[`<unk>`,0],[`a`,-1],[`%s`,-2]]}}",
        "{`model`:{`type`:`WordPiece`,`unk_token`:`a`,`continuing_subword_prefix`:``,"
        "`max_input_chars_per_word`:2000000000,`vocab`:{`a`:0,`%s`:1}}}",
        "{`added_tokens`:[{`id`:1,`content`:`%s`,`normalized`:false," FLAGS "}]," LETTERS "}",
    };
    for (size_t i = 0; i < sizeof LONG / sizeof LONG[0]; i++) {
        char *file = with_long_piece(LONG[i]);
        expect_stop(file);
        free(file);
    }
    expect_stop("{`model`:{`type`:`BPE`,`vocab`:{`a`:0,`aa`:1},`merges`:[`a a`]}}");
    expect_stop("{`pre_tokenizer`:{`type`:`Split`,`pattern`:{`Regex`:`.`},`behavior`:`Isolated`,"
                "`invert`:false}," LETTERS "}");
    expect_stop("{`normalizer`:{`type`:`Sequence`,`normalizers`:[{`type`:`Lowercase`},{`type`:"
                "`NFC`},{`type`:`Lowercase`}]}," LETTERS "}");
    expect_stop("{`normalizer`:{`type`:`Sequence`,`normalizers`:[{`type`:`Prepend`,`prepend`:`b`},"
                "{`type`:`Prepend`,`prepend`:`b`}]}," LETTERS "}");
}

static bool is_asked(void *questions)
{
    ++*(int *)questions;
    return false;
}

/* A text of one piece without a pair that merges, so that all its words are short, is asked about
 * all the way. */
TEST(short_words)
{
    struct tokenizer *tokenizer =
        opened("{`model`:{`type`:`BPE`,`vocab`:{`a`:0,`b`:1,`ab`:2},`merges`:[`a b`]}}");
    struct arena arena;
    struct fault fault = { 0 };
    struct token_list list;
    int questions = 0;
    const struct tokenizer_stop stop = { is_asked, &questions };
    char *text = malloc(TEXT_BYTES);
    assert_non_null(text);
    memset(text, 'a', TEXT_BYTES);
    arena_init(&arena, SIZE_MAX);
    assert_true(tokenizer_encode(tokenizer, &stop, (struct byte_slice){ text, TEXT_BYTES }, NULL,
                                 true, &arena, &list, &fault));
    assert_int_equal(list.count, TEXT_BYTES);
    assert_true(questions >= TEXT_BYTES / WORK_LIMIT_STEPS);
    arena_free(&arena);
    free(text);
    tokenizer_free(tokenizer);
}

TEST(a_decoder_that_grows)
{
    struct text file, text;
    text_init(&file, SIZE_MAX);
    text_raw(&file, "{`decoder`:{`type`:`Sequence`,`decoders`:[{`type`:`Fuse`}");
    for (int i = 0; i < 60; i++)
        text_raw(&file, ",{`type`:`Replace`,`pattern`:{`String`:`[`},`content`:`[[`}");
    text_raw(&file, "]}," LETTERS "}");
    text_bytes(&file, "", 1);
    struct tokenizer *tokenizer = opened(file.data);
    struct fault fault = { 0 };
    int questions = 0;
    const struct tokenizer_stop stop = { is_over, &questions };
    text_init(&text, SIZE_MAX);
    assert_false(tokenizer_decode(tokenizer, &stop, (int32_t[]){ 0 }, 1, false, &text, &fault));
    assert_int_equal(fault.code, FAULT_LEFT);
    assert_int_equal(questions, 2);
    text_free(&text);
    text_free(&file);
    tokenizer_free(tokenizer);
}

/* ------------------------------------------------------------------- loads -- */

static void expect_refused(const char *file, const char *words)
{
    struct fault fault;
    struct tokenizer *tokenizer = read_file(file, &fault);
    if (tokenizer)
        fail_msg("%.200s was taken", file);
    if (!strstr(fault.message, words))
        fail_msg("%.200s: '%s'; expected '%s'", file, fault.message, words);
}

/* A normalizer of `count` steps that are alike, and one added token that it is for. */
static void expect_normalizer_refused(const char *step, int count, const char *words)
{
    struct text file;
    text_init(&file, SIZE_MAX);
    text_raw(&file, "{`added_tokens`:[{`id`:1,`content`:`aaa`,`normalized`:true," FLAGS
                    "}],`normalizer`:{`type`:`Sequence`,`normalizers`:[");
    for (int i = 0; i < count; i++) {
        text_raw(&file, i > 0 ? "," : "");
        text_raw(&file, step);
    }
    text_raw(&file, "]}," LETTERS "}");
    text_bytes(&file, "", 1);
    expect_refused(file.data, words);
    text_free(&file);
}

TEST(normalizers_of_added_tokens)
{
    expect_normalizer_refused(
        "{`type`:`Replace`,`pattern`:{`String`:`a`},`content`:`aa`}", 60,
        "tokenizer.json: added_tokens: the normalizer makes the token 'aaa' too long");
    expect_normalizer_refused("{`type`:`Prepend`,`prepend`:`bbbbbbbb`}", 20000,
                              "added_tokens: the normalizer takes too long on the tokens");
}

/* A charsmap that makes MANY characters of each letter a ends where the memory does. */
TEST(a_charsmap_that_grows)
{
    enum { UNITS = 512, LEAF = UNITS - 1, MANY = 1 << 16 };
    static unsigned char data[4 + 4 * UNITS + MANY + 1];
    static char text[MANY];
    const uint32_t units[][2] = {
        { 0, 256u << 10 },                                        /* the children are at 256 ^ c */
        { 256 ^ 'a', 'a' | 1u << 8 | (256u ^ 'a' ^ LEAF) << 10 }, /* its value is the leaf */
        { LEAF, 1u << 31 },                                       /* the text at 0 */
    };
    const uint32_t size = 4 * UNITS;
    memcpy(data, &size, 4);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        memcpy(data + 4 + 4 * units[i][0], &units[i][1], 4);
    memset(data + 4 + size, 'z', MANY);
    memset(text, 'a', MANY);

    struct pipeline_case step;
    struct step normalizer;
    struct pieces pieces;
    pipeline_case_open(&step, "{}");
    pipeline_case_assert(&step, precompiled_init(&step.build, data, sizeof data, &normalizer));
    assert_true(pieces_init(&pieces, text, 1, &step.limit, &step.arena, &step.fault));
    assert_true(pieces_rewrite(&pieces, precompiled_changes, precompiled_rewrite, normalizer.state,
                               &step.fault));
    assert_int_equal(pieces.size, MANY);
    struct arena arena;
    arena_init(&arena, 64 << 20);
    assert_true(pieces_init(&pieces, text, MANY, &step.limit, &arena, &step.fault));
    const int64_t start = clock_thread_ns();
    assert_false(pieces_rewrite(&pieces, precompiled_changes, precompiled_rewrite, normalizer.state,
                                &step.fault));
    assert_int_equal(step.fault.code, FAULT_MEMORY);
    assert_true(clock_thread_ns() - start < 20000000000);
    arena_free(&arena);
    pipeline_case_free(&step);
}
