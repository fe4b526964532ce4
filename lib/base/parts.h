/* parts.h - into how many parts of bf16 numbers a matrix unit cuts numbers, and which parts it
 * multiplies (kernels/matrix.h). */
#ifndef ATTN_PARTS_H
#define ATTN_PARTS_H

#include "attn.h"

#include "kernels/matrix.h"

/* The parts of numbers of this dtype: BF16 has one; F16 has two, which lose nothing, or, where
 * products are limited, no more than F32 has. */
int attn_parts_of(const struct attn_matrix_kernels *kernels, enum attn_dtype dtype,
                  enum attn_precision precision);

/* Small products first. A part of the left and one of the right are multiplied unless together they
 * are below what the precision shows: by as many times 8 bits as the sum of their numbers says. */
struct attn_matrix_products attn_products_of(int left_parts, int right_parts,
                                             enum attn_precision precision);

#endif
