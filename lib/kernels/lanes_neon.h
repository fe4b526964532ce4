/* SPDX-License-Identifier: Apache-2.0 */
/* lanes_neon.h - sixteen lanes on 64-bit ARM: four vectors of NEON under the names of those AVX-512
 * intrinsics that body_matrix.h and body_matrix_pack.h use, so that these have one source.
 *
 * Every lane gets what the intrinsic gives, but for _mm512_scalef_ps(), whose result is 0 where it
 * would be subnormal. Arguments that are always the same here are ignored. */
#ifndef ATTN_LANES_NEON_H
#define ATTN_LANES_NEON_H

#include <arm_neon.h>
#include <stdint.h>

typedef struct {
    float32x4_t of[4];
} __m512;

typedef struct {
    uint32x4_t of[4];
} __m512i;

typedef struct {
    uint16x8_t of[2];
} __m256i;

typedef uint16_t __mmask16;

/* For each vector i. */
#define EACH UNROLL for (int i = 0; i < 4; i++)

/* A function of lanes, in terms of a vector of NEON. */
#define ONE(name, result, a_type, expression)                                                      \
    INLINE result name(a_type a)                                                                   \
    {                                                                                              \
        result y;                                                                                  \
        EACH y.of[i] = expression;                                                                 \
        return y;                                                                                  \
    }
#define TWO(name, type, expression)                                                                \
    INLINE type name(type a, type b)                                                               \
    {                                                                                              \
        type y;                                                                                    \
        EACH y.of[i] = expression;                                                                 \
        return y;                                                                                  \
    }
#define THREE(name, expression)                                                                    \
    INLINE __m512 name(__m512 a, __m512 b, __m512 c)                                               \
    {                                                                                              \
        __m512 y;                                                                                  \
        EACH y.of[i] = expression;                                                                 \
        return y;                                                                                  \
    }

/* --------------------------------------------------------------------- loads and stores -- */

INLINE __m512 _mm512_load_ps(const float *from)
{
    __m512 y;
    EACH y.of[i] = vld1q_f32(from + 4 * i);
    return y;
}

INLINE void _mm512_store_ps(float *to, __m512 x)
{
    EACH vst1q_f32(to + 4 * i, x.of[i]);
}

INLINE void _mm512_store_si512(uint16_t *to, __m512i x)
{
    EACH vst1q_u16(to + 8 * i, vreinterpretq_u16_u32(x.of[i]));
}

INLINE __m512 _mm512_set1_ps(float x)
{
    return (__m512){ { vdupq_n_f32(x), vdupq_n_f32(x), vdupq_n_f32(x), vdupq_n_f32(x) } };
}

INLINE __m512 _mm512_setzero_ps(void)
{
    return _mm512_set1_ps(0.0f);
}

INLINE __m512i _mm512_set1_epi32(int32_t x)
{
    const uint32x4_t v = vdupq_n_u32((uint32_t)x);
    return (__m512i){ { v, v, v, v } };
}

/* Only the first lanes are present, and no others are read. */
INLINE __m512 _mm512_maskz_loadu_ps(__mmask16 present, const float *from)
{
    float lanes[16] = { 0 };
    if (present == 0xffff)
        return _mm512_load_ps(from);
    for (int i = 0; present >> i != 0; i++)
        lanes[i] = from[i];
    return _mm512_load_ps(lanes);
}

/* --------------------------------------------------------------------------- arithmetic -- */

TWO(_mm512_add_ps, __m512, vaddq_f32(a.of[i], b.of[i]))
TWO(_mm512_sub_ps, __m512, vsubq_f32(a.of[i], b.of[i]))
TWO(_mm512_mul_ps, __m512, vmulq_f32(a.of[i], b.of[i]))
THREE(_mm512_fmadd_ps, vfmaq_f32(c.of[i], a.of[i], b.of[i]))
THREE(_mm512_fmsub_ps, vfmaq_f32(vnegq_f32(c.of[i]), a.of[i], b.of[i]))

/* The greater; b where one is NaN. */
TWO(_mm512_max_ps, __m512, vbslq_f32(vcgtq_f32(a.of[i], b.of[i]), a.of[i], b.of[i]))

/* a less its floor; 0 for an infinity. */
INLINE float32x4_t fraction_of(float32x4_t a)
{
    const uint32x4_t is_infinite = vceqq_f32(vabsq_f32(a), vdupq_n_f32(__builtin_inff()));
    const float32x4_t rest = vsubq_f32(a, vrndmq_f32(a));
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(rest), is_infinite));
}
ONE(fractions_of, __m512, __m512, fraction_of(a.of[i]))
#define _mm512_reduce_ps(a, fraction_of_floor) fractions_of(a)

/* 2^floor(b), whose exponent is made of bits: 0 below 2^-126, infinite from 2^128 on. */
INLINE float32x4_t power_of_floor(float32x4_t b)
{
    const int32x4_t n =
        vminq_s32(vmaxq_s32(vcvtmq_s32_f32(b), vdupq_n_s32(-127)), vdupq_n_s32(128));
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
}
TWO(_mm512_scalef_ps, __m512, vmulq_f32(a.of[i], power_of_floor(b.of[i])))

