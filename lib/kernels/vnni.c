/* SPDX-License-Identifier: Apache-2.0 */
/* vnni.c - the kernels of body_fixed.h on an instruction of vectors, VPDPBUSD of AVX512-VNNI, with
 * AVX-512 F, DQ, BW and VL beside it.
 *
 * It uses parts of the headers of floats, whose other kernels are those of avx512.c. */
#pragma GCC diagnostic ignored "-Wunused-function"

#define VEC_BYTES 64
#include "vector.h"

#ifdef __clang__
#define dot_bytes(sums, bytes, digits) __builtin_ia32_vpdpbusd512(sums, bytes, digits)
#else
#define dot_bytes(sums, bytes, digits) __builtin_ia32_vpdpbusd_v16si(sums, bytes, digits)
#endif

typedef char byte_vec __attribute__((vector_size(VEC_BYTES)));

/* The byte of each sixteen that each byte of index names. */
INLINE ivec look_up(vec table, ivec index)
{
#ifdef __clang__
    return (ivec)__builtin_ia32_pshufb512((byte_vec)table, (byte_vec)index);
#else
    return (ivec)__builtin_ia32_pshufb512_mask((byte_vec)table, (byte_vec)index, (byte_vec){ 0 },
                                               UINT64_MAX);
#endif
}

typedef int32_t quarter_vec __attribute__((vector_size(VEC_BYTES / 4)));

/* Four times. gcc would take a shuffle of these through memory. */
INLINE ivec repeat(quarter_vec q)
{
#ifdef __clang__
    return __builtin_shufflevector(q, q, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3);
#else
    return __builtin_ia32_broadcasti32x4_512(q, (ivec){ 0 }, (uint16_t)-1);
#endif
}

#include "body_fixed.h"

const struct attn_fixed_kernels attn_fixed_vnni = {
    .project = project_fixed,
    .odd_rows = odd_rows,
    .cut = cut,
    .lay = lay,
};
