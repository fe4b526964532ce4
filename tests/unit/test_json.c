/* SPDX-License-Identifier: Apache-2.0 */
/* test_json.c - which texts json_read() takes, and which fault it gives for the others, and where.
 *
 * Each text ends at an unreadable page. Each fault is checked with its byte offset or its
 * pointer. test_json_arrays.c tests arrays. */
#include "guarded_json.h"
#include "test.h"
#include "json/text.h"

#include <time.h>

static const struct json_options STRICT = { .nonfinite_allowed = false };

static void expect_fault(const char *text, size_t size, enum fault_code code, const char *words)
{
    struct json_document document;
    struct fault fault = { 0 };
    const bool good = guarded_json_read(&document, text, size, &STRICT, &fault);
    if (good || fault.code != code || !strstr(fault.message, words)) {
        print_error("%.*s: %s, want %s: %s\n", (int)size, text,
                    good ? "taken" : fault_code_name(fault.code), words, fault.message);
        fail();
    }
    assert_null(document.root);
    assert_null(document.arrays);
    assert_null(document.values);
    json_free(&document);
}

/* The text is refused, and the message ends with the offset. */
static void expect_malformed(const char *text, size_t size, long offset)
{
    char words[32];
    snprintf(words, sizeof words, " at byte %ld", offset);
    expect_fault(text, size, FAULT_JSON, words);
    struct json_document document;
    struct fault fault;
    guarded_json_read(&document, text, size, &STRICT, &fault);
    assert_string_equal(fault.message + strlen(fault.message) - strlen(words), words);
}

TEST(good_texts)
{
    static const char *const TEXTS[] = {
        "0",
        "-0",
        "1e5",
        "true",
        "false",
        "null",
        "\"\"",
        "{}",
        "[]",
        " \t\r\n{ \"a\" : [ ] , \"b\" : { } }\n",
        "[1,[2,[\"x\"]],3]",
        "[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0001\\u00e9\\uD834\\uDD1E\"]",
        "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\x7F\"",
        "{\"\":1}",
        "{\"a\":1,\"A\":2,\"a \":3}",
        "[{\"a\":1},{\"a\":1}]",
        "[\"a\",true,null,-1.5e-7,[],[[]],{}]",
        "\"an eight byte loop \\u0041 must see all: 12345678\\n\"",
        "1e999",
        "{\"long\":0.12345678901234567890123456789012345678901234567890123456789012345678901}",
    };
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        struct json_document document;
        assert_true(guarded_json_takes(&document, TEXTS[i]));
        assert_non_null(document.root);
        json_free(&document);
    }
}

