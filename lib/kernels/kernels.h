/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.h - the interface between the loops over tiles and one instruction set.
 *
 * The lanes of a vector are query rows. Kernels work on transposed tiles, [columns][width]: one row
 * of a tile holds the same feature, or the same key, for width query rows, so the online softmax
 * needs no sum across a vector. Keys and values are read where they lie, one number at a time, and
 * each number meets a whole vector of queries; keys and values are never packed.
 *
 *     query_t   [head_dim][width]       scores_t  [n][width], n keys, become
 *     context_t [v_head_dim][width]               weights in place
 *
 * width is a positive multiple of the table's lanes, at most ATTN_WIDTH_MAX. Counts (n, row_count,
 * columns, head_dim, v_head_dim) may be 0. Strides are in elements. A kernel is pure: it reads and
 * writes only the memory that its arguments point at, needs only the alignment of a float, and its
 * arguments do not overlap. The result of one lane does not depend on width or on other lanes. */
#ifndef ATTN_KERNELS_H
#define ATTN_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

/* The query rows of a tile; forward/plan.c begins with as many, and takes half for wide heads. bits
 * of a mask hold one bit for each. */
enum { ATTN_WIDTH_MAX = 64 };
_Static_assert(ATTN_WIDTH_MAX <= 64,
               "a 64-bit word of a mask has a bit for each query row of a tile");

/* Keys whose weights softmax_tile() adds together before it adds them to the sum, except for the
 * last keys of a tile. */
enum { ATTN_SOFTMAX_KEYS = 4 };

/* Limits of one call of project_by_outputs() or project_by_inputs(); the floats of its work buffer;
 * and the number of products that one chain of a sum has. */
enum {
    ATTN_PROJECT_ROWS_MAX = 64,
    ATTN_PROJECT_OUTPUTS_MAX = 768,
    ATTN_PROJECT_WORK = 98304,
    ATTN_PROJECT_PART = 256
};

/* The number format of a row of keys, values or parameters. */
enum attn_numbers {
    ATTN_NUMBERS_F32,
    ATTN_NUMBERS_F16,
    ATTN_NUMBERS_BF16,
    ATTN_NUMBERS_COUNT,
    ATTN_NUMBERS_I8 /* with scales: kernels of their own, no index of a table */
};

/* Kinds of blocks: name, the numbers of a block, its bytes. */
#define ATTN_BLOCKS_MAP(X)                                                                         \
    X(Q8_0, q8_0, 32, 34)                                                                          \
    X(Q4_0, q4_0, 32, 18)                                                                          \
    X(Q4_1, q4_1, 32, 20)                                                                          \
    X(Q5_0, q5_0, 32, 22)                                                                          \
    X(Q5_1, q5_1, 32, 24)                                                                          \
    X(Q2_K, q2_k, 256, 84)                                                                         \
    X(Q3_K, q3_k, 256, 110)                                                                        \
    X(Q4_K, q4_k, 256, 144)                                                                        \
    X(Q5_K, q5_k, 256, 176)                                                                        \
    X(Q6_K, q6_k, 256, 210)                                                                        \
    X(IQ4_NL, iq4_nl, 32, 18)                                                                      \
    X(IQ4_XS, iq4_xs, 256, 136)                                                                    \
    X(MXFP4, mxfp4, 32, 17)

enum attn_blocks {
#define X(NAME, name, numbers, bytes) ATTN_BLOCKS_##NAME,
    ATTN_BLOCKS_MAP(X)
#undef X
        ATTN_BLOCKS_COUNT
};

/* Rows of a key of int8_t that share the scales of their channels. */
enum { ATTN_KERNELS_I8_ROWS = 64 };

/* Rows that will be read or written soon, to prefetch. A list of them ends with an entry whose
 * count is 0. The rows need not exist: a prefetch of them does not read. */
struct attn_upcoming {
    const void *rows;
    int64_t stride_bytes, row_bytes, count;
};

/* Progress through a list of rows to prefetch. A kernel on tiles prefetches one cache line between
 * two steps of its arithmetic, as long as it has steps; the next kernel continues where it stopped.
 * The fields after list belong to the kernels (prefetch.h) and are 0 before the first kernel. */
struct attn_prefetch {
    const struct attn_upcoming *list;
    uintptr_t line, row_end;
    uintptr_t step; /* bytes to the next line */
    int64_t left;   /* rows left, including the row of line */
};

/* Which pairs of a tile the caller's mask lets through: all, none, or some. If some, a bit for each
 * pair tells which, or a bias is added to each score. */
