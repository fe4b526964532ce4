/* batch_metrics.h - how many rows and requests shared a product. */
#ifndef ATTND_BATCH_METRICS_H
#define ATTND_BATCH_METRICS_H

#include "text/text.h"

#include <stdint.h>

/* Counts one matrix product, of row_count rows, that request_count requests share. From any
 * thread. */
void batch_metrics_observe(int64_t request_count, int64_t row_count);

/* Writes both as histograms, for GET /metrics. */
void batch_metrics_write(struct text *text);

#endif
