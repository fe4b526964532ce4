/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokenizer_files.c - files of a tokenizer that lie, and the pipeline around a small model.
 *
 * Where a test compares tokens, the expected ones are those of the reference implementation,
 * tokenizers 0.22.2. */
#include "models/tokenizer/tokenizer_internal.h"
#include "test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ----------------------------------------------------------------- helpers -- */

static char directory[64], path[96];

static int make_directory(void **state)
{
    strcpy(directory, "/tmp/attnd-tokenizer-XXXXXX");
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof path, "%s/tokenizer.json", directory);
    return 0;
}

static int remove_directory(void **state)
{
    unlink(path);
    return rmdir(directory);
}

#define WORDS                                                                                      \
    "\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"[UNK]\":0,\"a\":1,\"b\":3},\"unk_token\":\"["  \
    "UNK]\"}"
#define SPACES "\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"}"
#define FLAGS(normalized, special)                                                                 \
    "\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":" normalized           \
    ",\"special\":" special

static struct tokenizer *read_text(const char *text)
{
    struct fault fault = { 0 };
    struct tokenizer *tokenizer = tokenizer_new();
    assert_non_null(tokenizer);
    if (!tokenizer_read_json(tokenizer, text, strlen(text), &fault))
        fail_msg("%s", fault.message);
    return tokenizer;
}

static void expect_refused(const char *text, size_t size, const char *words)
{
    struct fault fault = { 0 };
    struct tokenizer *tokenizer = tokenizer_new();
    assert_non_null(tokenizer);
    if (tokenizer_read_json(tokenizer, text, size, &fault))
        fail_msg("%.300s was taken", text);
    if (strncmp(fault.message, "tokenizer.json: ", 16) != 0 || !strstr(fault.message, words))
        fail_msg("%.300s: '%s'; expected '%s'", text, fault.message, words);
    tokenizer_free(tokenizer);
}

static void format_tokens(const struct token_list *list, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (int64_t i = 0; i < list->count && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%d:%d-%d%s", i > 0 ? " " : "",
                                 list->tokens[i].id, (int)list->tokens[i].start,
                                 (int)list->tokens[i].end, list->tokens[i].is_special ? "!" : "");
}

static void expect_tokens(const struct tokenizer *tokenizer, const char *text, const char *expected)
{
    struct arena arena;
    struct fault fault = { 0 };
    struct token_list list;
    char found[512];
    arena_init(&arena, 1 << 24);
    if (!tokenizer_encode(tokenizer, NULL, (struct byte_slice){ text, strlen(text) }, NULL, true,
                          &arena, &list, &fault))
        fail_msg("%s", fault.message);
    format_tokens(&list, found, sizeof found);
    assert_string_equal(found, expected);
    arena_free(&arena);
}

/* ------------------------------------------------------------------- tests -- */

