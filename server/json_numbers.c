/* json_numbers.c - see json_numbers.h.
 *
 * Reading: the digits become one integer of 64 bits, eight at a time, and one
 * multiplication with a power of ten gives a double that is wrong by 3.1 units in
 * its last place at most. A float32 keeps 29 bits fewer, so this settles the
 * rounding unless the double lies within that error of the middle between two
 * floats. What it does not settle (about one number in 10^7, and all that are
 * extreme or very long) goes to strtof().
 *
 * Writing: Schubfach (R. Giulietti, "The Schubfach way to render doubles", 2020)
 * in its float32 form, which finds the shortest digits with three products of
 * 64 bits and no loop; then the digits become text without a division each. */
#include "json_numbers.h"

#include "json_pow10.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t POWERS[] = { 1,      10,      100,      1000,      10000,
                                   100000, 1000000, 10000000, 100000000, 1000000000 };

/* ------------------------------------------------------------------ read -- */

enum {
    DIGITS_EXACT_MAX = 19, /* any 19 digits fit 64 bits */

    /* The middle between two floats has at most 112 significant digits, so more
     * of them only tell that a number lies above what the first say. */
    DIGITS_KEPT_MAX = 128,
    EXPONENT_DIGITS_MAX = 20,
};

static const int64_t EXPONENT_BOUND = 1000000000000; /* past any length of text */

static bool is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

/* How many of the first eight bytes, the first in the low byte of word, are digits. */
static int leading_digit_count(uint64_t word)
{
    /* The high half of a digit is 3, and stays 3 when 6 is added. */
    const uint64_t high = 0xF0F0F0F0F0F0F0F0;
    const uint64_t other =
        ((word & high) | ((word + 0x0606060606060606) & high) >> 4) ^ 0x3333333333333333;
    return other ? __builtin_ctzll(other) / 8 : 8;
}

/* The number that count of the first bytes of word spell; 0 < count <= 8. Shifting
 * them to the end makes zeros of what is missing before them. */
static uint64_t digits_value(uint64_t word, int count)
{
    word = (word - 0x3030303030303030) << (64 - 8 * count);
    word = word * 10 + (word >> 8); /* pairs, in every other byte */
    const uint64_t mask = 0x000000FF000000FF;
    return ((((word & mask) * (100 + (1000000ULL << 32)))
             + (((word >> 16) & mask) * (1 + (10000ULL << 32))))
            >> 32)
           & 0xFFFFFFFF;
}

/* Reads digits from text on, as many as there are, and appends them to *significand,
 * which wraps where there are too many. */
static const char *read_digits(const char *text, const char *end, uint64_t *significand)
{
    while (end - text >= 8) {
        uint64_t word;
        memcpy(&word, text, sizeof word);
        word = le64toh(word);
        const int count = leading_digit_count(word);
        if (count == 0)
            return text;
        *significand = *significand * POWERS[count] + digits_value(word, count);
        text += count;
        if (count < 8)
            return text;
    }
    for (; text < end && is_digit(*text); text++)
        *significand = *significand * 10 + (uint64_t)(*text - '0');
    return text;
}

/* Reads "e-12" if there is one. The exponent saturates, far past where it matters. */
static const char *read_exponent(const char *text, const char *end, int64_t *exponent)
{
    *exponent = 0;
    if (text == end || (*text != 'e' && *text != 'E'))
        return text;
    text++;
    const bool negative = text < end && *text == '-';
    if (text < end && (*text == '-' || *text == '+'))
        text++;
    if (text == end || !is_digit(*text))
        return NULL;
    int64_t magnitude = 0;
    for (; text < end && is_digit(*text); text++)
        if (magnitude < EXPONENT_BOUND)
            magnitude = magnitude * 10 + (*text - '0');
    *exponent = negative ? -magnitude : magnitude;
    return text;
}

/* A number cut at its seams. */
struct token {
    bool negative;
    const char *digits, *digits_end; /* integer part, point, fraction */
    int64_t fraction_digits;
    int64_t exponent; /* as written */
    uint64_t significand;
};

static const char *read_token(const char *text, const char *end, struct token *token)
{
    token->significand = 0;
    token->fraction_digits = 0;
    token->negative = text < end && *text == '-';
    text += token->negative;
    if (text == end || !is_digit(*text))
        return NULL;
    token->digits = text;
    if (*text != '0')
        text = read_digits(text, end, &token->significand);
    else if (++text < end && is_digit(*text))
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

/* Writes the token as digits, "e" and an exponent: no point, no leading zeros, at
 * most digits_max digits and, where one of those dropped was not 0, a 1 that
 * stands for them. Ends with a NUL byte; returns the length. */
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
    return strtof(decimal, NULL); /* no point in it, so no locale matters */
}

