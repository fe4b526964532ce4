/* SPDX-License-Identifier: Apache-2.0 */
/* test_text.c - JSON text as it is written: escapes, tensors, and the bound to the byte. */
#include "base/utf8.h"
#include "test.h"
#include "json/text.h"

static void assert_text(const struct text *text, const char *expected)
{
    struct fault fault;
    assert_true(text_finish(text, &fault));
    assert_int_equal(text->used, strlen(expected));
    assert_memory_equal(text->data, expected, text->used);
}

TEST(parts)
{
    struct text text;
    text_init(&text, 1 << 20);
    text_raw(&text, "{");
    text_key(&text, "a");
    text_integer(&text, INT64_MIN);
    text_raw(&text, ",");
    text_key(&text, "b\"");
    text_integer(&text, INT64_MAX);
    text_bytes(&text, ",,,", 1);
    text_key(&text, "c");
    text_float(&text, 0.1f);
    text_raw(&text, ",");
    text_format(&text, "\"%s\":[%d,", "d", 7);
    text_float(&text, NAN);
    text_raw(&text, ",");
    text_float(&text, -INFINITY);
    text_raw(&text, ",");
    text_integer(&text, 0);
    text_raw(&text, "]}");
    assert_text(&text, "{\"a\":-9223372036854775808,\"b\\\"\":9223372036854775807,"
                       "\"c\":0.1,\"d\":[7,null,null,0]}");
    text_free(&text);
}

