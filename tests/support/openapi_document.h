/* SPDX-License-Identifier: Apache-2.0 */
/* openapi_document.h - the operations of the daemon's OpenAPI document, and checks that the
 * document describes an answer. */
#ifndef OPENAPI_DOCUMENT_H
#define OPENAPI_DOCUMENT_H

#include "http_client.h"
#include "shared_region.h"

#include <cjson/cJSON.h>

/* A request, and the operation that it belongs to. */
struct openapi_call {
    const char *method, *pattern;
    const char *path; /* NULL: the pattern. @ in it stands for openapi_trace */
    long status;
    const char *body;
    const char *header; /* of its own, or NULL */
};

extern cJSON *openapi_document;

/* An object of the answers that came: "GET /v1/models 200 ", and the same with
 * "application/json" at the end. */
extern cJSON *openapi_seen;

/* The id of a kept trace. */
extern char openapi_trace[65];

/* A body that registers shared memory of one byte, which openapi_make_region() makes. */
extern char openapi_region[128];
void openapi_make_region(void);

/* Valid until the next call. */
const char *openapi_path(const struct openapi_call *call);

/* NULL if the document has no such operation. */
const cJSON *openapi_operation(const struct openapi_call *call);

/* The response that an operation lists for a status. NULL if it lists none. */
const cJSON *openapi_response(const cJSON *operation, long status);

/* The schema of a JSON body. NULL if the operation takes no body. */
const cJSON *openapi_body_schema(const cJSON *operation);

/* The call's operation must list the answer: status, headers, type and body. Frees the answer. */
void openapi_expect_described(const struct openapi_call *call, struct http_response *response);

/* Sends a call with one more header, which may be NULL, and checks its answer. */
void openapi_expect_status(struct http_client *from, const struct openapi_call *call,
                           const char *header, long status);

/* Calls visit for every operation that lists the status, with a call of it: a POST of the first
 * example that the document has of its body, or, where it has none or the path has parameters, the
 * first call in the table. */
void openapi_each_with(const struct openapi_call *prefetch, int call_count, long status,
                       void (*visit)(const struct openapi_call *call, void *context),
                       void *context);

/* Every body, of requests and of answers, must have a schema that says its type. Without one, a
 * generator of clients makes a type that may be anything, also for all other bodies that may
 * come in its place. */
void openapi_expect_types(void);

/* Every status and every type of body in the document must have been answered. */
void openapi_expect_all_seen(void);

#endif
