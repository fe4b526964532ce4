/* SPDX-License-Identifier: Apache-2.0 */
/* traffic_requests.h - requests made beforehand, head and body in one piece. */
#ifndef BENCH_TRAFFIC_REQUESTS_H
#define BENCH_TRAFFIC_REQUESTS_H

#include <stddef.h>

struct traffic_request {
    char *bytes;
    size_t size;
    double weight; /* how often it is sent, compared with other requests of a load */
};

struct traffic_shape {
    int heads, length, head_dim;
};

/* Each request has weight 1. timeout_ms is sent as X-Timeout-Ms; 0: no such header. */
struct traffic_request traffic_get(const char *path);
struct traffic_request traffic_json(const char *path, const char *body, int timeout_ms);

/* The same of any method, with header lines ("Name: value\r\n") and a body of so many bytes. */
struct traffic_request traffic_any(const char *method, const char *path, const char *headers,
                                   const void *body, size_t size);

/* Self-attention by the model sdpa. Query, key and value are all given, and the request asks for
 * the context. The numbers are rows of JSON with 17 digits, as Python and JavaScript write
 * doubles (one head), or bytes by the Open Inference Protocol. */
struct traffic_request traffic_attention_json(struct traffic_shape shape, int timeout_ms);
struct traffic_request traffic_attention_binary(struct traffic_shape shape, int timeout_ms);

/* The same with query, key, value and context behind each other in a region of shared memory. */
struct traffic_request traffic_attention_shared(struct traffic_shape shape, const char *region);

/* The same as JSON, but it asks for the weights: an answer of length * length numbers. */
struct traffic_request traffic_map_json(struct traffic_shape shape);

/* Self-attention by a model with parameters, as bytes; asks for the context. */
struct traffic_request traffic_model_binary(const char *model, int rows, int columns);

/* A raw binary request: count numbers to a model with parameters. */
struct traffic_request traffic_raw(const char *model, int count, int timeout_ms);

/* Adds a header, "Name: value", to a request. */
void traffic_add_header(struct traffic_request *request, const char *header);

void traffic_requests_free(struct traffic_request *requests, int count);

#endif
