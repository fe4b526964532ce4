/* SPDX-License-Identifier: Apache-2.0 */
/* linear.h - products of rows with a matrix, in tasks:
 *
 *     y = activation(x . weight^T + bias)
 *
 * and the gated pair of a feed-forward (GLU: Dauphin et al. 2017, Shazeer 2020) in one product:
 *
 *     y = activation(x . gate^T + gate bias) * (x . weight^T + bias)
 *
 * or, with a gated limit L and a gated offset, as OpenAI's gpt-oss has it,
 *
 *     y = activation(min(x . gate^T + gate bias, L)) * (clamp(x . weight^T + bias, -L, L) + offset)
 *
 * With a gate scale the outputs of the gate are multiplied by it first, with their bias.
 *
 *     for (task = 0; task < attn_product_tasks(&product); task++)
 *         attn_product_run(&product, task, workspace);
 *
 * Tasks may run in any order and on any threads; each running task needs its own workspace. Without
 * an activation a product has the bits of a projection of layer.h with the same weight and the same
 * precision. The bits of a row do not depend on the other rows, on the number of rows, or on how
 * tasks are run. */
#ifndef ATTN_LINEAR_H
#define ATTN_LINEAR_H

#include "attn.h"

/* y = x . weight^T + bias. Borrowed memory, dense, row-major. */
struct attn_linear {
    const void *weight; /* [out, in], or [in, out] if in_out; NULL: the identity, y = x */
    const float *bias;  /* [out], or NULL */
    int64_t out;
    int64_t in;
    bool in_out;
    int64_t stride;        /* elements from one row of weight to the next; 0: the rows are dense */
    enum attn_dtype dtype; /* of weight: F32, F16, BF16, or one with blocks (attn.h) where the
                              weight is [out, in]; then in and stride are multiples of a block's
                              numbers. Blocks give the same bits as their numbers in F32 where
                              kernels have no fixed point (below), and so do 16-bit weights without
                              a matrix unit. A gradient has no blocks */
};

/* Whether a weight can have this dtype. One with blocks is never in_out. */
bool attn_linear_takes(enum attn_dtype dtype);

/* Split one projection into two over the same memory: left takes the first columns inputs of
 * joined, whole blocks, right takes the rest, 0 < columns < joined->in:
 *
 *     joined([a; b]) = left(a) + right(b)
 *
 * The bias goes to left. */
void attn_linear_split(const struct attn_linear *joined, int64_t columns, struct attn_linear *left,
                       struct attn_linear *right);

/* Functions of one number. Each is within 6 ulp of its formula, or within 1e-7 times the largest of
 * 1 and |x|, whichever is more; results below 2e-36 may be 0. Infinity gives the limit, and NaN
 * stays NaN. */
enum attn_activation {
    ATTN_NO_ACTIVATION, /* x */
    ATTN_GELU,          /* x / 2 * (1 + erf(x / sqrt(2))); Hendrycks and Gimpel 2016 */
    ATTN_GELU_TANH,     /* x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) */
    ATTN_GELU_QUICK,    /* x / (1 + e^(-1.702 x)) */
    ATTN_RELU,          /* 0 if x < 0, else x */
    ATTN_RELU_SQUARED,  /* 0 if x < 0, else x^2; So et al. 2021 */
    ATTN_SILU,          /* x / (1 + e^-x) */
    ATTN_SIGMOID,       /* 1 / (1 + e^-x) */
    ATTN_TANH,          /* tanh(x) */
    ATTN_XIELU,         /* see struct attn_xielu */
    ATTN_ACTIVATION_COUNT
};

/* Parameters of xIELU (Huang and Schlag 2025), finite:
 *
 *     positive x^2 + beta x                           if x > 0, else
 *     negative (e^min(x, eps) - 1 - x) + beta x
 *
 * It is within 6 ulp, or within 3e-7 times the largest of 1 and |x| and that of 1 and the
 * parameters. */
struct attn_xielu {
    float positive, negative, beta, eps; /* eps is below 0 */
};

/* Apply an activation to count numbers in place. The bits of a result depend on its number alone.
 * xielu is for that activation. */
void attn_activate(const struct attn_kernels *kernels, enum attn_activation activation,
                   const struct attn_xielu *xielu, float *numbers, int64_t count);

