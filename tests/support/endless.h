/* SPDX-License-Identifier: Apache-2.0 */
/* endless.h - a request that runs until its client leaves.
 *
 * It holds a worker as long as a test needs it, on any machine and under any load, and costs
 * nothing afterwards. So a test can wait for what it wants to see. The daemon must run with
 * DAEMON_PATIENT. */
#ifndef ENDLESS_H
#define ENDLESS_H

#include "http_client.h"

#include <stdint.h>

/* The text of a batch of items equal items on "sdpa", or of a single request if items is 0. The
 * caller frees it. An item has rows rows over 131072 keys in 64 heads; each row takes at least
 * two milliseconds, and 0.8 KB of the answer. */
char *endless_text(int64_t rows, int items);

struct endless {
    struct http_client *client;
    struct http_raw raw;
};

/* Sends such a batch to client's daemon over a connection of its own. Returns when the daemon
 * computes it. */
void endless_begin(struct endless *endless, struct http_client *client, int64_t rows, int items);

/* The same with one more header, "Name: value\r\n". */
void endless_begin_with(struct endless *endless, struct http_client *client, const char *header,
                        int64_t rows, int items);

/* Begins one that takes at least two minutes. */
void endless_begin_any(struct endless *endless, struct http_client *client);

/* Fails the test unless the request still runs. Then leaves, and waits until the request is
 * gone. */
void endless_end(struct endless *endless);

/* Leaves. The daemon may be gone already. */
void endless_leave(struct endless *endless);

#endif
