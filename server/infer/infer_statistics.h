/* infer_statistics.h - what an inference was about: in the record of its request, and counted for
 * each model that it used. */
#ifndef ATTND_INFER_STATISTICS_H
#define ATTND_INFER_STATISTICS_H

#include "infer/infer.h"
#include "watch/request_record.h"

/* Fills in model, layer and shapes, as far as they are known. The request still has its models. */
void infer_statistics_describe(struct request_record *record, const struct infer_request *request);

/* Counts the request. In the statistics of models, successive items of one model are one execution,
 * and each item that failed is one failure; where the request as a whole failed (record->fault), it
 * is one failure of each of its models. In the metrics the whole request counts for its first
 * model. */
void infer_statistics_count(const struct infer_request *request,
                            const struct request_record *record);

/* difference 1: the request is read and waits to be computed; -1: its computing began or ended. */
void infer_statistics_pending(const struct infer_request *request, int difference);

#endif
