/* SPDX-License-Identifier: Apache-2.0 */
/* json_numbers.c - float32 from text and to text, on any CPU.
 *
 * Reading: the digits become one integer of 64 bits, eight at a time. One multiplication with a
 * power of ten then gives a double that is wrong by at most 3.1 units in its last place. A float32
 * has 29 bits fewer, so the double settles how to round, unless it lies within that error of the
 * middle between two floats. Numbers that are not settled (about one in 10^7, and all that are
 * extreme or very long) go to strtof().
 *
 * Writing: the float32 form of Schubfach (R. Giulietti, "The Schubfach way to render doubles",
 * 2020) finds the shortest digits with three products and no loop. Then only branches that the
 * processor cannot predict cost time. So the sign takes no branch, and json_floats.h places digits
 * without one. Branches stay where all numbers of a tensor are mostly of one kind: zeros, integers,
 * numbers of a single digit. */
#include "json/json_numbers.h"

#include "json/json_floats.h"
#include "json/json_scan.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

__extension__ typedef unsigned __int128 uint128;

enum {
    DIGITS_EXACT_MAX = 19, /* any 19 digits fit 64 bits */

    /* The middle between two floats has at most 112 significant digits, so further digits of a
     * number only tell whether it lies above the value of the first 128. */
    DIGITS_KEPT_MAX = 128,
    EXPONENT_DIGITS_MAX = 20,
};

static const int64_t EXPONENT_BOUND = 1000000000000; /* larger than any text is long */

/* Eight bytes of text, the first in the low byte. */
static inline uint64_t load_eight(const char *text)
{
    uint64_t word;
    memcpy(&word, text, sizeof word);
    return le64toh(word);
}

/* How many of eight bytes come before the first that is not 0; 8 where all are 0. */
static inline int leading_zero_bytes(uint64_t word)
{
    return word ? __builtin_ctzll(word) / 8 : 8;
}

/* Bytes that are 0 where word has a digit, up to the first other character, whose byte is not 0. */
static inline uint64_t other_than_digits(uint64_t word)
{
    /* The high half of a digit's byte is 3, and stays 3 when 6 is added. */
    const uint64_t high = 0xF0F0F0F0F0F0F0F0;
    return ((word & high) | ((word + 0x0606060606060606) & high) >> 4) ^ 0x3333333333333333;
}

/* The number that eight digits make. They are numbers, not characters, the first in the low byte.
 */
static inline uint64_t eight_digits_value(uint64_t digits)
{
    digits = digits * 10 + (digits >> 8); /* pairs, in every other byte */
    const uint64_t mask = 0x000000FF000000FF;
    return ((digits & mask) * (100 + (1000000ULL << 32))
            + ((digits >> 16) & mask) * (1 + (10000ULL << 32)))
           >> 32;
}

/* The number that the first count bytes of word spell; 0 < count <= 8. Shifting them to the end
 * puts zeros before them. */
static inline uint64_t digits_value(uint64_t word, int count)
{
    return eight_digits_value((word - JSON_EIGHT_ZEROS) << (64 - 8 * count));
}

/* Reads all digits that stand at text and appends them to *significand, which wraps where they are
 * too many. Returns the byte after the last one. */
static const char *read_digits(const char *text, const char *end, uint64_t *significand)
{
    while (end - text >= 8) {
        const uint64_t word = load_eight(text);
        const int count = leading_zero_bytes(other_than_digits(word));
        if (count == 0)
            return text;
        *significand = *significand * JSON_POW10_INTEGER[count] + digits_value(word, count);
        text += count;
        if (count < 8)
            return text;
    }
    for (; text < end && json_scan_is_digit(*text); text++)
        *significand = *significand * 10 + (uint64_t)(*text - '0');
    return text;
}

/* Reads an exponent like "e-12" if one stands at text; NULL where its digits are missing. It stops
 * growing at a value far beyond the range of a float. */
