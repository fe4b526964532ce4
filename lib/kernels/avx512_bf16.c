/* SPDX-License-Identifier: Apache-2.0 */
/* avx512_bf16.c - the kernels of body_matrix.h on an instruction of vectors, VDPBF16PS of
 * AVX512-BF16, with AVX-512 F, DQ, BW and VL beside it.
 *
 * It makes up to twice the multiply-adds that float makes, so that three products of parts take
 * longer than one of floats. */
#include "body_matrix_pack.h"

#define dot_pairs(sum, a, b) _mm512_dpbf16_ps(sum, (__m512bh)(a), (__m512bh)(b))

#define ATTN_MATRIX      attn_matrix_avx512_bf16
#define ATTN_MATRIX_RULE .takes_small = false, .rows_min = 128, .products_max = 3
#include "body_matrix_dots.h"

#include "body_matrix.h"
