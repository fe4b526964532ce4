/* SPDX-License-Identifier: Apache-2.0 */
/* test_json_numbers.c - float32 and text, compared with strtof() and printf().
 *
 * glibc promises that its two functions are exact, so they are the judge. What we read must be
 * strtof()'s float to the bit. What we write must read back as the same float, and no decimal of
 * fewer digits may do so (printf finds the nearest of each length). The numbers are the ones
 * where rounding goes wrong: exact ties and their nearest neighbours, denormals, powers of two
 * and ten, the ends of the range, very many digits; and every n-th of all floats. */
#include "guard.h"
#include "test.h"
#include "json/json_numbers.h"

#include <float.h>

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t random_next(void)
{
    static uint64_t state = 0x9E3779B97F4A7C15;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* The whole text reads as strtof() reads it, and so does its negative. */
static void check_read(const char *text)
{
    char negative[4096] = "-";
    const size_t size = strlen(text);
    float value = 1234;
    const char *after = json_read_float(text, text + size, &value);
    const float expected = strtof(text, NULL);
    if (after != text + size || bits_of(value) != bits_of(expected)) {
        print_error("%s: got %a, want %a\n", text, (double)value, (double)expected);
        fail();
    }
    if (text[0] == '-' || size > sizeof negative - 2)
        return;
    memcpy(negative + 1, text, size + 1);
    check_read(negative);
}

/* The digits of a number without sign, point, exponent and zeros at either end. */
static size_t significant_digits(const char *text, char *digits)
{
    size_t count = 0;
    for (; *text && *text != 'e'; text++)
        if (*text >= '0' && *text <= '9' && (*text != '0' || count > 0))
            digits[count++] = *text;
    while (count > 0 && digits[count - 1] == '0')
        count--;
    digits[count] = '\0';
    return count;
}

/* The text that is written for value reads back, by both readers. No shorter decimal does. Of
 * the decimals of that length it is the nearest. */
static void check_write(float value)
{
    char text[64], digits[64], other[64], other_digits[64];
    memset(text, 'Z', sizeof text);
    const size_t size = json_write_float(text, value);
    assert_true(size < JSON_FLOAT_BYTES_MAX);
    for (size_t i = JSON_FLOAT_BYTES_MAX; i < sizeof text; i++)
        assert_int_equal(text[i], 'Z');
    text[size] = '\0';
    float back;
    assert_ptr_equal(json_read_float(text, text + size, &back), text + size);
    if (bits_of(back) != bits_of(value) || bits_of(strtof(text, NULL)) != bits_of(value)) {
        print_error("%a became %s\n", (double)value, text);
        fail();
    }
    const int count = (int)significant_digits(text, digits);
    if (count > 1) {
        snprintf(other, sizeof other, "%.*e", count - 2, (double)value);
        if (strtof(other, NULL) == value) {
            print_error("%s is longer than %s\n", text, other);
            fail();
        }
    }
    if (count > 0) {
        snprintf(other, sizeof other, "%.*e", count - 1, (double)value);
        significant_digits(other, other_digits);
        if (strtof(other, NULL) == value && strcmp(digits, other_digits) != 0) {
            print_error("%s is not as near as %s\n", text, other);
            fail();
        }
    }
}

/* The middle between two floats, and numbers just below and above it, all exact: printf() writes
 * any double to its last digit. */
static void check_middle(double middle)
{
    char text[512], near[640];
    for (int digits = 8; digits < 24; digits++) { /* what lies near it with few digits */
        snprintf(text, sizeof text, "%.*e", digits, middle);
        check_read(text);
    }
    snprintf(text, sizeof text, "%.160e", middle);
    check_read(text);
    char *exponent = strchr(text, 'e');
    char *last = exponent - 1;
    while (*last == '0')
        last--;
    const int size = (int)(last - text);
    snprintf(near, sizeof near, "%.*s%c0001%s", size, text, *last, exponent);
    check_read(near);
    snprintf(near, sizeof near, "%.*s%c00000000000000000000000000000000000000001%s", size, text,
             *last, exponent);
    check_read(near);
    snprintf(near, sizeof near, "%.*s%c99999999999999999999999999999%s", size, text, *last - 1,
             exponent);
    check_read(near);
    snprintf(near, sizeof near, "%.*s%c%s", size, text, *last, exponent); /* without zeros */
    check_read(near);
}

static void check_float(uint32_t bits)
{
    const float value = float_of(bits);
    if (!isfinite(value))
        return;
    check_write(value);
    check_write(-value);
    char text[512];
    snprintf(text, sizeof text, "%.9g", (double)value);
    check_read(text);
    snprintf(text, sizeof text, "%.17g", (double)value);
    check_read(text);
    snprintf(text, sizeof text, "%.60f", (double)value);
    check_read(text);
    if (bits < bits_of(FLT_MAX))
        check_middle(((double)value + (double)float_of(bits + 1)) / 2);
}

TEST(stride_over_all_floats)
{
    for (uint32_t bits = 0; bits < 0x7F800000; bits += 200003)
        check_float(bits);
    for (uint64_t bits = 0; bits < 0x7F800000; bits += 20011)
        check_write(float_of((uint32_t)bits));
}

TEST(ends_and_powers)
{
    for (uint32_t bits = 0; bits < 300; bits++) {
        check_float(bits);                 /* the smallest denormals */
        check_float(0x00800000 - bits);    /* the largest */
        check_float(0x7F7FFFFF - bits);    /* the largest floats */
        check_float(bits_of(1.0f) + bits); /* around 1 */
        check_float(bits_of(1.0f) - bits);
    }
    for (uint32_t exponent = 1; exponent < 255; exponent++)
        for (uint32_t near = 0; near < 5; near++)
            check_float((exponent << 23) + near - 2);
    for (int exponent = -45; exponent <= 38; exponent++) {
        char text[32];
        snprintf(text, sizeof text, "1e%d", exponent);
        check_read(text);
        for (uint32_t near = 0; near < 5; near++)
            check_float(bits_of(strtof(text, NULL)) + near - 2);
    }
    for (uint32_t i = 0; i < 20000; i++)
        check_write((float)i);
    check_middle(0x1.ffffffp127); /* where rounding begins to overflow */
    check_middle(0x1p-150);       /* where it ends to underflow */
}

TEST(random_digits)
{
    for (int round = 0; round < 60000; round++) {
        char text[160];
        size_t used = 0;
        const int digits = 1 + (int)(random_next() % (round % 2 ? 25 : 80));
        const int point = (int)(random_next() % (uint64_t)(digits + 1));
        for (int i = 0; i < digits; i++) {
            const char digit = (char)('0' + (random_next() % 5 ? random_next() % 10 : 0));
            if (i == point)
                used += (size_t)snprintf(text + used, 4, i == 0 ? "0." : ".");
            text[used++] = i == 0 && point > 0 && digit == '0' ? '1' : digit;
        }
        text[used] = '\0';
        if (random_next() % 2)
            snprintf(text + used, sizeof text - used, "%c%s%d", random_next() % 2 ? 'e' : 'E',
                     random_next() % 2 ? "" : "-0", (int)(random_next() % 60));
        check_read(text);
    }
}

TEST(extremes)
{
    static const char *const TEXTS[] = {
        "0",
        "0.0",
        "0e5",
        "0E-5",
        "0.000",
        "1e-400",
        "1e400",
        "1e38",
        "3.4028234663852886e38",
        "3.4028235677973366e38",
        "3.4028235677973365e38",
        "1e39",
        "1e-45",
        "7.006492321624085e-46",
        "7.006492321624086e-46",
        "1e-46",
        "1.17549435e-38",
        "1.1754943508222875e-38",
        "1.175494e-38",
        "1e99999999999999999999999999999",
        "1e-99999999999999999999999999999",
        "0e99999999999999999999999999999",
        "123456789012345678901234567890",
        "9999999999999999999",
        "18446744073709551615",
        "18446744073709551616",
        "0.0000000000000000000000000000000000000000000000012345",
        "0.00000000000000000000123456789012345678901",
        "16777217",
        "16777217.0000000000000000000000000000001",
        "16777216.9999999999999999999999999999999",
        "33554434e0",
        "8388608.5",
        "8388609.5",
        "100000000000000000000000000000000000000e-38",
        "0.1e1",
        "12345678",
        "123456789",
        "1234567.8",
        "12345678.12345678",
        "1234567890123456.1234567890123456",
    };
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++)
        check_read(TEXTS[i]);
    static const char OVERFLOWING[] = "-1e400";
    float value = 0;
    assert_non_null(json_read_float(OVERFLOWING, OVERFLOWING + 6, &value));
    assert_true(value == -INFINITY);
    assert_non_null(json_read_float(OVERFLOWING + 1, OVERFLOWING + 6, &value));
    assert_true(value == INFINITY);
}