enum attn_sees { ATTN_SEES_ALL, ATTN_SEES_NOTHING, ATTN_SEES_BITS, ATTN_SEES_BIASES };

enum { ATTN_MASK_KEYS_MAX = 128, ATTN_BOUND_MAX = 32 };

/* What a row of a linear recurrence multiplies: the state, its own numbers for the state, and those
 * for the result. */
struct attn_scan_factors {
    float decay, step, skip;
};

struct attn_matrix_kernels;
struct attn_fixed_kernels;
struct attn_multiplier;

/* Rows that go through columns of a state one after the other: linear_attention.h. */
struct attn_state_rows {
    float *state; /* [depth][state_stride] */
    int64_t state_stride, depth, columns;
    int64_t count;                    /* rows */
    const float *key, *erase, *decay; /* [count][depth] */
    const float *query;               /* [count][reads][depth] */
    const float *beta;                /* [count]; NULL: nothing is erased */
    const float *value;               /* [count][value_stride] */
    float *y;                         /* [count][y_stride], the reads of a row y_step apart */
    int64_t reads;                    /* 0 or more */
    int64_t value_stride, y_stride, y_step;
};

struct attn_kernels {
    const char *name; /* attn_kernels_name() of attn.h lists them */
    int64_t lanes;    /* query rows in one vector: 4, 8 or 16 */

    const struct attn_matrix_kernels *matrix; /* matrix.h; NULL: vectors alone */
    const struct attn_fixed_kernels *fixed;   /* fixed.h; NULL: blocks meet floats */

    /* tile[c][r] = rows[r * row_stride + c] * factor for r < row_count <= width, c < columns;
     * lanes r >= row_count become 0. */
    void (*transpose_in)(float *tile, const float *rows, int64_t row_stride, int64_t row_count,
                         int64_t columns, float factor, int64_t width);

    /* rows[r * row_stride + c] = tile[c][r] * factor[r] for r < row_count <= width, c < columns.
     * factor is [width], or NULL for 1; nothing but those numbers is written. */
    void (*transpose_out)(float *rows, int64_t row_stride, const float *tile, const float *factor,
                          int64_t row_count, int64_t columns, int64_t width);

    /* scores_t[j][r] = sum over d of key[j * key_stride + d] * query_t[d][r], for j < n. Here and
     * below, prefetch may be NULL. */
    void (*score_tile)(float *scores_t, const float *query_t, const float *key, int64_t key_stride,
                       int64_t n, int64_t head_dim, int64_t width, struct attn_prefetch *prefetch);

    /* The same for only the first lanes lanes of a tile, whole vectors, for keys that the other
     * lanes do not see. */
    void (*score_lanes)(float *scores_t, const float *query_t, const float *key, int64_t key_stride,
                        int64_t n, int64_t head_dim, int64_t width, int64_t lanes,
                        struct attn_prefetch *prefetch);

    /* scores_t[j][r] = scale * sum over d of weight[d] * tanh(key[j * key_stride + d] +
     * query_t[d][r]) for j < n, weight being [head_dim]; tanh to a few ulp for a sum of any size.
     */
    void (*additive_tile)(float *scores_t, const float *query_t, const float *key,
                          int64_t key_stride, const float *weight, float scale, int64_t n,
                          int64_t head_dim, int64_t width);

    /* score = softcap * tanh(score / softcap), softcap > 0, to a few ulp for a score of any size;
     * an infinite score becomes plus or minus softcap, NaN stays NaN. */
    void (*softcap_tile)(float *scores_t, float softcap, int64_t n, int64_t width);

    /* score -= slope * |distance[r] - (first + j)|. The keys are first, first + 1, ... of a tile
     * whose key 0 is distance[r] positions before lane r. distance is [width]; slope is finite. */
    void (*alibi_tile)(float *scores_t, float slope, const float *distance, int64_t first,
                       int64_t n, int64_t width);

    /* Key j is visible to lane r if low[r] <= j < high[r]; otherwise its score becomes -INFINITY,
     * whatever it was. low and high are [width]. */
    void (*bound_tile)(float *scores_t, const int32_t *low, const int32_t *high, int64_t n,
                       int64_t width);

    /* score += bias, where bias_t is [n][width]; a bias of -INFINITY makes the score -INFINITY,
     * whatever it was. */
    void (*bias_tile)(float *scores_t, const float *bias_t, int64_t n, int64_t width);