/* Whether significand holds all digits: 19, not counting zeros before the first other. */
static bool significand_is_exact(const struct token *token)
{
    const char *p = token->digits;
    if (token->digits_end - p <= DIGITS_EXACT_MAX)
        return true;
    while (p < token->digits_end && (*p == '0' || *p == '.'))
        p++;
    return token->digits_end - p <= DIGITS_EXACT_MAX;
}

const char *json_read_float(const char *text, const char *end, float *value)
{
    struct token token;
    text = read_token(text, end, &token);
    if (!text)
        return NULL;
    const int64_t exponent = token.exponent - token.fraction_digits;
    const bool in_table = exponent >= JSON_POW10_DOUBLE_MIN && exponent <= JSON_POW10_DOUBLE_MAX;
    if (significand_is_exact(&token) && (in_table || token.significand == 0)) {
        if (token.significand == 0) {
            *value = token.negative ? -0.0f : 0.0f;
            return text;
        }
        const double near =
            (double)token.significand * JSON_POW10_DOUBLE[exponent - JSON_POW10_DOUBLE_MIN];
        uint64_t bits;
        memcpy(&bits, &near, sizeof bits);
        const uint64_t below_float = bits & 0x1FFFFFFF; /* the 29 bits that rounding removes */
        const bool settled = below_float - (0x10000000 - 4) > 8;
        if (settled && near >= 0x1.000001p-126 && near <= 0x1.fffffep127) {
            *value = (float)(token.negative ? -near : near);
            return text;
        }
    }
    *value = read_slowly(&token);
    return text;
}

const char *json_shorten_number(const char *text, const char *end, char *out, size_t *size)
{
    struct token token;
    text = read_token(text, end, &token);
    if (text)
        *size = write_decimal(&token, JSON_NUMBER_DIGITS_MAX, out);
    return text;
}

/* ----------------------------------------------------------------- write -- */

/* digits * 10^exponent, 0 < digits < 10^9; trailing zeros are possible. */
struct decimal {
    uint32_t digits;
    int exponent;
};

/* floor(log10(2^e)) and floor(log10(3/4 * 2^e)), floor(log2(10^e)): exact for the
 * exponents of float32; the arithmetic shift rounds down. */
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

/* g * c / 2^64, rounded to odd: the last bit is also set where more was cut off
 * than the error of g explains. */
static uint32_t multiply_round_to_odd(uint64_t g, uint32_t c)
{
    const uint64_t high = (g >> 32) * c;
    const uint64_t low = (g & 0xFFFFFFFF) * c;
    const uint64_t sum = high + (low >> 32);
    return (uint32_t)(sum >> 32) | ((uint32_t)sum > 1);
}

/* The shortest decimal inside the interval that rounds to the float with these
 * fields, and of those the nearest. Names as in the paper: the float is c * 2^q,
 * s is four times the candidate before its last two bits are settled. */
static struct decimal shortest_decimal(uint32_t fraction, uint32_t biased_exponent)
{
    const uint32_t c = biased_exponent ? fraction | 0x800000 : fraction;
    const int q = (biased_exponent ? (int)biased_exponent : 1) - 150;
    if (q <= 0 && q > -24 && (c & ((1u << -q) - 1)) == 0)
        return (struct decimal){ c >> -q, 0 };

    const uint32_t odd = c & 1; /* an even float owns the ends of its interval */
    const bool lower_is_closer = fraction == 0 && biased_exponent > 1;
    const int k = lower_is_closer ? floor_log10_three_quarters_pow2(q) : floor_log10_pow2(q);
    const int h = q + floor_log2_pow10(-k) + 1;
    const uint64_t g = JSON_POW10_G[-k - JSON_POW10_G_MIN];
    const uint32_t lower = multiply_round_to_odd(g, (4 * c - 2 + lower_is_closer) << h) + odd;
    const uint32_t middle = multiply_round_to_odd(g, (4 * c) << h);
    const uint32_t upper = multiply_round_to_odd(g, (4 * c + 2) << h) - odd;

    const uint32_t s = middle / 4;
    if (s >= 10) { /* one digit less */
        const uint32_t tens = s / 10;
        const bool down_inside = lower <= 40 * tens;
        const bool up_inside = 40 * tens + 40 <= upper;
        if (down_inside != up_inside)
            return (struct decimal){ tens + up_inside, k + 1 };
    }
    const bool down_inside = lower <= 4 * s;
    const bool up_inside = 4 * s + 4 <= upper;
    if (down_inside != up_inside)
        return (struct decimal){ s + up_inside, k };
    const uint32_t half = 4 * s + 2;
    const bool round_up = middle > half || (middle == half && (s & 1));
    return (struct decimal){ s + round_up, k };
}

