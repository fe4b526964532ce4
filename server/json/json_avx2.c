/* SPDX-License-Identifier: Apache-2.0 */
/* json_avx2.c - rows of numbers into floats and back, several numbers side by side.
 *
 * A reader of one number at a time mostly waits: for the end of the number, for its digits to
 * become an integer, for the integer to become a double. So this reader works side by side:
 *
 *   1. It finds two numbers in each 64 bytes of text, by a mask of the bytes that are not digits.
 *   2. It puts the digits of each number at the end of a vector, without the point and with zeros
 *      before them, so that every number is computed as if it had 24 digits.
 *   3. It scales, rounds and checks four integers at once.
 *
 * The arithmetic is that of json_numbers.c, so every float that it settles has the same bits.
 * Numbers that it does not settle go to json_read_float(). A number of an unusual kind ends the
 * row, as json_read_floats() may.
 *
 * The writer takes eight numbers at a time, in vectors of four 64-bit lanes: every step has the
 * same integers as in json_numbers.c. Unusual numbers (zeros, integers, powers of two, denormals, a
 * single digit, NaN and infinities) are left to json_write_floats_plain(). The digits are put in
 * their places number by number.
 *
 * The functions are compiled for CPUs that have AVX2, BMI1 and BMI2; json_floats.c calls them only
 * on such CPUs. */
#include "json/json_floats.h"

#ifdef __x86_64__

#include "json/json_numbers.h"
#include "json/json_scan.h"

#include <immintrin.h>

enum { BATCH = 8 };

/* ------------------------------------------------------------------ reading -- */

enum {
    WINDOW = 64,
    READABLE = 2 * WINDOW, /* bytes from a number on that must be readable */
    BEFORE = 33,           /* bytes before a number that are read and then ignored */
    DIGITS_MAX = 24,
    EXPONENT_BYTES_MAX = 8,
    SPACE_MAX = 24, /* with a sign, digits, a point, an exponent and ", ": less than WINDOW */
    EXPONENT_READABLE = 16,
    GROUP = 4, /* integers of 64 bits in a vector */

    /* Between these exponents no number comes near the bounds of what a float can hold. */
    EXPONENT_MIN = -37,
    EXPONENT_MAX = 14,
};

/* Numbers that were found and are not computed yet. */
struct batch {
    __m256i fours[BATCH]; /* the last 32 digits in groups of four: eight numbers below 10^4 */
    double scale[BATCH];
    uint32_t sign[BATCH]; /* the sign bit of the float */
    const char *start[BATCH];
    int64_t count;
};

/* A bit for each of WINDOW bytes that is not a digit, the first byte's in the lowest bit. */
AVX2_INLINE uint64_t window_of_others(const char *text)
{
    const __m256i zero = _mm256_set1_epi8('0'), to_top = _mm256_set1_epi8(128 - 10);
    const __m256i low = _mm256_sub_epi8(_mm256_loadu_si256((const __m256i *)text), zero);
    const __m256i high = _mm256_sub_epi8(_mm256_loadu_si256((const __m256i *)(text + 32)), zero);
    return (uint32_t)_mm256_movemask_epi8(_mm256_adds_epu8(low, to_top))
           | (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_adds_epu8(high, to_top)) << 32;
}

/* A bit for each of WINDOW bytes that is a comma. */
AVX2_INLINE uint64_t window_of_commas(const char *text)
{
    const __m256i comma = _mm256_set1_epi8(',');
    const __m256i low = _mm256_loadu_si256((const __m256i *)text);
    const __m256i high = _mm256_loadu_si256((const __m256i *)(text + 32));
    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, comma))
           | (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, comma)) << 32;
}

/* The 32 bytes from offset n on are a mask that keeps the last n of 32 digits, and turns characters
 * into numbers. */
static const uint8_t CHOICE[64] = {
    [32] = 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15,
    15,        15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15,
};

AVX2_INLINE __m256i choose_last(int64_t count)
{
    return _mm256_loadu_si256((const __m256i *)(CHOICE + count));
}

/* Reads the digits that end at `after`: `whole` digits, a point if fraction > 0, and `fraction`
 * digits. Returns them in groups of four, as in struct batch. */
