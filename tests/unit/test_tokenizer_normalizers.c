/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokenizer_normalizers.c - what each normalizer makes of a text, and the bytes of the text
 * that each new character stands for.
 *
 * The expected values are those of the reference implementation, tokenizers 0.22.2. */
#include "models/tokenizer/pipeline.h"
#include "models/tokenizer/unicode.h"
#include "test.h"

struct normalizer_case {
    const char *node, *text, *expected;
    const char *spans; /* of each character: "0-1 1-3" */
};

static const struct normalizer_case CASES[] = {
    { "{\"type\":\"NFC\"}",
      "e\xcc\x81"
      "a\xcc\xa3\xcc\x87",
      "\xc3\xa9\xe1\xba\xa1\xcc\x87", "0-1 3-4 6-8" },
    { "{\"type\":\"NFC\"}", "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8", "\xea\xb0\x81", "0-3" },
    { "{\"type\":\"NFC\"}", "\xcd\x84x", "\xcc\x88\xcc\x81x", "0-2 0-2 2-3" },
    { "{\"type\":\"NFC\"}", "\xf0\x91\xa4\xb5\xf0\x91\xa4\xb0", "\xf0\x91\xa4\xb5\xf0\x91\xa4\xb0",
      "0-4 4-8" },
    { "{\"type\":\"NFC\"}", "\xe2\x84\xab", "\xc3\x85", "0-3" },
    { "{\"type\":\"NFD\"}", "\xc3\xa9\xe1\xbb\x87",
      "e\xcc\x81"
      "e\xcc\xa3\xcc\x82",
      "0-2 0-2 2-5 2-5 2-5" },
    { "{\"type\":\"NFD\"}", "\xea\xb0\x81", "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8", "0-3 0-3 0-3" },
    { "{\"type\":\"NFD\"}", "a\xcc\x87\xcc\xa3", "a\xcc\xa3\xcc\x87", "0-1 1-3 3-5" },
    { "{\"type\":\"NFD\"}", "\xf0\x91\xa4\xb8", "\xf0\x91\xa4\xb8", "0-4" },
    { "{\"type\":\"NFKC\"}", "\xef\xac\x81 \xe2\x91\xa0 \xc2\xbd",
      "fi 1 1\xe2\x81\x84"
      "2",
      "0-3 0-3 3-4 4-7 7-8 8-10 8-10 8-10" },
    { "{\"type\":\"NFKC\"}", "\xe3\x8b\xbf", "\xe3\x8b\xbf", "0-3" },
    { "{\"type\":\"NFKC\"}", "\xef\xbd\xb6\xef\xbe\x9e", "\xe3\x82\xac", "0-3" },
    { "{\"type\":\"NFKC\"}", "\xef\xb7\xba",
      "\xd8\xb5\xd9\x84\xd9\x89 \xd8\xa7\xd9\x84\xd9\x84\xd9\x87 \xd8\xb9\xd9\x84\xd9\x8a\xd9\x87 "
      "\xd9\x88\xd8\xb3\xd9\x84\xd9\x85",
      "0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3" },
    { "{\"type\":\"NFKD\"}", "\xef\xac\x81\xe1\xba\x9b\xcc\xa3", "fis\xcc\xa3\xcc\x87",
      "0-3 0-3 3-6 6-8 6-8" },
    { "{\"type\":\"Lowercase\"}",
      "\xc4\xb0"
      "A\xc7\x84",
      "i\xcc\x87"
      "a\xc7\x86",
      "0-2 0-2 2-3 3-5" },
    { "{\"type\":\"Lowercase\"}", "\xe1\xb2\x89\xea\x9f\x9a", "\xe1\xb2\x8a\xea\x9f\x9b",
      "0-3 3-6" },
    { "{\"type\":\"StripAccents\"}", "e\xcc\x81\xe0\xa4\x83\xe1\xb3\xb2x", "ex", "0-1 9-10" },
    { "{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}",
      " \x09\xe3\x80\x80"
      "a b\xe2\x80\xa8 ",
      "a b", "5-6 6-7 7-8" },
    { "{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}", "   ", "", "" },
    { "{\"type\":\"Strip\",\"strip_left\":false,\"strip_right\":true}", " a ", " a", "0-1 1-2" },
    { "{\"type\":\"Nmt\"}",
      "a\x01\x09"
      "b\xe2\x80\x8d\xef\xbb\xbc\xe2\x96\x81",
      "a b \xef\xbb\xbc ", "0-1 2-3 3-4 4-7 7-10 10-13" },
    { "{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,\"strip_"
      "accents\":null,\"lowercase\":true}",
      "H\xc3\x89llo\xc2\xa0\xe4\xb8\xad\xe6\x96\x87\xc2\xad\xef\xbf\xbd!",
      "hello  \xe4\xb8\xad  \xe6\x96\x87 !",
      "0-1 1-3 3-4 4-5 5-6 6-8 8-11 8-11 8-11 11-14 11-14 11-14 19-20" },
    { "{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,\"strip_"
      "accents\":null,\"lowercase\":true}",
      "\xc4\xb0\xcd\xb8\xe0\xa2\x90", "i\xcd\xb8\xe0\xa2\x90", "0-2 2-4 4-7" },
    { "{\"type\":\"BertNormalizer\",\"clean_text\":false,\"handle_chinese_chars\":false,\"strip_"
      "accents\":false,\"lowercase\":true}",
      "\xc3\x89\x01\xe4\xb8\xad", "\xc3\xa9\x01\xe4\xb8\xad", "0-2 2-3 3-6" },
    { "{\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"}", "\xc3\xa9t", "\xe2\x96\x81\xc3\xa9t",
      "0-2 0-2 2-3" },
    { "{\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"}", "", "", "" },
    { "{\"type\":\"ByteLevel\"}", "a \xc3\xa9\x0a", "a\xc4\xa0\xc3\x83\xc2\xa9\xc4\x8a",
      "0-1 1-2 2-4 2-4 4-5" },
    { "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\xe2\x96\x81\"}",
      "a  \xc3\xa9 ", "a\xe2\x96\x81\xe2\x96\x81\xc3\xa9\xe2\x96\x81", "0-1 1-2 2-3 3-5 5-6" },
    { "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\" \"}", "a   b c  ",
      "a b c ", "0-1 3-4 4-5 5-6 6-7 8-9" },
    { "{\"type\":\"Replace\",\"pattern\":{\"String\":\"ab\"},\"content\":\"\"}",
      "xabab\xc3\xa9"
      "ab",
      "x\xc3\xa9", "0-1 5-7" },
    { "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"},{\"type\":\"Lowercase\"},{"
      "\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"},{\"type\":\"Replace\",\"pattern\":{"
      "\"String\":\" \"},\"content\":\"\xe2\x96\x81\"}]}",
      "\xef\xac\x83 \xc3\x85",
      "\xe2\x96\x81"
      "ffi\xe2\x96\x81\xc3\xa5",
      "0-3 0-3 0-3 0-3 3-4 4-6" },
    { "{\"type\":\"Sequence\",\"normalizers\":[]}", "aB", "aB", "0-1 1-2" },
};

