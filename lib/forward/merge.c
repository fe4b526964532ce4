/* SPDX-License-Identifier: Apache-2.0 */
/* merge.c - the sum over parts, whose result does not depend on their order.
 *
 * Floating-point sums depend on the order of their terms, so these sums use integers: each term is
 * rounded, by itself, to a multiple of a quantum, and the sum of the multiples is exact. The
 * quantum is 2^-62 of the greatest term, so less precision is lost than in a sum of doubles. A sum
 * of two terms has the same bits in either order as a double, which takes a tenth of the time. */
#include "merge.h"

#include "base/internal.h"

#include <math.h>
#include <string.h>

enum { QUANTUM_BITS = 62 };

/* If all terms are below 2^EXPONENT_MIN, they are far below the least float, and their quantum
 * would not be a double. */
enum { EXPONENT_MIN = -900 };

/* weights[i] = exp(lse - greatest lse) of each part, in [0, 1]. Returns the greatest lse, which is
 * NaN if any is NaN. If it is NaN or INFINITY, the result is unknown and every weight is NaN. */
static double weigh(const struct attn_part *parts, int64_t part_count, int64_t row, double *weights)
{
    double greatest = -INFINITY;
    bool has_nan = false;

    for (int64_t i = 0; i < part_count; i++) {
        greatest = fmax(greatest, (double)parts[i].lse[row]);
        has_nan = has_nan || isnan(parts[i].lse[row]);
    }
    if (has_nan)
        greatest = NAN;
    for (int64_t i = 0; i < part_count; i++) {
        const double lse = (double)parts[i].lse[row];
        weights[i] = !(greatest < INFINITY) ? NAN : lse == -INFINITY ? 0.0 : exp(lse - greatest);
    }
    return greatest;
}

/* The sum of weights in [0, 1]. */
static double sum_weights(const double *weights, int64_t part_count)
{
    const double quanta = ldexp(1.0, QUANTUM_BITS);
    attn_wide sum = 0;

    for (int64_t i = 0; i < part_count; i++)
        sum += (int64_t)rint(weights[i] * quanta);
    return (double)sum / quanta;
}

/* The sum of terms that include infinities or NaN; it does not depend on their order. */
static double sum_nonfinite(const struct attn_part *parts, int64_t part_count, int64_t at,
                            const double *weights)
{
    double sum = 0.0;

    for (int64_t i = 0; i < part_count; i++)
        if (weights[i] > 0.0)
            sum += weights[i] * (double)parts[i].context[at];
    return sum;
}

/* The sum of weight * context over the parts with a weight above 0, for the number at index at. */
static double sum_context(const struct attn_part *parts, int64_t part_count, int64_t at,
                          const double *weights)
{
    double greatest = 0.0;
    int exponent;
    attn_wide sum = 0;

    for (int64_t i = 0; i < part_count; i++) {
        if (weights[i] == 0.0)
            continue;
        const double term = weights[i] * (double)parts[i].context[at];
        if (!isfinite(term))
            return sum_nonfinite(parts, part_count, at, weights);
        greatest = fmax(greatest, fabs(term));
    }
    frexp(greatest, &exponent);
    const double quanta =
        ldexp(1.0, QUANTUM_BITS - (exponent > EXPONENT_MIN ? exponent : EXPONENT_MIN));
    for (int64_t i = 0; i < part_count; i++)
        if (weights[i] > 0.0)
            sum += (int64_t)rint(weights[i] * (double)parts[i].context[at] * quanta);
    return (double)sum / quanta;
}

/* context of one row of two parts, of which at least one has a weight above 0. The result may take
 * the place of a part: each number is read before it is written. */
static void merge_two(const float *a, const float *b, const double weights[2], double total,
                      int64_t columns, float *context)
{
    const double by_a = weights[0], by_b = weights[1];

    if (by_a > 0.0 && by_b > 0.0)
        for (int64_t c = 0; c < columns; c++)
            context[c] = (float)((by_a * (double)a[c] + by_b * (double)b[c]) / total);
    else if (columns > 0)
        memmove(context, by_a > 0.0 ? a : b, (size_t)columns * sizeof *context);
}

void attn_merge(const struct attn_part *parts, int64_t part_count, int64_t first, int64_t row_count,
                int64_t columns, float *context, int64_t context_stride, float *lse,
                double *weights)
{
    for (int64_t r = 0; r < row_count; r++) {
        const int64_t row = first + r;
        const double greatest = weigh(parts, part_count, row, weights);
        const bool is_known = greatest < INFINITY;
        const double total = is_known ? sum_weights(weights, part_count) : 1.0;
        if (lse != NULL)
            lse[r] = total > 0.0 ? (float)(greatest + log(total)) : -INFINITY;
        if (part_count == 2 && is_known && total > 0.0) {
            merge_two(parts[0].context + row * columns, parts[1].context + row * columns, weights,
                      total, columns, context + r * context_stride);
            continue;
        }
        for (int64_t c = 0; c < columns; c++)
            context[r * context_stride + c] =
                !is_known ? NAN
                : total > 0.0
                    ? (float)(sum_context(parts, part_count, row * columns + c, weights) / total)
                    : 0.0f;
    }
}
