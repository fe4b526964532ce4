/* SPDX-License-Identifier: Apache-2.0 */
/* ratio.c - see ratio.h. */
#include "ratio.h"

#include "peers.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of sorted numbers, between two neighbours by the distance. */
static double quantile(const double *numbers, int count, double part)
{
    const double at = part * (count - 1);
    const int below = (int)floor(at);
    const int above = below + 1 < count ? below + 1 : below;
    return numbers[below] + (at - below) * (numbers[above] - numbers[below]);
}

double ratio_spread(double *numbers, int count)
{
    qsort(numbers, (size_t)count, sizeof *numbers, compare);
    return (quantile(numbers, count, 0.75) - quantile(numbers, count, 0.25))
           / quantile(numbers, count, 0.5);
}

double ratio_describe(char text[RATIO_BYTES], double *ratios, int count,
                      const struct ratio_peer *peer)
{
    if (count == 0) {
        snprintf(text, RATIO_BYTES, "-");
        return 0;
    }
    if (!peer_is_busy(peer->cpu_s, peer->could_s)) {
        peer_describe_idle(text, peer->cpu_s, peer->could_s);
        return 0;
    }
    if (count < RATIO_ROUNDS_MIN) {
        snprintf(text, RATIO_BYTES, "%d round%s", count, count > 1 ? "s" : "");
        return 0;
    }
    const double spread = ratio_spread(ratios, count);
    if (!(spread * 100 <= RATIO_SPREAD_PERCENT)) {
        snprintf(text, RATIO_BYTES, "spread %.0f%%",
                 fmax(round(spread * 100), RATIO_SPREAD_PERCENT + 1));
        return 0;
    }
    const double ratio = quantile(ratios, count, 0.5);
    snprintf(text, RATIO_BYTES, "%.2f", ratio);
    return ratio;
}
