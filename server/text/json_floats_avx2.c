/* json_floats_avx2.c - rows of numbers into floats, several numbers side by side.
 *
 * A number at a time, most of the time goes into waiting: for where the number ends, for its
 * digits to become an integer, for that to become a double. So here two numbers are found in each
 * 64 bytes of text, by a mask of what is no digit; the digits of each are put side by side without
 * the point, at the end of a vector, and are worth 24 places whatever their number; and four
 * integers at once are scaled, rounded and judged, by the same arithmetic as in json_numbers.c, so
 * that all that is settled has the same bits. What is not settled goes to json_read_float(), and
 * a number of an unusual kind ends the row, as json_read_floats() may.
 *
 * json_floats.c asks the CPU for the features of AVX2_BODY. */
#include "text/json_floats.h"

#ifdef __x86_64__

#include "text/json_numbers.h"
#include "text/json_scan.h"

#include <immintrin.h>

enum {
    WINDOW = 64,
    READABLE = 2 * WINDOW, /* bytes from the number on */
    BEFORE = 33,           /* bytes before it that are read, and not looked at */
    DIGITS_MAX = 24,
    EXPONENT_BYTES_MAX = 8,
    SPACE_MAX =
        24, /* a sign, the digits and a point, an exponent, ", " and this: fewer than WINDOW */
    EXPONENT_READABLE = 16,
    BATCH = 8,
    GROUP = 4, /* integers of 64 bits in a vector */

    /* Between these all numbers are far enough from what no float can hold. */
    EXPONENT_MIN = -37,
    EXPONENT_MAX = 14,
};

/* Numbers that have been found. */
struct batch {
    __m256i fours[BATCH]; /* the last 32 digits by four: eight numbers below 10^4 */
    double scale[BATCH];
    uint32_t sign[BATCH]; /* the bit of a float */
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

/* The 32 bytes from n on choose the last n digits of 32, and make numbers of characters. */
static const uint8_t CHOICE[64] = {
    [32] = 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15,
    15,        15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15,
};

AVX2_INLINE __m256i choose_last(int64_t count)
{
    return _mm256_loadu_si256((const __m256i *)(CHOICE + count));
}

/* The digits before after, of which fraction ones have a point before them and whole ones stand
 * before that: by four, as in struct batch. */
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

/* Where "e-12" stands at text, the byte after it, and the scale with that exponent and fraction
 * digits. NULL where it is none, or out of bounds; text where something else stands there. */
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

/* Makes the number at text, from where on others is the mask of window_of_others() and comma the
 * next comma or, where the mask of commas has no more, the byte behind it; at is its place in the
 * batch. Returns the byte after it; NULL where it is of an unusual kind or none at all. Where a
 * mask has no more, a place too far away is looked at, and then found to be that. */
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
    /* An exponent may end right behind the mask, which is where comma is if there is none in it. */
    return after == comma && *comma != ',' ? NULL : after;
}

/* Past the white space at text, of which there is mostly none, so that what is quick has it out
 * of its way. Not past so much that the next number would lie outside of the window. */
__attribute__((noinline)) static const char *pass_space(const char *text, const char *end)
{
    return json_pass_space(text, end - text > SPACE_MAX ? text + SPACE_MAX : end);
}

/* Past the comma at text, and white space. */
AVX2_INLINE const char *pass_comma(const char *text, const char *end)
{
    text++;
    if (*text == ' ') /* a branch is foreseen, a sum would be waited for */
        text++;
    return __builtin_expect(*text <= ' ', false) ? pass_space(text, end) : text;
}

/* Makes numbers from *p on a batch, sets *text to the byte after the last one and *p to the
 * next, or there too where the row ends. False where it does, or what is next is not for us.
 *
 * Where the next two numbers begin hangs on the commas alone: it is what all else waits for. */
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
        /* Where the second one is no number, it is seen to be none as the first of the next two. */
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