    /* Which pairs a mask of bytes, allowed[r * row_stride + j] for r < row_count <= ATTN_WIDTH_MAX
     * and j < n <= ATTN_MASK_KEYS_MAX, lets through. bits, [n], is written only for ATTN_SEES_BITS:
     * bit r of bits[j] tells whether lane r may see key j, and is 1 for lanes past row_count. */
    enum attn_sees (*mask_bits)(uint64_t *bits, const uint8_t *allowed, int64_t row_stride,
                                int64_t row_count, int64_t n);

    /* The same for a mask of floats: all 0, all -INFINITY, or ATTN_SEES_BIASES. */
    enum attn_sees (*mask_floats)(const float *bias, int64_t row_stride, int64_t row_count,
                                  int64_t n);

    /* The score of key j becomes -INFINITY in lanes whose bit of bits[j] is 0. */
    void (*mask_tile)(float *scores_t, const uint64_t *bits, int64_t n, int64_t width);

    /* One step of the online softmax (Milakov and Gimelshein 2018). max, sum and rescale are
     * [width]; before the first step max is -INFINITY and sum is 0.
     *
     *     new_max = max(max, scores)            rescale = exp(max - new_max)
     *     score   = exp(score - new_max)        sum     = sum * rescale + sum of the new weights
     *
     * A lane whose scores so far are all -INFINITY keeps max -INFINITY and sum 0, and has weights
     * 0. exp is within 2 ulp, exactly 1 at 0, and 0 where the result would be subnormal. */
    void (*softmax_tile)(float *scores_t, float *max, float *sum, float *rescale, int64_t n,
                         int64_t width);

    /* bound_tile() and then softmax_tile(), with the same bits. */
    void (*softmax_bounded_tile)(float *scores_t, const int32_t *low, const int32_t *high,
                                 float *max, float *sum, float *rescale, int64_t n, int64_t width);

    /* context_t[c][r] = context_t[c][r] * rescale[r]
     *                 + sum over j < n of weights_t[j][r] * value[j * value_stride + c]. */
    void (*context_tile)(float *context_t, const float *rescale, const float *weights_t,
                         const float *value, int64_t value_stride, int64_t n, int64_t v_head_dim,
                         int64_t width, struct attn_prefetch *prefetch);

    /* The same for only the first vector of a tile. */
    void (*context_lanes)(float *context_t, const float *rescale, const float *weights_t,
                          const float *value, int64_t value_stride, int64_t n, int64_t v_head_dim,
                          int64_t width, struct attn_prefetch *prefetch);

    /* context_tile(), but a weight of 0 adds nothing even if the value is infinite or NaN. For
     * tiles that have hidden pairs and fail all_finite(). */
    void (*context_tile_guarded)(float *context_t, const float *rescale, const float *weights_t,
                                 const float *value, int64_t value_stride, int64_t n,
                                 int64_t v_head_dim, int64_t width, struct attn_prefetch *prefetch);

    /* Add a part of a compensated sum to its total; both are [columns][width]:
     *
     *     total[c][r] = total[c][r] * rescale[r] + part[c][r]
     *
     * lost[c][r], rescaled in the same way, collects the rounding errors. part becomes 0 or, if
     * is_last, the whole sum, total + lost. */
    void (*compensated_tile)(float *total_t, float *lost_t, float *part_t, const float *rescale,
                             int64_t columns, int64_t width, bool is_last);

    /* Is rows[r * row_stride + c] finite for every r < row_count, c < columns? */
    bool (*all_finite)(const float *rows, int64_t row_stride, int64_t row_count, int64_t columns);

    /* Turn a row of masked scores into weights in place: exp(score - max) / sum for n keys, where
     * max and sum are those of softmax_tile() for this row. A score of -INFINITY becomes 0; if sum
     * is 0, all weights become 0. */
    void (*weights_row)(float *row, float max, float sum, int64_t n);

    /* The greatest number of each of cells cells of a row of n numbers; number j is in cell j *
     * cells / n, rounded down; cells <= n. NaN is ignored; a cell without other numbers gives
     * -INFINITY. greatest may be row. */
    void (*greatest_of_cells)(float *greatest, const float *row, int64_t n, int64_t cells);

    /* A lower bound that at least k <= ATTN_BOUND_MAX of the row's n numbers reach, and not many
     * more: for random numbers 1.4 k to 1.6 k do. -INFINITY if the row has fewer than k numbers.
     * NaN is ignored. */
    float (*bound_of_greatest)(const float *row, int64_t n, int64_t k);

