/* SPDX-License-Identifier: Apache-2.0 */
/* session_bytes.h - the file of a session in the tests: got, put, and told lies in.
 *
 * It reads and writes such files by its own means, cJSON and GnuTLS, so that neither the daemon's
 * writer nor its reader can hide a mistake of the other. */
#ifndef SESSION_BYTES_H
#define SESSION_BYTES_H

#include "http_client.h"

#include <cjson/cJSON.h>

#include <stddef.h>

struct session_bytes {
    char *bytes; /* whole; malloc'd */
    size_t size;
};

/* GET of the file, which must succeed, and PUT of it, which must have this status. */
struct session_bytes session_bytes_get(struct http_client *client, const char *id);
void session_bytes_put(struct http_client *client, const char *id, struct session_bytes file,
                       long status);
struct http_response session_bytes_send(struct http_client *client, const char *id,
                                        struct session_bytes file);
void session_bytes_free(struct session_bytes *file);

/* The PUT must be refused; the message must have says in it. */
void session_bytes_refused(struct http_client *client, const char *id, struct session_bytes file,
                           long status, const char *code, const char *says);

/* A copy of the header's JSON, and where the numbers begin. */
cJSON *session_bytes_header(struct session_bytes file, const char **numbers);

/* A file of this header and these numbers. Where seals is true its checksums are made anew. */
struct session_bytes session_bytes_make(cJSON *header, const char *numbers, size_t number_bytes,
                                        bool seals);

#endif
