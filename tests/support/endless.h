/* endless.h - a request that is computed until its client leaves.
 *
 * It holds a worker for as long as a test wants it held, on any machine and beside any load, and
 * costs nothing more afterwards: what is to be seen meanwhile can be waited for. A daemon takes it
 * with --timeout 3600s. */
#ifndef ENDLESS_H
#define ENDLESS_H

#include "http_client.h"

#include <stdint.h>

/* A batch of so many equal items on "sdpa", or the request that is one, where there are 0; to be
 * freed. An item has so many rows over 131072 keys in 64 heads: a row takes two milliseconds at
 * least, and 0.8 KB of the answer. */
char *endless_text(int64_t rows, int items);

struct endless {
    struct http_client *client;
    struct http_raw raw;
};

/* Sends such a batch to client's daemon, over a connection of its own; returns when it is being
 * computed. */
void endless_begin(struct endless *endless, struct http_client *client, int64_t rows, int items);

/* The same with a header of its own, "Name: value\r\n". */
void endless_begin_with(struct endless *endless, struct http_client *client, const char *header,
                        int64_t rows, int items);

/* One that takes two minutes at least. */
void endless_begin_any(struct endless *endless, struct http_client *client);

/* Fails the test unless it is still there; then leaves, and waits until it is gone. */
void endless_end(struct endless *endless);

/* Leaves, also where the daemon may be gone. */
void endless_leave(struct endless *endless);

#endif
