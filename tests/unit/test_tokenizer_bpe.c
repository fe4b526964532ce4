/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokenizer_bpe.c - byte pair encoding: its options, its merges, and files that lie.
 *
 * The expected values are those of the reference implementation, tokenizers 0.22.2. */
#include "pipeline_case.h"
#include "test.h"

#include "base/clock.h"

struct bpe_case {
    const char *node;
    const char *texts;    /* with | between them */
    const char *expected; /* of each text the ids and the bytes of its tokens */
};

static const struct bpe_case CASES[] = {
    { "{`type`:`BPE`,`vocab`:{`a`:0,`b`:1,`c`:2,`ab`:3,`bc`:4,`abc`:5},`merges`:[`a b`,`b c`,`ab "
      "c`]}",
      "abc|bcbc|cab|aabbcc", "5:0-3 |4:0-2 4:2-4 |2:0-1 3:1-3 |0:0-1 3:1-3 4:3-5 2:5-6 " },
    { "{`type`:`BPE`,`vocab`:{`a`:0,`b`:1,`c`:2,`ab`:3,`bc`:4,`abc`:5},`merges`:[[`b`,`c`],[`a`,`b`"
      "],[`a`,`bc`]]}",
      "abc|bcbc|abab", "5:0-3 |4:0-2 4:2-4 |3:0-2 3:2-4 " },
    { "{`type`:`BPE`,`vocab`:{`a`:0,`aa`:1,`aaa`:2,`aaaa`:3},`merges`:[[`a`,`a`],[`aa`,`aa`],[`aa`,"
      "`a`]]}",
      "a|aa|aaa|aaaaa|aaaaaaa", "0:0-1 |1:0-2 |2:0-3 |3:0-4 0:4-5 |3:0-4 2:4-7 " },
    { "{`type`:`BPE`,`vocab`:{`a`:0,`b`:1},`merges`:[]}", "axb|x|é", "0:0-1 1:1-2 ||" },
    { "{`type`:`BPE`,`unk_token`:`<unk>`,`vocab`:{`<unk>`:0,`a`:1,`b`:2},`merges`:[]}",
      "axyb|xé|éé", "1:0-1 0:1-2 0:2-3 2:3-4 |0:0-1 0:1-3 |0:0-2 0:2-4 " },
    { "{`type`:`BPE`,`unk_token`:`<unk>`,`fuse_unk`:true,`vocab`:{`<unk>`:0,`a`:1,`b`:2},`merges`:["
      "]}",
      "axyb|xé|ééa中", "1:0-1 0:1-3 2:3-4 |0:0-3 |0:0-4 1:4-5 0:5-8 " },
    { "{`type`:`BPE`,`unk_token`:`<unk>`,`fuse_unk`:true,`byte_fallback`:true,`vocab`:{`<unk>`:0,`"
      "a`:1,`<0xC3>`:2,`<0xA9>`:3,`<0xE4>`:4,`<0xB8>`:5,`<0xAD>`:6},`merges`:[]}",
      "aéa|中é|xéy|xxéa",
      "1:0-1 2:1-3 3:1-3 1:3-4 |4:0-3 5:0-3 6:0-3 2:3-5 3:3-5 |2:0-1 3:1-3 0:1-4 |2:0-1 3:1-2 "
      "0:2-4 1:4-5 " },
    { "{`type`:`BPE`,`unk_token`:`<unk>`,`byte_fallback`:true,`vocab`:{`<unk>`:0,`a`:1,`<0xC3>`:2,`"
      "<0xA9>`:3},`merges`:[]}",
      "aéa|中é|xéy", "1:0-1 2:1-3 3:1-3 1:3-4 |2:0-3 3:0-3 0:0-5 |2:0-1 3:1-3 0:1-3 0:3-4 " },
    { "{`type`:`BPE`,`unk_token`:`[UNK]`,`continuing_subword_prefix`:`##`,`vocab`:{`[UNK]`:0,`a`:1,"
      "`##b`:2,`##c`:3,`ab`:4,`##bc`:5,`abc`:6},`merges`:[`##b ##c`,`a ##bc`]}",
      "abc|abcb|b|ax", "6:0-3 |6:0-3 2:3-4 |0:0-1 |1:0-1 0:1-2 " },
    { "{`type`:`BPE`,`unk_token`:`<unk>`,`end_of_word_suffix`:`</"
      "w>`,`vocab`:{`<unk>`:0,`a`:1,`b`:2,`b</w>`:3,`ab</w>`:4,`a</w>`:5},`merges`:[`a b</w>`]}",
      "ab|aab|a|abab|ba", "4:0-2 |1:0-1 4:1-3 |5:0-1 |1:0-1 2:1-2 4:2-4 |2:0-1 5:1-2 " },
    { "{`type`:`BPE`,`continuing_subword_prefix`:``,`end_of_word_suffix`:``,`vocab`:{`a`:0,`b`:1,`"
      "ab`:2},`merges`:[`a b`]}",
      "abab", "2:0-2 2:2-4 " },
    { "{`type`:`BPE`,`ignore_merges`:true,`vocab`:{`a`:0,`b`:1,`c`:2,`ab`:3,`abc`:4},`merges`:[`a "
      "b`]}",
      "abc|abcb", "4:0-3 |3:0-2 2:2-3 1:3-4 " },
    { "{`type`:`BPE`,`vocab`:{`a`:0,`b`:1,`c`:2,`ab`:3,`abc`:4},`merges`:[`a b`]}", "abc|abcb",
      "3:0-2 2:2-3 |3:0-2 2:2-3 1:3-4 " },
    { "{`type`:`BPE`,`vocab`:{`a`:0,`b`:1,`c`:2,`ab`:3,`bc`:4},`merges`:[`#version: 0.2`,`a b`,`b "
      "c`,`a b`]}",
      "abc", "0:0-1 4:1-3 " },
    { "{`type`:`BPE`,`unk_token`:`<unk>`,`vocab`:{`<unk>`:0,`a`:1,`<`:2,`>`:3,`<unk>a`:4},`merges`:"
      "[[`<unk>`,`a`]]}",
      "xa|axxa|<a", "4:0-2 |1:0-1 0:1-2 4:2-4 |2:0-1 1:1-2 " },
};

