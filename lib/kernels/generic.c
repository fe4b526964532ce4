/* SPDX-License-Identifier: Apache-2.0 */
/* generic.c - the kernels of body.h for the baseline of the target (SSE2 on x86-64, NEON on
 * aarch64); and on aarch64 the same beside the products of neon_bf16.c. */
#define ATTN_KERNELS      attn_kernels_generic
#define ATTN_KERNELS_NAME "generic"
#define VEC_BYTES         16
#include "body.h"

#ifdef __aarch64__
#include "matrix.h"

const struct attn_kernels attn_kernels_neon_bf16 =
    KERNEL_TABLE("neon_bf16", &attn_matrix_neon_bf16, NULL);
#endif
