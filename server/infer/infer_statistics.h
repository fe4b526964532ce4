/* infer_statistics.h - what an inference was about: in the record of its request, and counted for
 * each model that it used. */
#ifndef ATTND_INFER_STATISTICS_H
#define ATTND_INFER_STATISTICS_H

#include "infer/infer.h"
#include "watch/request_record.h"

/* Model, layer and shapes, as far as they were settled, while the request still has its models. */
void infer_record(struct request_record *record, const struct infer_request *request);

/* Of models: items in a row that are of one count as one execution; each that failed is a failure
 * of its own; where the request as a whole failed (record->fault) it is one failure of each. In the
 * metrics: the whole request, as one of its first model. */
void infer_statistics(const struct infer_request *request, const struct request_record *record);

/* The request, once read, waits to be computed: 1. It is begun, or over: -1. */
void infer_statistics_pending(const struct infer_request *request, int difference);

#endif
