/* avx512.c - the kernels of body.h for AVX-512 F, DQ, BW and VL. */
#define ATTN_KERNELS      attn_kernels_avx512
#define ATTN_KERNELS_NAME "avx512"
#define VEC_BYTES         64
#include "body.h"
