/* openapi_document.h - the daemon's OpenAPI document: its operations, and whether an answer is one
 * that it describes. */
#ifndef OPENAPI_DOCUMENT_H
#define OPENAPI_DOCUMENT_H

#include "http_client.h"

#include <cjson/cJSON.h>

/* A request, and the operation that it is of. */
struct openapi_call {
    const char *method, *pattern;
    const char *path; /* NULL: the pattern */
    long status;
    const char *body;
    const char *header; /* of its own, or NULL */
};

extern cJSON *openapi_document;

/* An object of what was answered: "GET /v1/models 200 ", and with "application/json" behind it. */
extern cJSON *openapi_seen;

const char *openapi_path(const struct openapi_call *call);

/* NULL where the document has none. */
const cJSON *openapi_operation(const struct openapi_call *call);

/* The response that an operation lists for a status; NULL where it lists none. */
const cJSON *openapi_response(const cJSON *operation, long status);

/* The schema of a JSON body; NULL where the operation takes none. */
const cJSON *openapi_body_schema(const cJSON *operation);

/* The answer is one that the call's operation lists: status, headers, type and body. It is freed.
 */
void openapi_expect_described(const struct openapi_call *call, struct http_response *response);

/* Sends a call with one more header, which may be NULL, and looks at its answer. */
void openapi_expect_status(struct http_client *from, const struct openapi_call *call,
                           const char *header, long status);

/* Calls visit for every operation that lists the status, with its first call of the table. */
void openapi_each_with(const struct openapi_call *prefetch, int call_count, long status,
                       void (*visit)(const struct openapi_call *call, void *context),
                       void *context);

/* Every body, of requests and answers, has a schema that says of what type it is: a generator of
 * clients makes of one without that it may be anything, and so of all that may come in its place.
 */
void openapi_expect_types(void);

/* Every status and every type of body that the document lists was answered. */
void openapi_expect_all_seen(void);

#endif
