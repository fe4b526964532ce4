/* SPDX-License-Identifier: Apache-2.0 */
/* traffic_samples.h - keeps numbers, for their quantiles. A zeroed struct is empty. */
#ifndef BENCH_TRAFFIC_SAMPLES_H
#define BENCH_TRAFFIC_SAMPLES_H

#include <stddef.h>

struct traffic_samples {
    float *numbers;
    size_t count, capacity;
};

void traffic_samples_add(struct traffic_samples *samples, double number);

/* Returns the least number that at least this part of the samples does not exceed; 0 if there
 * are none. It sorts the samples. */
double traffic_samples_quantile(struct traffic_samples *samples, double part);

void traffic_samples_free(struct traffic_samples *samples);

#endif