/* Each text with the offset of the wrong byte. */
static const struct {
    const char *text;
    long offset;
} MALFORMED[] = {
    { "", 0 },
    { " ", 1 },
    { "\n\t", 2 },
    { "\xEF\xBB\xBF{}", 0 },
    { "{} {}", 3 },
    { "{}x", 2 },
    { "1 2", 2 },
    { "[1]]", 3 },
    { "nul", 0 },
    { "True", 0 },
    { "nulll", 4 },
    { "'a'", 0 },
    { "{a:1}", 1 },
    { "{'a':1}", 1 },
    { "{\"a\" 1}", 5 },
    { "{\"a\"}", 4 },
    { "{\"a\":}", 5 },
    { "{\"a\":1,}", 7 },
    { "{,}", 1 },
    { "{\"a\":1 \"b\":2}", 7 },
    { "{1:2}", 1 },
    { "{\"a\":1", 6 },
    { "{\"a\":1,", 7 },
    { "{\"a\"", 4 },
    { "{", 1 },
    { "[", 1 },
    { "[1", 2 },
    { "[1,", 3 },
    { "[1,]", 3 },
    { "[,1]", 1 },
    { "[1,,2]", 3 },
    { "[1 2]", 3 },
    { "[1}", 2 },
    { "[\"a\",]", 5 },
    { "[\"a\" \"b\"]", 5 },
    { "[\"a\"", 4 },
    { "[[1],[2]", 8 },
    { "[[1],[2}]", 7 },
    { "[[1][2]]", 4 },
    { "[tru]", 1 },
    { "[truetrue]", 5 },
    { "[01]", 1 },
    { "[-01]", 1 },
    { "[+1]", 1 },
    { "[.5]", 1 },
    { "[5.]", 1 },
    { "[1e]", 1 },
    { "[1e+]", 1 },
    { "[-]", 1 },
    { "[0x10]", 2 },
    { "[1.5.5]", 4 },
    { "[NaN]", 1 },
    { "[Infinity]", 1 },
    { "[-Infinity]", 1 },
    { "[nan]", 1 },
    { "[1,inf]", 3 },
    { "01", 0 },
    { "-", 0 },
    { "{\"a\":+1}", 5 },
    { "{\"a\":1.}", 5 },
    { "{\"a\":NaN}", 5 },
    { "[1/*c*/]", 2 },
    { "//\n1", 0 },
    { "[1\f]", 2 },
    { "[1\v]", 2 },
    { "[1\xC2\xA0]", 2 },
    { "\"", 0 },
    { "[\"abc", 1 },
    { "\"a\nb\"", 2 },
    { "\"12345678901234567\t\"", 18 },
    { "\"\x1F\"", 1 },
    { "\"\\", 1 },
    { "\"\\x41\"", 1 },
    { "\"\\'\"", 1 },
    { "\"\\U0041\"", 1 },
    { "\"\\u004\"", 1 },
    { "\"\\u004g\"", 1 },
    { "\"\\u", 1 },
    { "\"\\u0000\"", 1 },
    { "\"ab\\uD800\"", 3 },
    { "\"\\uD800\\u0041\"", 1 },
    { "\"\\uD800\\n\"", 1 },
    { "\"\\uD800\\uD800\"", 1 },
    { "\"\\uDC00\"", 1 },
    { "\"\\uDC00\\uD800\"", 1 },
    { "\"\\uD800\\u\"", 1 },
    { "\"\x80\"", 1 },
    { "\"a\xC3\"", 2 },
    { "\"\xC0\x80\"", 1 },
    { "\"\xED\xA0\x80\"", 1 },
    { "\"\xF4\x90\x80\x80\"", 1 },
    { "\"\xF8\x88\x80\x80\x80\"", 1 },
    { "\"\xE2\x82", 1 },
    { "{\"\xFF\":1}", 2 },
    { "{\"a\":1,\"a\":2", 12 }, /* a syntax error before a duplicate */
};

TEST(malformed_texts)
{
    for (size_t i = 0; i < sizeof MALFORMED / sizeof MALFORMED[0]; i++)
        expect_malformed(MALFORMED[i].text, strlen(MALFORMED[i].text), MALFORMED[i].offset);
}

/* Every byte at every place of a string, because the reader looks at eight bytes together. */
TEST(strings_byte_by_byte)
{
    char text[] = "\"abcdefghijklmnopqrstuvwx\"";
    for (size_t place = 1; place + 2 < sizeof text; place++)
        for (int byte = 0; byte < 256; byte++) {
            const char kept = text[place];
            text[place] = (char)byte;
            if (byte < 0x20 || byte >= 0x80) {
                expect_malformed(text, sizeof text - 1, (long)place);
            } else if (byte == '"') {
                expect_malformed(text, sizeof text - 1, (long)place + 1);
            } else if (byte != '\\') {
                struct json_document document;
                assert_true(guarded_json_takes(&document, text));
                assert_memory_equal(document.root->valuestring, text + 1, sizeof text - 3);
                json_free(&document);
            }
            text[place] = kept;
        }
}

TEST(malformed_texts_with_nul)
{
    expect_malformed("\0", 1, 0);
    expect_malformed("[1]\0", 4, 3);
    expect_malformed("[1\0]", 4, 2);
    expect_malformed("\"a\0b\"", 5, 2);
    expect_malformed("{\"a\"\0:1}", 8, 4);
    expect_malformed("nu\0l", 4, 0);
}

/* Every beginning of a text that is not whole is malformed, and no byte after it is read. */
TEST(truncated)
{
    static const char TEXT[] = "{\"a\":[[1.5,-2e-3],[true,null]],\"b\":[\"\\u00e9\xC3\xA9\",{\"c\":"
                               "[]}],\"d\":{\"e\":-12.5e+3,\"f\":false}}";
    for (size_t size = 0; size + 1 < sizeof TEXT; size++)
        expect_fault(TEXT, size, FAULT_JSON, " at byte ");
    struct json_document document;
    assert_true(guarded_json_takes(&document, TEXT));
    json_free(&document);
}