/* A megabyte of digits. Its exponent makes an ordinary number of it, or does not. */
TEST(digits_without_end)
{
    enum { SIZE = 1000000 };
    static char text[SIZE + 64];
    static const char *const TAILS[] = { "",          "e-999999",  "e-1000040", "e-1000046",
                                         "e-1000100", "e-1000000", "e10" };
    for (size_t i = 0; i < sizeof TAILS / sizeof TAILS[0]; i++) {
        memset(text, '7', SIZE);
        strcpy(text + SIZE, TAILS[i]);
        check_read(text);
        memset(text, '0', SIZE); /* 1000...0 */
        text[0] = '1';
        check_read(text);
        text[SIZE - 1] = '1'; /* 1000...1 */
        check_read(text);
        memcpy(text, "16777217.0", 10); /* a tie except for the last of many digits */
        check_read(text);
    }
    memset(text, '0', SIZE); /* 0.000...012345e999990 */
    text[1] = '.';
    strcpy(text + SIZE, "12345e999990");
    check_read(text);
}

/* Texts that are not numbers, and where a number ends if more text follows it. */
TEST(grammar)
{
    static const struct {
        const char *text;
        size_t size; /* of the number; 0: there is none */
    } CASES[] = {
        { "", 0 },           { "-", 0 },          { "+1", 0 },        { ".5", 0 },
        { "-.5", 0 },        { "1.", 0 },         { "1.e5", 0 },      { "01", 0 },
        { "-01", 0 },        { "00", 0 },         { "00.5", 0 },      { "1e", 0 },
        { "1e+", 0 },        { "1E-", 0 },        { "1e+-5", 0 },     { "--1", 0 },
        { "e5", 0 },         { "x", 0 },          { "NaN", 0 },       { "Infinity", 0 },
        { "-Infinity", 0 },  { "inf", 0 },        { " 1", 0 },        { "- 1", 0 },
        { "1.x", 0 },        { "1.-5", 0 },       { "012345678", 0 }, { "1.5e", 0 },
        { "123456789e", 0 }, { "12345678.", 0 },  { "1,5", 1 },       { "0x10", 1 },
        { "-0x10", 2 },      { "1.5.5", 3 },      { "1]", 1 },        { "1.5e3e3", 5 },
        { "12345678,", 8 },  { "123456789]", 9 }, { "1.25 ", 4 },     { "0", 1 },
        { "-0", 2 },         { "0e0,", 3 },       { "1e5.5", 3 },     { "1-1", 1 },
        { "1/2", 1 },        { "12345678:", 8 },  { "1234567/", 7 },  { "1.2345678/", 9 },
        { "1f", 1 },         { "5e-7\n", 4 },     { "1_000", 1 },     { "1e0x", 3 },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        const char *text = CASES[i].text;
        float value = 0;
        const char *after = json_read_float(text, text + strlen(text), &value);
        const char *expected = CASES[i].size > 0 ? text + CASES[i].size : NULL;
        if (after != expected) {
            print_error("\"%s\"\n", text);
            fail();
        }
        char alone[16] = "";
        memcpy(alone, text, CASES[i].size);
        if (after)
            assert_int_equal(bits_of(value), bits_of(strtof(alone, NULL)));
        char shorter[JSON_NUMBER_BYTES_MAX + 1];
        size_t size = 0;
        assert_ptr_equal(json_shorten_number(text, text + strlen(text), shorter, &size), after);
    }
}

