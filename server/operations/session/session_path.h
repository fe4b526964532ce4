/* SPDX-License-Identifier: Apache-2.0 */
/* session_path.h - the session of a path, /v1/sessions/{session}..., of which a key with the scope
 * sessions:all may say whose it is: ?owner=NAME. */
#ifndef ATTND_SESSION_PATH_H
#define ATTND_SESSION_PATH_H

#include "access/access_keys.h"
#include "http/http.h"
#include "operations/session/session_store.h"

#define SESSION_PATH_OWNER "owner" /* the parameter */

/* session_store_look(); who calls it has checked the names of the parameters. */
struct session *session_path_look(const struct exchange *exchange, struct session_store *store,
                                  struct fault *fault);

/* session_store_find() and session_store_find_to_call(), of a path that has no other parameter. */
struct session *session_path_find(const struct exchange *exchange, struct session_store *store,
                                  struct fault *fault);
struct session *session_path_find_to_call(const struct exchange *exchange,
                                          struct session_store *store, struct fault *fault);

/* Whether the path of a request that makes a session has no parameter: the session is for the key
 * that asks. */
bool session_path_check_new(const struct exchange *exchange, struct fault *fault);

/* The same, but a key with the scope sessions:all may name the key that the session is for. *owner
 * is that key, held for the caller; NULL: nobody is named. keys NULL: none are in use. */
bool session_path_read_owner(const struct exchange *exchange, struct access_keys *keys,
                             struct access_key **owner, struct fault *fault);

#endif
