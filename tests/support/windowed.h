/* SPDX-License-Identifier: Apache-2.0 */
/* windowed.h - sessions of sdpa with a window, and the mask that says the same
 * (server/API_SESSIONS.md). All have the same keys and values, so what is at a position is the same
 * in each. */
#ifndef TESTS_WINDOWED_H
#define TESTS_WINDOWED_H

#include "http_client.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

enum { WINDOWED_ROWS_MAX = 4096 };

struct windowed {
    const char *id;
    int64_t window, first_keys, length;
    const char *dtype;  /* NULL: f32 */
    const char *beside; /* a session without window that gets the same rows, and the mask; NULL:
                           POST /v1/attention over all keys does */
};

/* New numbers for keys and values, in place of those of all tests before. */
void windowed_fill(void);

/* A number from 0 to count - 1. */
int64_t windowed_below(int64_t count);

/* Makes the session, and the one beside it. */
void windowed_make(struct http_client *client, const struct windowed *s);

/* Appends rows behind those that are there, where there are no more numbers the first ones again,
 * and looks with as many rows, or with one where they are very many. */
void windowed_append(struct http_client *client, struct windowed *s, int64_t rows);

/* Appends rows behind position past; the answer has the bits of attention over all keys with the
 * mask. at is the field of that name, or -1; with it the rows are there already. */
void windowed_step(struct http_client *client, struct windowed *s, int64_t past, int64_t rows,
                   int64_t at, bool is_causal);

/* A call that appends rows at a position that is filled already. The caller frees it. */
char *windowed_rows(int64_t at, int64_t rows);

/* The answer of a look at what is there, with the same row each time. */
cJSON *windowed_look(struct http_client *client, const char *id);

#endif
