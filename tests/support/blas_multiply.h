/* SPDX-License-Identifier: Apache-2.0 */
/* blas_multiply.h - the product of OpenBLAS as a function that the library takes. */
#ifndef BLAS_MULTIPLY_H
#define BLAS_MULTIPLY_H

#include "linear.h"

#include <cblas.h>

/* For struct attn_multiplier. */
static inline void blas_multiply(const struct attn_matmul *m)
{
    cblas_sgemm(CblasRowMajor, m->a_transposed ? CblasTrans : CblasNoTrans,
                m->b_transposed ? CblasTrans : CblasNoTrans, (blasint)m->rows, (blasint)m->columns,
                (blasint)m->depth, 1.0f, m->a, (blasint)m->a_stride, m->b, (blasint)m->b_stride,
                m->adds ? 1.0f : 0.0f, m->c, (blasint)m->c_stride);
}

#endif
