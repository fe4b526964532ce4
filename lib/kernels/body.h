/* SPDX-License-Identifier: Apache-2.0 */
/* body.h - the kernels, written once on vectors of VEC_BYTES and compiled once for each instruction
 * set. The including file defines:
 *
 *     #define ATTN_KERNELS      attn_kernels_avx2
 *     #define ATTN_KERNELS_NAME "avx2"
 *     #define VEC_BYTES         32
 *
 * Vectors are the GCC and Clang vector_size types: explicit width, ordinary operators, the same
 * code on every CPU. Both products of attention are one register block, multiply(), whose counts
 * are constants at each call: only then do both compilers unroll it fully and keep its sums in
 * registers. Everything here is static, so that code compiled for a newer CPU is never linked into
 * the path of an older one. */
#include "body_activation.h"
#include "body_decode.h"
#include "body_gradient.h"
#include "body_linear_attention.h"
#include "body_mask.h"
#include "body_recurrence.h"
#include "body_rows.h"
#include "body_softmax.h"
#include "kernels.h"
#include "numbers.h"
#include "prefetch.h"
#include "vector.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* The register block: rows of the left operand, which are keys for scores and columns of value for
 * context, by vectors of query rows. 32 vector registers hold the sums of 6 rows by 4 vectors, 16
 * hold 6 by 2. SSE has no multiply-add, so its products need registers of their own and the block
 * is smaller. A narrower tile takes 12 rows, so that enough sums are in flight to hide the latency
 * of the multiply-add, and one vector 16 where there are registers. */
#if VEC_BYTES == 64 || defined(__aarch64__)
enum { BLOCK_VECTORS = 4, BLOCK_ROWS_WIDE = 6, BLOCK_ROWS_NARROW = 16 };
#elif VEC_BYTES == 32
enum { BLOCK_VECTORS = 2, BLOCK_ROWS_WIDE = 6, BLOCK_ROWS_NARROW = 12 };
#else
enum { BLOCK_VECTORS = 2, BLOCK_ROWS_WIDE = 4, BLOCK_ROWS_NARROW = 12 };
#endif
#define BLOCK_ROWS(vectors)                                                                        \
    ((vectors) == BLOCK_VECTORS ? BLOCK_ROWS_WIDE                                                  \
     : (vectors) == 3           ? 8                                                                \
     : (vectors) == 2           ? 12                                                               \
                                : BLOCK_ROWS_NARROW)
enum { BLOCK_ROWS_REST = 4, BLOCK_SUMS_MAX = 24 };

/* -------------------------------------------------------------------------- transposes -- */

static void transpose_in(float *tile, const float *rows, int64_t row_stride, int64_t row_count,
                         int64_t columns, float factor, int64_t width)
{
    for (int64_t r = 0; r < width; r += LANES) {
        const int64_t present = row_count - r;
        int64_t c = 0;
        for (; c + LANES <= columns; c += LANES) {
            vec square[LANES];
            UNROLL
            for (int i = 0; i < LANES; i++)
                square[i] =
                    i < present ? load(rows + (r + i) * row_stride + c) * factor : (vec){ 0 };
            transpose_square(square);
            UNROLL
            for (int i = 0; i < LANES; i++)
                store(tile + (c + i) * width + r, square[i]);
        }
        for (; c < columns; c++)
            for (int i = 0; i < LANES; i++)
                tile[c * width + r + i] =
                    i < present ? rows[(r + i) * row_stride + c] * factor : 0.0f;
    }
}

static void transpose_out(float *rows, int64_t row_stride, const float *tile, const float *factor,
                          int64_t row_count, int64_t columns, int64_t width)
{
    for (int64_t r = 0; r < row_count; r += LANES) {
        const int64_t present = row_count - r;
        const vec scale = factor ? load(factor + r) : broadcast(1.0f);
        int64_t c = 0;
        for (; c + LANES <= columns; c += LANES) {
            vec square[LANES];
            UNROLL
            for (int i = 0; i < LANES; i++)
                square[i] = load(tile + (c + i) * width + r) * scale;
            transpose_square(square);
            UNROLL
            for (int i = 0; i < LANES; i++)
                if (i < present)
                    store(rows + (r + i) * row_stride + c, square[i]);
        }
        for (; c < columns; c++)
            for (int i = 0; i < LANES && i < present; i++)
                rows[(r + i) * row_stride + c] = tile[c * width + r + i] * scale[i];
    }
}

