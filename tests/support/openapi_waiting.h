/* SPDX-License-Identifier: Apache-2.0 */
/* openapi_waiting.h - requests of the OpenAPI tests that wait on bare sockets for their answers. */
#ifndef OPENAPI_WAITING_H
#define OPENAPI_WAITING_H

#include "openapi_document.h"

enum { OPENAPI_WAITING_MAX = 96 };

struct openapi_waiting {
    struct http_raw sockets[OPENAPI_WAITING_MAX];
    const struct openapi_call *calls[OPENAPI_WAITING_MAX];
    int count, port;
};

/* Opens one more connection, for this call. */
struct http_raw *openapi_waiting_open(struct openapi_waiting *waiting,
                                      const struct openapi_call *call, int port);

/* Sends the head of a request, and its body; without the first bytes of them, which were sent
 * before. */
void openapi_waiting_send(struct http_raw *raw, const struct openapi_call *call, size_t length,
                          const char *body, int sent_bytes);

/* Receives the waiting answers, which must all have this status, and closes the connections. */
void openapi_waiting_receive(struct openapi_waiting *waiting, long status);

#endif
