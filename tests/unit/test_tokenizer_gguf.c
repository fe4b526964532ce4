/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokenizer_gguf.c - the tokenizer in the metadata of a GGUF file: what each key says, and
 * files that lie. tests/conformance/test_tokenizers_gguf.c compares the tokens with the
 * reference's. */
#include "gguf_tokenizer.h"
#include "test.h"
#include "token_lines.h"

#define KEY(name) "tokenizer.ggml." name
#define SPACE     "\xE2\x96\x81"
#define LIST(...)                                                                                  \
    (const char *const[]){ __VA_ARGS__ }, sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *)

enum { N = 1, U, C, D, X, B }; /* normal, unknown, control, user-defined, unused, byte */

/* ----------------------------------------------------------------- helpers -- */

static struct gguf_write *begin(const char *model, const char *const *tokens, size_t count,
                                const int32_t *types)
{
    struct gguf_write *file = gguf_write_create(3);
    gguf_write_text(file, KEY("model"), model);
    gguf_write_texts(file, KEY("tokens"), tokens, (int64_t)count);
    if (types)
        gguf_write_numbers(file, KEY("token_type"), 'i', types, (int64_t)count);
    return file;
}

/* Scores that make the first token the best. */
static void add_scores(struct gguf_write *file, int64_t count)
{
    float scores[64];
    for (int64_t i = 0; i < count; i++)
        scores[i] = (float)-i;
    gguf_write_numbers(file, KEY("scores"), 'f', scores, count);
}

/* Opens the file, which ends here. */
static struct tokenizer *opened(struct gguf_write *file)
{
    struct fault fault;
    struct tokenizer *tokenizer = gguf_tokenizer_open(file, &fault);
    if (!tokenizer)
        fail_msg("%s", fault.message);
    gguf_write_free(file);
    return tokenizer;
}

static void expect_refused(struct gguf_write *file, const char *words)
{
    struct fault fault;
    if (gguf_tokenizer_open(file, &fault))
        fail_msg("the file was taken; expected a fault with '%s'", words);
    if (!strstr(fault.message, words))
        fail_msg("'%s' has no '%s'", fault.message, words);
    if (strncmp(fault.message, "words.gguf: ", 12) != 0 || strstr(fault.message + 1, "words.gguf"))
        fail_msg("'%s' does not name the file once", fault.message);
    gguf_write_free(file);
}

/* ------------------------------------------------------------------- llama -- */

#define LLAMA LIST("<unk>", "<s>", "</s>", "ab", SPACE "ab", "a", "b", SPACE, "<0x21>", "<|x|>")
static const int32_t LLAMA_TYPES[] = { U, C, C, N, N, N, N, N, B, D };

static struct gguf_write *llama(void)
{
    struct gguf_write *file = begin("llama", LLAMA, LLAMA_TYPES);
    add_scores(file, 10);
    return file;
}

TEST(llama)
{
    struct tokenizer *tokenizer = opened(llama());
    assert_string_equal(tokenizer_kind(tokenizer), "BPE");
    assert_string_equal(tokenizer_file(tokenizer), "words.gguf");
    assert_int_equal(tokenizer_id_end(tokenizer), 10);
    assert_int_equal(tokenizer_vocabulary_end(tokenizer), 10);
    /* bos without a word of the file; a space before the text and behind each special token */
    token_lines_expect_ids(tokenizer, "ab", NULL, "1 4", NULL);
    token_lines_expect_ids(tokenizer, "ab ab", NULL, "1 4 4", NULL);
    token_lines_expect_ids(tokenizer, "ab<|x|>ab!?", NULL, "1 4 9 4 8 0", NULL);
    token_lines_expect_ids(tokenizer, "ab", "b", "1 4 1 7 6", "00111");
    assert_true(tokenizer_is_special(tokenizer, 0) && tokenizer_is_special(tokenizer, 2));
    assert_false(tokenizer_is_special(tokenizer, 9) || tokenizer_is_special(tokenizer, 4));
    token_lines_expect_decoded(tokenizer, (const int32_t[]){ 1, 4, 4, 9, 8, 2 }, 6, "ab ab<|x|>!");
    tokenizer_free(tokenizer);
}