AVX2_INLINE __m256i read_fours(const char *after, int64_t whole, int64_t fraction)
{
    const __m256i behind_point = _mm256_loadu_si256((const __m256i *)(after - 32));
    const __m256i before_point = _mm256_loadu_si256((const __m256i *)(after - 33));
    const __m256i last = choose_last(fraction), all = choose_last(whole + fraction);
    const __m256i digits =
        _mm256_or_si256(_mm256_and_si256(last, behind_point),
                        _mm256_and_si256(_mm256_xor_si256(last, all), before_point));
    const __m256i twos = _mm256_maddubs_epi16(digits, _mm256_set1_epi16(1 << 8 | 10));
    return _mm256_madd_epi16(twos, _mm256_set1_epi32(1 << 16 | 100));
}

/* Reads an exponent like "e-12" at text: returns the byte after it and sets *scale for that
 * exponent and `fraction` digits behind the point. Returns text where no exponent begins there,
 * NULL where one begins and is malformed or out of bounds. */
static const char *read_exponent(const char *text, const char *end, int64_t fraction, double *scale)
{
    if ((*text | 0x20) != 'e')
        return text;
    if (end - text < EXPONENT_READABLE)
        return NULL;
    const char *p = text + 1;
    const bool negative = *p == '-';
    p += *p == '-' || *p == '+';
    const char *digits = p;
    int64_t magnitude = 0;
    for (; json_scan_is_digit(*p) && p - text < EXPONENT_BYTES_MAX; p++)
        magnitude = magnitude * 10 + (*p - '0');
    const int64_t exponent = (negative ? -magnitude : magnitude) - fraction;
    if (p == digits || p - text == EXPONENT_BYTES_MAX || exponent < EXPONENT_MIN
        || exponent > EXPONENT_MAX)
        return NULL;
    *scale = JSON_POW10_DOUBLE[exponent - JSON_POW10_DOUBLE_MIN];
    return p;
}

/* Finds the number at text and puts it into place `at` of the batch. others is window_of_others()
 * from text on; comma is the next comma or, where the window has no more commas, the byte behind
 * the window. Returns the byte after the number, NULL where it is of an unusual kind or none. Where
 * a mask has no more bits, the byte behind the window is looked at; the length of what was found
 * then shows that it is no number of the usual kind. */
AVX2_INLINE const char *find_number(const char *text, const char *end, uint64_t others,
                                    const char *comma, struct batch *batch, int64_t at)
{
    const bool negative = *text == '-';
    others &= ~(uint64_t)negative;
    const char *after = text + _tzcnt_u64(others);
    const int64_t whole = after - text - negative;
    if (whole != 1 && (whole == 0 || text[negative] == '0'))
        return NULL;
    const char *fraction_end = after + 1;
    int64_t fraction = 0;
    if (*after == '.') {
        after = text + _tzcnt_u64(_blsr_u64(others));
        fraction = after - fraction_end;
        if (fraction == 0)
            return NULL;
        fraction_end = after;
    }
    if (whole + fraction > DIGITS_MAX)
        return NULL;
    batch->fours[at] = read_fours(fraction_end, whole, fraction);
    batch->scale[at] = JSON_POW10_DOUBLE[-JSON_POW10_DOUBLE_MIN - fraction];
    batch->sign[at] = (uint32_t)negative << 31;
    batch->start[at] = text;
    if (after == comma)
        return after;
    after = read_exponent(after, end, fraction, &batch->scale[at]);
    /* An exponent may end right behind the window, where comma points if the window has none. */
    return after == comma && *comma != ',' ? NULL : after;
}

/* Moves past the white space at text, but not so far that the next number would lie outside the
 * window. Mostly there is none, so this is out of line, to leave the quick way short. */
__attribute__((noinline)) static const char *pass_space(const char *text, const char *end)
{
    return json_pass_space(text, end - text > SPACE_MAX ? text + SPACE_MAX : end);
}

/* Moves past the comma at text, and white space. */
AVX2_INLINE const char *pass_comma(const char *text, const char *end)
{
    text++;
    if (*text == ' ') /* a branch is predicted, while a sum would be waited for */
        text++;
    return __builtin_expect(*text <= ' ', false) ? pass_space(text, end) : text;
}

/* Finds numbers from *p on for a batch. Sets *text to the byte after the last number and *p to the
 * next number, or to the same byte where the row ends. Returns false where the row ends or the next
 * number is not for this reader.
 *
 * All else waits for where the next two numbers begin, so that depends on the commas alone. */
