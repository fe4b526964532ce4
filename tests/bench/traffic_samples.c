/* SPDX-License-Identifier: Apache-2.0 */
/* traffic_samples.c - see traffic_samples.h. */
#include "traffic_samples.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void traffic_samples_add(struct traffic_samples *samples, double number)
{
    if (samples->count == samples->capacity) {
        samples->capacity = samples->capacity ? samples->capacity * 2 : 4096;
        float *more = realloc(samples->numbers, samples->capacity * sizeof *more);
        if (!more) {
            fprintf(stderr, "no memory for samples\n");
            exit(1);
        }
        samples->numbers = more;
    }
    samples->numbers[samples->count++] = (float)number;
}

static int compare(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

double traffic_samples_quantile(struct traffic_samples *samples, double part)
{
    if (samples->count == 0)
        return 0;
    qsort(samples->numbers, samples->count, sizeof *samples->numbers, compare);
    const double rank = ceil(part * (double)samples->count);
    return (double)samples->numbers[rank < 1 ? 0 : (size_t)rank - 1];
}

void traffic_samples_free(struct traffic_samples *samples)
{
    free(samples->numbers);
    *samples = (struct traffic_samples){ .numbers = NULL };
}