TEST(flags)
{
    struct gguf_write *file = llama();
    gguf_write_bool(file, KEY("add_bos_token"), false);
    gguf_write_bool(file, KEY("add_eos_token"), true);
    gguf_write_bool(file, KEY("add_space_prefix"), false);
    struct tokenizer *tokenizer = opened(file);
    token_lines_expect_ids(tokenizer, "ab ab", NULL, "3 4 2", NULL);
    token_lines_expect_decoded(tokenizer, (const int32_t[]){ 4, 3 }, 2, " abab");
    tokenizer_free(tokenizer);
}

TEST(ids)
{
    struct gguf_write *file = llama();
    gguf_write_integer(file, KEY("bos_token_id"), 'I', 2);
    gguf_write_integer(file, KEY("eos_token_id"), 'q', 1);
    gguf_write_bool(file, KEY("add_eos_token"), true);
    struct tokenizer *tokenizer = opened(file);
    token_lines_expect_ids(tokenizer, "ab", NULL, "2 4 1", NULL);
    tokenizer_free(tokenizer);
}

TEST(scores_order_merges)
{
    /* "bc" has a better score than "ab": so "abc" is a and bc */
    const float scores[] = { 0, 0, 0, -3, -2, -9, -9, -9, -1.5f };
    const int32_t types[] = { U, C, C, N, N, N, N, N, C };
    struct gguf_write *file =
        begin("llama", LIST("<unk>", "<s>", "</s>", "ab", "bc", "a", "b", "c", "abc"), types);
    gguf_write_numbers(file, KEY("scores"), 'f', scores, 9);
    gguf_write_bool(file, KEY("add_space_prefix"), false);
    struct tokenizer *tokenizer = opened(file);
    token_lines_expect_ids(tokenizer, "abb", NULL, "1 3 6", NULL);
    token_lines_expect_ids(tokenizer, "abc", NULL, "1 8",
                           NULL); /* a special token is found as it is */
    token_lines_expect_ids(tokenizer, "aabcb", NULL, "1 5 8 6", NULL);
    token_lines_expect_ids(tokenizer, "abbc", NULL, "1 3 4", NULL);
    tokenizer_free(tokenizer);
}

/* -------------------------------------------------------------- byte level -- */

#define GPT2                                                                                       \
    LIST("a", "b", "ab", "\xC4\xA0",                                                               \
         "\xC4\xA0"                                                                                \
         "ab",                                                                                     \
         "1", "11", "<|end|>", "")
static const int32_t GPT2_TYPES[] = { N, N, N, N, N, N, N, C, X };

static struct gguf_write *gpt2(const char *pre)
{
    struct gguf_write *file = begin("gpt2", GPT2, GPT2_TYPES);
    gguf_write_texts(file, KEY("merges"), LIST("a b", "\xC4\xA0 ab", "1 1"));
    if (pre)
        gguf_write_text(file, KEY("pre"), pre);
    return file;
}

TEST(gpt2)
{
    struct gguf_write *file = gpt2("gpt-2");
    gguf_write_integer(file, KEY("eos_token_id"), 'I', 7);
    struct tokenizer *tokenizer = opened(file);
    token_lines_expect_ids(tokenizer, "ab ab11<|end|>", NULL, "2 4 6 7", NULL);
    token_lines_expect_ids(tokenizer, "ab", "ab", "2 2", "01");
    assert_string_equal(tokenizer_token_text(tokenizer, 8), "[EMPTY_8]");
    token_lines_expect_decoded(tokenizer, (const int32_t[]){ 4, 6, 7 }, 3, " ab11");
    tokenizer_free(tokenizer);
}