    /* Write the indices of the numbers that are at least bound, ascending, and return how many
     * there are. If there are more than room, fill places and return room + 1. */
    int64_t (*find_reaching)(int64_t *places, int64_t room, const float *row, int64_t n,
                             float bound);

    /* Convert n 16-bit numbers (IEEE 754 binary16, or bfloat16, the upper half of a float) to
     * float, exactly, and back, rounded to nearest, ties to even. A number too large becomes
     * infinite; NaN stays NaN. 16-bit numbers need the alignment of a uint16_t. */
    void (*widen_f16)(float *to, const uint16_t *from, int64_t n);
    void (*widen_bf16)(float *to, const uint16_t *from, int64_t n);
    void (*narrow_f16)(uint16_t *to, const float *from, int64_t n);
    void (*narrow_bf16)(uint16_t *to, const float *from, int64_t n);

    /* to[i] = from[i] * scale[i], or from[i] * scale, for i < n, each rounded to float. */
    void (*widen_i8_channels)(float *to, const int8_t *from, const float *scale, int64_t n);
    void (*widen_i8_row)(float *to, const int8_t *from, float scale, int64_t n);

    /* to[r * to_stride + c] = rows[r * row_stride + c] * factor for r < row_count, c < columns;
     * the rest of a row, up to to_stride, becomes 0. to may be rows, if the strides are equal. */
    void (*copy_rows)(float *to, int64_t to_stride, const float *rows, int64_t row_stride,
                      int64_t row_count, int64_t columns, float factor);

    /* to[r * to_stride + c] += rows[r * row_stride + c] * factor for r < row_count, c < columns. */
    void (*add_rows)(float *to, int64_t to_stride, const float *rows, int64_t row_stride,
                     int64_t row_count, int64_t columns, float factor);

    /* Decode kernels, for few query rows: the lanes are numbers of one row. Columns are padded to
     * whole vectors. If the last vector is partial, its lanes are the last LANES columns instead,
     * so head_dim and v_head_dim must be at least lanes. The result of one row does not depend on
     * how many rows there are. The index of a kernel is the number format of keys and values. The
     * keys or values, and then the memory at next, where reading continues after them, are
     * prefetched unless next is NULL. next need not exist: it is not read. */

    /* scores[r * scores_stride + j] = sum over d of query[r][d] * key[j * key_stride + d] for r <
     * row_count, j < n. query is [row_count][query_stride], padded; in its last vector, lanes that
     * repeat columns of an earlier vector are 0. */
    void (*decode_scores[ATTN_NUMBERS_COUNT])(float *scores, int64_t scores_stride,
                                              const float *query, int64_t query_stride,
                                              int64_t row_count, const void *key,
                                              int64_t key_stride, int64_t n, int64_t head_dim,
                                              const void *next);

    /* softmax_tile() for n scores of one row. scores has room for whole vectors; numbers after the
     * first n become 0. */
    void (*decode_softmax)(float *scores, float *max, float *sum, float *rescale, int64_t n);

    /* context[r * context_stride + c] = context[r * context_stride + c] * rescale[r] + sum over j <
     * n of weights[r * weights_stride + j] * value[j * value_stride + c], padded. Outside of the
     * keys [low, high) a weight of 0 adds nothing even if the value is infinite or NaN. The order
     * of the sum does not depend on low and high. */
    void (*decode_context[ATTN_NUMBERS_COUNT])(float *context, int64_t context_stride,
                                               const float *rescale, const float *weights,
                                               int64_t weights_stride, int64_t row_count,
                                               const void *value, int64_t value_stride, int64_t n,
                                               int64_t v_head_dim, const void *next, int64_t low,
                                               int64_t high);

    /* The same for keys and values of int8_t, with the bits of the floats that they stand for:
     * number d of key j is key[j * key_stride + d] * scale[(at + j) / ATTN_KERNELS_I8_ROWS *
     * head_dim + d], and number c of value j is value[j * value_stride + c] * scale[j], each
     * rounded to float. */
    void (*decode_scores_i8)(float *scores, int64_t scores_stride, const float *query,
                             int64_t query_stride, int64_t row_count, const void *key,
                             int64_t key_stride, int64_t n, int64_t head_dim, const void *next,
                             const float *scale, int64_t at);
    void (*decode_context_i8)(float *context, int64_t context_stride, const float *rescale,
                              const float *weights, int64_t weights_stride, int64_t row_count,
                              const void *value, int64_t value_stride, int64_t n,
                              int64_t v_head_dim, const void *next, int64_t low, int64_t high,
                              const float *scale);

