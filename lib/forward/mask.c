/* SPDX-License-Identifier: Apache-2.0 */
/* mask.c - causal, window, the lengths, the caller's mask and the gap between the first keys and
 * the last ones.
 *
 * Everything that follows from positions and lengths leaves one interval of keys for each query
 * row, so the loop over tiles skips tiles outside of it and pays nothing for tiles inside. Only the
 * caller's own mask and the ends of gaps are tested pair by pair; a mask that ends before the keys
 * adds one more length. Positions may be any int64_t, so arithmetic on them is in 128 bits and
 * clamped to the existing keys. */
#include "forward/mask.h"

#include "base/convert.h"
#include "base/internal.h"

#include <math.h>

/* Keys of a row that are widened at a time. */
enum { HALF_PIECE = 64 };

/* k - p for key 0: by how many positions the first key is ahead of the row. */
static attn_wide key_ahead(const struct attn_problem *problem, int64_t batch, int64_t row)
{
    const int64_t past_len = problem->past_len != NULL ? problem->past_len[batch] : 0;

    return (attn_wide)problem->kv_offset - past_len - row;
}

static int64_t clamp_key(attn_wide key, int64_t kv_len)
{
    return key < 0 ? 0 : key > kv_len ? kv_len : (int64_t)key;
}

/* The index of the first key of the row's chunk, before or behind the keys that there are. */
static attn_wide chunk_start(const struct attn_problem *problem, attn_wide here)
{
    const attn_wide chunk = problem->options.chunk, position = here + problem->kv_offset;
    const attn_wide rest = position % chunk;

    return here - (rest < 0 ? rest + chunk : rest);
}

struct key_range attn_mask_row(const struct attn_problem *problem, int64_t batch, int64_t row)
{
    const struct attn_options *options = &problem->options;
    const int64_t kv_len = problem->key.shape[2];
    const attn_wide here =
        -key_ahead(problem, batch, row); /* the index of the key at the row's position */
    int64_t low = 0;
    int64_t high = kv_len;

    if (problem->kv_len != NULL)
        high = attn_min(high, problem->kv_len[batch]);
    if (problem->row_kv_len != NULL)
        high = attn_min(high, problem->row_kv_len[batch * problem->query.shape[2] + row]);
    if (problem->mask.data != NULL && problem->mask.shape[3] > 1)
        high = attn_min(high, problem->mask.shape[3]);
    if (options->causal)
        high = attn_min(high, clamp_key(here + 1, kv_len));
    if (options->window_left >= 0)
        low = clamp_key(here - options->window_left, kv_len);
    if (options->window_right >= 0)
        high = attn_min(high, clamp_key(here + options->window_right + 1, kv_len));
    if (options->chunk > 0) {
        const attn_wide first = chunk_start(problem, here);
        low = attn_max(low, clamp_key(first, kv_len));
        high = attn_min(high, clamp_key(first + options->chunk, kv_len));
    }
    return low < high ? (struct key_range){ low, high } : (struct key_range){ 0, 0 };
}

struct attn_band attn_mask_band(const struct attn_problem *problem, int64_t past_len)
{
    const struct attn_options *options = &problem->options;
    const double here = (double)past_len - (double)problem->kv_offset;
    struct attn_band band = { -INFINITY, INFINITY };

    if (options->causal)
        band.high = here + 1;
    if (options->window_left >= 0)
        band.low = here - (double)options->window_left;
    if (options->window_right >= 0)
        band.high = fmin(band.high, here + (double)options->window_right + 1);
    if (options->chunk > 0) {
        const double half = ((double)options->chunk - 1) / 2;
        band.low = fmax(band.low, here - half);
        band.high = fmin(band.high, here + half + 1);
    }
    return band;
}

struct key_range attn_mask_gap(const struct attn_problem *problem, int64_t batch, int64_t row)
{
    const attn_wide here = -key_ahead(problem, batch, row);

    return problem->last_keys > 0
               ? (struct key_range){ problem->first_keys, clamp_key(here - problem->last_keys + 1,
                                                                    problem->key.shape[2]) }
               : (struct key_range){ 0, 0 };
}

void attn_mask_rows(const struct attn_problem *problem, int64_t batch, int64_t row,
                    int64_t row_count, struct key_range *ranges, struct key_range *any,
                    struct key_range *every)
{
    const int64_t kv_len = problem->key.shape[2];

    *any = (struct key_range){ kv_len, 0 };
    *every = (struct key_range){ 0, kv_len };
    for (int64_t r = 0; r < row_count; r++) {
        const struct key_range range = attn_mask_row(problem, batch, row + r);
        every->low = attn_max(every->low, range.low);
        every->high = attn_min(every->high, range.high);
        if (range.low < range.high) {
            any->low = attn_min(any->low, range.low);
            any->high = attn_max(any->high, range.high);
        }
        ranges[r] = range;
    }
    if (any->low >= any->high)
        *any = (struct key_range){ 0, 0 };
}