static const char *read_exponent(const char *text, const char *end, int64_t *exponent)
{
    *exponent = 0;
    if (text == end || (*text != 'e' && *text != 'E'))
        return text;
    text++;
    const bool negative = text < end && *text == '-';
    if (text < end && (*text == '-' || *text == '+'))
        text++;
    if (text == end || !json_scan_is_digit(*text))
        return NULL;
    int64_t magnitude = 0;
    for (; text < end && json_scan_is_digit(*text); text++)
        if (magnitude < EXPONENT_BOUND)
            magnitude = magnitude * 10 + (*text - '0');
    *exponent = negative ? -magnitude : magnitude;
    return text;
}

/* A number, taken apart. */
struct token {
    bool negative;
    const char *digits, *digits_end; /* of the integer part, the point and the fraction */
    int64_t fraction_digits;
    int64_t exponent;     /* as written */
    uint64_t significand; /* all digits as one integer; wrapped where they are too many */
};

static const char *read_token(const char *text, const char *end, struct token *token)
{
    token->significand = 0;
    token->fraction_digits = 0;
    token->negative = text < end && *text == '-';
    text += token->negative;
    if (text == end || !json_scan_is_digit(*text))
        return NULL;
    token->digits = text;
    if (*text != '0')
        text = read_digits(text, end, &token->significand);
    else if (++text < end && json_scan_is_digit(*text))
        return NULL;
    if (text < end && *text == '.') {
        const char *fraction = text + 1;
        text = read_digits(fraction, end, &token->significand);
        token->fraction_digits = text - fraction;
        if (token->fraction_digits == 0)
            return NULL;
    }
    token->digits_end = text;
    return read_exponent(text, end, &token->exponent);
}

/* Writes the token as digits, "e" and an exponent, without a point or leading zeros. At most
 * digits_max digits are kept; where a dropped digit was not 0, one digit 1 stands for all dropped
 * ones. Ends with a NUL byte; returns the length without it. */
static size_t write_decimal(const struct token *token, size_t digits_max, char *out)
{
    size_t used = 0, kept = 0;
    int64_t dropped = 0;
    bool sticky = false;
    if (token->negative)
        out[used++] = '-';
    for (const char *p = token->digits; p < token->digits_end; p++) {
        if (*p == '.' || (*p == '0' && kept == 0))
            continue;
        if (kept < digits_max) {
            out[used++] = *p;
            kept++;
        } else {
            dropped++;
            sticky = sticky || *p != '0';
        }
    }
    if (kept == 0)
        out[used++] = '0';
    int64_t exponent = token->exponent - token->fraction_digits + dropped;
    if (sticky) {
        out[used++] = '1';
        exponent--;
    }
    return used + (size_t)sprintf(out + used, "e%lld", (long long)exponent);
}

static float read_slowly(const struct token *token)
{
    char decimal[DIGITS_KEPT_MAX + EXPONENT_DIGITS_MAX + 4];
    write_decimal(token, DIGITS_KEPT_MAX, decimal);
    return strtof(decimal, NULL); /* there is no point in it, so the locale does not matter */
}

/* Whether significand holds all digits: at most 19 without leading zeros. */
static bool significand_is_exact(const struct token *token)
{
    const char *p = token->digits;
    if (token->digits_end - p <= DIGITS_EXACT_MAX)
        return true;
    while (p < token->digits_end && (*p == '0' || *p == '.'))
        p++;
    return token->digits_end - p <= DIGITS_EXACT_MAX;
}

/* Rounds significand * 10^exponent to a float by way of a double; significand < 2^63. Returns false
 * where the double does not settle the float. */
