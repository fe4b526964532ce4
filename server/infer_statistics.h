/* infer_statistics.h - an inference, counted for each model that it was of. */
#ifndef ATTND_INFER_STATISTICS_H
#define ATTND_INFER_STATISTICS_H

#include "infer.h"
#include "request_record.h"

/* Items in a row that are of one model count as one execution; each that failed is a failure of its
 * own. failed: the request as a whole did, which is one failure of each model. */
void infer_statistics(const struct infer_request *request, bool failed,
                      const struct request_record *record);

#endif
