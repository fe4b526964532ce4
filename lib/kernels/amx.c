/* SPDX-License-Identifier: Apache-2.0 */
/* amx.c - the kernels of body_matrix.h on the tiles of x86: AMX-TILE and AMX-BF16, with AVX-512 F,
 * DQ, BW and VL beside them.
 *
 * The first instruction here that touches a tile ends the process (SIGILL) unless the operating
 * system has permitted tiles; attn_kernels_amx() says who asks. */
#include <stdint.h>

struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} __attribute__((packed));

/* Our own, not those of <immintrin.h>: gcc 12's _tile_loadd() does not say that it reads memory, so
 * that a store before it may move behind it. */
#define tile_configure(config) __asm__ volatile("ldtilecfg %0" ::"m"(*(config)))
#define tile_release()         __asm__ volatile("tilerelease" ::)
#define tile_zero(t)           __asm__ volatile("tilezero %%tmm" #t ::)
#define tile_load(t, from, stride)                                                                 \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t                                               \
                     :                                                                             \
                     : "r"(from), "r"((int64_t)(stride))                                           \
                     : "memory")
#define tile_store(t, to, stride)                                                                  \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)"                                           \
                     :                                                                             \
                     : "r"(to), "r"((int64_t)(stride))                                             \
                     : "memory")
#define tile_dot(c, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::)

#define ATTN_MATRIX      attn_matrix_amx
#define ATTN_MATRIX_RULE .takes_small = false, .rows_min = 64
#include "body_matrix_tiles.h"

#include "body_matrix.h"
