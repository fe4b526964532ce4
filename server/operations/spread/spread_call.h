/* SPDX-License-Identifier: Apache-2.0 */
/* spread_call.h - attention over a session that is spread: one item of an inference, whose keys and
 * values are appended to ranges at peers, and whose query goes to all ranges that it sees. What
 * they answer are parts, so the item becomes a merge of them.
 *
 * The call waits for its turn and then, step by step, for peers: ranges that may have rows of a
 * failed call are cut; new ranges are made where the memory is; all are asked. It waits outside the
 * scheduler. When a step fails, what else was asked is cancelled, and nothing counts as appended:
 * each request says the length that it expects, so rows that are there are not seen. */
#ifndef ATTND_SPREAD_CALL_H
#define ATTND_SPREAD_CALL_H

#include "call/infer_job.h"
#include "operations/session/session_turn.h"
#include "operations/spread/spread_message.h"

/* In order: what the call waits for. */
enum spread_step { SPREAD_TURN, SPREAD_MEND, SPREAD_FREE, SPREAD_MAKE, SPREAD_ASK };

struct spread_new {
    int peer;
    char id[SESSION_ID_MAX + 1];
    int64_t rows_max;
};

struct spread_call {
    struct session *session; /* held */
    struct session_turn turn;
    struct session_ticket ticket;

    /* As asked. */
    struct infer_item asked;
    int64_t at; /* the length that the client believes in; -1: not said */
    bool has_past_len, has_query;
    int64_t rows;               /* of key and value */
    struct session_shape shape; /* of these; kv_heads 0: none came */

    /* As done. */
    enum spread_step step;
    bool was_asked;                       /* rows may have been appended */
    int64_t deadline_ns;                  /* of requests to peers: a little before the call's */
    char headers[SPREAD_HEADERS_MAX / 2]; /* of all requests */
    int64_t base, total;                  /* the length before the rows and behind them */
    struct spread_batch batch;
    struct spread_piece *pieces; /* [piece_count], where the rows go */
    int64_t piece_count, left;   /* left: rows that no range has room for */
    struct spread_wait wait;
    size_t bytes;                             /* of requests and answers, reserved */
    int64_t mended[SPREAD_PEERS_MAX];         /* the ranges that a step cuts */
    struct spread_new made[SPREAD_PEERS_MAX]; /* and makes */
    bool knows_free;
    int64_t free_bytes[SPREAD_PEERS_MAX]; /* -1: the peer takes nothing of this call */
    char reasons[SPREAD_PEERS_MAX][200];  /* why */
};

/* On the connection thread, in begin of the operation. Takes the session over, and its turn. */
bool spread_call_begin(struct call *call, struct session *session, const struct exchange *exchange,
                       struct fault *fault);

struct spread_call *spread_call_of(const struct call *call);

/* When the item is read: it is what is asked, and becomes the merge. at, has_past_len and has_query
 * are set. */
bool spread_call_settle(struct call *call, struct infer_item *item, struct fault *fault);

/* For the operation's drop. */
void spread_call_drop(struct call *call);

#endif