struct attn_product {
    const struct attn_linear *linear; /* its weight is not NULL */
    const struct attn_linear *gate;   /* the same in and out; NULL: no gate */
    enum attn_activation activation;
    struct attn_xielu xielu; /* of ATTN_XIELU */
    float gated_limit;       /* 0 or more, finite; 0: none. Both only with a gate */
    float gated_offset;      /* finite */
    float gate_scale;        /* finite, of the gate's outputs; 0: 1 */
    const float *x;          /* [row_count][linear->in], F32 */
    int64_t x_stride;        /* elements from one row to the next, 1 or more: below linear->in rows
                                overlap, as the windows of a convolution do */
    float *y;                /* [row_count][linear->out], does not overlap x */
    int64_t y_stride;        /* linear->out or more */
    int64_t row_count;
    const struct attn_kernels *kernels; /* not NULL */

    /* Of products with 16-bit weights where kernels has a matrix unit, which multiplies them in
     * parts: F32 rows in as many as attn.h says, BF16 weights in one and F16 weights in two, which
     * lose nothing. Weights below 1.2e-38 count as 0, and one that is not finite gives NaN.
     *
     * Of products with weights in blocks where kernels has a unit that adds products of bytes
     * (AVX512-VNNI; the tables avx512_vnni, avx512_bf16 and amx): rows are in fixed point, 32
     * inputs from a multiple of 32 on in one unit, and so meet the integers of blocks without
     * rounding. "highest" and "high" keep 23 bits of the greatest of 32 inputs or one less, so that
     * from 256 inputs on an output is no worse than a loop in float, "medium" 15 or 14. */
    enum attn_precision precision;
};

/* The precision that the product has: as asked for where a matrix unit computes some of it, else
 * the highest. */
enum attn_precision attn_product_precision(const struct attn_product *product);

/* Check everything that running relies on, except the memory: x and y may still be NULL. *where
 * names a field ("gate.in"); it may be NULL. */
enum attn_status attn_product_check(const struct attn_product *product, const char **where);

/* 0 if there are no rows. Tasks that read the same part of the weight follow each other. */
int64_t attn_product_tasks(const struct attn_product *product);

/* Bytes of one task's workspace, 64-byte aligned. They do not depend on sizes, only on kernels,
 * dtypes and whether there is a gate. */
size_t attn_product_workspace_bytes(const struct attn_product *product);

void attn_product_run(const struct attn_product *product, int64_t task, void *workspace);

/* ------------------------------------------------------------ a product of the caller's -- */

/* c = a . b, or c += a . b where it adds: matrices of floats in rows. c is [rows][columns]; a is
 * [rows][depth], or [depth][rows] if a_transposed; b is [depth][columns], or [columns][depth] if
 * b_transposed. Strides are elements from one row in memory to the next. Sizes are 1 or more, and
 * like strides at most INT32_MAX. */
struct attn_matmul {
    float *c;
    const float *a, *b;
    int64_t c_stride, a_stride, b_stride;
    int64_t rows, columns, depth;
    bool a_transposed, b_transposed, adds;
};

/* A function of the caller's that multiplies matrices in place of kernels, such as sgemm of a BLAS,
 * and what it is used for. It may be called by several threads at once. It starts none, cannot
 * fail, and touches no other memory of ours. Equal sizes and numbers give equal bits, wherever they
 * lie: then so do tasks, whose sizes follow from the shapes of a problem alone. */
struct attn_multiplier {
    void (*multiply)(const struct attn_matmul *matmul);
    bool multiplies_gradients; /* of the weights of projections, layer_gradient.h */

    /* Of products with F32 weights, tasks of at least so many rows; 0: none. For these the function
     * has to give the bits of the kernels, so that a row has the same bits in either: each number
     * of c is one chain of multiply-adds in the order of depth, of at most 256, fused where those
     * of the kernels are, which is then added to c. Whether a BLAS does that on a CPU, its caller
     * finds out by computing both. */
    int64_t rows_min;
};

/* A copy of a table that has the multiplier beside its kernels, in memory of
 * attn_kernels_given_bytes() bytes that is aligned for any type. It borrows the multiplier, and
 * lives as long as both. It has the name of its table. */
size_t attn_kernels_given_bytes(void);
const struct attn_kernels *attn_kernels_given(void *memory, const struct attn_kernels *kernels,
                                              const struct attn_multiplier *multiplier);

/* Fill values with count numbers for a matrix of in inputs and out outputs, both 1 or more: uniform
 * between minus and plus sqrt(6 / (in + out)) (Glorot and Bengio 2010, equation 16). Number i
 * depends only on seed, stream and i, and has the same bits on every machine. Give each matrix
 * under one seed its own stream. */
void attn_init_glorot(float *values, int64_t count, int64_t in, int64_t out, uint64_t seed,
                      uint64_t stream);

#endif
