/* model_client.h - the models resource as the tests use it: put, delete, and which model answered.
 */
#ifndef MODEL_CLIENT_H
#define MODEL_CLIENT_H

#include "http_client.h"
#include "model_bytes.h"

/* Puts a safetensors file, which is freed, or a typed body. */
struct http_response model_put(struct http_client *client, const char *name,
                               struct model_bytes file);
struct http_response model_put_json(struct http_client *client, const char *name, const char *body);
struct http_response model_delete(struct http_client *client, const char *name);

/* Puts model_bytes_demo(factor, ""), which must be answered with this status and the name. */
void model_put_demo(struct http_client *client, const char *name, float factor, long status);

/* Deletes the model, which must succeed. */
void model_delete_well(struct http_client *client, const char *name);

/* Asks the model about demo's words: the factor of the model_bytes_demo() that answered. */
double model_factor(struct http_client *client, const char *name);

/* Whether GET /v1/models has the name. */
bool model_is_listed(struct http_client *client, const char *name);

#endif