TEST(names_of_pre_tokenizers)
{
    static const struct {
        const char *pre, *ids;
    } CASES[] = {
        { "starcoder", "2 5 5" }, { "gpt-2", "2 6" },   { "qwen2", "2 5 5" },
        { NULL, "2 6" },          { "default", "2 6" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct tokenizer *tokenizer = opened(gpt2(CASES[i].pre));
        token_lines_expect_ids(tokenizer, "ab11", NULL, CASES[i].ids, NULL);
        tokenizer_free(tokenizer);
    }
}

TEST(pre_adds_bos)
{
    struct gguf_write *file = gpt2("llama-bpe");
    gguf_write_integer(file, KEY("bos_token_id"), 'I', 7);
    struct tokenizer *tokenizer = opened(file);
    token_lines_expect_ids(tokenizer, "ab", NULL, "7 2", NULL);
    tokenizer_free(tokenizer);
    expect_refused(gpt2("llama-bpe"),
                   KEY("add_bos_token") " is true, and there is no " KEY("bos_token_id"));
}

TEST(roberta)
{
    const int32_t types[] = { C, C, C, N, N, N };
    struct gguf_write *file = begin("gpt2",
                                    LIST("<s>", "</s>", "<mask>", "a", "\xC4\xA0",
                                         "\xC4\xA0"
                                         "a"),
                                    types);
    gguf_write_texts(file, KEY("merges"), LIST("\xC4\xA0 a"));
    gguf_write_text(file, KEY("pre"), "roberta-bpe");
    gguf_write_integer(file, KEY("bos_token_id"), 'I', 0);
    gguf_write_integer(file, KEY("eos_token_id"), 'I', 1);
    gguf_write_integer(file, KEY("seperator_token_id"), 'I', 1);
    gguf_write_integer(file, KEY("mask_token_id"), 'I', 2);
    gguf_write_bool(file, KEY("add_bos_token"), true);
    gguf_write_bool(file, KEY("add_eos_token"), true);
    struct tokenizer *tokenizer = opened(file);
    token_lines_expect_ids(tokenizer, "a <mask> a", NULL, "0 3 2 5 1", NULL);
    token_lines_expect_ids(tokenizer, "a", "a", "0 3 1 1 3 1", NULL);
    tokenizer_free(tokenizer);
}

/* Tokens as text, with U+2581 for spaces; a run of them that a user has defined has spaces. */
TEST(gemma4)
{
    const int32_t types[] = { C, C, U, N, N, N, N, D, B, N, N };
    struct gguf_write *file = begin(
        "gemma4",
        LIST("<pad>", "<bos>", "<unk>", "a", "b", SPACE, SPACE "a", "  ", "<0x21>", "\n", "ab"),
        types);
    gguf_write_texts(file, KEY("merges"), LIST(SPACE " " SPACE, SPACE " a", "a b"));
    gguf_write_integer(file, KEY("bos_token_id"), 'I', 1);
    gguf_write_integer(file, KEY("unknown_token_id"), 'I', 2);
    struct tokenizer *tokenizer = opened(file);
    token_lines_expect_ids(tokenizer, "ab a\n!?", NULL, "1 10 6 9 8 2", NULL);
    token_lines_expect_ids(tokenizer, "a  a", NULL, "1 3 7 3", NULL);
    token_lines_expect_decoded(tokenizer, (const int32_t[]){ 1, 10, 6, 7, 8 }, 5, "ab a  !");
    tokenizer_free(tokenizer);
}

/* The same by the name of a pre-tokenizer. */
TEST(text_by_pre)
{
    const int32_t types[] = { C, U, N, N, N, B };
    struct gguf_write *file =
        begin("gpt2", LIST("<bos>", "<unk>", "a", SPACE, SPACE "a", "<0x21>"), types);
    gguf_write_texts(file, KEY("merges"), LIST(SPACE " a"));
    gguf_write_text(file, KEY("pre"), "granite-embed-multi-311m");
    gguf_write_integer(file, KEY("bos_token_id"), 'I', 0);
    gguf_write_integer(file, KEY("unknown_token_id"), 'I', 1);
    struct tokenizer *tokenizer = opened(file);
    token_lines_expect_ids(tokenizer, "a a!", NULL, "0 2 4 5", NULL);
    tokenizer_free(tokenizer);
}

/* No metadata say it: the tokens of Phi-3 take the white space behind them. */
TEST(phi3_takes_space)
{
    const int32_t types[] = { U, C, C, C, N, N, N };
    struct gguf_write *file =
        begin("llama", LIST("<unk>", "<s>", "</s>", "<|user|>", "a", SPACE, SPACE "a"), types);
    add_scores(file, 7);
    gguf_write_text(file, "general.name", "Phi-3-Mini");
    struct tokenizer *tokenizer = opened(file);
    token_lines_expect_ids(tokenizer, "<|user|>\n a<s> a", NULL, "1 3 6 1 5 6", NULL);
    tokenizer_free(tokenizer);
}

/* A token that ends a text is special, whatever its type is. */
TEST(ends_are_special)
{
    const int32_t types[] = { N, D, N, D };
    struct gguf_write *file = begin("gpt2", LIST("a", "<|im_end|>", "<|end|>", "<|other|>"), types);
    gguf_write_texts(file, KEY("merges"), NULL, 0);
    struct tokenizer *tokenizer = opened(file);
    token_lines_expect_ids(tokenizer, "a<|im_end|><|end|><|other|>", NULL, "0 1 2 3", NULL);
    assert_true(tokenizer_is_special(tokenizer, 1) && tokenizer_is_special(tokenizer, 2));
    assert_false(tokenizer_is_special(tokenizer, 3));
    int32_t ids[TOKENIZER_ENDS_MAX];
    assert_int_equal(tokenizer_ends(tokenizer, ids), 2);
    assert_true(ids[0] == 1 && ids[1] == 2);
    assert_int_equal(tokenizer_ends(NULL, ids), 0);
    tokenizer_free(tokenizer);
}

/* Where messages end with others, <|end|> ends a part of one. */
TEST(ends_of_messages)
{
    const int32_t types[] = { N, C, C, C };
    struct gguf_write *file = begin("gpt2", LIST("a", "<|end|>", "<|return|>", "<|call|>"), types);
    gguf_write_texts(file, KEY("merges"), NULL, 0);
    struct tokenizer *tokenizer = opened(file);
    int32_t ids[TOKENIZER_ENDS_MAX];
    assert_int_equal(tokenizer_ends(tokenizer, ids), 2);
    assert_true(ids[0] == 2 && ids[1] == 3);
    tokenizer_free(tokenizer);
}

/* --------------------------------------------------------------- WordPiece -- */

TEST(bert)
{
    const int32_t types[] = { C, C, C, C, N, N, N, N };
    struct gguf_write *file =
        begin("bert",
              LIST("[PAD]", "[UNK]", "[CLS]", "[SEP]", SPACE "the", SPACE "cat", "s", "[unused1]"),
              types);
    gguf_write_integer(file, KEY("cls_token_id"), 'I', 2);
    gguf_write_integer(file, KEY("seperator_token_id"), 'I', 3);
    gguf_write_integer(file, KEY("unknown_token_id"), 'I', 1);
    struct tokenizer *tokenizer = opened(file);
    assert_string_equal(tokenizer_kind(tokenizer), "WordPiece");
    assert_string_equal(tokenizer_token_text(tokenizer, 4), "the");
    assert_string_equal(tokenizer_token_text(tokenizer, 6), "##s");
    assert_string_equal(tokenizer_token_text(tokenizer, 7), "[unused1]");
    token_lines_expect_ids(tokenizer, "The c\xC3\xA1ts s", "cat", "2 4 5 6 1 3 5 3", "00000011");
    token_lines_expect_decoded(tokenizer, (const int32_t[]){ 2, 4, 5, 6, 3 }, 5, "the cats");
    tokenizer_free(tokenizer);
}

TEST(bert_cased)
{
    const int32_t types[] = { C, C, C, N, N };
    struct gguf_write *file =
        begin("bert", LIST("[UNK]", "[CLS]", "[SEP]", SPACE "The", SPACE "caf\xC3\xA9"), types);
    gguf_write_integer(file, KEY("bos_token_id"), 'I', 1);
    gguf_write_integer(file, KEY("seperator_token_id"), 'I', 2);
    gguf_write_integer(file, KEY("unknown_token_id"), 'I', 0);
    gguf_write_bool(file, KEY("normalizer.lowercase"), false);
    struct tokenizer *tokenizer = opened(file);
    token_lines_expect_ids(tokenizer, "The the caf\xC3\xA9", NULL, "1 3 0 4 2", NULL);
    tokenizer_free(tokenizer);
}

/* ----------------------------------------------------------------- Unigram -- */

TEST(t5)
{
    const float scores[] = { 0, 0, 0, -1, -1.5f, -4, -10000 };
    const int32_t types[] = { C, C, U, N, N, N, X };
    struct gguf_write *file =
        begin("t5", LIST("<pad>", "</s>", "<unk>", SPACE "a", "b", SPACE, "[PAD6]"), types);
    gguf_write_numbers(file, KEY("scores"), 'f', scores, 7);
    gguf_write_bool(file, KEY("add_space_prefix"), true);
    gguf_write_bool(file, KEY("remove_extra_whitespaces"), true);
    struct tokenizer *tokenizer = opened(file);
    assert_string_equal(tokenizer_kind(tokenizer), "Unigram");
    token_lines_expect_ids(tokenizer, " ab   a b ", NULL, "3 4 3 5 4 1", NULL);
    token_lines_expect_ids(tokenizer, "zz", "a", "5 2 1 3 1", NULL);
    tokenizer_free(tokenizer);
}

/* ------------------------------------------------------------------ nothing -- */

TEST(no_tokenizer)
{
    static const char *const MODELS[] = { NULL, "none", "no_vocab" };
    for (int i = 0; i < 3; i++) {
        struct gguf_write *file = gguf_write_create(3);
        if (MODELS[i])
            gguf_write_text(file, KEY("model"), MODELS[i]);
        else
            gguf_write_text(file, "general.architecture", "llama");
        gguf_tokenizer_expect_none(file);
        gguf_write_free(file);
    }
}

/* ------------------------------------------------------------- files that lie -- */

static struct gguf_write *of_model(const char *model)
{
    struct gguf_write *file = gguf_write_create(3);
    gguf_write_text(file, KEY("model"), model);
    return file;
}

TEST(models_that_are_not_known)
{
    expect_refused(of_model("rwkv"), KEY("model") " is 'rwkv', which is not known here");
    struct gguf_write *file = gguf_write_create(3);
    gguf_write_integer(file, KEY("model"), 'I', 1);
    expect_refused(file, KEY("model") " is u32; expected a string");
    expect_refused(gpt2("no-such"), KEY("pre") " is 'no-such', a pre-tokenizer that is not known");
    file = gpt2(NULL);
    gguf_write_bool(file, KEY("pre"), true);
    expect_refused(file, KEY("pre") " is bool; expected a string");
}

TEST(tokens_that_are_wrong)
{
    expect_refused(of_model("gpt2"), KEY("tokens") " has 0 elements; expected 1 to");
    struct gguf_write *file = of_model("gpt2");
    gguf_write_texts(file, KEY("tokens"), NULL, 0);
    expect_refused(file, KEY("tokens") " has 0 elements");
    file = of_model("gpt2");
    gguf_write_numbers(file, KEY("tokens"), 'I', (const uint32_t[]){ 1 }, 1);
    expect_refused(file, KEY("tokens") " is array of u32; expected an array of strings");
    file = of_model("gpt2");
    gguf_write_text(file, KEY("tokens"), "a");
    expect_refused(file, KEY("tokens") " is string; expected an array of strings");
    expect_refused(begin("gpt2", LIST("a", "\xFF"), NULL), KEY("tokens") "[1] is not UTF-8");
    expect_refused(begin("gpt2", LIST("a", "b", "a"), NULL),
                   KEY("tokens") " has 'a' twice, at 0 and 2");
    char *large = malloc(2000);
    memset(large, 'a', 1999);
    large[1999] = '\0';
    expect_refused(begin("gpt2", LIST("a", large), (const int32_t[]){ N, C }),
                   KEY("tokens") "[1] has 1999 bytes and the type 3; expected at most 1024");
    free(large);
}

TEST(types_that_are_wrong)
{
    expect_refused(begin("gpt2", LIST("a", "b"), (const int32_t[]){ N, 7 }),
                   KEY("token_type") "[1] is 7; expected 0 to 6");
    expect_refused(begin("gpt2", LIST("a", "b"), (const int32_t[]){ -1, N }),
                   KEY("token_type") "[0] is -1");
    struct gguf_write *file = begin("gpt2", LIST("a", "b"), NULL);
    gguf_write_numbers(file, KEY("token_type"), 'i', (const int32_t[]){ N }, 1);
    expect_refused(file, KEY("token_type") " has 1 elements; " KEY("tokens") " has 2");
    file = begin("gpt2", LIST("a", "b"), NULL);
    gguf_write_numbers(file, KEY("token_type"), 'f', (const float[]){ 1, 1 }, 2);
    expect_refused(file, KEY("token_type") " is array of f32; expected an array of i32");
}

TEST(scores_that_are_wrong)
{
    expect_refused(begin("llama", LLAMA, LLAMA_TYPES), KEY("scores") " is missing");
    struct gguf_write *file = begin("llama", LLAMA, LLAMA_TYPES);
    add_scores(file, 9);
    expect_refused(file, KEY("scores") " has 9 elements; " KEY("tokens") " has 10");
    file = begin("llama", LIST("<unk>", "a"), NULL);
    gguf_write_numbers(file, KEY("scores"), 'f', (const float[]){ 0, NAN }, 2);
    expect_refused(file, KEY("scores") "[1] is not a finite number");
    file = begin("llama", LIST("<unk>", "a"), NULL);
    gguf_write_texts(file, KEY("scores"), LIST("0", "1"));
    expect_refused(file, KEY("scores") "[0] is not a finite number");
}

TEST(merges_that_are_wrong)
{
    static const struct {
        const char *merge, *words;
    } CASES[] = {
        { "ab", "merges[1] is 'ab'; expected two tokens with a space between" },
        { " b", "merges[1] is ' b'; expected two tokens" },
        { "a ", "merges[1] is 'a '; expected two tokens" },
        { "", "merges[1] is ''; expected two tokens" },
        { "z b", "merges[1] has 'z', which is not in " KEY("tokens") },
        { "a z", "merges[1] has 'z', which is not in " KEY("tokens") },
        { "b a", "merges[1] has 'ba', which is not in " KEY("tokens") },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct gguf_write *file = begin("gpt2", GPT2, GPT2_TYPES);
        gguf_write_texts(file, KEY("merges"), LIST("a b", CASES[i].merge));
        expect_refused(file, CASES[i].words);
    }
    expect_refused(begin("gpt2", GPT2, GPT2_TYPES), KEY("merges") " is missing");
}

TEST(ids_that_are_wrong)
{
    static const char *const KEYS[] = { KEY("bos_token_id"),     KEY("eos_token_id"),
                                        KEY("unknown_token_id"), KEY("seperator_token_id"),
                                        KEY("cls_token_id"),     KEY("mask_token_id") };
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
        char words[128];
        struct gguf_write *file = llama();
        gguf_write_integer(file, KEYS[i], 'I', 10);
        snprintf(words, sizeof words, "%s is 10; the file has 10 tokens", KEYS[i]);
        expect_refused(file, words);
    }
    struct gguf_write *file = llama();
    gguf_write_integer(file, KEY("bos_token_id"), 'i', -1);
    expect_refused(file, KEY("bos_token_id") " is -1; the file has 10 tokens");
    file = llama();
    gguf_write_text(file, KEY("bos_token_id"), "<s>");
    expect_refused(file, KEY("bos_token_id") " is string; expected an id");
    file = llama();
    gguf_write_integer(file, KEY("add_bos_token"), 'I', 1);
    expect_refused(file, KEY("add_bos_token") " is u32; expected a bool");
    file = gpt2("gpt-2");
    gguf_write_bool(file, KEY("add_eos_token"), true);
    expect_refused(file, KEY("add_eos_token") " is true, and there is no " KEY("eos_token_id"));
}