TEST(messages)
{
    static const struct {
        const char *text, *message;
    } CASES[] = {
        { "", "the body is empty; expected a JSON value at byte 0" },
        { "[1 2]", "malformed JSON: expected ',' or ']', got '2' at byte 3" },
        { "{\"a\":1", "malformed JSON: expected ',' or '}', but the text ends at byte 6" },
        { "[\x07]", "malformed JSON: expected a value, got 0x07 at byte 1" },
        { "[01]", "malformed JSON: a number that JSON does not have begins at byte 1" },
        { "[NaN]", "malformed JSON: NaN and Infinity are not JSON: in a mask null is -Infinity, "
                   "and tensors as bytes hold any number; at byte 1" },
        { "\"\\uD800\"", "malformed JSON: half of a surrogate pair at byte 1" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct json_document document;
        struct fault fault;
        assert_false(
            guarded_json_read(&document, CASES[i].text, strlen(CASES[i].text), &STRICT, &fault));
        assert_string_equal(fault.message, CASES[i].message);
        assert_string_equal(fault.pointer, "");
    }
}

TEST(depth)
{
    static const char *const KINDS[][2] = { { "[", "]" },
                                            { "{\"a\":", "}" },
                                            { "[{\"a\":", "}]" } };
    for (size_t kind = 0; kind < 3; kind++)
        for (int strings = 0; strings < 2; strings++)
            for (int depth = 62; depth <= 68; depth += 2) {
                struct text text;
                text_init(&text, SIZE_MAX);
                const int repeats = kind == 2 ? depth / 2 : depth;
                for (int i = 0; i < repeats; i++)
                    text_raw(&text, KINDS[kind][0]);
                text_raw(&text, strings ? "\"x\"" : "1");
                for (int i = 0; i < repeats; i++)
                    text_raw(&text, KINDS[kind][1]);
                struct json_document document;
                struct fault fault;
                const bool good =
                    guarded_json_read(&document, text.data, text.used, &STRICT, &fault);
                assert_int_equal(good, depth <= JSON_DEPTH_MAX);
                if (!good) {
                    assert_int_equal(fault.code, FAULT_JSON);
                    assert_non_null(strstr(fault.message, "nested deeper than 64 at byte "));
                }
                json_free(&document);
                text_free(&text);
            }
}

TEST(endless_brackets)
{
    static char text[65536];
    memset(text, '[', sizeof text);
    expect_malformed(text, sizeof text, 64);
}

TEST(scalars)
{
    struct json_document document;
    assert_true(guarded_json_takes(
        &document, "{\"a\":0.5,\"b\":-12,\"c\":1e999,\"d\":true,\"e\":\"\\u00e9\\ud834\\udd1e\","
                   "\"f\":0.1000000000000000055511151231257827021181583404541015625000000"
                   "000000000000000000000000000000000000000001}"));
    const cJSON *root = document.root;
    assert_true(cJSON_GetObjectItemCaseSensitive(root, "a")->valuedouble == 0.5);
    assert_true(cJSON_GetObjectItemCaseSensitive(root, "b")->valuedouble == -12);
    assert_true(cJSON_GetObjectItemCaseSensitive(root, "c")->valuedouble == INFINITY);
    assert_true(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(root, "d")));
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(root, "e")->valuestring,
                        "\xC3\xA9\xF0\x9D\x84\x9E");
    assert_true(cJSON_GetObjectItemCaseSensitive(root, "f")->valuedouble == 0.1);
    json_free(&document);
}

