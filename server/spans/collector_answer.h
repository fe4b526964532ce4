/* collector_answer.h - reads the answer of an OpenTelemetry collector, whatever comes.
 *
 * The answer is HTTP/1.1 (RFC 9112). Its status says what becomes of the spans; of the body only
 * the part is read that says how many of them were refused (ExportTracePartialSuccess). */
#ifndef ATTND_COLLECTOR_ANSWER_H
#define ATTND_COLLECTOR_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A longer head is no answer; a longer body is not read, and ends the connection. */
enum { COLLECTOR_ANSWER_BYTES_MAX = 16384, COLLECTOR_MESSAGE_MAX = 160 };
enum { COLLECTOR_RETRY_AFTER_MAX_S = 300 };

struct collector_answer {
    int status;        /* 200 to 599 */
    int retry_after_s; /* at most COLLECTOR_RETRY_AFTER_MAX_S; 0: it does not say */
    bool closes;       /* the connection cannot be used again */
    size_t body_at, body_size;
};

enum collector_reading {
    COLLECTOR_MORE, /* further bytes are needed */
    COLLECTOR_DONE,
    COLLECTOR_BAD, /* this is no answer */
};

/* Reads the first size bytes of an answer, at most COLLECTOR_ANSWER_BYTES_MAX. *answer is set where
 * the result is COLLECTOR_DONE. */
enum collector_reading collector_answer_read(struct collector_answer *answer, const char *bytes,
                                             size_t size);

/* How many spans a body says that were refused; 0 where it does not say, or is not JSON. message is
 * what it says of the reason, "" where it says nothing. */
uint64_t collector_answer_rejected(const char *body, size_t size,
                                   char message[COLLECTOR_MESSAGE_MAX]);

/* Whether the spans may be sent again later (https://opentelemetry.io/docs/specs/otlp/#failures-1),
 * and whether they were taken. */
bool collector_answer_is_again(int status);
bool collector_answer_is_taken(int status);

#endif
