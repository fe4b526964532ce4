/* SPDX-License-Identifier: Apache-2.0 */
/* traffic_sessions.h - sessions of a load: made, filled with keys, and the requests of a step. */
#ifndef BENCH_TRAFFIC_SESSIONS_H
#define BENCH_TRAFFIC_SESSIONS_H

#include "traffic_requests.h"

#include <stdbool.h>

struct session_shape {
    int q_heads, kv_heads, head_dim;
};

/* Makes a session of a model whose keys and values have this dtype ("f32"). False: the
 * daemon's build does not know it. */
bool traffic_session_make(int port, const char *model, const char *id, const char *dtype);

/* Appends rows keys and values. */
void traffic_session_fill(int port, const char *id, struct session_shape shape, int rows);

void traffic_session_fork(int port, const char *id, const char *copy);
void traffic_session_delete(int port, const char *id);

/* Bytes of all pages, by the daemon's metrics. */
double traffic_session_bytes(int port);

/* A step: one query, and its key and value, which are appended; asks for the context. */
struct traffic_request traffic_step_binary(const char *id, struct session_shape shape);
struct traffic_request traffic_step_json(const char *id, struct session_shape shape);

/* A step of each session prefix0, prefix1 ... in one request. */
struct traffic_request traffic_step_batch(const char *prefix, int count,
                                          struct session_shape shape);
struct traffic_request traffic_step_batch_binary(const char *prefix, int count,
                                                 struct session_shape shape);

/* The same without a session: a query, and all keys and values that are there. */
struct traffic_request traffic_step_with_past(struct session_shape shape, int keys);

/* A step of all layers of a model, of rows of width numbers. */
struct traffic_request traffic_step_of_layers(const char *id, int layers, int width);

#endif