    /* Functions of the n numbers of a row, in place; linear.h has the formulas and accuracies. The
     * bits of a result depend only on its number and on the table, not on its place in the row. */
    void (*gelu)(float *row, int64_t n);
    void (*gelu_tanh)(float *row, int64_t n);
    void (*gelu_quick)(float *row, int64_t n);
    void (*relu)(float *row, int64_t n);
    void (*relu_squared)(float *row, int64_t n);
    void (*silu)(float *row, int64_t n);
    void (*sigmoid)(float *row, int64_t n);
    void (*tanh)(float *row, int64_t n);
    void (*xielu)(float *row, const float *parameters, int64_t n); /* [4], as in linear.h */
    void (*softcap_row)(float *row, float softcap, int64_t n);     /* as softcap_tile() */

    /* row[i] *= factors[i] for i < n. */
    void (*multiply_row)(float *row, const float *factors, int64_t n);

    /* Recurrences, one row of one sequence; recurrence.h has the formulas. The bits of a column
     * depend on its numbers alone and on whether the table has a multiply-add. */

    /* y[c] = bias[c] + sum over t < taps of rows[t][c] * weight_t[t * weight_stride + c] for c < n,
     * in the order of t. */
    void (*convolve_row)(float *y, const float *const *rows, const float *weight_t,
                         int64_t weight_stride, int64_t taps, const float *bias, int64_t n);

    /* For each n < state_dim in turn state[n][p] = decay * state[n][p] + step * x[p] * b[n], and
     * then y[p] = sum over n of state[n][p] * c[n] + skip * x[p]; state is [state_dim][head_dim].
     */
    void (*scan_row)(float *state, float *y, const float *x, const float *b, const float *c,
                     struct attn_scan_factors factors, int64_t state_dim, int64_t head_dim);

    /* Gradient kernels. A tile is [n][width] here too, but its lanes are query rows or keys.
     * Numbers that belong to query rows come with a step: step 0 means one for each lane, [width];
     * step 1 means one for each row of the tile, [n]. A weight of 0 makes the gradient of its score
     * 0, whatever the other numbers are, so nothing of a hidden pair, NaN included, spreads. */

    /* to[j * to_stride + c] += factor * sum over d of gradients[j * gradient_stride + d] *
     * rows_t[d][c], for j < n, d < depth and c < width. */
    void (*add_products)(float *to, int64_t to_stride, const float *rows_t, const float *gradients,
                         int64_t gradient_stride, int64_t n, int64_t depth, int64_t width,
                         float factor);

    /* dots[r] = sum over c < columns of a[r * a_stride + c] * b[r * b_stride + c], in double, for
     * r < row_count. */
    void (*dot_rows)(double *dots, const float *a, int64_t a_stride, const float *b,
                     int64_t b_stride, int64_t row_count, int64_t columns);

    /* score_tile() with gradients of scores in place of keys and keys in place of queries, which
     * gives rows of gradients: products[j][c] = sum over d of gradients[j * gradient_stride + d] *
     * rows_t[d][c]. A gradient of 0 adds nothing even if the row is infinite or NaN. */
    void (*score_tile_guarded)(float *products, const float *rows_t, const float *gradients,
                               int64_t gradient_stride, int64_t n, int64_t depth, int64_t width);

    /* After softmax_tile(), the two sums whose ratio is delta:
     *     dividend[r] = dividend[r] * rescale[r]
     *                   + sum over j < n of weights_t[j][r] * gradient_t[j][r]
     *     divisor[r] = divisor[r] * rescale[r] + sum over j < n of weights_t[j][r] */
    void (*delta_tile)(double *dividend, double *divisor, const float *rescale,
                       const float *weights_t, const float *gradient_t, int64_t n, int64_t width);

    /* Turn masked scores into weights in place: exp(score - max) * factor; -INFINITY becomes 0. */
    void (*weights_tile)(float *scores_t, const float *max, const float *factor, int64_t step,
                         int64_t n, int64_t width);

    /* Turn the gradient of a weight into that of its masked score in place: through softmax,
     * gradient = weight * ((gradient - delta) - delta_low). */
    void (*softmax_gradient_tile)(float *gradient_t, const float *weights_t, const float *delta,
                                  const float *delta_low, int64_t step, int64_t n, int64_t width);