TEST(string_escapes)
{
    static const struct {
        const char *string, *expected;
    } CASES[] = {
        { "", "\"\"" },
        { "plain", "\"plain\"" },
        { "\"\\/", "\"\\\"\\\\/\"" },
        { "\b\f\n\r\t", "\"\\b\\f\\n\\r\\t\"" },
        { "\x01 \x1f\x7f", "\"\\u0001 \\u001f\x7f\"" },
        { "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"" },
        { "a\xFFz", "\"a\xEF\xBF\xBDz\"" },
        { "\xC3", "\"\xEF\xBF\xBD\"" },
        { "\x80", "\"\xEF\xBF\xBD\"" },
        { "\xC0\xAF", "\"\xEF\xBF\xBD\xEF\xBF\xBD\"" },
        { "\xED\xA0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"" },
        { "\xE2\x82", "\"\xEF\xBF\xBD\xEF\xBF\xBD\"" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct text text;
        text_init(&text, 1000);
        text_string(&text, CASES[i].string);
        assert_text(&text, CASES[i].expected);
        text_free(&text);
    }
}

TEST(decimals)
{
    static const struct {
        int64_t value;
        int places;
        const char *expected;
    } CASES[] = {
        { 0, 0, "0" },
        { 0, 3, "0.000" },
        { 7, 3, "0.007" },
        { 1234, 3, "1.234" },
        { -5, 1, "-0.5" },
        { 1000000, 6, "1.000000" },
        { 123456, 0, "123456" },
        { -70, 2, "-0.70" },
        { INT64_MAX, 6, "9223372036854.775807" },
        { INT64_MIN, 19, "-0.9223372036854775808" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char buffer[32];
        struct text text = text_in(buffer, sizeof buffer);
        text_decimal(&text, CASES[i].value, CASES[i].places);
        assert_text(&text, CASES[i].expected);
    }
}

/* Text that does not fit fails as text beyond any bound does. The last byte stays free for a
 * NUL. */
TEST(buffer_of_the_caller)
{
    char buffer[9] = "........";
    struct text text = text_in(buffer, sizeof buffer);
    text_raw(&text, "12345678");
    assert_text(&text, "12345678");
    assert_int_equal(buffer[8], 0);
    text_raw(&text, "9");
    assert_int_equal(text.failed, FAULT_ANSWER_TOO_LARGE);
    assert_int_equal(text.used, 8);
}

TEST(copies)
{
    char out[5];
    text_copy(out, sizeof out, "");
    assert_string_equal(out, "");
    text_copy(out, sizeof out, "four");
    assert_string_equal(out, "four");
    text_copy(out, sizeof out, "fives");
    assert_string_equal(out, "five");
}

/* Every code that UTF-8 can have passes and ends where it should. Every surrogate, overlong form
 * and larger code is refused. */
TEST(utf8)
{
    for (unsigned code = 0; code <= 0x10FFFF; code++) {
        if (code >= 0xD800 && code <= 0xDFFF)
            continue;
        char bytes[4] = { 0 };
        const size_t size = utf8_encode(bytes, code);
        assert_int_equal(size, code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4);
        assert_int_equal(utf8_character_size(bytes, size), size);
        assert_int_equal(utf8_character_size(bytes, size - 1), 0);
    }
    static const char *const WRONG[] = {
        "\x80",         "\xBF",         "\xC0\x80",         "\xC1\xBF",     "\xC2\x7F",
        "\xC2\xC0",     "\xE0\x80\x80", "\xE0\x9F\xBF",     "\xED\xA0\x80", "\xED\xBF\xBF",
        "\xE1\x80\x7F", "\xEF\xBF\xC0", "\xF0\x8F\xBF\xBF", "\xFF",         "\xF4\x90\x80\x80",
        "\xF5\x80\x80", "\xF1\x80\x80", "\xF1\x80\x80\xC0", "\xFE",
    };
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++)
        assert_int_equal(utf8_character_size(WRONG[i], strlen(WRONG[i])), 0);
    assert_int_equal(utf8_character_size("", 0), 0);
}

TEST(tensors)
{
    const float values[] = { 1, -2.5f, 3, 4, 5, NAN, 7, 8, 9, 10, 11, 12 };
    static const struct {
        int rank;
        int64_t shape[4];
        const char *expected;
    } CASES[] = {
        { 0, { 0 }, "1" },
        { 1, { 0 }, "[]" },
        { 1, { 1 }, "[1]" },
        { 1, { 3 }, "[1,-2.5,3]" },
        { 2, { 2, 3 }, "[[1,-2.5,3],[4,5,null]]" },
        { 2, { 3, 0 }, "[[],[],[]]" },
        { 2, { 0, 3 }, "[]" },
        { 3, { 2, 3, 2 }, "[[[1,-2.5],[3,4],[5,null]],[[7,8],[9,10],[11,12]]]" },
        { 4, { 1, 1, 2, 1 }, "[[[[1],[-2.5]]]]" },
        { 3, { 2, 0, 2 }, "[[],[]]" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct text text;
        text_init(&text, 1000);
        text_tensor(&text, values, CASES[i].rank, CASES[i].shape);
        assert_text(&text, CASES[i].expected);
        text_free(&text);
    }
}

static void write_all(struct text *text)
{
    const float values[] = { 1, -2.5f, 3, 0.125f, 5, 6e-30f };
    const int64_t shape[] = { 2, 3 };
    char long_name[600];
    memset(long_name, 'n', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    text_tensor(text, values, 2, shape);
    text_string(text, "a\nb\xFF");
    text_float(text, 1.5f);
    text_format(text, "<%s>", long_name);
    text_integer(text, 42);
}

/* With a bound of exactly its length a text is whole; with one byte less it fails. */
TEST(bound)
{
    struct text whole;
    text_init(&whole, SIZE_MAX);
    write_all(&whole);
    struct fault fault;
    assert_true(text_finish(&whole, &fault));
    for (size_t bytes_max = 0; bytes_max <= whole.used; bytes_max++) {
        struct text text;
        text_init(&text, bytes_max);
        write_all(&text);
        assert_true(text.used <= bytes_max);
        assert_true(text.capacity <= bytes_max);
        if (bytes_max == whole.used) {
            assert_true(text_finish(&text, &fault));
            assert_int_equal(text.used, whole.used);
            assert_memory_equal(text.data, whole.data, text.used);
        } else {
            assert_false(text_finish(&text, &fault));
            assert_int_equal(fault.code, FAULT_ANSWER_TOO_LARGE);
        }
        text_free(&text);
    }
    text_free(&whole);
}

/* Text that comes after a failure is dropped, however short it is. */
TEST(failure_stays)
{
    struct text text;
    text_init(&text, 10);
    text_raw(&text, "12345678");
    text_raw(&text, "too long");
    text_raw(&text, "9");
    text_float(&text, 1);
    assert_null(text_reserve(&text, 0));
    assert_int_equal(text.used, 8);
    assert_int_equal(text.failed, FAULT_ANSWER_TOO_LARGE);
    text_free(&text);
    assert_int_equal(text.failed, FAULT_NONE); /* and free makes it new */
    text_raw(&text, "1");
    assert_text(&text, "1");
    text_free(&text);
}

TEST(no_memory)
{
    struct text text;
    text_init(&text, SIZE_MAX);
    text_raw(&text, "kept");
    assert_null(text_reserve(&text, SIZE_MAX / 2));
    struct fault fault;
    assert_false(text_finish(&text, &fault));
    assert_int_equal(fault.code, FAULT_MEMORY);
    assert_int_equal(text.used, 4);
    text_free(&text);
}

/* The caller that takes the data sets it to NULL. */
TEST(data_can_be_taken)
{
    struct text text;
    text_init(&text, 100);
    text_raw(&text, "mine");
    char *data = text.data;
    text.data = NULL;
    text_free(&text);
    assert_memory_equal(data, "mine", 4);
    free(data);
    text_free(NULL);
    text_free(&(struct text){ 0 });
}
