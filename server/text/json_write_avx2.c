/* json_write_avx2.c - floats to text, the digits of eight numbers at a time.
 *
 * The arithmetic is that of json_write_float.c, which explains it, in vectors of four 64-bit lanes:
 * every step has the same integers. Unusual numbers (zeros, integers, powers of two, denormals, a
 * single digit, NaN and infinities) are left to json_write_floats_plain(). The digits are put in
 * their places number by number, as in json_write_float.c.
 *
 * This file is apart from json_write_float.c because its functions are compiled for CPUs that have
 * AVX2, BMI1 and BMI2; json_floats.c calls them only on such CPUs. */
#include "text/json_floats.h"

#ifdef __x86_64__

#include "text/json_numbers.h"

#include <immintrin.h>

enum { BATCH = 8, HALF = 4 };

/* A batch of decimals as nine digits, beginning with the first digit that is not 0. */
struct batch {
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
AVX2_INLINE void make_four(struct batch *batch, int first, __m128i c, __m128i unusual, __m128i k,
                           __m128i h)
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
AVX2_INLINE bool make_batch(struct batch *batch, const float *values)
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

AVX2_INLINE char *write_batch(char *out, const struct batch *batch, const float *values)
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
    struct batch batch = { .rest = { 0 } };
    for (; count - i >= BATCH; i += BATCH) {
        if (make_batch(&batch, values + i))
            p = write_batch(p, &batch, values + i);
        else
            p += json_write_floats_plain(p, values + i, BATCH);
    }
    return (size_t)(p - out) + json_write_floats_plain(p, values + i, count - i);
}

#endif