void attn_mask_distances(const struct attn_problem *problem, int64_t batch, int64_t row,
                         int64_t key, int64_t width, float *distance)
{
    const attn_wide first = -key_ahead(problem, batch, row) - key;

    for (int64_t r = 0; r < width; r++)
        distance[r] = (float)(first + r);
}

double attn_mask_distance(const struct attn_problem *problem, int64_t batch, int64_t row,
                          int64_t key)
{
    return (double)(-key_ahead(problem, batch, row) - key);
}

/* The stride of dimension d in the problem's shape: a dimension of 1 broadcasts. */
static int64_t mask_stride(const struct attn_tensor *mask, int d)
{
    return mask->shape[d] == 1 ? 0 : mask->stride[d];
}

/* How many of count indices, from at on, dimension d of the mask has. */
static int64_t mask_count(const struct attn_tensor *mask, int d, int64_t at, int64_t count)
{
    return mask->shape[d] == 1 ? count : attn_max(0, attn_min(count, mask->shape[d] - at));
}

/* The index of the mask's number for a row and a key. */
static int64_t mask_first(const struct attn_tensor *mask, int64_t batch, int64_t head, int64_t row,
                          int64_t key)
{
    return batch * mask_stride(mask, 0) + head * mask_stride(mask, 1) + row * mask_stride(mask, 2)
           + key * mask_stride(mask, 3);
}

static void gather_bool(const uint8_t *allowed, int64_t row_stride, int64_t key_stride,
                        int64_t row_count, int64_t n, int64_t width, float *bias_t)
{
    for (int64_t j = 0; j < n; j++)
        for (int64_t r = 0; r < width; r++)
            bias_t[j * width + r] =
                r >= row_count || allowed[r * row_stride + j * key_stride] != 0 ? 0.0f : -INFINITY;
}

static void gather_float(const float *bias, int64_t row_stride, int64_t key_stride,
                         int64_t row_count, int64_t n, int64_t width, float *bias_t)
{
    for (int64_t j = 0; j < n; j++)
        for (int64_t r = 0; r < width; r++)
            bias_t[j * width + r] = r < row_count ? bias[r * row_stride + j * key_stride] : 0.0f;
}

/* Gather 16-bit numbers from first on, one row of keys at a time. */
static void gather_half(const struct attn_kernels *kernels, const struct attn_tensor *mask,
                        int64_t first, int64_t row_count, int64_t n, int64_t width, float *bias_t)
{
    float piece[HALF_PIECE];

    for (int64_t r = 0; r < width; r++)
        for (int64_t j = 0; j < n; j += HALF_PIECE) {
            const int64_t count = attn_min(HALF_PIECE, n - j);
            if (r < row_count)
                attn_widen(kernels, mask->data, mask->dtype,
                           first + r * mask_stride(mask, 2) + j * mask_stride(mask, 3),
                           mask_stride(mask, 3), count, piece);
            for (int64_t k = 0; k < count; k++)
                bias_t[(j + k) * width + r] = r < row_count ? piece[k] : 0.0f;
        }
}

/* The bits of row_count rows for a key of their gaps: the first `visible` rows see it. */
static uint64_t bits_of(int64_t visible, int64_t row_count)
{
    const uint64_t all = ~(uint64_t)0;
    const uint64_t past = row_count < 64 ? all << row_count : 0;

    return visible >= row_count ? all : past | (((uint64_t)1 << attn_max(visible, 0)) - 1);
}

static enum attn_sees scan_gaps(const struct attn_problem *problem, int64_t batch, int64_t row,
                                int64_t row_count, int64_t key, int64_t n, uint64_t *bits)
{
    const struct key_range least = attn_mask_gap(problem, batch, row);
    const struct key_range most = attn_mask_gap(problem, batch, row + row_count - 1);
    const attn_wide end = -key_ahead(problem, batch, row) - problem->last_keys + 1;

    if (key >= most.high || key + n <= most.low)
        return ATTN_SEES_ALL;
    if (key >= least.low && key + n <= least.high)
        return ATTN_SEES_NOTHING;
    for (int64_t j = 0; j < n; j++) {
        const attn_wide visible = key + j < most.low ? row_count : key + j - end + 1;
        bits[j] = bits_of(visible < 0           ? 0
                          : visible > row_count ? row_count
                                                : (int64_t)visible,
                          row_count);
    }
    return ATTN_SEES_BITS;
}

/* bias[j * step] of the keys of the row's gap becomes -INFINITY. */
static void hide_gap(const struct attn_problem *problem, int64_t batch, int64_t row, int64_t key,
                     int64_t n, int64_t step, float *bias)
{
    const struct key_range gap = attn_mask_gap(problem, batch, row);

    for (int64_t k = attn_max(gap.low, key); k < attn_min(gap.high, key + n); k++)
        bias[(k - key) * step] = -INFINITY;
}

