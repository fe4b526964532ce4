/* SPDX-License-Identifier: Apache-2.0 */
/* span_answer.h - what the answer of an OpenTelemetry collector says of the spans that were posted
 * (https://opentelemetry.io/docs/specs/otlp/#otlphttp-response). */
#ifndef ATTND_SPAN_ANSWER_H
#define ATTND_SPAN_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SPAN_ANSWER_MESSAGE_MAX = 160 };

/* How many spans a body says that were refused (ExportTracePartialSuccess); 0 where it does not
 * say, or is not JSON. message is what it says of the reason, "" where it says nothing. */
uint64_t span_answer_rejected(const char *body, size_t size, char message[SPAN_ANSWER_MESSAGE_MAX]);

/* Whether the spans may be sent again later (https://opentelemetry.io/docs/specs/otlp/#failures-1),
 * and whether they were taken. */
bool span_answer_is_again(int status);
bool span_answer_is_taken(int status);

#endif