    /* Turn the gradient of a capped score into that of the score in place: through softcap * tanh,
     * gradient = gradient * (1 - (capped / softcap)^2). A gradient of 0 stays 0. */
    void (*softcap_gradient_tile)(float *gradient_t, const float *capped_t, float softcap,
                                  int64_t n, int64_t width);

    /* The gradient of additive_tile(): with t = tanh(rows[j * row_stride + d] + lanes_t[d][r])
     *
     *     sum_t[d][r]        += scale * weight[d] * sum over j < n of gradient_t[j][r] * (1 - t^2)
     *     weight_sum_t[d][r] += scale             * sum over j < n of gradient_t[j][r] * t
     *
     * weight is [head_dim]; weight_sum_t may be NULL. A gradient of 0 adds nothing, whatever the
     * row or the lane holds. */
    void (*additive_gradient_tile)(float *sum_t, float *weight_sum_t, const float *lanes_t,
                                   const float *rows, int64_t row_stride, const float *gradient_t,
                                   const float *weight, float scale, int64_t n, int64_t head_dim,
                                   int64_t width);

    /* Projections of rows: for r < row_count, o < out
     *
     *     y[r][o] = bias[o] + sum over i < in of x[r][i] * weight[o * weight_stride + i]
     *
     * and for project_by_inputs() the same with weight[i * weight_stride + o]. x and y are arrays
     * of row_count pointers to rows; the index of a kernel is the number format of weight; bias is
     * [out], or NULL for 0; work is [ATTN_PROJECT_WORK].
     *
     * Each ATTN_PROJECT_PART products of a sum, in the order of i, are one chain of multiply-adds,
     * and the chains are added to the bias one after the other. So the bits of a sum depend only on
     * the row, the output's parameters and whether the table has a multiply-add. They do not depend
     * on the number of rows or outputs, on which of the two kernels computes them, or on the format
     * of the parameters. */
    void (*project_by_outputs[ATTN_NUMBERS_COUNT])(float *const *y, const float *const *x,
                                                   int64_t row_count, const void *weight,
                                                   int64_t weight_stride, const float *bias,
                                                   int64_t out, int64_t in, float *work);
    void (*project_by_inputs[ATTN_NUMBERS_COUNT])(float *const *y, const float *const *x,
                                                  int64_t row_count, const void *weight,
                                                  int64_t weight_stride, const float *bias,
                                                  int64_t out, int64_t in, float *work);

    /* The same for weights in blocks as floats, the index of a kernel is their kind: in and
     * weight_stride are whole blocks, and the bits are those of the numbers that unpack() gives. */
    void (*project_blocks[ATTN_BLOCKS_COUNT])(float *const *y, const float *const *x,
                                              int64_t row_count, const void *weight,
                                              int64_t weight_stride, const float *bias, int64_t out,
                                              int64_t in, float *work);

    /* For each row t in turn, for all columns c and numbers d of a column of the state,
     *
     *     update[c] = value[t][c], or with beta
     *     update[c] = beta[t] * (value[t][c] - sum over d of erase[t][d] * state[d][c])
     *     state[d][c] = decay[t][d] * state[d][c] + key[t][d] * update[c]
     *     y[t][r * y_step + c] = sum over d of query[t][r][d] * state[d][c]
     *
     * The bits of a column depend on its numbers alone, and not on count. */
    void (*change_state)(const struct attn_state_rows *rows);

    /* The numbers of count blocks, which may begin at any byte. */
    void (*unpack[ATTN_BLOCKS_COUNT])(float *to, const void *blocks, int64_t count);

    /* What a caller has put beside these kernels (linear.h); NULL: nothing. */
    const struct attn_multiplier *multiplier;
};

extern const struct attn_kernels attn_kernels_generic;
#ifdef __x86_64__
extern const struct attn_kernels attn_kernels_avx2;
extern const struct attn_kernels attn_kernels_avx512;
extern const struct attn_kernels attn_kernels_avx512_bf16;
extern const struct attn_kernels attn_kernels_avx512_vnni;
extern const struct attn_kernels attn_kernels_with_amx;
#endif
#ifdef __aarch64__
extern const struct attn_kernels attn_kernels_neon_bf16;
#endif

/* The table with shorter vectors that every CPU has which has this one; NULL: there is none. */
const struct attn_kernels *attn_kernels_shorter(const struct attn_kernels *kernels);

/* As in attn.h. Repeated here because the kernels do not include the callers' header. */
const struct attn_kernels *const *attn_kernels_available(void);
const struct attn_kernels *attn_kernels_amx(void);
const char *attn_kernels_name(const struct attn_kernels *kernels);

#endif
