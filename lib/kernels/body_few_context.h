/* body_few_context.h - values of few query rows times their weights; a part of body_few.h.
 *
 * The values of a run are summed before the sum joins the context: a few keys of each part, in an
 * order that does not depend on how many rows there are. */
#ifndef ATTN_BODY_FEW_CONTEXT_H
#define ATTN_BODY_FEW_CONTEXT_H

#include "body_few_parts.h"

/* Of values that meet four rows: the sums of four fill half the registers, of two where there are
 * 16 registers. */
#if VEC_BYTES == 64 || defined(__aarch64__)
enum { FEW_VECTORS = 4 };
#else
enum { FEW_VECTORS = 2 };
#endif

/* A run of values: each of parts, part_bytes and part_keys apart, has n of them. */
struct few_values {
    const char *rows;
    const float *weights;
    int64_t weights_stride, part_keys;
    int64_t stride_bytes, part_bytes, n;
    int64_t columns, ahead;
    bool calls;
};

/* vectors of values from column on, of a run, into context; guarded is for one row only. */
INLINE void few_context_block(const enum attn_numbers kind, const int rows, const int vectors,
                              const int parts, const bool calls, const bool guarded, float *context,
                              int64_t context_stride, const float *rescale,
                              const struct few_values *value, int64_t column)
{
    vec sums[16];

    UNROLL
    for (int i = 0; i < rows * vectors; i++)
        sums[i] = (vec){ 0 };
    KEEP_ROLLED
    for (int64_t j = 0; j < value->n; j++) {
        UNROLL
        for (int s = 0; s < parts; s++) {
            const char *row = offsets_from(value->rows + j * value->stride_bytes
                                           + s * value->part_bytes + bytes_of(kind, column));
            const float *weights = value->weights + j + s * value->part_keys;
            vec weight[4];
            if (guarded && weights[0] == 0.0f)
                continue;
            UNROLL
            for (int r = 0; r < rows; r++)
                weight[r] = broadcast(weights[r * value->weights_stride]);
            UNROLL
            for (int i = 0; i < vectors; i++) {
                call_for(kind, rows, calls, row, i * LANES, value->ahead);
                const vec v = load_numbers(kind, row, i * LANES);
                UNROLL
                for (int r = 0; r < rows; r++)
                    sums[r * vectors + i] += weight[r] * v;
            }
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int i = 0; i < vectors; i++) {
            float *c = context + r * context_stride + i * LANES;
            store(c, load(c) * rescale[r] + sums[r * vectors + i]);
        }
    }
}

/* As many vectors at a time as there are registers for their sums, a row read to its end. */
INLINE void few_context_rows(const enum attn_numbers kind, const int rows, const int parts,
                             const bool calls, const bool guarded, float *context,
                             int64_t context_stride, const float *rescale,
                             const struct few_values *value)
{
    const int most = rows == 1 ? 8 : rows == 2 ? 2 * FEW_VECTORS : FEW_VECTORS;
    int64_t c = 0;

#define FEW_CONTEXT_BLOCK(vectors, column)                                                         \
    few_context_block(kind, rows, vectors, parts, calls, guarded, context + c, context_stride,     \
                      rescale, value, column)
    for (; c + most * LANES <= value->columns; c += most * LANES)
        FEW_CONTEXT_BLOCK(most, c);
    if (most > 4 && c + 4 * LANES <= value->columns) {
        FEW_CONTEXT_BLOCK(4, c);
        c += 4 * LANES;
    }
    for (; c + LANES <= value->columns; c += LANES)
        FEW_CONTEXT_BLOCK(1, c);
    if (c < value->columns)
        FEW_CONTEXT_BLOCK(1, value->columns - LANES);
#undef FEW_CONTEXT_BLOCK
}

/* A run of keys: a chain of products as long as that, and values that the nearest cache still holds
 * when the next rows want them. The first four rows call. Values of more vectors than four rows
 * have registers for they read twice where they come from far: two rows at a time, to their ends.
 */
INLINE void few_context_run(const enum attn_numbers kind, const int parts, float *context,
                            int64_t context_stride, const float *rescale, int64_t rescale_step,
                            int64_t row_count, const struct few_values *first, bool guarded)
{
    const bool in_twos = kind == ATTN_NUMBERS_F32 && first->calls
                         && first->columns > FEW_VECTORS * LANES
                         && first->columns <= 2 * FEW_VECTORS * LANES;
    struct few_values value = *first;
    int64_t r = 0;

#define FEW_CONTEXT_ROWS(rows, calls, guard)                                                       \
    few_context_rows(kind, rows, parts, calls, guard, context + r * context_stride,                \
                     context_stride, rescale + r * rescale_step, &value)
#define FEW_CONTEXT_CALLING(rows)                                                                  \
    value.weights = first->weights + r * first->weights_stride;                                    \
    if (parts > 1 && value.calls && r < 4)                                                         \
        FEW_CONTEXT_ROWS(rows, parts > 1, false);                                                  \
    else                                                                                           \
        FEW_CONTEXT_ROWS(rows, false, false)
    for (; guarded && r < row_count; r++) {
        value.weights = first->weights + r * first->weights_stride;
        FEW_CONTEXT_ROWS(1, false, true);
    }
    while (r + 2 <= row_count) {
        if (r + 4 <= row_count && !(in_twos && r < 4)) {
            FEW_CONTEXT_CALLING(4);
            r += 4;
        } else {
            FEW_CONTEXT_CALLING(2);
            r += 2;
        }
    }
    if (r < row_count) {
        FEW_CONTEXT_CALLING(1);
    }
#undef FEW_CONTEXT_CALLING
#undef FEW_CONTEXT_ROWS
}

INLINE void few_context(const enum attn_numbers kind, float *context, int64_t context_stride,
                        const float *rescale, const float *weights, int64_t weights_stride,
                        int64_t row_count, const void *value, int64_t value_stride, int64_t n,
                        int64_t v_head_dim, const void *next, int64_t low, int64_t high)
{
    static const float ones[4] = { 1, 1, 1, 1 };
    const int64_t stride_bytes = bytes_of(kind, value_stride);
    const int64_t part_keys = keys_of_part(n);
    struct few_values run = { .weights_stride = weights_stride,
                              .part_keys = part_keys,
                              .stride_bytes = stride_bytes,
                              .part_bytes = part_keys * stride_bytes,
                              .n = FEW_RUN_EACH,
                              .columns = v_head_dim,
                              .calls = next != NULL };

    for (int64_t j = 0; j < part_keys; j += FEW_RUN_EACH) {
        run.rows = (const char *)value + j * stride_bytes;
        run.weights = weights + j;
        run.ahead = bytes_ahead(value, next, j, part_keys, stride_bytes);
        const int64_t run_end = j + (FEW_STREAMS - 1) * part_keys + FEW_RUN_EACH;
        few_context_run(kind, FEW_STREAMS, context, context_stride, j == 0 ? rescale : ones, j == 0,
                        row_count, &run, j < low || run_end > high);
    }
    const int64_t met = FEW_STREAMS * part_keys;
    run.calls = false;
    for (int64_t j = met; j < n; j += FEW_RUN) {
        run.rows = (const char *)value + j * stride_bytes;
        run.weights = weights + j;
        run.n = n - j < FEW_RUN ? n - j : FEW_RUN;
        few_context_run(kind, 1, context, context_stride, j == 0 ? rescale : ones, j == 0,
                        row_count, &run, j < low || j + run.n > high);
    }
}

#endif
