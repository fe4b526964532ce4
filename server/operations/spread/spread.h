/* SPDX-License-Identifier: Apache-2.0 */
/* spread.h - a session whose keys and values are spread over peers: which positions lie where.
 *
 * The positions are cut into ranges, one after the other. Each lies at one peer, as an ordinary
 * session there, which knows nothing of the others; only the last range grows. It ends where it has
 * its rows, which grow with the context so that a long one has few ranges, or where its peer is
 * full. The next range goes to the peer with the most memory left.
 *
 * A call changes a cut in its turn (session_turn.h); what others look at is guarded by the cut's
 * mutex. */
#ifndef ATTND_SPREAD_H
#define ATTND_SPREAD_H

#include "operations/session/session.h"
#include "operations/spread/spread_lines.h"

#include <pthread.h>

enum {
    SPREAD_ROWS_DEFAULT = 16384, /* of a range, at the least, unless its peer is full before */
    SPREAD_RANGES_MAX = 1024,    /* of a session */
};

struct spread_range {
    int peer;
    char id[SESSION_ID_MAX + 1]; /* of the session at the peer */
    int64_t first, count;        /* its positions */
    int64_t rows_max;            /* so many it takes before the next range begins */
    bool is_unsure;              /* the peer may have rows behind count, of a call that failed */
};

/* What the spread sessions of a daemon share. */
struct spread_home;

struct spread {
    struct session_elsewhere elsewhere; /* first */
    struct spread_home *home;
    int64_t rows_min;
    struct spread_range *ranges; /* [count], in the order of positions */
    int64_t count, capacity;
    int64_t length;             /* of all */
    struct session_shape shape; /* of the rows that are there; kv_heads 0: none are */
    pthread_mutex_t mutex;
    LIST_LINK(struct spread) in_home;
};

/* What a call is to append to a range. */
struct spread_piece {
    int64_t range;
    int64_t first, count; /* positions */
};

/* Reads the file of --peers. Sessions at peers end when nobody has used or renewed them for ttl_ns.
 * NULL, with the fault. */
struct spread_home *spread_home_create(const char *path, int64_t ttl_ns, struct fault *fault);

/* When all sessions that are spread have ended. NULL is fine. */
void spread_home_free(struct spread_home *home);

struct spread_lines *spread_home_lines(const struct spread_home *home);
int64_t spread_home_ttl_ns(const struct spread_home *home);

/* Call it now and then: renews the time of the sessions at peers. NULL is fine. */
void spread_home_sweep(struct spread_home *home, int64_t now_ns);

/* rows_min 0: SPREAD_ROWS_DEFAULT. NULL: no memory. */
struct spread *spread_create(struct spread_home *home, int64_t rows_min);

/* Ends the sessions at peers, some time after; elsewhere.free of the session calls it. */
void spread_free(struct spread *spread);

/* That of a session; NULL: it is here. */
struct spread *spread_of(const struct session *session);

/* A copy of the ranges, malloc'd, the caller's, for others than a call whose turn it is. False: no
 * memory. */
bool spread_look(struct spread *spread, struct spread_range **ranges, int64_t *count);

/* The rows of the next range, where a session of so many rows is spread over so many peers. */
int64_t spread_next_rows(int64_t rows_min, int64_t length, int64_t peer_count);

/* Adds a range behind the last one. False: no memory, or too many. */
bool spread_add(struct spread *spread, int peer, const char *id, int64_t rows_max,
                struct fault *fault);

/* A range takes no more: its peer is full. Those behind it, which have no rows, move up. */
void spread_end_range(struct spread *spread, int64_t index);

void spread_set_unsure(struct spread *spread, int64_t index, bool is_unsure);

/* How the rows at these positions, which begin at most at length, lie in the ranges that are there.
 * Returns the number of pieces, at most most; *left is how many rows no range has room for. */
int64_t spread_lay(const struct spread *spread, int64_t first, int64_t count,
                   struct spread_piece *pieces, int64_t most, int64_t *left);

/* The rows of the first so many positions are there. */
void spread_has(struct spread *spread, int64_t length);

/* Positions of a range that rows of a call may see. */
struct spread_sight {
    int64_t first_row, row_count;      /* positions of the rows */
    int64_t window_left, window_right; /* -1: no bound */
};

/* Whether a row sees any of these positions. */
bool spread_sees(const struct spread_sight *sight, int64_t first, int64_t count);

#endif
