/* SPDX-License-Identifier: Apache-2.0 */
/* stub_collector.h - an OpenTelemetry collector of the test's own: it keeps what is posted to it,
 * and answers as it is told. A thread serves one connection at a time, and closes it behind an
 * answer with "Connection: close". */
#ifndef STUB_COLLECTOR_H
#define STUB_COLLECTOR_H

#include <cjson/cJSON.h>

#include <stdbool.h>
#include <stddef.h>

enum { STUB_POSTS_MAX = 256 };

#define STUB_ANSWER(status, headers, body_size, body)                                              \
    "HTTP/1.1 " status "\r\n" headers "Content-Length: " body_size "\r\n\r\n" body

/* What a collector says that took all. */
#define STUB_TAKES STUB_ANSWER("200 OK", "Content-Type: application/json\r\n", "2", "{}")

/* In place of an answer: what was posted is not read; bytes come without end; the connection is
 * closed. */
#define STUB_SILENT  "silent"
#define STUB_ENDLESS "endless"
#define STUB_CLOSES  "closes"

struct stub_post {
    char *head, *body;
    double came; /* daemon_now() */
};

struct stub_collector {
    int port;
    struct stub_private *private;
};

/* Listens on a free port of 127.0.0.1. Post number n, from 0, has answers[n]; posts beyond the last
 * have the last. The list ends with NULL and stays until the stop. */
void stub_collector_start(struct stub_collector *stub, const char *const *answers);

/* Ends the thread and closes what is open. */
void stub_collector_stop(struct stub_collector *stub);

/* Waits until post number n has come whole, from 0. Fails the test if that takes more than 20 s
 * (scaled). It stays until the stop. */
const struct stub_post *stub_collector_post(struct stub_collector *stub, int n);

int stub_collector_count(struct stub_collector *stub);

/* Waits for a post with a span of this trace (32 digits).
 * Returns the array of its spans; the caller deletes *whole. */
const cJSON *stub_collector_spans(struct stub_collector *stub, const char *trace_id, cJSON **whole);

#endif