/* ---------------------------------------------------------------------- the two products -- */

/* sums[r][v] += sum over k < depth of left[r * left_row + k * left_step] * right[k][v], where right
 * is a tile, one multiply-add after the other. If guarded, a right operand of 0 adds nothing.
 * prefetch may be NULL. One vector has many rows: four of them share a pointer, since there are no
 * registers for more; SSE gains nothing by it. */
INLINE void multiply_more(const int rows, const int vectors, const bool guarded,
                          vec sums[BLOCK_SUMS_MAX], const float *left, int64_t left_row,
                          int64_t left_step, const float *right, int64_t width, int64_t depth,
                          struct attn_prefetch *prefetch)
{
    for (int64_t k = 0; k < depth; k++) {
        vec b[BLOCK_VECTORS];
        UNROLL
        for (int v = 0; v < vectors; v++)
            b[v] = load(right + k * width + v * LANES);
        if (prefetch)
            prefetch_line(prefetch);
        const bool shares = vectors == 1 && VEC_BYTES > 16;
        const float *four = left;
        UNROLL
        for (int r = 0; r < rows; r++) {
            const float *number = left + r * left_row + k * left_step;
            if (shares && r % 4 == 0)
                four = offsets_from(number);
            const vec a = broadcast(shares ? four[r % 4 * left_row] : *number);
            UNROLL
            for (int v = 0; v < vectors; v++) {
                const vec sum = sums[r * vectors + v] + a * b[v];
                sums[r * vectors + v] =
                    guarded ? select(b[v] == 0.0f, sums[r * vectors + v], sum) : sum;
            }
        }
    }
}

/* As multiply_more(), but sums[r][v] begin at 0. */
INLINE void multiply(const int rows, const int vectors, const bool guarded,
                     vec sums[BLOCK_SUMS_MAX], const float *left, int64_t left_row,
                     int64_t left_step, const float *right, int64_t width, int64_t depth,
                     struct attn_prefetch *prefetch)
{
    UNROLL
    for (int i = 0; i < rows * vectors; i++)
        sums[i] = (vec){ 0 };
    multiply_more(rows, vectors, guarded, sums, left, left_row, left_step, right, width, depth,
                  prefetch);
}

#include "body_blocks.h"
#include "body_project.h"
#include "body_project_inputs.h"

/* Where scores go: rows stride apart. If adds, they are added, times factor, to what is there. */
struct score_rows {
    float *rows;
    int64_t stride;
    bool adds;
    float factor;
};

INLINE void score_block(const int rows, const int vectors, const struct score_rows to,
                        const float *query_t, const float *key, int64_t key_stride,
                        int64_t head_dim, int64_t width, struct attn_prefetch *prefetch)
{
    vec sums[BLOCK_SUMS_MAX];
    if (to.adds) {
        UNROLL
        for (int i = 0; i < rows * vectors; i++)
            __builtin_prefetch(to.rows + i / vectors * to.stride + i % vectors * LANES, 1, 3);
    }
    multiply(rows, vectors, false, sums, key, key_stride, 1, query_t, width, head_dim, prefetch);
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vectors; v++) {
            float *scores = to.rows + r * to.stride + v * LANES;
            const vec sum = sums[r * vectors + v];
            store(scores, to.adds ? load(scores) + sum * to.factor : sum);
        }
    }
}

/* How many of count rows go to whole blocks of rows rows. The rest goes to blocks of
 * BLOCK_ROWS_REST, then to single rows. The result is one block less if that makes the rest a
 * multiple of BLOCK_ROWS_REST. */
INLINE int64_t in_whole_blocks(int64_t count, int rows)
{
    const int64_t whole = count / rows * rows;
    const bool is_better = (count - whole) % BLOCK_ROWS_REST != 0 && whole > 0
                           && (count - whole + rows) % BLOCK_ROWS_REST == 0;
    return is_better ? whole - rows : whole;
}

