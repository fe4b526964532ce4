/* SPDX-License-Identifier: Apache-2.0 */
/* spread_daemons.h - a front and the peers that it spreads sessions over, for tests. The front is
 * the server of fixture.h. */
#ifndef SPREAD_DAEMONS_H
#define SPREAD_DAEMONS_H

#include "fixture.h"

#include <cjson/cJSON.h>

enum { SPREAD_PEERS = 2 };

extern struct daemon peers[SPREAD_PEERS]; /* by their names in the file: "a" and "b" */
extern struct http_client peer_clients[SPREAD_PEERS];

/* Starts both with these arguments, each ended by NULL; NULL: none. */
void spread_start_peers(const char *const *a, const char *const *b);

/* Writes the file of the peers; a secret is the key of each. NULL: none. Returns its path, in
 * directory. */
const char *spread_write_peers(const char *a_key, const char *b_key);

/* Starts the front with the file and further arguments, ended by NULL. */
void spread_start_front(const char *const *arguments);

/* Both and the front, as most tests want them; and their clean end. */
int spread_start(void **state);
int spread_stop(void **state);

/* How many sessions the peer has. */
int spread_count(int peer);

/* Waits until no peer has any. */
void spread_wait_until_empty(void);

/* The answer must be 503 `peer`, whose message has these words, before seconds (scaled) are over.
 */
void spread_expect_lost(const struct http_response *response, const char *words);

#endif
