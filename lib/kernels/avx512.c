/* SPDX-License-Identifier: Apache-2.0 */
/* avx512.c - the kernels of body.h for AVX-512 F, DQ, BW and VL; and the same with the products of
 * vnni.c, alone, beside those of avx512_bf16.c, and beside the tiles of amx.c. */
#define ATTN_KERNELS      attn_kernels_avx512
#define ATTN_KERNELS_NAME "avx512"
#define VEC_BYTES         64
#include "body.h"
#include "matrix.h"

const struct attn_kernels attn_kernels_avx512_vnni =
    KERNEL_TABLE("avx512_vnni", NULL, &attn_fixed_vnni);
const struct attn_kernels attn_kernels_avx512_bf16 =
    KERNEL_TABLE("avx512_bf16", &attn_matrix_avx512_bf16, &attn_fixed_vnni);
const struct attn_kernels attn_kernels_with_amx =
    KERNEL_TABLE("amx", &attn_matrix_amx, &attn_fixed_vnni);