static inline bool round_quickly(uint64_t significand, int64_t exponent, bool negative,
                                 float *value)
{
    if (exponent < JSON_POW10_DOUBLE_MIN || exponent > JSON_POW10_DOUBLE_MAX)
        return false;
    const double near =
        (double)(int64_t)significand * JSON_POW10_DOUBLE[exponent - JSON_POW10_DOUBLE_MIN];
    uint64_t bits;
    memcpy(&bits, &near, sizeof bits);
    const uint64_t below_float = bits & 0x1FFFFFFF; /* the 29 bits that rounding removes */
    const bool settled = below_float - (0x10000000 - 4) > 8;
    const float magnitude = (float)near;
    uint32_t float_bits;
    memcpy(&float_bits, &magnitude, sizeof float_bits);
    float_bits |= (uint32_t)negative << 31;
    memcpy(value, &float_bits, sizeof *value);
    return settled && near <= 0x1.fffffep127 && (near >= 0x1.000001p-126 || significand == 0);
}

enum {
    QUICK_BYTES = 40, /* from the number on that must be readable */
    QUICK_WINDOW = 32,
    QUICK_DIGITS_MAX = 18 /* any 18 digits are below 2^63 */
};

/* A bit for each of QUICK_WINDOW bytes that is not a digit, the first byte's in the lowest bit. */
static inline uint32_t window_of_others(const char *text)
{
#ifdef __SSE2__
    const __m128i bias = _mm_set1_epi8((char)('0' + 128)), top = _mm_set1_epi8(9 - 128);
    const __m128i low = _mm_loadu_si128((const __m128i *)text);
    const __m128i high = _mm_loadu_si128((const __m128i *)(text + 16));
    const int low_others = _mm_movemask_epi8(_mm_cmpgt_epi8(_mm_sub_epi8(low, bias), top));
    const int high_others = _mm_movemask_epi8(_mm_cmpgt_epi8(_mm_sub_epi8(high, bias), top));
    return (uint32_t)low_others | (uint32_t)high_others << 16;
#else
    uint32_t others = 0;
    for (int i = 0; i < QUICK_WINDOW; i++)
        others |= (uint32_t)!json_scan_is_digit(text[i]) << i;
    return others;
#endif
}

/* The number that count digits at text spell; 0 < count <= 16. */
static inline uint64_t sixteen_digits_value(const char *text, int count)
{
    const uint64_t low = load_eight(text) - JSON_EIGHT_ZEROS,
                   high = load_eight(text + 8) - JSON_EIGHT_ZEROS;
    const uint128 digits = ((uint128)high << 64 | low) << (128 - 8 * count);
    return eight_digits_value((uint64_t)digits) * 100000000
           + eight_digits_value((uint64_t)(digits >> 64));
}

/* The same for 16 < count <= 24. For more than 19 digits: the low 64 bits of the number. */
static uint64_t more_digits_value(const char *text, int count)
{
    return sixteen_digits_value(text, 16) * JSON_POW10_INTEGER[count - 16]
           + digits_value(load_eight(text + 16), count - 16);
}

/* Reads a number of the usual kinds: up to eight digits, a fraction, an exponent. NULL where the
 * number is of another kind, or none stands at text. It finds the end of the number first, without
 * a branch that the processor cannot predict, because the start of the next number depends only on
 * that end. */
__attribute__((noinline)) static const char *read_quickly(const char *text, const char *end,
                                                          float *value)
{
    const bool negative = *text == '-';
    const uint32_t others = window_of_others(text) & ~(uint32_t)negative;
    if (others == 0)
        return NULL;
    const char *after = text + __builtin_ctz(others);
    const char *digits = text + negative;
    const int64_t integer_count = after - digits;
    if (integer_count == 0 || integer_count > 8)
        return NULL;
    uint64_t significand;
    if (integer_count == 1)
        significand = (uint64_t)(*digits - '0');
    else if (*digits == '0')
        return NULL;
    else
        significand = digits_value(load_eight(digits), (int)integer_count);
    int64_t exponent = 0;
    if (*after == '.') {
        const uint32_t behind = others & (others - 1);
        if (behind == 0)
            return NULL;
        const char *fraction = after + 1;
        after = text + __builtin_ctz(behind);
        const int64_t count = after - fraction;
        if (count == 0 || integer_count * (significand > 0) + count > QUICK_DIGITS_MAX)
            return NULL;
        significand = significand * JSON_POW10_INTEGER[count]
                      + (count <= 16 ? sixteen_digits_value(fraction, (int)count)
                                     : more_digits_value(fraction, (int)count));
        exponent = -count;
    }
    if ((*after | 0x20) == 'e') {
        int64_t written;
        after = read_exponent(after, end, &written);
        if (!after)
            return NULL;
        exponent += written;
    }
    /* A branch, never a selection: the next number must not wait for this one. */
    const bool settled = round_quickly(significand, exponent, negative, value);
    return __builtin_expect(settled, true) ? after : NULL;
}