/* --------------------------------------------------------------------------------- bits -- */

ONE(_mm512_castps_si512, __m512i, __m512, vreinterpretq_u32_f32(a.of[i]))
ONE(_mm512_castsi512_ps, __m512, __m512i, vreinterpretq_f32_u32(a.of[i]))
TWO(_mm512_and_si512, __m512i, vandq_u32(a.of[i], b.of[i]))
TWO(_mm512_add_epi32, __m512i, vaddq_u32(a.of[i], b.of[i]))
ONE(lanes_high_halves, __m512i, __m512i, vshrq_n_u32(a.of[i], 16))

INLINE __m512i _mm512_srli_epi32(__m512i a, int bits)
{
    (void)bits; /* 16 */
    return lanes_high_halves(a);
}

/* a | (b & c), the one function of three that is used: c is HIGH_HALVES. */
INLINE __m512i lanes_or_and(__m512i a, __m512i b, __m512i c)
{
    EACH a.of[i] = vorrq_u32(a.of[i], vandq_u32(b.of[i], c.of[i]));
    return a;
}
#define _mm512_ternarylogic_epi32(a, b, c, function) lanes_or_and(a, b, c)

INLINE __m256i _mm512_cvtepi32_epi16(__m512i a)
{
    return (
        __m256i){ { vuzp1q_u16(vreinterpretq_u16_u32(a.of[0]), vreinterpretq_u16_u32(a.of[1])),
                    vuzp1q_u16(vreinterpretq_u16_u32(a.of[2]), vreinterpretq_u16_u32(a.of[3])) } };
}

INLINE __m512i _mm512_castsi256_si512(__m256i a)
{
    const uint32x4_t zero = vdupq_n_u32(0);
    return (
        __m512i){ { vreinterpretq_u32_u16(a.of[0]), vreinterpretq_u32_u16(a.of[1]), zero, zero } };
}

INLINE __m512i _mm512_inserti64x4(__m512i a, __m256i high, int half)
{
    (void)half; /* 1 */
    a.of[2] = vreinterpretq_u32_u16(high.of[0]);
    a.of[3] = vreinterpretq_u32_u16(high.of[1]);
    return a;
}

/* ------------------------------------------------------------------ comparisons to masks -- */

INLINE __mmask16 mask_of(__m512i a)
{
    static const uint32_t places[4] = { 1, 2, 4, 8 };
    const uint32x4_t bits = vld1q_u32(places);
    uint32_t mask = 0;
    EACH mask |= vaddvq_u32(vandq_u32(a.of[i], bits)) << 4 * i;
    return (__mmask16)mask;
}

TWO(lanes_less, __m512, vreinterpretq_f32_u32(vcltq_f32(a.of[i], b.of[i])))
TWO(lanes_not_less, __m512, vreinterpretq_f32_u32(vmvnq_u32(vcltq_f32(a.of[i], b.of[i]))))
/* false where one is NaN */
TWO(lanes_differ, __m512,
    vreinterpretq_f32_u32(vorrq_u32(vcltq_f32(a.of[i], b.of[i]), vcgtq_f32(a.of[i], b.of[i]))))

#define COMPARE_CMP_LT_OQ             lanes_less
#define COMPARE_CMP_NLT_UQ            lanes_not_less
#define COMPARE_CMP_NEQ_OQ            lanes_differ
#define _mm512_cmp_ps_mask(a, b, how) mask_of(_mm512_castps_si512(COMPARE##how(a, b)))

INLINE __m512 _mm512_maskz_mov_ps(__mmask16 kept, __m512 a)
{
    static const uint32_t places[4] = { 1, 2, 4, 8 };
    const uint32x4_t bits = vld1q_u32(places);
    EACH a.of[i] = vreinterpretq_f32_u32(vandq_u32(
        vreinterpretq_u32_f32(a.of[i]), vtstq_u32(vdupq_n_u32((uint32_t)kept >> 4 * i), bits)));
    return a;
}

/* ---------------------------------------------------------------- lanes to other lanes -- */

#define LONG(x) vreinterpretq_u64_u32(x)
TWO(_mm512_unpacklo_epi32, __m512i, vzip1q_u32(a.of[i], b.of[i]))
TWO(_mm512_unpackhi_epi32, __m512i, vzip2q_u32(a.of[i], b.of[i]))
TWO(_mm512_unpacklo_epi64, __m512i, vreinterpretq_u32_u64(vzip1q_u64(LONG(a.of[i]), LONG(b.of[i]))))
TWO(_mm512_unpackhi_epi64, __m512i, vreinterpretq_u32_u64(vzip2q_u64(LONG(a.of[i]), LONG(b.of[i]))))
#undef LONG

/* Two quarters of a, then two of b, two bits of which for each. */
INLINE __m512i _mm512_shuffle_i32x4(__m512i a, __m512i b, const int which)
{
    return (__m512i){ { a.of[which & 3], a.of[which >> 2 & 3], b.of[which >> 4 & 3],
                        b.of[which >> 6 & 3] } };
}

#undef ONE
#undef TWO
#undef THREE
#undef EACH

#endif