INLINE void score_columns(const int vectors, struct score_rows to, const float *query_t,
                          const float *key, int64_t key_stride, int64_t n, int64_t head_dim,
                          int64_t width, struct attn_prefetch *prefetch)
{
    const int64_t whole = in_whole_blocks(n, BLOCK_ROWS(vectors));
    float *scores = to.rows;
    int64_t j = 0;

#define SCORE_BLOCKS(count, end)                                                                   \
    for (; j + (count) <= (end); j += (count)) {                                                   \
        to.rows = scores + j * to.stride;                                                          \
        score_block(count, vectors, to, query_t, key + j * key_stride, key_stride, head_dim,       \
                    width, prefetch);                                                              \
    }
    SCORE_BLOCKS(BLOCK_ROWS(vectors), whole)
    SCORE_BLOCKS(BLOCK_ROWS_REST, n)
    SCORE_BLOCKS(1, n)
#undef SCORE_BLOCKS
}

INLINE void score_rows(struct score_rows to, const float *query_t, const float *key,
                       int64_t key_stride, int64_t n, int64_t head_dim, int64_t width,
                       int64_t lanes, struct attn_prefetch *given)
{
    struct attn_prefetch prefetch = begin_prefetch(given, query_t);
    float *scores = to.rows;
    int64_t c = 0;

#define SCORE_COLUMNS(vectors)                                                                     \
    for (; c + (vectors)*LANES <= lanes; c += (vectors)*LANES) {                                   \
        to.rows = scores + c;                                                                      \
        score_columns(vectors, to, query_t + c, key, key_stride, n, head_dim, width, &prefetch);   \
    }
    SCORE_COLUMNS(BLOCK_VECTORS)
    if (BLOCK_VECTORS > 3) {
        SCORE_COLUMNS(3)
    }
    SCORE_COLUMNS(2)
    SCORE_COLUMNS(1)
#undef SCORE_COLUMNS
    pass_prefetch(given, &prefetch);
}

static void score_lanes(float *scores_t, const float *query_t, const float *key, int64_t key_stride,
                        int64_t n, int64_t head_dim, int64_t width, int64_t lanes,
                        struct attn_prefetch *given)
{
    const struct score_rows to = { .rows = scores_t, .stride = width };
    score_rows(to, query_t, key, key_stride, n, head_dim, width, lanes, given);
}

static void score_tile(float *scores_t, const float *query_t, const float *key, int64_t key_stride,
                       int64_t n, int64_t head_dim, int64_t width, struct attn_prefetch *given)
{
    score_lanes(scores_t, query_t, key, key_stride, n, head_dim, width, width, given);
}

static void add_products(float *to, int64_t to_stride, const float *rows_t, const float *gradients,
                         int64_t gradient_stride, int64_t n, int64_t depth, int64_t width,
                         float factor)
{
    const struct score_rows sums = {
        .rows = to, .stride = to_stride, .adds = true, .factor = factor
    };
    score_rows(sums, rows_t, gradients, gradient_stride, n, depth, width, width, NULL);
}

/* The scores of one vector of queries with one key. One chain of sums is enough: it waits only for
 * its own addition, since the tanh of a feature does not depend on other features. */
INLINE vec additive_score(const float *query_t, const float *key, const float *weight,
                          int64_t head_dim, int64_t width)
{
    vec sum = { 0 };
    for (int64_t d = 0; d < head_dim; d++) {
        const vec x = load(query_t + d * width) + key[d];
        sum += weight[d] * with_sign(tanh_nonnegative(absolute(x)), x);
    }
    return sum;
}

static void additive_tile(float *scores_t, const float *query_t, const float *key,
                          int64_t key_stride, const float *weight, float scale, int64_t n,
                          int64_t head_dim, int64_t width)
{
    for (int64_t c = 0; c < width; c += LANES)
        for (int64_t j = 0; j < n; j++)
            store(scores_t + j * width + c,
                  scale
                      * additive_score(query_t + c, key + j * key_stride, weight, head_dim, width));
}

INLINE void context_block(const int rows, const int vectors, const bool guarded, float *context_t,
                          const float *rescale, const float *weights_t, const float *value,
                          int64_t value_stride, int64_t n, int64_t width,
                          struct attn_prefetch *prefetch)
{
    vec sums[BLOCK_SUMS_MAX];
    multiply(rows, vectors, guarded, sums, value, 1, value_stride, weights_t, width, n, prefetch);
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vectors; v++) {
            float *context = context_t + r * width + v * LANES;
            store(context, load(context) * load(rescale + v * LANES) + sums[r * vectors + v]);
        }
    }
}

