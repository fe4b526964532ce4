/* SPDX-License-Identifier: Apache-2.0 */
/* daemon.h - JSON to and from one daemon, over one connection that is kept.
 *
 * An answer says in Attnd-Replica which daemon of several gave it. Each request sends that back, so
 * behind a balancer all of them reach the daemon that has the sessions. Where it is not there for
 * a moment (503, or no connection), the request is sent again: with "at" that is safe. */
#ifndef DAEMON_H
#define DAEMON_H

#include <cjson/cJSON.h>
#include <curl/curl.h>

enum { DAEMON_ID_BYTES = 65 };

struct daemon {
    CURL *curl;
    const char *url;
    char replica[64]; /* "Attnd-Replica: NAME", of the last answer; "": there was none */
};

/* Prints what and why, and ends the program. */
_Noreturn void fail(const char *what, const char *why);

void daemon_open(struct daemon *daemon, const char *url);
void daemon_close(struct daemon *daemon);

/* The answer to a request, which is freed. A fault ends the program. */
cJSON *daemon_post(struct daemon *daemon, const char *path, cJSON *request);

/* Makes a session of a model; its id. */
void daemon_make_session(struct daemon *daemon, const char *model, char id[DAEMON_ID_BYTES]);

/* Makes one that shares what is in another. */
void daemon_fork(struct daemon *daemon, const char *session, char id[DAEMON_ID_BYTES]);

/* Cuts a session to so many keys, and ends it. */
void daemon_truncate(struct daemon *daemon, const char *session, int kv_len);
void daemon_delete(struct daemon *daemon, const char *session);

/* [count][columns] as JSON, and back. */
cJSON *rows_to_json(const float *rows, int count, int columns);
void rows_from_json(float *rows, int count, int columns, const cJSON *json);

#endif