size_t json_read_floats_before(const char *stop, const char **text, const char *end, float *values)
{
    const char *p = *text;
    size_t count = 0;
    while (p < stop && end - p >= QUICK_BYTES) {
        p = read_quickly(p, end, &values[count]);
        if (!p)
            break;
        *text = p;
        count++;
        if (p == end || *p++ != ',')
            break;
        if (p < end && *p <= ' ') /* a branch is predicted, while a sum would be waited for */
            p = json_pass_space(p, end);
    }
    return count;
}

/* Reads nothing before *text, so it does not need begin. */
size_t json_read_floats_plain(const char *begin, const char **text, const char *end, float *values)
{
    (void)begin;
    return json_read_floats_before(end, text, end, values);
}

/* Reads any number of the grammar. */
static const char *read_any(const char *text, const char *end, float *value)
{
    struct token token;
    text = read_token(text, end, &token);
    if (!text)
        return NULL;
    const int64_t exponent = token.exponent - token.fraction_digits;
    if (token.significand <= INT64_MAX && significand_is_exact(&token)
        && round_quickly(token.significand, exponent, token.negative, value))
        return text;
    *value = read_slowly(&token);
    return text;
}

const char *json_read_float(const char *text, const char *end, float *value)
{
    if (end - text >= QUICK_BYTES) {
        const char *after = read_quickly(text, end, value);
        if (after)
            return after;
    }
    return read_any(text, end, value);
}

const char *json_shorten_number(const char *text, const char *end, char *out, size_t *size)
{
    struct token token;
    text = read_token(text, end, &token);
    if (text)
        *size = write_decimal(&token, JSON_NUMBER_DIGITS_MAX, out);
    return text;
}

/* ------------------------------------------------------- shortest digits -- */

/* digits * 10^exponent, 0 < digits < 10^9; trailing zeros are possible. */
struct decimal {
    uint32_t digits;
    int exponent;
};

/* floor(log10(2^e)), floor(log10(3/4 * 2^e)) and floor(log2(10^e)), exact for the exponents of
 * float32. The arithmetic shift rounds down. */
static int floor_log10_pow2(int e)
{
    return (e * 1262611) >> 22;
}

static int floor_log10_three_quarters_pow2(int e)
{
    return (e * 1262611 - 524031) >> 22;
}

static int floor_log2_pow10(int e)
{
    return (e * 1741647) >> 19;
}

/* The shortest decimal that rounds to the float c * 2^q, and of several the nearest. The names s,
 * k, h and g are the paper's. lower_is_closer: the float below is nearer than the float above, as
 * at every power of two but the smallest normal one.
 *
 * Values are compared in units of 2^-35 of the last digit, and are wrong by less than TOLERANCE
 * units. That settles every float32: a value either lies exactly on an end or the middle of the
 * float's interval, or misses it by more, as a run over all floats shows. */