static int digit_count(uint32_t value) /* > 0 */
{
    const int guess = (32 - __builtin_clz(value)) * 1233 >> 12; /* 1233 / 4096 is log10(2) */
    return guess + (value >= POWERS[guess]);
}

/* The eight decimal digits of value < 10^8, one in each byte, the first in the
 * lowest; as numbers, not characters. */
static uint64_t eight_digits(uint32_t value)
{
    const uint64_t fours = value / 10000 | (uint64_t)(value % 10000) << 32;
    const uint64_t hundreds = (fours * 10486 >> 20) & 0x0000007F0000007F; /* each / 100 */
    const uint64_t twos = hundreds | (fours - 100 * hundreds) << 16;
    const uint64_t tens = (twos * 103 >> 10) & 0x000F000F000F000F; /* each / 10 */
    return tens | (twos - 10 * tens) << 8;
}

static const char ZEROS[8] = { '0', '.', '0', '0', '0', '0', '0', '0' };
static const char NOT_FINITE[4] = { 'n', 'u', 'l', 'l' };

/* "0.00123": the first digit stands before the point where point is 1, and
 * point - 1 zeros stand between the point and the digits where it is below. */
static char *write_plain(char *out, const char *digits, int count, int point)
{
    if (point <= 0) {
        memcpy(out, ZEROS, sizeof ZEROS);
        memcpy(out + 2 - point, digits, 8);
        out[10 - point] = digits[8];
        return out + 2 - point + count;
    }
    memcpy(out, digits, 8);
    if (point >= count) {
        memcpy(out + 8, digits + 8, 6);
        return out + point;
    }
    out[point] = '.';
    if (point <= 6)
        memcpy(out + point + 1, digits + point, 8);
    else
        memcpy(out + point + 1, digits + point, 2);
    return out + count + 1;
}

/* "1.23e-7". */
static char *write_scientific(char *out, const char *digits, int count, int exponent)
{
    const unsigned magnitude = exponent < 0 ? 0u - (unsigned)exponent : (unsigned)exponent;
    out[0] = digits[0];
    out[1] = '.';
    memcpy(out + 2, digits + 1, 8);
    out += count > 1 ? count + 1 : 1;
    *out++ = 'e';
    *out++ = exponent < 0 ? '-' : '+';
    if (magnitude >= 10)
        *out++ = (char)('0' + magnitude / 10);
    *out++ = (char)('0' + magnitude % 10);
    return out;
}

/* Stores of a fixed size and then a length cost less than copies of a known
 * length: so digits is longer than the digits are, and out has to be
 * JSON_FLOAT_BYTES_MAX bytes long for any number. */
static char *write_decimal_shortest(char *out, struct decimal decimal)
{
    const int length = digit_count(decimal.digits);
    const uint32_t nine = decimal.digits * POWERS[9 - length];
    const uint64_t rest = eight_digits(nine % 100000000);
    const uint64_t ascii = htole64(rest | 0x3030303030303030);
    char digits[16] = "0000000000000000";
    digits[0] = (char)('0' + nine / 100000000);
    memcpy(digits + 1, &ascii, sizeof ascii);

    const int count = rest ? 9 - __builtin_clzll(rest) / 8 : 1; /* without zeros at the end */
    const int point = decimal.exponent + length;
    const int plain = point <= 0 ? 2 - point + count : point >= count ? point : count + 1;
    /* As C counts it, with two digits of exponent: 0.001 and 10000 stay readable. */
    const int scientific = count + (count > 1) + 4;
    if (plain <= scientific)
        return write_plain(out, digits, count, point);
    return write_scientific(out, digits, count, point - 1);
}

size_t json_write_float(char *out, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t fraction = bits & 0x7FFFFF, biased_exponent = bits >> 23 & 0xFF;
    if (biased_exponent == 0xFF) {
        memcpy(out, NOT_FINITE, sizeof NOT_FINITE);
        return sizeof NOT_FINITE;
    }
    char *p = out;
    if (bits >> 31)
        *p++ = '-';
    if (bits << 1 == 0)
        *p++ = '0';
    else
        p = write_decimal_shortest(p, shortest_decimal(fraction, biased_exponent));
    return (size_t)(p - out);
}