TEST(lies)
{
    static const char *const FILES[][2] = {
        { "", "tokenizer.json: is empty" },
        { "not JSON", "" },
        { "[1]", "is not an object" },
        { "{}", "model is missing" },
        { "{\"model\":null}", "model is missing" },
        { "{\"model\":7}", "model: is a number" },
        { "{\"model\":{\"type\":\"Magic\"}}",
          "model type 'Magic' is not known here; known: BPE, WordPiece, Unigram, WordLevel" },
        { "{\"version\":\"2.0\"," WORDS "}", "version is '2.0'; expected '1.0'" },
        { "{\"version\":1," WORDS "}", "version is a number" },
        { "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":1,\"b\":1},\"unk_token\":\"a\"}}",
          "'a' and 'b' have the same id, 1" },
        { "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":-1},\"unk_token\":\"a\"}}", "-1" },
        { "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":1e9},\"unk_token\":\"a\"}}", "1" },
        { "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0,\"a\":1},\"unk_token\":\"a\"}}",
          "a" },
        { "{" WORDS ",\"normalizer\":[]}", "normalizer: is an" },
        { "{" WORDS ",\"pre_tokenizer\":{\"type\":\"Foo\"}}", "pre_tokenizer type 'Foo'" },
        { "{" WORDS ",\"post_processor\":{\"type\":\"Foo\"}}", "post_processor type 'Foo'" },
        { "{" WORDS ",\"decoder\":{\"type\":\"Foo\"}}", "decoder type 'Foo'" },
        { "{" WORDS ",\"added_tokens\":{}}", "added_tokens is" },
        { "{" WORDS ",\"added_tokens\":[1,2]}", "added_tokens is an array of numbers" },
        { "{" WORDS ",\"added_tokens\":[{\"id\":3}]}", "content is missing" },
        { "{" WORDS ",\"added_tokens\":[{\"content\":\"x\",\"id\":-1}]}", "id is -1" },
        { "{" WORDS ",\"added_tokens\":[{\"content\":\"x\",\"id\":4," FLAGS("1", "true") "}]}",
          "normalized is a number" },
        /* 'a' is 1 in the model; 3 is the reference's next id, and is b's */
        { "{" WORDS ",\"added_tokens\":[{\"content\":\"a\",\"id\":2," FLAGS("true", "true") "}]}",
          "'a' has id 2; the model has it as 1" },
        { "{" WORDS ",\"added_tokens\":[{\"content\":\"x\",\"id\":9," FLAGS("true", "true") "}]}",
          "the next free id is 3" },
        { "{" WORDS ",\"added_tokens\":[{\"content\":\"x\",\"id\":3," FLAGS("true", "true") "}]}",
          "'b' and 'x' have the same id, 3" },
        { "{" WORDS ",\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"a\\u0000\"}}",
          "prepend has U+0000" },
    };
    for (size_t i = 0; i < sizeof FILES / sizeof FILES[0]; i++)
        expect_refused(FILES[i][0], strlen(FILES[i][0]), FILES[i][1]);
    expect_refused("{\"model\":\"\xFF\"}", 13, "byte");
    expect_refused("{}\0", 3, "");
}

TEST_WITH(sizes, make_directory, remove_directory)
{
    char *bytes;
    size_t size;
    struct fault fault = { 0 };
    const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(file >= 0);
    assert_int_equal(write(file, "{}", 2), 2);
    assert_true(tokenizer_file_read(directory, "tokenizer.json", &bytes, &size, &fault));
    assert_int_equal(size, 2);
    assert_string_equal(bytes, "{}");
    free(bytes);
    assert_int_equal(ftruncate(file, TOKENIZER_FILE_BYTES_MAX + 1), 0);
    close(file);
    assert_false(tokenizer_file_read(directory, "tokenizer.json", &bytes, &size, &fault));
    assert_int_equal(fault.code, FAULT_TOO_LARGE);
    assert_string_equal(fault.message,
                        "tokenizer.json: has 67108865 bytes; expected at most 67108864");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_false(tokenizer_file_read(directory, "tokenizer.json", &bytes, &size, &fault));
    assert_string_equal(fault.message, "tokenizer.json: is not a regular file");
    assert_int_equal(unlink(path), 0);
    assert_true(tokenizer_file_read(directory, "tokenizer.json", &bytes, &size, &fault));
    assert_null(bytes); /* no file is no fault */
    assert_true(tokenizer_file_read("/tmp/there/is/none", "tokenizer.json", &bytes, &size, &fault));
    assert_null(bytes);
}

TEST(long_added_token)
{
    char text[4096], content[1100];
    memset(content, 'x', sizeof content);
    snprintf(text, sizeof text,
             "{" WORDS
             ",\"added_tokens\":[{\"content\":\"%.1025s\",\"id\":3," FLAGS("true", "true") "}]}",
             content);
    expect_refused(text, strlen(text), "has 1025 bytes; expected at most 1024");
}