/* Writes "id:start-end " of the tokens of a text that was never normalized. */
static void write_tokens(char *out, size_t out_size, const struct step *model, const char *text,
                         size_t size, struct pipeline_case *step)
{
    struct pieces pieces;
    struct model_output output = { .arena = &step->arena, .limit = &step->limit };
    size_t used = 0;
    out[0] = 0;
    assert_true(
        pieces_init(&pieces, text, (int64_t)size, &step->limit, &step->arena, &step->fault));
    pipeline_case_assert(step,
                         bpe_encode(model->state, text, (int64_t)size, &output, &step->fault));
    for (int64_t i = 0; i < output.count && used < out_size; i++) {
        const struct model_token *token = &output.tokens[i];
        const struct pieces_span span = pieces_span(&pieces, token->start, token->end);
        used += (size_t)snprintf(out + used, out_size - used, "%d:%u-%u ", token->id, span.start,
                                 span.end);
    }
}

TEST(tokens_are_those_of_the_reference)
{
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct pipeline_case step;
        struct step model;
        pipeline_case_open(&step, CASES[i].node);
        pipeline_case_assert(&step, bpe_read(&step.build, step.node, &model));
        const char *text = CASES[i].texts, *expected = CASES[i].expected;
        while (*text) {
            const size_t size = strcspn(text, "|"), expected_size = strcspn(expected, "|");
            char shown[256];
            write_tokens(shown, sizeof shown, &model, text, size, &step);
            if (strlen(shown) != expected_size || memcmp(shown, expected, expected_size) != 0)
                fail_msg("%s of \"%.*s\": %s; expected %.*s", CASES[i].node, (int)size, text, shown,
                         (int)expected_size, expected);
            text += size + (text[size] == '|');
            expected += expected_size + (expected[expected_size] == '|');
        }
        pipeline_case_free(&step);
    }
}

/* --------------------------------------------------------------- random -- */

enum { LETTERS = 4, TOKENS_MAX = 60, TOKEN_MAX = 64, TEXT_MAX = 400 };