static inline struct decimal shortest_decimal(uint64_t c, int q, bool lower_is_closer)
{
    enum { UNIT_BITS = 35, TOLERANCE = 2, H_MAX = 4 };
    const int k = lower_is_closer ? floor_log10_three_quarters_pow2(q) : floor_log10_pow2(q);
    const int h = q + floor_log2_pow10(-k) + 1;
    const uint64_t g = JSON_POW10_G[-k - JSON_POW10_G_MIN];
    const uint64_t scaled = c * (UINT64_C(1) << (H_MAX + UNIT_BITS)) >> (H_MAX - h);
    const uint64_t x = (uint64_t)((uint128)g * scaled >> 64);
    const uint64_t ulp_half = g >> (65 - h - UNIT_BITS);
    const uint64_t inside = c & 1 ? -TOLERANCE : TOLERANCE; /* an even c owns its interval's ends */
    const uint64_t reach_up = ulp_half + inside;
    const uint64_t reach_down = (ulp_half >> lower_is_closer) + inside;

    const uint32_t s = (uint32_t)(x >> UNIT_BITS), tens = s / 10;
    const uint64_t above_tens = x - ((uint64_t)(10 * tens) << UNIT_BITS);
    const bool up = (10ULL << UNIT_BITS) - above_tens <= reach_up;
    const uint64_t above = x & ((1ULL << UNIT_BITS) - 1), half = 1ULL << (UNIT_BITS - 1);
    const uint64_t to_even = s & 1 ? -TOLERANCE : TOLERANCE;
    const bool nearest_up = above > half + to_even || (lower_is_closer && above > reach_down);
    const uint32_t full = s + nearest_up, shorter = 10 * (tens + up);
    const uint32_t mask = -(uint32_t)(up | (above_tens <= reach_down)); /* to have no branch */
    return (struct decimal){ (shorter & mask) | (full & ~mask), k };
}

/* shortest_decimal() out of line, for powers of two, which are rare. */
static struct decimal shortest_of_power(uint64_t c, int q, bool lower_is_closer)
{
    return shortest_decimal(c, q, lower_is_closer);
}

/* -------------------------------------------------------- digits as text -- */

/* For the number of digits of value, 0 < value < 10^9: (value + DIGIT_COUNT[floor(log2(value))]) >>
 * 32 (D. Lemire, "Computing the number of digits of an integer even faster", 2021). */
#define DIGITS(count, power) (((uint64_t)(count) << 32) - (power))
static const uint64_t DIGIT_COUNT[30] = {
    DIGITS(1, 0),         DIGITS(1, 0),         DIGITS(1, 0),         DIGITS(2, 10),
    DIGITS(2, 10),        DIGITS(2, 10),        DIGITS(3, 100),       DIGITS(3, 100),
    DIGITS(3, 100),       DIGITS(4, 1000),      DIGITS(4, 1000),      DIGITS(4, 1000),
    DIGITS(4, 1000),      DIGITS(5, 10000),     DIGITS(5, 10000),     DIGITS(5, 10000),
    DIGITS(6, 100000),    DIGITS(6, 100000),    DIGITS(6, 100000),    DIGITS(7, 1000000),
    DIGITS(7, 1000000),   DIGITS(7, 1000000),   DIGITS(7, 1000000),   DIGITS(8, 10000000),
    DIGITS(8, 10000000),  DIGITS(8, 10000000),  DIGITS(9, 100000000), DIGITS(9, 100000000),
    DIGITS(9, 100000000), DIGITS(9, 100000000),
};

static inline int digit_count(uint32_t value)
{
    return (int)((value + DIGIT_COUNT[31 - __builtin_clz(value)]) >> 32);
}

/* The eight decimal digits of value < 10^8 as numbers, not characters, one a byte, the first in the
 * lowest byte. */
static inline uint64_t eight_digits(uint32_t value)
{
    const uint64_t fours = ((uint64_t)value << 32) - value / 10000 * ((10000ULL << 32) - 1);
    const uint64_t hundreds = (fours * 10486 >> 20) & 0x0000007F0000007F; /* each / 100 */
    const uint64_t twos = (fours << 16) - hundreds * ((100 << 16) - 1);
    const uint64_t tens = (twos * 103 >> 10) & 0x000F000F000F000F; /* each / 10 */
    return (twos << 8) - tens * ((10 << 8) - 1);
}

