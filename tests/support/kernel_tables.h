/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_tables.h - the tables of kernels that tests run on: those that this CPU can run, "amx"
 * where this process may use tiles, and "amx-model", whose tiles are a model in C. "avx512_bf16",
 * on 64-bit ARM "neon_bf16", takes problems of all shapes and precisions here, so that it is not
 * avx512 or generic in most of them; where the CPU lacks it, there is its model. */
#ifndef KERNEL_TABLES_H
#define KERNEL_TABLES_H

#include "attn.h"

#include "kernels/matrix.h"

/* Terminated by NULL. */
const struct attn_kernels *const *kernel_tables(void);

/* The tables take turns: that of turn 0, 1, 2 and so on. */
const struct attn_kernels *kernel_table_of_turn(uint64_t turn);

/* The table "amx", after asking Linux for its tiles; NULL where there are none. */
const struct attn_kernels *kernel_table_of_unit(void);

/* NULL where the CPU lacks the AVX-512 that is beside the tiles. */
const struct attn_kernels *kernel_table_of_model(void);

/* That of "avx512_bf16", or "neon_bf16", or its model in kernel_tables(), and always the model;
 * NULL on x86 without AVX-512. */
const struct attn_kernels *kernel_table_of_dots(void);
const struct attn_kernels *kernel_table_of_dots_model(void);

#ifdef __x86_64__
extern const struct attn_matrix_kernels matrix_model, dots_model;
#endif
#ifdef __aarch64__
extern const struct attn_matrix_kernels squares_model;
#endif

#endif