struct random_model {
    char tokens[TOKENS_MAX][TOKEN_MAX];
    int count;
    int merges[TOKENS_MAX][2]; /* of merge i, which makes token LETTERS + i */
    char node[TOKENS_MAX * TOKEN_MAX * 4];
};

static int token_of(const struct random_model *model, const char *text)
{
    for (int i = 0; i < model->count; i++)
        if (strcmp(model->tokens[i], text) == 0)
            return i;
    return -1;
}

static void make_model(struct random_model *model, int count)
{
    for (model->count = 0; model->count < LETTERS; model->count++)
        snprintf(model->tokens[model->count], TOKEN_MAX, "%c", 'a' + model->count);
    for (int tries = 0; tries < 10 * count && model->count < count; tries++) {
        const int left = rand() % model->count, right = rand() % model->count;
        char joined[2 * TOKEN_MAX];
        snprintf(joined, sizeof joined, "%s%s", model->tokens[left], model->tokens[right]);
        if (strlen(joined) >= TOKEN_MAX / 4 || token_of(model, joined) >= 0)
            continue;
        model->merges[model->count - LETTERS][0] = left;
        model->merges[model->count - LETTERS][1] = right;
        snprintf(model->tokens[model->count++], TOKEN_MAX, "%.*s", TOKEN_MAX - 1, joined);
    }
    struct text node = text_in(model->node, sizeof model->node);
    text_raw(&node, "{`vocab`:{");
    for (int i = 0; i < model->count; i++)
        text_format(&node, "%s`%s`:%d", i > 0 ? "," : "", model->tokens[i], i);
    text_raw(&node, "},`merges`:[");
    for (int i = 0; i < model->count - LETTERS; i++)
        text_format(&node, "%s[`%s`,`%s`]", i > 0 ? "," : "", model->tokens[model->merges[i][0]],
                    model->tokens[model->merges[i][1]]);
    text_raw(&node, "]}");
    model->node[node.used] = 0;
}

/* The definition: the pair of the lowest rank, of several the first, until there is none. */
static int merge_plainly(const struct random_model *model, const char *text, int ids[TEXT_MAX])
{
    int count = 0;
    for (; text[count]; count++)
        ids[count] = text[count] - 'a';
    for (;;) {
        int best = -1, place = -1;
        for (int i = 0; i + 1 < count; i++)
            for (int m = 0; m < model->count - LETTERS; m++)
                if (model->merges[m][0] == ids[i] && model->merges[m][1] == ids[i + 1]
                    && (best < 0 || m < best)) {
                    best = m;
                    place = i;
                }
        if (best < 0)
            return count;
        ids[place] = LETTERS + best;
        memmove(ids + place + 1, ids + place + 2, (size_t)(count - place - 2) * sizeof *ids);
        count--;
    }
}

TEST(random_merges_follow_the_definition)
{
    static struct random_model random_model;
    srand(20);
    for (int problem = 0; problem < 60; problem++) {
        make_model(&random_model, LETTERS + rand() % (TOKENS_MAX - LETTERS));
        struct pipeline_case step;
        struct step model;
        pipeline_case_open(&step, random_model.node);
        pipeline_case_assert(&step, bpe_read(&step.build, step.node, &model));
        for (int i = 0; i < 20; i++) {
            char text[TEXT_MAX];
            int ids[TEXT_MAX];
            const int size = 1 + rand() % (i % 2 ? 20 : TEXT_MAX - 1);
            for (int k = 0; k < size; k++)
                text[k] = (char)('a' + (rand() % 3 ? rand() % 2 : rand() % LETTERS));
            text[size] = 0;
            struct model_output output = { .arena = &step.arena, .limit = &step.limit };
            assert_true(bpe_encode(model.state, text, size, &output, &step.fault));
            assert_int_equal(output.count, merge_plainly(&random_model, text, ids));
            for (int64_t k = 0; k < output.count; k++)
                assert_int_equal(output.tokens[k].id, ids[k]);
            assert_int_equal(output.tokens[output.count - 1].end, size);
        }
        pipeline_case_free(&step);
    }
}