TEST(charsmaps_that_are_wrong)
{
    struct gguf_write *file = begin("t5", LIST("<pad>", "</s>", "<unk>", "a"), NULL);
    add_scores(file, 4);
    gguf_write_text(file, KEY("precompiled_charsmap"), "abc");
    expect_refused(file, KEY("precompiled_charsmap") " is string; expected an array of u8");
    file = begin("t5", LIST("<pad>", "</s>", "<unk>", "a"), NULL);
    add_scores(file, 4);
    gguf_write_numbers(file, KEY("precompiled_charsmap"), 'B', "\xFF\xFF\xFF\x7F", 4);
    expect_refused(file, "Precompiled");
}

/* -------------------------------------------------------------------- large -- */

TEST(a_million_tokens)
{
    enum { COUNT = 1000000 };
    char *names = malloc((size_t)COUNT * 8);
    const char **tokens = malloc(COUNT * sizeof *tokens);
    float *scores = malloc(COUNT * sizeof *scores);
    for (int i = 0; i < COUNT; i++) {
        tokens[i] = names + 8 * i;
        snprintf(names + 8 * i, 8, "%c%06d", 'a' + i % 3, i);
        scores[i] = (float)-i;
    }
    static const char *const MODELS[] = { "gpt2", "llama", "t5" };
    for (int i = 0; i < 3; i++) {
        struct gguf_write *file = begin(MODELS[i], tokens, COUNT, NULL);
        gguf_write_texts(file, KEY("merges"), NULL, 0);
        gguf_write_numbers(file, KEY("scores"), 'f', scores, COUNT);
        struct tokenizer *tokenizer = opened(file);
        assert_int_equal(tokenizer_find(tokenizer, "a999999"), 999999);
        assert_int_equal(tokenizer_id_end(tokenizer), COUNT);
        tokenizer_free(tokenizer);
    }
    free(names);
    free(tokens);
    free(scores);
}

