/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_span_answer.c - any bytes as the body of an OpenTelemetry collector's answer. */
#include "telemetry/span_answer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char message[SPAN_ANSWER_MESSAGE_MAX];
    char *bytes = malloc(size + 1); /* of its own size, so that a sanitizer sees its end */
    if (!bytes)
        return 0;
    memcpy(bytes, data, size);
    memset(message, 'x', sizeof message);
    span_answer_rejected(bytes, size, message);
    if (!memchr(message, '\0', sizeof message))
        abort();
    free(bytes);
    return 0;
}
