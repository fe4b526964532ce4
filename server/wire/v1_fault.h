/* v1_fault.h - the fault of one request of a batch, in the answer of the native API. */
#ifndef ATTND_V1_FAULT_H
#define ATTND_V1_FAULT_H

#include "base/fault.h"
#include "text/text.h"

/* Writes the fault of request index, whose pointer is relative to the request. */
void v1_fault_write(const struct fault *fault, int64_t index, struct text *text);

#endif