AVX2_INLINE bool fill(struct batch *batch, const char **p, const char **text, const char *end)
{
    const char *next = *p, *after = *text;
    int64_t count = 0;
    bool more = false;
    while (end - next >= READABLE) {
        const char *first = next;
        const uint64_t others = window_of_others(first), commas = window_of_commas(first);
        const char *comma = first + _tzcnt_u64(commas);
        const char *found = find_number(first, end, others, comma, batch, count);
        if (!found)
            break;
        count++;
        next = after = found;
        if (after != comma)
            break;
        next = pass_comma(comma, end);
        /* Where the second is no number, the next round sees that: it is then the first of two. */
        comma = first + _tzcnt_u64(_blsr_u64(commas));
        found = find_number(next, end, others >> (next - first), comma, batch, count);
        if (found) {
            count++;
            next = after = found;
            if (after != comma)
                break;
            next = pass_comma(comma, end);
        }
        if (count >= BATCH - 1) {
            more = true;
            break;
        }
    }
    *p = next;
    *text = after;
    batch->count = count;
    return more;
}

/* The integers that the digits of four numbers spell. *too_long has all ones for those of 2^63 or
 * more. */
AVX2_INLINE __m256i four_integers(const __m256i *fours, __m256i *too_long)
{
    const __m256i weights = _mm256_set1_epi32(1 << 16 | 10000);
    const __m256i first = _mm256_madd_epi16(_mm256_packus_epi32(fours[0], fours[1]), weights);
    const __m256i second = _mm256_madd_epi16(_mm256_packus_epi32(fours[2], fours[3]), weights);
    /* The first 16 and the last 16 of each number's 32 digits, as two halves, the first half low.
     */
    const __m256i upper = _mm256_permute2x128_si256(first, second, 0x20);
    const __m256i lower = _mm256_permute2x128_si256(first, second, 0x31);
    const __m256i eight = _mm256_set1_epi64x(100000000);
    const __m256i last =
        _mm256_add_epi64(_mm256_mul_epu32(lower, eight), _mm256_srli_epi64(lower, 32));
    const uint64_t sixteen = 10000000000000000;
    const __m256i high = _mm256_srli_epi64(upper, 32); /* its low half is 0: at most 24 digits */
    const __m256i by_low =
        _mm256_mul_epu32(high, _mm256_set1_epi64x((int64_t)(sixteen & UINT32_MAX)));
    const __m256i by_high = _mm256_mul_epu32(high, _mm256_set1_epi64x((int64_t)(sixteen >> 32)));
    *too_long = _mm256_cmpgt_epi64(high, _mm256_set1_epi64x(921));
    return _mm256_add_epi64(last, _mm256_add_epi64(by_low, _mm256_slli_epi64(by_high, 32)));
}

/* Integers below 2^63 as the nearest doubles. Each half of an integer becomes the fraction of a
 * double whose value is exactly that half plus a power of two. Only the last sum rounds. */
AVX2_INLINE __m256d nearest_doubles(__m256i integers)
{
    const __m256i low_exponent = _mm256_set1_epi64x(0x4330000000000000);  /* 2^52 */
    const __m256i high_exponent = _mm256_set1_epi64x(0x4530000000000000); /* 2^84 */
    const __m256i low = _mm256_blend_epi32(integers, low_exponent, 0xAA);
    const __m256i high = _mm256_xor_si256(_mm256_srli_epi64(integers, 32), high_exponent);
    const __m256d both = _mm256_set1_pd(0x1p84 + 0x1p52);
    return _mm256_add_pd(_mm256_sub_pd(_mm256_castsi256_pd(high), both), _mm256_castsi256_pd(low));
}

/* Computes four floats of the batch, from number `first` on. Returns a bit for each float that is
 * not settled. */
AVX2_INLINE int round_four(const struct batch *batch, int first, __m128 *floats)
{
    __m256i too_long;
    const __m256i integers = four_integers(batch->fours + first, &too_long);
    const __m256d near =
        _mm256_mul_pd(nearest_doubles(integers), _mm256_loadu_pd(batch->scale + first));
    /* The 29 bits that rounding removes, moved to the top. The nine values from half - 4 to half +
     * 4 are too near to the middle between two floats. */
    const __m256i below = _mm256_slli_epi64(_mm256_castpd_si256(near), 35);
    const __m256i from_half = _mm256_add_epi64(below, _mm256_set1_epi64x(INT64_C(4) << 35));
    const __m256i too_near =
        _mm256_cmpgt_epi64(_mm256_set1_epi64x(INT64_MIN + (INT64_C(9) << 35)), from_half);
    const __m128i sign = _mm_loadu_si128((const __m128i *)(batch->sign + first));
    *floats = _mm_or_ps(_mm256_cvtpd_ps(near), _mm_castsi128_ps(sign));
    return _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_or_si256(too_long, too_near)));
}