TEST(holes)
{
    struct tokenizer *tokenizer = read_text("{" WORDS "," SPACES "}");
    assert_string_equal(tokenizer_kind(tokenizer), "WordLevel");
    assert_string_equal(tokenizer_file(tokenizer), "tokenizer.json");
    assert_int_equal(tokenizer_id_end(tokenizer), 4);
    assert_string_equal(tokenizer_token_text(tokenizer, 3), "b");
    assert_null(tokenizer_token_text(tokenizer, 2));
    assert_null(tokenizer_token_text(tokenizer, 4));
    assert_null(tokenizer_token_text(tokenizer, -1));
    assert_int_equal(tokenizer_find(tokenizer, "b"), 3);
    assert_int_equal(tokenizer_find(tokenizer, "c"), -1);
    expect_tokens(tokenizer, "b a  c", "3:0-1 1:2-3 0:5-6");
    expect_tokens(tokenizer, "", "");
    expect_tokens(tokenizer, "  ", "");
    struct text text;
    struct fault fault;
    text_init(&text, 1 << 20);
    assert_true(
        tokenizer_decode(tokenizer, NULL, (const int32_t[]){ 3, 1 }, 2, false, &text, &fault));
    assert_int_equal(text.used, 3);
    assert_memory_equal(text.data, "b a", 3);
    assert_false(
        tokenizer_decode(tokenizer, NULL, (const int32_t[]){ 1, 2 }, 2, false, &text, &fault));
    assert_string_equal(fault.pointer, "/tokens/1");
    assert_string_equal(fault.message, "no token has the id 2");
    text_free(&text);
    tokenizer_free(tokenizer);
}

TEST(invalid_text)
{
    struct tokenizer *tokenizer = read_text("{" WORDS "," SPACES "}");
    struct arena arena;
    struct token_list list;
    struct fault fault;
    arena_init(&arena, 1 << 20);
    const struct byte_slice good = { "a", 1 }, bad = { "a b a b a\xC3(", 11 };
    assert_false(tokenizer_encode(tokenizer, NULL, bad, NULL, true, &arena, &list, &fault));
    assert_string_equal(fault.message, "the text is not UTF-8 at byte 9");
    assert_string_equal(fault.pointer, "/text");
    assert_false(tokenizer_encode(tokenizer, NULL, good, &bad, true, &arena, &list, &fault));
    assert_string_equal(fault.pointer, "/pair");
    assert_true(tokenizer_encode(tokenizer, NULL, good, &good, true, &arena, &list, &fault));
    assert_int_equal(list.count, 2);
    assert_int_equal(list.tokens[1].sequence, 1);
    assert_int_equal(list.tokens[1].type, 1);
    arena_free(&arena);
    tokenizer_free(tokenizer);
}

#define ADDED(content, id, single, left, right, normalized, special)                               \
    "{\"content\":\"" content "\",\"id\":" id ",\"single_word\":" single ",\"lstrip\":" left       \
    ",\"rstrip\":" right ",\"normalized\":" normalized ",\"special\":" special "}"

TEST(added_tokens)
{
    struct tokenizer *tokenizer = read_text(
        "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"?\":0},\"unk_token\":\"?\"},"
        "\"normalizer\":{\"type\":\"Lowercase\"}," SPACES ",\"added_tokens\":[" ADDED(
            "<s>", "1", "false", "false", "false", "false",
            "true") "," ADDED("<s><s>", "2", "false", "false", "false", "false",
                              "true") "," ADDED("[M]", "3", "false", "true", "true", "false",
                                                "true") "," ADDED("Day", "4", "true", "false",
                                                                  "false", "true", "false") "]}");
    expect_tokens(tokenizer, "<s><s><s>", "2:0-6! 1:6-9!");
    expect_tokens(tokenizer, "x [M]\n y", "0:0-1 3:1-7! 0:7-8");
    expect_tokens(tokenizer, "DAY day days x", "4:0-3 4:4-7 0:8-12 0:13-14");
    expect_tokens(tokenizer,
                  "\xC3\xA9"
                  "day",
                  "0:0-5");
    expect_tokens(tokenizer, "<S>", "0:0-3");
    tokenizer_free(tokenizer);
}

/* A token's spaces are those of its own text where the model gave it, or it was found in a text
 * that had been normalized. */
