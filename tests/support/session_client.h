/* SPDX-License-Identifier: Apache-2.0 */
/* session_client.h - requests to sessions, and what their answers must be. */
#ifndef SESSION_CLIENT_H
#define SESSION_CLIENT_H

#include "http_client.h"

#include <cjson/cJSON.h>

#include <stdbool.h>
#include <stdint.h>

/* Posts to /v1/sessions; the answer must be 201. */
void session_make(struct http_client *client, const char *body);

/* Posts to /v1/sessions/{id}/{verb}; the answer must have this status. The caller frees it. */
cJSON *session_post(struct http_client *client, const char *id, const char *verb, const char *body,
                    long status);

/* The fault of the same; its message must have says in it. */
void session_refused(struct http_client *client, const char *id, const char *verb, const char *body,
                     long status, const char *code, const char *says);

/* GET and DELETE of /v1/sessions/{id}, which must be answered with this status. */
void session_get(struct http_client *client, const char *id, long status);
void session_delete(struct http_client *client, const char *id, long status);

/* The number of a member of GET /v1/sessions/{id}. */
double session_number(struct http_client *client, const char *id, const char *name);

/* Waits until no session is left, and no page. */
void session_wait_until_empty(struct http_client *client);

/* The outputs of both answers must be equal to the bit. */
void session_expect_same(const cJSON *session, const cJSON *attention);

#endif