/* The integers that four numbers' digits spell; in *too_long, which of them are 2^63 or more. */
AVX2_INLINE __m256i four_integers(const __m256i *fours, __m256i *too_long)
{
    const __m256i weights = _mm256_set1_epi32(1 << 16 | 10000);
    const __m256i first = _mm256_madd_epi16(_mm256_packus_epi32(fours[0], fours[1]), weights);
    const __m256i second = _mm256_madd_epi16(_mm256_packus_epi32(fours[2], fours[3]), weights);
    /* Of each number the first 16 of 32 digits, and the last: two halves each, the low one first.
     */
    const __m256i upper = _mm256_permute2x128_si256(first, second, 0x20);
    const __m256i lower = _mm256_permute2x128_si256(first, second, 0x31);
    const __m256i eight = _mm256_set1_epi64x(100000000);
    const __m256i last =
        _mm256_add_epi64(_mm256_mul_epu32(lower, eight), _mm256_srli_epi64(lower, 32));
    const uint64_t sixteen = 10000000000000000;
    const __m256i high = _mm256_srli_epi64(upper, 32); /* there are 24 digits at most */
    const __m256i by_low =
        _mm256_mul_epu32(high, _mm256_set1_epi64x((int64_t)(sixteen & UINT32_MAX)));
    const __m256i by_high = _mm256_mul_epu32(high, _mm256_set1_epi64x((int64_t)(sixteen >> 32)));
    *too_long = _mm256_cmpgt_epi64(high, _mm256_set1_epi64x(921));
    return _mm256_add_epi64(last, _mm256_add_epi64(by_low, _mm256_slli_epi64(by_high, 32)));
}

/* Integers below 2^63 as the nearest doubles: both halves are put behind the exponent of a double
 * that is exactly they and a power of two, and only the last sum rounds. */
AVX2_INLINE __m256d nearest_doubles(__m256i integers)
{
    const __m256i low_exponent = _mm256_set1_epi64x(0x4330000000000000);  /* 2^52 */
    const __m256i high_exponent = _mm256_set1_epi64x(0x4530000000000000); /* 2^84 */
    const __m256i low = _mm256_blend_epi32(integers, low_exponent, 0xAA);
    const __m256i high = _mm256_xor_si256(_mm256_srli_epi64(integers, 32), high_exponent);
    const __m256d both = _mm256_set1_pd(0x1p84 + 0x1p52);
    return _mm256_add_pd(_mm256_sub_pd(_mm256_castsi256_pd(high), both), _mm256_castsi256_pd(low));
}

/* The floats of four numbers of the batch, from the one at first on. Returns a bit for each that is
 * not settled. */
AVX2_INLINE int round_four(const struct batch *batch, int first, __m128 *floats)
{
    __m256i too_long;
    const __m256i integers = four_integers(batch->fours + first, &too_long);
    const __m256d near =
        _mm256_mul_pd(nearest_doubles(integers), _mm256_loadu_pd(batch->scale + first));
    /* The 29 bits that rounding removes, uppermost: from half - 4 on, nine of them are too near. */
    const __m256i below = _mm256_slli_epi64(_mm256_castpd_si256(near), 35);
    const __m256i from_half = _mm256_add_epi64(below, _mm256_set1_epi64x(INT64_C(4) << 35));
    const __m256i too_near =
        _mm256_cmpgt_epi64(_mm256_set1_epi64x(INT64_MIN + (INT64_C(9) << 35)), from_half);
    const __m128i sign = _mm_loadu_si128((const __m128i *)(batch->sign + first));
    *floats = _mm_or_ps(_mm256_cvtpd_ps(near), _mm_castsi128_ps(sign));
    return _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_or_si256(too_long, too_near)));
}

/* Writes the floats of the batch. */
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
    struct batch batch = { .count = 0 }; /* what it does not hold is computed too */
    while (more) {
        batch.count = 0;
        more = fill(&batch, &p, text, end);
        convert(&batch, end, values + count);
        count += (size_t)batch.count;
    }
    if (end - p < READABLE && (p > *text || count == 0)) { /* the row goes on */
        const size_t last = json_read_floats_plain(begin, &p, end, values + count);
        count += last;
        if (last > 0)
            *text = p;
    }
    return count;
}

#endif