/* Computes all floats of the batch into values. */
AVX2_INLINE void convert(struct batch *batch, const char *end, float *values)
{
    for (int first = 0; first < batch->count; first += GROUP) {
        const int left = (int)batch->count - first;
        __m128 floats;
        int unsettled = round_four(batch, first, &floats);
        if (left >= GROUP) {
            _mm_storeu_ps(values + first, floats);
        } else {
            const __m128i lanes = _mm_setr_epi32(0, 1, 2, 3);
            _mm_maskstore_ps(values + first, _mm_cmpgt_epi32(_mm_set1_epi32(left), lanes), floats);
            unsettled &= (1 << left) - 1;
        }
        for (; __builtin_expect(unsettled, 0); unsettled &= unsettled - 1) {
            const int i = first + __builtin_ctz((unsigned)unsettled);
            json_read_float(batch->start[i], end, &values[i]);
        }
    }
}

AVX2_BODY size_t json_read_floats_avx2(const char *begin, const char **text, const char *end,
                                       float *values)
{
    size_t count = 0;
    if (*text - begin < BEFORE)
        count = json_read_floats_before(begin + BEFORE, text, end, values);
    const char *p = *text;
    if (count > 0 && end - p > 2 && *p == ',')
        p = pass_comma(p, end);
    bool more = p - begin >= BEFORE && (count == 0 || p > *text);
    struct batch batch = { .count = 0 }; /* zeroed: round_four() also computes unused places */
    while (more) {
        batch.count = 0;
        more = fill(&batch, &p, text, end);
        convert(&batch, end, values + count);
        count += (size_t)batch.count;
    }
    if (end - p < READABLE && (p > *text || count == 0)) { /* the row goes on near the end */
        const size_t last = json_read_floats_plain(begin, &p, end, values + count);
        count += last;
        if (last > 0)
            *text = p;
    }
    return count;
}

/* ------------------------------------------------------------------ writing -- */

enum { HALF = 4 };

/* A batch of decimals as nine digits, beginning with the first digit that is not 0. */
struct digits_batch {
    uint64_t rest[BATCH]; /* as in struct json_digits; 0 where the number is unusual */
    int64_t first[BATCH]; /* as a number, not a character */
    int64_t point[BATCH];
};

/* Floats as c * 2^q, where c has 24 bits, and what follows from q. */
struct parts {
    __m256i c;
    __m256i unusual; /* all ones where the number is unusual; c, k and h then mean nothing */
    __m256i k, h;    /* as in shortest_decimal() */
};

AVX2_INLINE __m256i all32(int value)
{
    return _mm256_set1_epi32(value);
}

AVX2_INLINE __m256i all64(int64_t value)
{
    return _mm256_set1_epi64x(value);
}

AVX2_INLINE struct parts take_apart(const float *values)
{
    const __m256i bits = _mm256_loadu_si256((const __m256i *)values);
    const __m256i exponent = _mm256_and_si256(_mm256_srli_epi32(bits, 23), all32(0xFF));
    const __m256i fraction = _mm256_and_si256(bits, all32(0x7FFFFF));
    const __m256i c = _mm256_or_si256(fraction, all32(0x800000));
    /* A shift by 32 or more, or by less than 0, gives 0, and so a mask of all bits. */
    const __m256i below_one = _mm256_sub_epi32(
        _mm256_sllv_epi32(all32(1), _mm256_sub_epi32(all32(150), exponent)), all32(1));
    const __m256i zero = _mm256_setzero_si256();
    const __m256i is_integer = _mm256_cmpeq_epi32(_mm256_and_si256(c, below_one), zero);
    const __m256i is_power = _mm256_cmpeq_epi32(fraction, zero);
    const __m256i is_small = _mm256_cmpeq_epi32(exponent, zero);
    const __m256i is_large = _mm256_cmpgt_epi32(exponent, all32(150));
    const __m256i unusual =
        _mm256_or_si256(_mm256_or_si256(is_integer, is_power), _mm256_or_si256(is_small, is_large));
    const __m256i usual_exponent = _mm256_blendv_epi8(exponent, all32(100), unusual);
    const __m256i q = _mm256_sub_epi32(usual_exponent, all32(150));
    const __m256i k = _mm256_srai_epi32(_mm256_mullo_epi32(q, all32(1262611)), 22);
    const __m256i log2 = _mm256_srai_epi32(_mm256_mullo_epi32(k, all32(-1741647)), 19);
    const __m256i h = _mm256_add_epi32(_mm256_add_epi32(q, log2), all32(1));
    return (struct parts){ c, unusual, k, h };
}

