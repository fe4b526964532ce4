/* SPDX-License-Identifier: Apache-2.0 */
/* model_client.h - how the tests use the models resource: put, delete, and ask which model
 * answered. */
#ifndef MODEL_CLIENT_H
#define MODEL_CLIENT_H

#include "http_client.h"
#include "model_bytes.h"

/* Puts a safetensors file, and frees it; or puts a typed body. */
struct http_response model_put(struct http_client *client, const char *name,
                               struct model_bytes file);
struct http_response model_put_json(struct http_client *client, const char *name, const char *body);
struct http_response model_delete(struct http_client *client, const char *name);

/* Puts model_bytes_demo(factor, ""). The answer must have this status and the name. */
void model_put_demo(struct http_client *client, const char *name, float factor, long status);

/* Deletes the model, which must succeed. */
void model_delete_well(struct http_client *client, const char *name);

/* Sends demo's words to the model. Returns the factor of the model_bytes_demo() that answered. */
double model_factor(struct http_client *client, const char *name);

/* Whether GET /v1/models has the name. */
bool model_is_listed(struct http_client *client, const char *name);

#endif
