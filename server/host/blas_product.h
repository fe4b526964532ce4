/* SPDX-License-Identifier: Apache-2.0 */
/* blas_product.h - what OpenBLAS computes: gradients of the weights of projections, and where its
 * kernels have the bits of ours, products of several rows with parameters of F32. */
#ifndef ATTND_BLAS_PRODUCT_H
#define ATTND_BLAS_PRODUCT_H

#include "attn.h"

enum blas_use {
    BLAS_NOTHING,
    BLAS_GRADIENTS,         /* of weights */
    BLAS_GRADIENTS_AND_ROWS /* and products of rows */
};

/* The table with OpenBLAS beside it, as it runs here (process_start.h chooses its kernels), and in
 * *use what for. It stays until the next call. Call it before any thread begins.
 *
 * Gradients of weights: if its kernels use the instruction set of the table or a newer one, and AVX
 * beside "generic". Rows: beside tables of 16-byte vectors alone, for which ours are written in C,
 * and if it gives their bits. Both are computed for that, which takes some 50 ms. Nothing, if this
 * OpenBLAS may not be called by several threads at once, or if address space is limited, because
 * it waits for its 128 MiB for ever (blas_memory_alloc() of 0.3.21). */
const struct attn_kernels *blas_kernels(const struct attn_kernels *kernels, enum blas_use *use);

/* Maps what OpenBLAS works in for so many threads at once, so that no product asks for memory. */
void blas_reserve(enum blas_use use, int threads);

/* "none", "gradients", "gradients+rows" */
const char *blas_use_name(enum blas_use use);

#endif