TEST(duplicates)
{
    static const struct {
        const char *text, *pointer;
    } CASES[] = {
        { "{\"a\":1,\"a\":2}", "/a" },
        { "{\"a\":1,\"b\":2,\"\\u0061\":[3]}", "/a" },
        { "{\"x\":{\"y\":[\"s\",{\"k\":1,\"k\":1}]}}", "/x/y/1/k" },
        { "{\"a/b\":{\"~\":1,\"~\":2}}", "/a~1b/~0" },
        { "{\"\":1,\"\":2}", "/" },
        { "[[[{\"\xC3\xA9\":1,\"\\u00E9\":1}]]]", "/0/0/0/\xC3\xA9" },
        { "[1,{\"a\":{},\"b\":{},\"a\":{}}]", "/1/a" },
        { "{\"1\":1,\"2\":1,\"3\":1,\"4\":1,\"5\":1,\"6\":1,\"7\":1,\"8\":1,\"9\":1,\"10\":1,"
          "\"11\":1,\"12\":1,\"13\":1,\"14\":1,\"15\":1,\"16\":1,\"17\":1,\"9\":1}",
          "/9" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        expect_fault(CASES[i].text, strlen(CASES[i].text), FAULT_DUPLICATE, "twice");
        struct json_document document;
        struct fault fault;
        guarded_json_read(&document, CASES[i].text, strlen(CASES[i].text), &STRICT, &fault);
        assert_string_equal(fault.pointer, CASES[i].pointer);
    }
}

/* If a pointer does not fit, the pointer of an enclosing object stands in its place. */
TEST(duplicate_far_down)
{
    struct text text;
    text_init(&text, SIZE_MAX);
    for (int i = 0; i < 10; i++)
        text_raw(&text, "{\"a_key_of_twenty_byte\":");
    text_raw(&text, JSON({"k":1,"k":1}));
    for (int i = 0; i < 10; i++)
        text_raw(&text, "}");
    struct json_document document;
    struct fault fault;
    assert_false(guarded_json_read(&document, text.data, text.used, &STRICT, &fault));
    assert_int_equal(fault.code, FAULT_DUPLICATE);
    const size_t step = strlen("/a_key_of_twenty_byte");
    assert_int_equal(strlen(fault.pointer) % step, 0);
    assert_true(strlen(fault.pointer) >= 4 * step);
    for (size_t i = 0; i < strlen(fault.pointer); i += step)
        assert_memory_equal(fault.pointer + i, "/a_key_of_twenty_byte", step);
    text_free(&text);
}

static void make_keys(struct text *text, int count, const char *last)
{
    text_init(text, SIZE_MAX);
    text_raw(text, "{");
    for (int i = 0; i < count; i++)
        text_format(text, "\"%d\":1,", i);
    text_format(text, "\"%s\":1}", last);
}

/* Comparing every key with every other would take 2^34 comparisons: minutes, and more under a
 * sanitizer. */
TEST(many_keys)
{
    struct text text;
    make_keys(&text, 200000, "other");
    struct json_document document;
    struct fault fault;
    const clock_t begin = clock();
    assert_true(json_read(&document, text.data, text.used, &STRICT, &fault));
    assert_true(clock() - begin < 30 * CLOCKS_PER_SEC);
    json_free(&document);
    text_free(&text);
    make_keys(&text, 200000, "123456");
    assert_false(json_read(&document, text.data, text.used, &STRICT, &fault));
    assert_int_equal(fault.code, FAULT_DUPLICATE);
    assert_string_equal(fault.pointer, "/123456");
    text_free(&text);
}

TEST(envelope_limit)
{
    for (int i = 0; i < 4; i++) {
        const struct json_options options = { .values_max = i < 2 ? 0 : JSON_REQUEST_VALUES_MAX };
        const int more = i % 2, most = i < 2 ? JSON_ENVELOPE_VALUES_MAX : JSON_REQUEST_VALUES_MAX;
        struct text text;
        text_init(&text, SIZE_MAX);
        text_raw(&text, "[\"s\"");
        for (int j = 2; j < most + more; j++)
            text_raw(&text, ",1");
        text_raw(&text, "]");
        struct json_document document;
        struct fault fault;
        assert_int_equal(json_read(&document, text.data, text.used, &options, &fault), !more);
        if (more)
            assert_int_equal(fault.code, FAULT_TOO_LARGE);
        json_free(&document);
        text_free(&text);
    }
}

static int allocations_left;

static void *limited_malloc(size_t size)
{
    return allocations_left-- > 0 ? malloc(size) : NULL;
}

/* Wherever cJSON runs out of memory, the fault is "memory" and nothing leaks. */
TEST(no_memory_for_the_tree)
{
    static const char TEXT[] = JSON({"a":[1,2],"b":["x",{"c":null}],"d":1.5});
    cJSON_Hooks hooks = { .malloc_fn = limited_malloc, .free_fn = free };
    cJSON_InitHooks(&hooks);
    struct json_document document;
    struct fault fault;
    int failures = 0;
    for (bool done = false; !done; failures++) {
        allocations_left = failures;
        done = guarded_json_read(&document, TEXT, sizeof TEXT - 1, &STRICT, &fault);
        if (!done) {
            assert_int_equal(fault.code, FAULT_MEMORY);
            assert_null(document.root);
        }
    }
    cJSON_InitHooks(NULL);
    assert_true(failures > 10);
    json_free(&document);
}

TEST(free_of_nothing)
{
    json_free(NULL);
    struct json_document document = { 0 };
    json_free(&document);
    assert_true(guarded_json_takes(&document, "[1]"));
    json_free(&document);
    json_free(&document);
}
