/* json_write_float.c - see json_numbers.h: float32 to text.
 *
 * The float32 form of Schubfach (R. Giulietti, "The Schubfach way to render doubles", 2020) finds
 * the shortest digits with three products and no loop. Then only branches that the processor cannot
 * predict cost time. So the sign takes no branch, and json_floats.h places digits without one.
 * Branches stay where all numbers of a tensor are mostly of one kind: zeros, integers, numbers of a
 * single digit. */
#include "text/json_numbers.h"

#include "text/json_floats.h"

#include <string.h>

__extension__ typedef unsigned __int128 uint128;

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