TEST(spaces_of_added_tokens)
{
#define UNKNOWN    ADDED("[UNK]", "0", "false", "false", "false", "false", "false")
#define TWO_SPACES ADDED("  ", "1", "false", "false", "false", "true", "false")
    struct tokenizer *tokenizer = read_text(
        "{\"added_tokens\":[" UNKNOWN "," TWO_SPACES "],\"normalizer\":{\"type\":\"Nmt\"},"
        "\"post_processor\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
        "\"trim_offsets\":true},\"model\":{\"type\":\"WordLevel\","
        "\"vocab\":{\"[UNK]\":0},\"unk_token\":\"[UNK]\"}}");
    expect_tokens(tokenizer, "\xC2\xA0", "0:0-2");
    expect_tokens(tokenizer, "\xE2\x96\x81 ", "1:4-4");
    expect_tokens(tokenizer, "x\xE2\x96\x81 \xC2\xA0", "0:0-1 1:5-5 0:5-7");
    tokenizer_free(tokenizer);
#define TWO_LINES ADDED("\\n\\nHi", "1", "false", "false", "false", "true", "false")
#define ANGSTROM  ADDED("\xC3\x85", "2", "false", "true", "false", "true", "false")
    tokenizer =
        read_text("{\"added_tokens\":[" UNKNOWN "," TWO_LINES "," ANGSTROM "],\"normalizer\":"
                  "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Strip\",\"strip_left\":true,"
                  "\"strip_right\":false},{\"type\":\"NFC\"}]},\"post_processor\":{\"type\":"
                  "\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true},\"model\":{"
                  "\"type\":\"WordLevel\",\"vocab\":{\"[UNK]\":0},\"unk_token\":\"[UNK]\"}}");
    expect_tokens(tokenizer, "xHiy", "0:0-1 1:1-3 0:3-4");
    expect_tokens(tokenizer, "x \xE2\x84\xAB", "0:0-1 2:2-5");
    tokenizer_free(tokenizer);
}

/* Metaspace's scheme "first" is about what stands at the start of the text: a piece whose first
 * character the normalizer deleted does not, whether the text has added tokens or not. */
TEST(deleted_beginning)
{
#define META                                                                                       \
    "\"normalizer\":{\"type\":\"Nmt\"},\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":" \
    "\"_\","                                                                                       \
    "\"prepend_scheme\":\"first\"},\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"?\":0,\"_a\":1," \
    "\"a\":2,\"<s>\":3},\"unk_token\":\"?\"}"
    static const char *const files[] = {
        "{" META "}",
        "{" META
        ",\"added_tokens\":[" ADDED("<s>", "3", "false", "false", "false", "true", "true") "]}",
    };
    for (int i = 0; i < 2; i++) {
        struct tokenizer *tokenizer = read_text(files[i]);
        expect_tokens(tokenizer, "a", "1:0-1");
        expect_tokens(tokenizer,
                      "\x0F"
                      "a",
                      "2:1-2");
        expect_tokens(tokenizer, "a\x0F", "1:0-1");
        tokenizer_free(tokenizer);
    }
}

/* A token that is white space, and takes the white space behind it, looks at each space once. */
TEST(many_spaces)
{
    enum { COUNT = 1 << 20 };
    struct tokenizer *tokenizer = read_text(
        "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"?\":0},\"unk_token\":\"?\"}," SPACES
        ",\"added_tokens\":[" ADDED("\\n", "1", "false", "true", "true", "false", "false") "]}");
    char *text = malloc(COUNT);
    assert_non_null(text);
    memset(text, '\n', COUNT);
    struct arena arena;
    struct token_list list;
    struct fault fault;
    arena_init(&arena, (size_t)1 << 30);
    assert_true(tokenizer_encode(tokenizer, NULL, (struct byte_slice){ text, COUNT }, NULL, false,
                                 &arena, &list, &fault));
    assert_int_equal(list.tokens[0].start, 0);
    assert_int_equal(list.tokens[0].end, COUNT);
    arena_free(&arena);
    free(text);
    tokenizer_free(tokenizer);
}
