/* generic.c - the kernels of body.h for the baseline of the target (SSE2 on x86-64, NEON on
 * aarch64). */
#define ATTN_KERNELS      attn_kernels_generic
#define ATTN_KERNELS_NAME "generic"
#define VEC_BYTES         16
#include "body.h"