INLINE void context_columns(const int vectors, const bool guarded, float *context_t,
                            const float *rescale, const float *weights_t, const float *value,
                            int64_t value_stride, int64_t n, int64_t v_head_dim, int64_t width,
                            struct attn_prefetch *prefetch)
{
    const int rows = guarded ? BLOCK_ROWS_REST : BLOCK_ROWS(vectors);
    const int64_t whole = in_whole_blocks(v_head_dim, rows);
    int64_t d = 0;
    for (; d < whole; d += rows)
        context_block(rows, vectors, guarded, context_t + d * width, rescale, weights_t, value + d,
                      value_stride, n, width, prefetch);
    for (; d + BLOCK_ROWS_REST <= v_head_dim; d += BLOCK_ROWS_REST)
        context_block(BLOCK_ROWS_REST, vectors, guarded, context_t + d * width, rescale, weights_t,
                      value + d, value_stride, n, width, prefetch);
    for (; d < v_head_dim; d++)
        context_block(1, vectors, guarded, context_t + d * width, rescale, weights_t, value + d,
                      value_stride, n, width, prefetch);
}

static void context_tile(float *context_t, const float *rescale, const float *weights_t,
                         const float *value, int64_t value_stride, int64_t n, int64_t v_head_dim,
                         int64_t width, struct attn_prefetch *given)
{
    struct attn_prefetch prefetch = begin_prefetch(given, weights_t);
    int64_t c = 0;
    for (; c + BLOCK_VECTORS * LANES <= width; c += BLOCK_VECTORS * LANES)
        context_columns(BLOCK_VECTORS, false, context_t + c, rescale + c, weights_t + c, value,
                        value_stride, n, v_head_dim, width, &prefetch);
    for (; c + 2 * LANES <= width; c += 2 * LANES)
        context_columns(2, false, context_t + c, rescale + c, weights_t + c, value, value_stride, n,
                        v_head_dim, width, &prefetch);
    for (; c < width; c += LANES)
        context_columns(1, false, context_t + c, rescale + c, weights_t + c, value, value_stride, n,
                        v_head_dim, width, &prefetch);
    pass_prefetch(given, &prefetch);
}

static void context_lanes(float *context_t, const float *rescale, const float *weights_t,
                          const float *value, int64_t value_stride, int64_t n, int64_t v_head_dim,
                          int64_t width, struct attn_prefetch *given)
{
    struct attn_prefetch prefetch = begin_prefetch(given, weights_t);
    context_columns(1, false, context_t, rescale, weights_t, value, value_stride, n, v_head_dim,
                    width, &prefetch);
    pass_prefetch(given, &prefetch);
}

static void context_tile_guarded(float *context_t, const float *rescale, const float *weights_t,
                                 const float *value, int64_t value_stride, int64_t n,
                                 int64_t v_head_dim, int64_t width, struct attn_prefetch *given)
{
    struct attn_prefetch prefetch = begin_prefetch(given, weights_t);
    for (int64_t c = 0; c < width; c += LANES)
        context_columns(1, true, context_t + c, rescale + c, weights_t + c, value, value_stride, n,
                        v_head_dim, width, &prefetch);
    pass_prefetch(given, &prefetch);
}

/* The two-sum algorithm: the rounding error of a sum of two numbers is itself a number. An infinite
 * sum counts as exact, where the subtractions would give NaN. */
static void compensated_tile(float *total_t, float *lost_t, float *part_t, const float *rescale,
                             int64_t columns, int64_t width, bool is_last)
{
    for (int64_t c = 0; c < columns; c++)
        for (int64_t r = 0; r < width; r += LANES) {
            const int64_t at = c * width + r;
            const vec factor = load(rescale + r);
            const vec total = load(total_t + at) * factor;
            const vec part = load(part_t + at);
            const vec sum = total + part;
            const vec taken = sum - total;
            const vec lost = (total - (sum - taken)) + (part - taken);
            const vec all_lost =
                load(lost_t + at) * factor + select(lost * 0.0f == 0.0f, lost, (vec){ 0 });
            store(total_t + at, sum);
            store(lost_t + at, all_lost);
            store(part_t + at, is_last ? sum + all_lost : (vec){ 0 });
        }
}

