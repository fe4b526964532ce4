/* SPDX-License-Identifier: Apache-2.0 */
/* neon_bf16.c - the kernels of body_matrix.h on BFMMLA, an instruction of vectors of 64-bit ARM
 * with FEAT_BF16.
 *
 * It makes four times the multiply-adds that FMLA makes; the vectors that it reads are made by
 * moving numbers between vectors, which takes half as many instructions as there are products. */
#include "body_matrix_pack.h"

#define multiply_squares(sum, a, b) vbfmmlaq_f32(sum, (bfloat16x8_t)(a), (bfloat16x8_t)(b))

#define ATTN_MATRIX      attn_matrix_neon_bf16
#define ATTN_MATRIX_RULE .takes_small = false, .rows_min = 128, .products_max = 3
#include "body_matrix_squares.h"

#include "body_matrix.h"