/* A normalizer, and what it lives in. */
struct built {
    struct json_document document;
    struct arena arena;
    struct pipeline_build build;
    struct step normalizer;
    struct fault fault;
};

static bool build(struct built *built, const char *node)
{
    *built = (struct built){ 0 };
    arena_init(&built->arena, 1 << 24);
    assert_true(json_read(&built->document, node, strlen(node), &(struct json_options){ 0 },
                          &built->fault));
    built->build = (struct pipeline_build){
        .file = "tokenizer.json",
        .document = &built->document,
        .arena = &built->arena,
        .fault = &built->fault,
    };
    return normalizer_read(&built->build, built->document.root, &built->normalizer);
}

static void built_free(struct built *built)
{
    for (int64_t i = 0; i < built->build.regex_count; i++)
        regex_free(built->build.regexes[i]);
    free(built->build.regexes);
    json_free(&built->document);
    arena_free(&built->arena);
}

static void normalize(const struct built *built, struct pieces *pieces, const char *text,
                      size_t size, struct arena *arena)
{
    struct fault fault;
    static struct work_limit limit; /* no test comes near its end */
    work_limit_init(&limit, NULL);
    assert_true(pieces_init(pieces, text, (int64_t)size, &limit, arena, &fault));
    assert_true(pipeline_run(&built->normalizer, pieces, &fault));
}

static void format_spans(const struct pieces *pieces, const struct piece *piece, char *out,
                         size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t at = piece->start; at < piece->end && used < size;) {
        uint32_t code;
        const uint32_t length = unicode_decode(pieces->bytes + at, &code);
        const struct pieces_span span = pieces_span(pieces, at, at + length);
        used += (size_t)snprintf(out + used, size - used, "%s%u-%u", used > 0 ? " " : "",
                                 span.start, span.end);
        at += length;
    }
}