/* A piece that is one long word takes no quadratic time: that would be a trillion steps here. */
TEST(a_long_word)
{
    enum { SIZE = 1 << 20 };
    struct pipeline_case step;
    struct step model;
    pipeline_case_open(&step, "{`vocab`:{`a`:0,`aa`:1,`aaaa`:2,`aaaaaaaa`:3},"
                              "`merges`:[`a a`,`aa aa`,`aaaa aaaa`]}");
    pipeline_case_assert(&step, bpe_read(&step.build, step.node, &model));
    char *text = malloc(SIZE);
    assert_non_null(text);
    memset(text, 'a', SIZE);
    struct model_output output = { .arena = &step.arena, .limit = &step.limit };
    const int64_t start = clock_thread_ns();
    assert_true(bpe_encode(model.state, text, SIZE, &output, &step.fault));
    assert_true(clock_thread_ns() - start < 20000000000);
    assert_int_equal(output.count, SIZE / 8);
    for (int64_t i = 0; i < output.count; i++)
        assert_int_equal(output.tokens[i].id, 3);
    free(text);
    pipeline_case_free(&step);
}

/* ---------------------------------------------------------------- faults -- */

TEST(files_that_lie_are_refused)
{
    static const char *const wrong[][2] = {
        { "{`vocab`:{`a`:0}}", "merges is missing" },
        { "{`merges`:[]}", "vocab" },
        { "{`vocab`:{`a`:0,`b`:0},`merges`:[]}", "0" },
        { "{`vocab`:{`a`:-1},`merges`:[]}", "-1" },
        { "{`vocab`:{`a`:1e9},`merges`:[]}", "1000000000" },
        { "{`vocab`:{`a`:0.5},`merges`:[]}", "vocab.a" },
        { "{`vocab`:{`a`:0,`ab`:1},`merges`:[`a b`]}", "merges[0] has 'b'" },
        { "{`vocab`:{`b`:0,`ab`:1},`merges`:[[`a`,`b`]]}", "merges[0] has 'a'" },
        { "{`vocab`:{`a`:0,`b`:1},`merges`:[`a b`]}", "merges[0] has 'ab'" },
        { "{`vocab`:{`a`:0,`b`:1},`merges`:[`ab`]}", "merges[0] is 'ab'" },
        { "{`vocab`:{`a`:0,`b`:1},`merges`:[`a b c`]}", "merges[0] is 'a b c'" },
        { "{`vocab`:{`a`:0},`merges`:[[`a`]]}", "merges[0]" },
        { "{`vocab`:{`a`:0},`merges`:[[`a`,`a`,`a`]]}", "merges[0]" },
        { "{`vocab`:{`a`:0},`merges`:[`a a`,7]}", "merges[0] has 'aa'" },
        { "{`vocab`:{`a`:0,`aa`:1},`merges`:[`a a`,{}]}", "merges[1]" },
        { "{`vocab`:{`a`:0},`merges`:[0,1]}", "merges" },
        { "{`vocab`:{`a`:0,``:1},`merges`:[[`a`,``]]}", "empty" },
        { "{`vocab`:{`a`:0,`##`:1},`merges`:[[`a`,`##`]],`continuing_subword_prefix`:`##`}",
          "empty" },
        { "{`vocab`:{`a`:0},`merges`:[],`dropout`:0.1}", "dropout" },
        { "{`vocab`:{`a`:0},`merges`:[],`fuse_unk`:1}", "fuse_unk" },
        { "{`vocab`:{`a`:0},`merges`:[],`unk_token`:0}", "unk_token" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct pipeline_case step;
        struct step model;
        pipeline_case_open(&step, wrong[i][0]);
        pipeline_case_assert_refused(&step, bpe_read(&step.build, step.node, &model), wrong[i][1]);
        pipeline_case_free(&step);
    }
}

TEST(an_unknown_token_that_is_missing)
{
    struct pipeline_case step;
    struct step model;
    struct model_output output = { .arena = &step.arena, .limit = &step.limit };
    pipeline_case_open(&step, "{`vocab`:{`a`:0},`merges`:[],`unk_token`:`<unk>`}");
    pipeline_case_assert(&step, bpe_read(&step.build, step.node, &model));
    assert_true(bpe_encode(model.state, "aa", 2, &output, &step.fault));
    assert_false(bpe_encode(model.state, "ab", 2, &output, &step.fault));
    assert_non_null(strstr(step.fault.message, "<unk>"));
    pipeline_case_free(&step);
}
