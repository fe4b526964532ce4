/* SPDX-License-Identifier: Apache-2.0 */
/* infer_statistics.h - what an inference was about: in the record of its request, and counted for
 * each model that it used. */
#ifndef ATTND_INFER_STATISTICS_H
#define ATTND_INFER_STATISTICS_H

#include "call/infer.h"
#include "call/infer_cost.h"
#include "telemetry/metrics_inference.h"

/* Fills in model, layer and shapes, as far as they are known, and what the request costs, and
 * counts it. The request still has its models. In the statistics of models, successive items of one
 * model are one execution, and each item that failed is one failure; where the request as a whole
 * failed (record->fault), it is one failure of each of its models. In the metrics the whole request
 * counts for its first model. */
void infer_statistics_record(struct request_record *record, const struct infer_request *request,
                             const struct infer_cost *cost);

/* Sets *is_pending, whether a request that is planned waits to be computed, and counts a change.
 * Called by one thread at a time. */
void infer_statistics_pending(const struct infer_request *request, bool *is_pending, bool pending);

#endif
