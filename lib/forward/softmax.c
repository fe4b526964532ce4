/* SPDX-License-Identifier: Apache-2.0 */
/* softmax.c - rows along an axis, a few numbers at a time.
 *
 * This is not the softmax of attention, which never has a whole row in one place. Here the whole
 * row is available, so it can afford double and two passes over exp. */
#include "softmax.h"

#include "base/convert.h"
#include "base/internal.h"

#include <math.h>

/* A row of the array: number i is at first + i * step. */
struct row {
    const struct attn_softmax *softmax;
    const struct attn_kernels *kernels;
    int64_t first, step;
};

/* Numbers of a row that are processed together. */
enum { PIECE = 64 };

static int64_t read_piece(const struct row *row, int64_t i, int64_t count, double piece[PIECE])
{
    const int64_t n = attn_min(PIECE, count - i);

    attn_read_doubles(row->kernels, row->softmax->input, row->softmax->dtype,
                      row->first + i * row->step, row->step, n, piece);
    return n;
}

static void write_piece(const struct row *row, int64_t i, int64_t n, const double piece[PIECE])
{
    attn_write_doubles(row->kernels, row->softmax->output, row->softmax->dtype,
                       row->first + i * row->step, row->step, n, piece);
}

/* Return the index of the first maximum of count numbers, or of the first NaN, and write that
 * number to *max; -INFINITY if all numbers are -INFINITY. */
static int64_t find_max(const struct row *row, int64_t count, double *max)
{
    double piece[PIECE];
    int64_t at = 0;

    *max = -INFINITY;
    for (int64_t i = 0, n; i < count; i += n) {
        n = read_piece(row, i, count, piece);
        for (int64_t k = 0; k < n; k++) {
            if (!(piece[k] > *max || isnan(piece[k])))
                continue;
            *max = piece[k];
            at = i + k;
            if (isnan(*max))
                return at;
        }
    }
    return at;
}

/* The maximum's own term of the sum, which is 1, is kept out of others until the end: if the
 * maximum dominates, its log-softmax consists of exactly the digits that adding the 1 would round
 * away. */
static void run_row(const struct row *row, int64_t visible)
{
    const int64_t length = row->softmax->length;
    const bool is_log = row->softmax->is_log;
    double piece[PIECE], max;
    const int64_t at = find_max(row, visible, &max);
    double others = max - max; /* 0, or NaN for a row with NaN or INFINITY */

    if (max == -INFINITY)
        visible = 0;
    for (int64_t i = 0, n; i < visible; i += n) {
        n = read_piece(row, i, visible, piece);
        for (int64_t k = 0; k < n; k++)
            if (i + k != at)
                others += exp(piece[k] - max);
    }
    const double log_sum = log1p(others);
    for (int64_t i = 0, n; i < visible; i += n) {
        n = read_piece(row, i, visible, piece);
        for (int64_t k = 0; k < n; k++)
            piece[k] = is_log ? piece[k] - max - log_sum : exp(piece[k] - max) / (1.0 + others);
        write_piece(row, i, n, piece);
    }
    for (int64_t k = 0; k < PIECE; k++)
        piece[k] = is_log ? -INFINITY : 0.0;
    for (int64_t i = visible; i < length; i += PIECE)
        write_piece(row, i, attn_min(PIECE, length - i), piece);
}

void attn_softmax_run(const struct attn_softmax *softmax, int64_t first, int64_t count)
{
    const int64_t length = softmax->length;
    const int64_t inner = softmax->inner;
    struct row row = { softmax, attn_kernels_available()[0], 0, inner };

    for (int64_t number = first; number < first + count; number++) {
        const int64_t visible = softmax->visible != NULL
                                    ? softmax->visible[number / softmax->rows_per_visible]
                                    : length;
        row.first = number / inner * length * inner + number % inner;
        run_row(&row, attn_min(visible, length));
    }
}