/* The reader looks at nothing behind the end: there is an unreadable page. */
TEST(text_may_end_anywhere)
{
    static const char TEXT[] = "-1234567890123456789012345.12345678901234567890123e-0000000012";
    struct guard_buffer guard = guard_alloc(sizeof TEXT - 1);
    for (size_t size = 0; size < sizeof TEXT; size++) {
        char *text = (char *)guard.data + sizeof TEXT - 1 - size;
        memcpy(text, TEXT, size);
        float value, expected;
        const char *after = json_read_float(text, text + size, &value);
        char copy[sizeof TEXT + 1] = "";
        memcpy(copy, TEXT, size);
        const char *copy_after = json_read_float(copy, copy + size, &expected);
        assert_int_equal(after ? after - text : -1, copy_after ? copy_after - copy : -1);
        if (after)
            assert_int_equal(bits_of(value), bits_of(strtof(copy, NULL)));
    }
    guard_free(&guard);
}

TEST(written_form)
{
    static const struct {
        float value;
        const char *text;
    } CASES[] = {
        { 0.0f, "0" },
        { -0.0f, "-0" },
        { 1.0f, "1" },
        { 2.0f, "2" },
        { -10.0f, "-10" },
        { 0.1f, "0.1" },
        { 0.5f, "0.5" },
        { 0.98522025f, "0.98522025" },
        { 24349.537f, "24349.537" },
        { 0.001f, "0.001" },
        { 0.00012f, "0.00012" },
        { 1e-5f, "1e-5" },
        { 1.5e-7f, "1.5e-7" },
        { 10000.0f, "10000" },
        { 1e6f, "1e+6" },
        { 123456.0f, "123456" },
        { 16777216.0f, "16777216" },
        { 1234567936.0f, "1234568000" },
        { 1e20f, "1e+20" },
        { 1.2345678e+12f, "1234567800000" },
        { 1.2345678e+13f, "1.2345678e+13" },
        { FLT_MAX, "3.4028235e+38" },
        { -FLT_MIN, "-1.1754944e-38" },
        { 1e-45f, "1e-45" },
        { 3.1415927f, "3.1415927" },
        { NAN, "null" },
        { INFINITY, "null" },
        { -INFINITY, "null" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char text[JSON_FLOAT_BYTES_MAX + 1];
        text[json_write_float(text, CASES[i].value)] = '\0';
        assert_string_equal(text, CASES[i].text);
    }
}

/* The number stays the same, to all that a double holds, whatever its length. */
TEST(shortened_numbers)
{
    static char text[100000];
    for (int round = 0; round < 2000; round++) {
        const size_t digits = 1 + random_next() % (round % 100 == 0 ? 90000 : 100);
        const size_t point = 1 + random_next() % digits;
        size_t used = 0;
        text[used++] = '-';
        for (size_t i = 0; i < digits; i++) {
            if (i == point)
                text[used++] = '.';
            text[used++] = (char)('1' + random_next() % 9);
        }
        snprintf(text + used, 32, "e%d", (int)(random_next() % 40) - 20 - (int)point);
        char shorter[JSON_NUMBER_BYTES_MAX + 1];
        size_t size = 0;
        const char *end = text + strlen(text);
        assert_ptr_equal(json_shorten_number(text, end, shorter, &size), end);
        assert_true(size <= JSON_NUMBER_BYTES_MAX && size == strlen(shorter));
        assert_true(strtod(shorter, NULL) == strtod(text, NULL));
        float value;
        assert_ptr_equal(json_read_float(shorter, shorter + size, &value), shorter + size);
    }
}
