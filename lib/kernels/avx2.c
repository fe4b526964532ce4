/* SPDX-License-Identifier: Apache-2.0 */
/* avx2.c - the kernels of body.h for AVX2, FMA and F16C. */
#define ATTN_KERNELS      attn_kernels_avx2
#define ATTN_KERNELS_NAME "avx2"
#define VEC_BYTES         32
#include "body.h"
