/* softmax.c - see softmax.h.
 *
 * Not the softmax of attention, whose rows are never whole in one place: this one has its row
 * before it, so it can afford double and two passes over exp. */
#include "softmax.h"

#include "internal.h"

#include <math.h>

/* Where the first of the largest visible numbers is, or of those that are NaN. count is not 0. */
static int64_t find_max(const float *input, int64_t stride, int64_t count)
{
    int64_t at = 0;

    for (int64_t i = 0; i < count && !isnan(input[at * stride]); i++)
        if (input[i * stride] > input[at * stride] || isnan(input[i * stride]))
            at = i;
    return at;
}

/* The largest number's own part of the sum, which is 1, is left out of others until the end: where
 * it dominates, its log-softmax is all in the digits that adding the 1 would round away. */
static void run_row(const float *input, float *output, int64_t stride, int64_t length,
                    int64_t visible, bool is_log)
{
    const float nothing = is_log ? -INFINITY : 0.0f;
    const int64_t at = visible > 0 ? find_max(input, stride, visible) : 0;
    const double max = visible > 0 ? (double)input[at * stride] : -INFINITY;
    double others = max - max; /* 0, or NaN for a row that cannot be told */

    if (max == -INFINITY)
        visible = 0;
    for (int64_t i = 0; i < visible; i++)
        if (i != at)
            others += exp((double)input[i * stride] - max);
    const double log_sum = log1p(others);
    for (int64_t i = 0; i < visible; i++) {
        const double above = (double)input[i * stride] - max;
        output[i * stride] = (float)(is_log ? above - log_sum : exp(above) / (1.0 + others));
    }
    for (int64_t i = visible; i < length; i++)
        output[i * stride] = nothing;
}

void attn_softmax_run(const struct attn_softmax *softmax, int64_t first, int64_t count)
{
    const int64_t length = softmax->length;
    const int64_t inner = softmax->inner;

    for (int64_t row = first; row < first + count; row++) {
        const int64_t begin = row / inner * length * inner + row % inner;
        const int64_t visible =
            softmax->visible != NULL ? softmax->visible[row / softmax->rows_per_visible] : length;
        run_row(softmax->input + begin, softmax->output + begin, inner, length,
                attn_min(visible, length), softmax->is_log);
    }
}
