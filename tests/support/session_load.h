/* SPDX-License-Identifier: Apache-2.0 */
/* session_load.h - clients that step sessions at several replicas, for tests.
 *
 * A dozen sessions, half of them with ids of the client's own, and a fork of each. Every client
 * steps all of them, over a connection of its own. A step appends one row, and its answer must have
 * the bits of POST /v1/attention with all keys and values of the session. A request whose replica
 * is not there (503, or no answer) is sent again, with the length that the client believes in. */
#ifndef SESSION_LOAD_H
#define SESSION_LOAD_H

#include "http_client.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { LOAD_CLIENTS = 4, LOAD_SESSIONS = 12, LOAD_FORKED_AT = 4, LOAD_REPLICAS_MAX = 8 };

/* A session, and what is in it: rows of its own, and of a fork's parent before them. */
struct load_session {
    pthread_mutex_t mutex; /* one step at a time, of it and of its fork */
    char id[65];           /* "": it is not made yet */
    char header[64];       /* "Attnd-Replica: replica1"; "": the id says it */
    int replica;           /* from 0 on: replica1 is 0 */
    int seed, parent_seed;
    int shared_len; /* rows that are the parent's */
    int length;
};

struct session_load {
    int port;
    struct load_session sessions[2 * LOAD_SESSIONS]; /* each has its fork behind all */
    pthread_t threads[LOAD_CLIENTS];
    _Atomic unsigned clients;
    _Atomic bool stop;
    _Atomic int steps, retries, failed;
};

/* Makes the sessions at this port, at least one at each of the replicas replica1, replica2 and so
 * on, and lets the clients begin. */
void session_load_begin(struct session_load *load, int port, int replica_count);

/* Wait until so many more steps are done, or one more request is sent again. Fail the test where an
 * answer was wrong. */
void session_load_wait_for_steps(struct session_load *load, int count);
void session_load_wait_for_retries(struct session_load *load);

/* Ends the clients, and fails the test where an answer was wrong. */
void session_load_end(struct session_load *load);

/* Sends a request about a session: METHOD /v1/sessions/{id}/{verb}. */
struct http_response session_load_send(struct http_client *client,
                                       const struct load_session *session, const char *method,
                                       const char *verb, const char *body);

#endif
