/* SPDX-License-Identifier: Apache-2.0 */
/* key_file.h - a file of keys for --keys, and requests that send them. */
#ifndef KEY_FILE_H
#define KEY_FILE_H

#include "daemon.h"
#include "http_client.h"

/* One key. Its secret is key_secret(name). */
struct key_line {
    const char *name;
    const char *scopes; /* and limits, as in the file: "infer:a,team-* cpu=0.5"; "- infer": without
                           a secret, for a client's certificate */
};

/* Writes the file at path anew; lines end with a NULL name. */
void key_file_write(const char *path, const struct key_line *lines);

/* "name-secret-0123...": valid until the next call. */
const char *key_secret(const char *name);

/* Sends a request with the header "Authorization: Bearer <the secret of name>"; name NULL: without
 * a key. header is one more, or NULL. */
struct http_response key_send(struct http_client *client, const char *name,
                              const struct http_request *request, const char *header);

/* key_send(), and the answer must be a fault of this status and code, whose message has says in
 * it; NULL: it is not looked at. A 401 must have WWW-Authenticate. */
void key_expect_refused(struct http_client *client, const char *name,
                        const struct http_request *request, long status, const char *code,
                        const char *says);

/* key_send(), and the answer must have this status. The caller frees it. */
struct http_response key_expect(struct http_client *client, const char *name,
                                const struct http_request *request, long status);

/* The daemon's log in JSON has the name of this key and the secret of none. */
void key_expect_not_logged(const struct daemon *server, const char *name);

#endif