static bool all_finite(const float *rows, int64_t row_stride, int64_t row_count, int64_t columns)
{
    vec sums[4] = {
        0
    }; /* 0 times a finite number is 0; times any other number it is NaN, which stays */
    for (int64_t r = 0; r < row_count; r++) {
        const float *row = rows + r * row_stride;
        int64_t c = 0;
        for (; c + 4 * LANES <= columns; c += 4 * LANES) {
            UNROLL
            for (int i = 0; i < 4; i++)
                sums[i] += load(row + c + i * LANES) * 0.0f;
        }
        for (; c + LANES <= columns; c += LANES)
            sums[0] += load(row + c) * 0.0f;
        if (c < columns)
            sums[0] += load_part(row + c, columns - c) * 0.0f;
    }
    const vec sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    for (int i = 0; i < LANES; i++)
        if (sum[i] != 0.0f)
            return false;
    return true;
}

#define PROJECT_BLOCKS_OF(NAME, name, numbers, bytes) project_blocks_##name,
#define UNPACK_OF(NAME, name, numbers, bytes)         unpack_##name,

/* The table of all; matrix_kernels are those of the CPU's matrix unit, or NULL. */
#define KERNEL_TABLE(table_name, matrix_kernels, fixed_kernels)                                    \
    {                                                                                              \
        .name = (table_name), .lanes = LANES, .transpose_in = transpose_in,                        \
        .transpose_out = transpose_out, .score_tile = score_tile, .score_lanes = score_lanes,      \
        .additive_tile = additive_tile, .softcap_tile = softcap_tile, .alibi_tile = alibi_tile,    \
        .bound_tile = bound_tile, .bias_tile = bias_tile, .mask_bits = mask_bits,                  \
        .mask_floats = mask_floats, .mask_tile = mask_tile, .softmax_tile = softmax_tile,          \
        .softmax_bounded_tile = softmax_bounded_tile, .context_tile = context_tile,                \
        .context_lanes = context_lanes, .context_tile_guarded = context_tile_guarded,              \
        .compensated_tile = compensated_tile, .all_finite = all_finite,                            \
        .weights_row = weights_row, .gelu = gelu_row, .gelu_tanh = gelu_tanh_row,                  \
        .gelu_quick = gelu_quick_row, .relu = relu_row, .relu_squared = relu_squared_row,          \
        .silu = silu_row, .sigmoid = sigmoid_row, .tanh = tanh_row, .xielu = xielu_row,            \
        .softcap_row = softcap_row, .multiply_row = multiply_row, .change_state = change_state,    \
        .convolve_row = convolve_row, .scan_row = scan_row,                                        \
        .greatest_of_cells = greatest_of_cells, .bound_of_greatest = bound_of_greatest,            \
        .find_reaching = find_reaching,                                                            \
        .decode_scores = { decode_scores_f32, decode_scores_f16, decode_scores_bf16 },             \
        .decode_softmax = decode_softmax,                                                          \
        .decode_context = { decode_context_f32, decode_context_f16, decode_context_bf16 },         \
        .decode_scores_i8 = decode_scores_i8, .decode_context_i8 = decode_context_i8,              \
        .widen_i8_channels = widen_i8_channels, .widen_i8_row = widen_i8_row,                      \
        .widen_f16 = widen_f16, .widen_bf16 = widen_bf16, .narrow_f16 = narrow_f16,                \
        .narrow_bf16 = narrow_bf16, .copy_rows = copy_rows, .add_rows = add_rows,                  \
        .score_tile_guarded = score_tile_guarded, .add_products = add_products,                    \
        .dot_rows = dot_rows, .delta_tile = delta_tile, .weights_tile = weights_tile,              \
        .softmax_gradient_tile = softmax_gradient_tile,                                            \
        .softcap_gradient_tile = softcap_gradient_tile,                                            \
        .additive_gradient_tile = additive_gradient_tile,                                          \
        .project_by_outputs = { project_by_outputs_f32, project_by_outputs_f16,                    \
                                project_by_outputs_bf16 },                                         \
        .project_by_inputs = { project_by_inputs_f32, project_by_inputs_f16,                       \
                               project_by_inputs_bf16 },                                           \
        .project_blocks = { ATTN_BLOCKS_MAP(PROJECT_BLOCKS_OF) },                                  \
        .unpack = { ATTN_BLOCKS_MAP(UNPACK_OF) }, .matrix = (matrix_kernels),                      \
        .fixed = (fixed_kernels),                                                                  \
    }

const struct attn_kernels ATTN_KERNELS = KERNEL_TABLE(ATTN_KERNELS_NAME, NULL, NULL);