static void expect_case(const struct normalizer_case *c)
{
    struct built built;
    struct arena arena;
    struct pieces pieces;
    arena_init(&arena, 1 << 24);
    assert_true(build(&built, c->node));
    normalize(&built, &pieces, c->text, strlen(c->text), &arena);
    const struct piece none = { .id = -1 };
    const struct piece *piece = pieces.count > 0 ? &pieces.list[0] : &none;
    char spans[512];
    format_spans(&pieces, piece, spans, sizeof spans);
    const size_t size = piece->end - piece->start;
    const bool is_same =
        size == strlen(c->expected)
        && (size == 0 || memcmp(pieces.bytes + piece->start, c->expected, size) == 0);
    if (!is_same || strcmp(spans, c->spans) != 0)
        fail_msg("%s of '%s': '%.*s' %s; expected '%s' %s", c->node, c->text, (int)size,
                 pieces.bytes + piece->start, spans, c->expected, c->spans);
    arena_free(&arena);
    built_free(&built);
}

TEST(cases)
{
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        expect_case(&CASES[i]);
}

/* One string of a million marks is ordered in one go. */
TEST(long_marks)
{
    enum { COUNT = 1 << 20 };
    struct built built;
    struct arena arena;
    struct pieces pieces;
    arena_init(&arena, (size_t)1 << 30);
    char *text = malloc(1 + 2 * COUNT);
    assert_non_null(text);
    text[0] = 'a';
    for (size_t i = 0; i < COUNT; i++)
        memcpy(text + 1 + 2 * i, i % 2 ? "\xCC\xA3" : "\xCC\x81", 2);
    assert_true(build(&built, JSON({"type":"NFC"})));
    normalize(&built, &pieces, text, 1 + 2 * COUNT, &arena);
    assert_int_equal(pieces.count, 1);
    assert_memory_equal(pieces.bytes, "\xE1\xBA\xA1\xCC\xA3", 5); /* the first U+0323 composes */
    assert_memory_equal(pieces.bytes + pieces.size - 2, "\xCC\x81", 2);
    free(text);
    arena_free(&arena);
    built_free(&built);
}

TEST(faults)
{
    static const char *const NODES[][2] = {
        { "{\"type\":\"Foo\"}",
          "tokenizer.json: normalizer type 'Foo' is not known here; known: Sequence, Bert" },
        { "{\"type\":7}", "tokenizer.json: normalizer: type is a number; expected a string" },
        { "{}", "tokenizer.json: normalizer: type is missing" },
        { "[{}]", "tokenizer.json: normalizer: is an array; expected an object" },
        { "{\"type\":\"Strip\",\"strip_left\":1,\"strip_right\":true}",
          "normalizer Strip: strip_left is a number; expected true or false" },
        { "{\"type\":\"Sequence\",\"normalizers\":[1,2]}",
          "normalizers is an array of numbers; expected an array of objects" },
        { "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Bar\"}]}", "type 'Bar'" },
        { "{\"type\":\"Replace\",\"pattern\":{},\"content\":\"\"}",
          "pattern has not one of String and Regex" },
        { "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(\"},\"content\":\"\"}", "(" },
        { "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAA\"}", "is not base64" },
        { "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"/////wAA\"}", "has no trie" },
        { "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"BAAAAAAAAAD/\"}", "not UTF-8" },
    };
    for (size_t i = 0; i < sizeof NODES / sizeof NODES[0]; i++) {
        struct built built;
        assert_false(build(&built, NODES[i][0]));
        if (!strstr(built.fault.message, NODES[i][1]))
            fail_msg("%s: %s; expected %s", NODES[i][0], built.fault.message, NODES[i][1]);
        built_free(&built);
    }
}

/* A trie whose offsets lead out of it finds nothing. */
TEST(trie_that_lies)
{
    struct built built;
    struct arena arena;
    struct pieces pieces;
    arena_init(&arena, 1 << 20);
    assert_true(build(&built, JSON({"type":"Precompiled","precompiled_charsmap":"BAAAAP///39h"})));
    normalize(&built, &pieces, "a\xC3\xA9", 3, &arena);
    assert_int_equal(pieces.size, 3);
    arena_free(&arena);
    built_free(&built);
}
