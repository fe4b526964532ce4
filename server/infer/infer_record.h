/* infer_record.h - what an inference was about, for the record of its request. */
#ifndef ATTND_INFER_RECORD_H
#define ATTND_INFER_RECORD_H

#include "infer/infer.h"
#include "watch/request_record.h"

/* Model, layer and shapes, as far as they were settled, while the request still has its models. */
void infer_record(struct request_record *record, const struct infer_request *request);

#endif