static inline struct json_digits make_digits(struct decimal decimal, int length)
{
    const uint32_t nine = decimal.digits * (uint32_t)JSON_POW10_INTEGER[9 - length];
    const uint32_t first = nine / 100000000;
    return (struct json_digits){ (char)('0' + first), eight_digits(nine - first * 100000000),
                                 decimal.exponent + length };
}

/* ------------------------------------------------------ unusual numbers -- */

/* How many digits there are without zeros at the end. */
static inline int significant_count(struct json_digits digits)
{
    return digits.rest ? 2 + (63 - __builtin_clzll(digits.rest)) / 8 : 1;
}

/* Writes the numbers that JSON_LAYOUTS is not for: integers, and numbers of a single digit. */
static char *write_few_digits(char *out, struct json_digits digits)
{
    const int count = significant_count(digits);
    const int plain = digits.point <= 0 ? 3 - digits.point : digits.point;
    if (plain > count + (count > 1) + 4) {
        const struct json_layout *layout = &JSON_LAYOUTS[digits.point - 1 - JSON_EXPONENT_MIN];
        memcpy(out, JSON_SMALL, 2);
        out[0] = digits.first;
        json_put_eight(out + 2, digits.rest | JSON_EIGHT_ZEROS);
        out += count > 1 ? count + 1 : 1;
        memcpy(out, layout->suffix, sizeof layout->suffix);
        return out + (layout->suffix[3] ? 4 : 3);
    }
    if (digits.point <= 0) {
        memcpy(out, JSON_SMALL, sizeof JSON_SMALL);
        out[2 - digits.point] = digits.first;
        return out + plain;
    }
    out[0] = digits.first;
    json_put_eight(out + 1, digits.rest | JSON_EIGHT_ZEROS);
    json_put_eight(out + 9, JSON_EIGHT_ZEROS);
    return out + plain;
}

/* Writes "0" or "-0", or "null" for a number that is not finite. */
static char *write_special(char *out, uint32_t bits)
{
    if (bits >> 23 & 0xFF) {
        memcpy(out, JSON_NULL, sizeof JSON_NULL);
        return out + sizeof JSON_NULL;
    }
    out[0] = bits > 0 ? '-' : '0';
    out[1] = '0';
    return out + 1 + (bits > 0);
}

__attribute__((always_inline)) static inline char *write_float(char *out, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t fraction = bits & 0x7FFFFF, biased_exponent = bits >> 23 & 0xFF;
    if (biased_exponent == 0xFF || bits << 1 == 0)
        return write_special(out, bits);
    *out = '-';
    out += bits >> 31;
    const uint32_t c = biased_exponent ? fraction | 0x800000 : fraction;
    const int q = (biased_exponent ? (int)biased_exponent : 1) - 150;
    if (q <= 0 && q > -24 && (c & ((1u << -q) - 1)) == 0) {
        const struct decimal integer = { c >> -q, 0 };
        return write_few_digits(out, make_digits(integer, digit_count(integer.digits)));
    }
    const struct decimal decimal =
        fraction ? shortest_decimal(c, q, false) : shortest_of_power(c, q, biased_exponent > 1);
    int length = 9 - (decimal.digits < 100000000) - (decimal.digits < 10000000);
    if (decimal.digits < 1000000) /* only some denormals have so few digits */
        length = digit_count(decimal.digits);
    const struct json_digits digits = make_digits(decimal, length);
    if (digits.rest == 0 || q > 0)
        return write_few_digits(out, digits);
    return json_write_by_layout(out, digits);
}

size_t json_write_floats_plain(char *out, const float *values, size_t count)
{
    char *p = out;
    for (size_t i = 0; i < count; i++) {
        p = write_float(p, values[i]);
        *p++ = ',';
    }
    return (size_t)(p - out);
}

size_t json_write_float(char *out, float value)
{
    return json_write_floats_plain(out, &value, 1) - 1;
}
