/* process_metrics.h - process_*: the metrics that every Prometheus client library has of its
 * process. */
#ifndef ATTND_PROCESS_METRICS_H
#define ATTND_PROCESS_METRICS_H

#include "text/text.h"

/* Writes CPU seconds, resident and virtual bytes, threads, descriptors, start time. What the system
 * does not tell (no /proc) is left out. */
void process_metrics_write(struct text *text);

#endif