/* shortest_decimal() of four numbers that are not powers of two. */
AVX2_INLINE __m256i shortest_decimals(__m256i c, __m256i h, __m256i g)
{
    enum { UNIT_BITS = 35, TOLERANCE = 2 };
    /* g * c >> (29 - h). g * c has 88 bits, so it is made of two products. The upper one is shifted
     * to the left and loses no bit; so the sum is exactly the whole product shifted. */
    const __m256i lower = _mm256_mul_epu32(g, c);
    const __m256i upper = _mm256_mul_epu32(_mm256_srli_epi64(g, 32), c);
    const __m256i x = _mm256_add_epi64(_mm256_sllv_epi64(upper, _mm256_add_epi64(h, all64(3))),
                                       _mm256_srlv_epi64(lower, _mm256_sub_epi64(all64(29), h)));
    const __m256i one = all64(1), tolerance = all64(TOLERANCE);
    const __m256i inside =
        _mm256_sub_epi64(tolerance, _mm256_slli_epi64(_mm256_and_si256(c, one), 2));
    const __m256i ulp_half = _mm256_srlv_epi64(g, _mm256_sub_epi64(all64(65 - UNIT_BITS), h));
    const __m256i reach = _mm256_add_epi64(ulp_half, inside);

    const __m256i s = _mm256_srli_epi64(x, UNIT_BITS);
    const __m256i tens = _mm256_srli_epi64(_mm256_mul_epu32(s, all64(0xCCCCCCCD)), 35);
    const __m256i round = _mm256_mul_epu32(tens, all64(10));
    const __m256i above_round = _mm256_sub_epi64(x, _mm256_slli_epi64(round, UNIT_BITS));
    const __m256i to_next = _mm256_sub_epi64(all64(10LL << UNIT_BITS), above_round);
    const __m256i not_up = _mm256_cmpgt_epi64(to_next, reach);
    const __m256i not_down = _mm256_cmpgt_epi64(above_round, reach);
    const __m256i above = _mm256_and_si256(x, all64((1LL << UNIT_BITS) - 1));
    const __m256i to_even =
        _mm256_sub_epi64(tolerance, _mm256_slli_epi64(_mm256_and_si256(s, one), 2));
    const __m256i half = _mm256_add_epi64(all64(1LL << (UNIT_BITS - 1)), to_even);
    const __m256i full = _mm256_sub_epi64(s, _mm256_cmpgt_epi64(above, half));
    const __m256i shorter = _mm256_add_epi64(round, _mm256_andnot_si256(not_up, all64(10)));
    return _mm256_blendv_epi8(shorter, full, _mm256_and_si256(not_up, not_down));
}

/* value / divisor, both below 2^32, for the divisor that magic and shift stand for. */
AVX2_INLINE __m256i divide(__m256i value, int64_t magic, int shift)
{
    return _mm256_srli_epi64(_mm256_mul_epu32(value, all64(magic)), shift);
}

/* The eight digits of each of four numbers below 10^8, one a byte, the first in the lowest byte. */
AVX2_INLINE __m256i eight_digits(__m256i value)
{
    const __m256i upper = divide(value, 3518437209, 45); /* / 10000 */
    const __m256i lower = _mm256_sub_epi64(value, _mm256_mul_epu32(upper, all64(10000)));
    const __m256i fours = _mm256_or_si256(upper, _mm256_slli_epi64(lower, 32));
    const __m256i hundreds =
        _mm256_srli_epi16(_mm256_mulhi_epu16(fours, _mm256_set1_epi16(5243)), 3);
    const __m256i below_hundred =
        _mm256_sub_epi16(fours, _mm256_mullo_epi16(hundreds, _mm256_set1_epi16(100)));
    const __m256i twos = _mm256_or_si256(hundreds, _mm256_slli_epi32(below_hundred, 16));
    const __m256i tens = _mm256_mulhi_epu16(twos, _mm256_set1_epi16(6554));
    const __m256i ones = _mm256_sub_epi16(twos, _mm256_mullo_epi16(tens, _mm256_set1_epi16(10)));
    return _mm256_or_si256(tens, _mm256_slli_epi16(ones, 8));
}

