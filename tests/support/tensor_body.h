/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_body.h - makes and reads bodies of application/x-safetensors by the description of the
 * format. Nothing here uses the daemon's reader and writer. */
#ifndef TENSOR_BODY_H
#define TENSOR_BODY_H

#include "http_client.h"

#include <cjson/cJSON.h>

#include <stdint.h>

/* A file that grows; zeroed is empty. */
struct tensor_body {
    char header[4096]; /* members of its object: "\"query\":{...},..." */
    char data[65536];
    size_t used; /* of data */
};

/* Adds a tensor of size bytes; shape is JSON, "[2,3]". */
void tensor_body_add(struct tensor_body *body, const char *name, const char *dtype,
                     const char *shape, const void *data, size_t size);

/* Posts the body. metadata is JSON ("{\"model\":\"demo\"}"), pad is a number of spaces at the
 * end of the header, and accept is the Accept header (NULL: the test sends none). */
struct http_response tensor_body_post(struct http_client *client, const char *path,
                                      const struct tensor_body *body, const char *metadata, int pad,
                                      const char *accept);

/* Posts JSON and asks for a file. */
struct http_response tensor_body_post_json(struct http_client *client, const char *path,
                                           const char *json);

/* The header of an answer that must be 200 and a file. The caller frees it with cJSON_Delete(). */
cJSON *tensor_body_header(const struct http_response *response);

/* The data of a tensor, which must have this dtype and shape. */
const void *tensor_body_find(const struct http_response *response, const cJSON *header,
                             const char *name, const char *dtype, const char *shape);

/* Both answers must have the tensor, of the same dtype and shape and with equal bits; header is
 * that of one. */
void tensor_body_expect_equal(const struct http_response *one, const cJSON *header,
                              const struct http_response *other, const char *name);

#endif