static enum attn_sees scan_mask(const struct attn_problem *problem,
                                const struct attn_kernels *kernels, int64_t batch, int64_t head,
                                int64_t row, int64_t row_count, int64_t key, int64_t n,
                                uint64_t *bits)
{
    const struct attn_tensor *mask = &problem->mask;
    const int64_t row_stride = mask_stride(mask, 2);
    const int64_t first = mask_first(mask, batch, head, row, key);
    const int64_t count = mask_count(mask, 3, key, n);

    if (mask->data == NULL)
        return ATTN_SEES_ALL;
    if (mask_stride(mask, 3) != 1 || (mask->dtype != ATTN_BOOL && mask->dtype != ATTN_F32))
        return ATTN_SEES_BIASES;
    if (mask->dtype == ATTN_F32)
        return kernels->mask_floats((const float *)mask->data + first, row_stride, row_count,
                                    count);
    for (int64_t j = count; j < n; j++)
        bits[j] = ~(uint64_t)0;
    return kernels->mask_bits(bits, (const uint8_t *)mask->data + first, row_stride, row_count,
                              count);
}

enum attn_sees attn_mask_scan(const struct attn_problem *problem,
                              const struct attn_kernels *kernels, int64_t batch, int64_t head,
                              int64_t row, int64_t row_count, int64_t key, int64_t n,
                              uint64_t *bits)
{
    const enum attn_sees sees = problem->last_keys > 0
                                    ? scan_gaps(problem, batch, row, row_count, key, n, bits)
                                    : ATTN_SEES_ALL;

    if (sees == ATTN_SEES_ALL)
        return scan_mask(problem, kernels, batch, head, row, row_count, key, n, bits);
    return sees == ATTN_SEES_BITS && problem->mask.data != NULL ? ATTN_SEES_BIASES : sees;
}

void attn_mask_gather(const struct attn_problem *problem, const struct attn_kernels *kernels,
                      int64_t batch, int64_t head, int64_t row, int64_t row_count, int64_t key,
                      int64_t n, int64_t width, float *bias_t)
{
    const struct attn_tensor *mask = &problem->mask;
    const int64_t row_stride = mask_stride(mask, 2);
    const int64_t key_stride = mask_stride(mask, 3);
    const int64_t first = mask_first(mask, batch, head, row, key);
    const int64_t asked = n, rows = row_count;

    /* Gradients pass a transposed mask, so either dimension may be shorter. */
    row_count = mask_count(mask, 2, row, row_count);
    n = mask_count(mask, 3, key, n);
    for (int64_t i = n * width; i < asked * width; i++)
        bias_t[i] = 0.0f;
    if (mask->dtype == ATTN_BOOL)
        gather_bool((const uint8_t *)mask->data + first, row_stride, key_stride, row_count, n,
                    width, bias_t);
    else if (mask->dtype != ATTN_F32)
        gather_half(kernels, mask, first, row_count, n, width, bias_t);
    else if (key_stride == 1)
        kernels->transpose_in(bias_t, (const float *)mask->data + first, row_stride, row_count, n,
                              1.0f, width);
    else
        gather_float((const float *)mask->data + first, row_stride, key_stride, row_count, n, width,
                     bias_t);
    for (int64_t r = 0; r < rows; r++)
        hide_gap(problem, batch, row + r, key, asked, width, bias_t + r);
}

void attn_mask_floats(const struct attn_problem *problem, const struct attn_kernels *kernels,
                      int64_t batch, int64_t head, int64_t row, int64_t key, int64_t n,
                      float *biases)
{
    const struct attn_tensor *mask = &problem->mask;
    const int64_t step = mask_stride(mask, 3);
    const int64_t first = mask_first(mask, batch, head, row, key);
    const int64_t count = mask->data != NULL ? mask_count(mask, 3, key, n) : 0;

    if (mask->data != NULL && mask->dtype == ATTN_BOOL)
        for (int64_t j = 0; j < count; j++)
            biases[j] = ((const uint8_t *)mask->data)[first + j * step] != 0 ? 0.0f : -INFINITY;
    else if (mask->data != NULL)
        attn_widen(kernels, mask->data, mask->dtype, first, step, count, biases);
    for (int64_t j = count; j < n; j++)
        biases[j] = 0.0f;
    hide_gap(problem, batch, row, key, n, 1, biases);
}

void attn_mask_biases(const struct attn_problem *problem, const struct attn_kernels *kernels,
                      int64_t batch, int64_t head, int64_t row, int64_t key, int64_t n,
                      double *biases)
{
    const struct attn_tensor *mask = &problem->mask;
    const int64_t step = mask_stride(mask, 3);
    const int64_t first = mask_first(mask, batch, head, row, key);
    const int64_t count = mask->data != NULL ? mask_count(mask, 3, key, n) : 0;
    const struct key_range gap = attn_mask_gap(problem, batch, row);

    if (mask->data != NULL && mask->dtype == ATTN_BOOL)
        for (int64_t j = 0; j < count; j++)
            biases[j] = ((const uint8_t *)mask->data)[first + j * step] != 0 ? 0.0 : -INFINITY;
    else if (mask->data != NULL)
        attn_read_doubles(kernels, mask->data, mask->dtype, first, step, count, biases);
    for (int64_t j = count; j < n; j++)
        biases[j] = 0.0;
    for (int64_t k = attn_max(gap.low, key); k < attn_min(gap.high, key + n); k++)
        biases[k - key] = -INFINITY;
}