/* Makes four numbers of the batch, from number `first` on. */
AVX2_INLINE void make_four(struct digits_batch *batch, int first, __m128i c, __m128i unusual,
                           __m128i k, __m128i h)
{
    const __m128i index = _mm_sub_epi32(_mm_set1_epi32(-JSON_POW10_G_MIN), k);
    const __m256i g = _mm256_i32gather_epi64((const long long *)JSON_POW10_G, index, 8);
    const __m256i decimal =
        shortest_decimals(_mm256_cvtepu32_epi64(c), _mm256_cvtepu32_epi64(h), g);
    /* A normal float has at least seven digits; zeros behind them make nine. */
    const __m256i below_nine = _mm256_cmpgt_epi64(all64(100000000), decimal);
    const __m256i below_eight = _mm256_cmpgt_epi64(all64(10000000), decimal);
    const __m256i power = _mm256_blendv_epi8(_mm256_blendv_epi8(all64(1), all64(10), below_nine),
                                             all64(100), below_eight);
    const __m256i nine = _mm256_mul_epu32(decimal, power);
    const __m256i leading = divide(nine, 1441151881, 57); /* / 10^8 */
    const __m256i rest =
        eight_digits(_mm256_sub_epi64(nine, _mm256_mul_epu32(leading, all64(100000000))));
    const __m256i length = _mm256_add_epi64(all64(9), _mm256_add_epi64(below_nine, below_eight));
    const __m256i point = _mm256_add_epi64(_mm256_cvtepi32_epi64(k), length);
    const __m256i usual_rest = _mm256_andnot_si256(_mm256_cvtepi32_epi64(unusual), rest);
    _mm256_storeu_si256((__m256i *)(batch->rest + first), usual_rest);
    _mm256_storeu_si256((__m256i *)(batch->first + first), leading);
    _mm256_storeu_si256((__m256i *)(batch->point + first), point);
}

/* Makes a batch of eight floats. Returns false where all of them are unusual, which pays because
 * zeros and integers mostly come in rows. */
AVX2_INLINE bool make_batch(struct digits_batch *batch, const float *values)
{
    const struct parts parts = take_apart(values);
    if (_mm256_movemask_epi8(parts.unusual) == -1)
        return false;
    make_four(batch, 0, _mm256_castsi256_si128(parts.c), _mm256_castsi256_si128(parts.unusual),
              _mm256_castsi256_si128(parts.k), _mm256_castsi256_si128(parts.h));
    make_four(batch, HALF, _mm256_extracti128_si256(parts.c, 1),
              _mm256_extracti128_si256(parts.unusual, 1), _mm256_extracti128_si256(parts.k, 1),
              _mm256_extracti128_si256(parts.h, 1));
    return true;
}

AVX2_INLINE char *write_batch(char *out, const struct digits_batch *batch, const float *values)
{
    for (int i = 0; i < BATCH; i++) {
        if (batch->rest[i] == 0) {
            out += json_write_floats_plain(out, &values[i], 1);
            continue;
        }
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        *out = '-';
        out += bits >> 31;
        const struct json_digits digits = { (char)('0' + batch->first[i]), batch->rest[i],
                                            (int)batch->point[i] };
        out = json_write_by_layout(out, digits);
        *out++ = ',';
    }
    return out;
}

AVX2_BODY size_t json_write_floats_avx2(char *out, const float *values, size_t count)
{
    char *p = out;
    size_t i = 0;
    struct digits_batch batch = { .rest = { 0 } };
    for (; count - i >= BATCH; i += BATCH) {
        if (make_batch(&batch, values + i))
            p = write_batch(p, &batch, values + i);
        else
            p += json_write_floats_plain(p, values + i, BATCH);
    }
    return (size_t)(p - out) + json_write_floats_plain(p, values + i, count - i);
}

#endif