TEST(more_found_tokens_than_are_kept)
{
    enum { COUNT = (1 << 18) + 1 };
    char *names = malloc((size_t)COUNT * 8);
    const char **tokens = malloc(COUNT * sizeof *tokens);
    int32_t *types = malloc(COUNT * sizeof *types);
    for (int i = 0; i < COUNT; i++) {
        tokens[i] = names + 8 * i;
        snprintf(names + 8 * i, 8, "x%06d", i);
        types[i] = C;
    }
    expect_refused(begin("gpt2", tokens, COUNT, types),
                   KEY("token_type") " has 262145 tokens that are found in a text");
    free(names);
    free(tokens);
    free(types);
}

/* Every cut of a piece is a merge: as many as a long run of one letter has. */
TEST(more_merges_than_are_kept)
{
    enum { COUNT = 5000 };
    char *run = malloc(COUNT + 1);
    const char **tokens = malloc(COUNT * sizeof *tokens);
    float *scores = calloc(COUNT, sizeof *scores);
    memset(run, 'a', COUNT);
    run[COUNT] = '\0';
    for (int i = 0; i < COUNT; i++)
        tokens[i] = run + i;
    struct gguf_write *file = begin("llama", tokens, COUNT, NULL);
    gguf_write_numbers(file, KEY("scores"), 'f', scores, COUNT);
    expect_refused(file, "the pieces can be made in more than 8388608 ways");
    free(run);
    free(tokens);
    free(scores);
}
