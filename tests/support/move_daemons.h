/* SPDX-License-Identifier: Apache-2.0 */
/* move_daemons.h - a daemon whose sessions move, and the one that they move to, for tests. The
 * first is the server of fixture.h. */
#ifndef MOVE_DAEMONS_H
#define MOVE_DAEMONS_H

#include "fixture.h"

#include <cjson/cJSON.h>

#include <stdbool.h>
#include <stdint.h>

extern struct daemon next;
extern struct http_client second; /* of next */
extern char next_url[64];

/* Starts next, the replica of that name, with further arguments, ended by NULL; NULL: none. */
void move_start_next(const char *const *more);
void move_stop_next(void);

/* Clears up even after a failure: fixture_clear(), and next is killed. */
int move_clear(void **state);

/* The body of a call with two queries and so many rows, equal for equal seeds; at below 0: without
 * `at`. The caller frees it. */
char *move_rows_text(uint64_t seed, int rows, bool appends, int at);

/* Sends such a call. The caller frees the answer. */
cJSON *move_post_rows(struct http_client *to, const char *id, uint64_t seed, int rows,
                      bool appends);

/* An answer over all that is there, which changes nothing. */
cJSON *move_look(struct http_client *at, const char *id);

/* A session of sdpa at client, with settings (",\"ttl\":\"1h\"") and so many rows. */
void move_make(const char *id, const char *settings, int rows);

/* How many sessions there are. */
int move_count(struct http_client *at);

/* Waits until the server has told how many sessions have moved. */
void move_wait(int moved, int stay);

#endif
