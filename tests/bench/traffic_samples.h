/* traffic_samples.h - numbers that are kept, for their quantiles. Zeroed is empty. */
#ifndef BENCH_TRAFFIC_SAMPLES_H
#define BENCH_TRAFFIC_SAMPLES_H

#include <stddef.h>

struct traffic_samples {
    float *numbers;
    size_t count, capacity;
};

void traffic_samples_add(struct traffic_samples *samples, double number);

/* The least number that at least this part of them does not exceed; sorts them. 0 of none. */
double traffic_samples_quantile(struct traffic_samples *samples, double part);

void traffic_samples_free(struct traffic_samples *samples);

#endif
