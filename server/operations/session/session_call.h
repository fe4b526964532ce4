/* SPDX-License-Identifier: Apache-2.0 */
/* session_call.h - attention over sessions: an inference (infer_job.h) whose items append to the
 * layers of sessions, or read them, each in a step: what was asked of one layer, the cache that
 * rows are appended to, and whether they stay.
 *
 * An operation reads a request into items and steps: item i belongs to step i. It names the
 * sessions and takes their turn; session_call_order then does the rest: it waits for the turn, sets
 * the fields that depend on the lengths that are there, opens the caches, and keeps or drops what
 * was appended. A call that fails, whose client leaves before it is computed, or whose deadline
 * passes has appended nothing.
 *
 * An append at a place that is filled already is a retry: it is computed again, compared with the
 * rows that are there, answered as the first time, and appends nothing. */
#ifndef ATTND_SESSION_CALL_H
#define ATTND_SESSION_CALL_H

#include "call/infer_job.h"
#include "operations/session/session_store.h"
#include "operations/session/session_turn.h"

enum { SESSION_AT_NONE = -1 };

struct session_step {
    struct infer_cache cache; /* first: the item's cache is its step */

    /* As asked. */
    struct session *session; /* held; NULL: the item has a fault */
    bool has_layer;          /* the item's is the client's; else it is the session's only one */
    bool has_past_len;       /* the item's is the client's; else it is the length that is there */
    bool has_rows;           /* keys and values come; else the item's are set here, and empty */
    bool appends;            /* false: keys and values of the item are dropped afterwards */
    int64_t at;              /* the length that the client believes in; SESSION_AT_NONE */

    /* As done. */
    struct session_store *store;
    const char *rows_pointer;    /* what of the item is appended; "": not a field */
    struct session_layer *layer; /* NULL: not its turn, or a fault */
    struct session_rows retry;   /* what a retry appends to */
    struct session_rows *rows;   /* opened: of the layer, or retry; NULL: not opened */

    const struct session_step *shared; /* of the layer whose keys it reads; NULL: its own */
    struct attn_layer_cache view;      /* of these */
};

/* Nothing asked yet. The session is held; NULL: it is set later. */
void session_step_init(struct session_step *step, struct session *session,
                       struct session_store *store);

/* When the turn has come: takes the layer, and sets the fields of the item that depend on the
 * rows that are there. */
bool session_step_prepare(struct session_step *step, struct infer_item *item, struct fault *fault);

/* In place of it, of a layer that shares the keys of an earlier one, whose step is prepared and
 * opened first: its cache is that of the other, with the rows that this call appends there.
 * cache.length is for the caller to set. Nothing has to be checked or ended. */
void session_step_share(struct session_step *step, const struct session_step *of);

/* When all is computed: whether rows can be kept in the session's dtype (else nonfinite), whether
 * those of a retry are those that are there (else conflict), and how long the layer is afterwards.
 */
bool session_step_check(const struct session_step *step, struct fault *fault);

/* Keeps what was appended, or drops it, and gives the layer back. A second time does nothing. */
void session_step_end(struct session_step *step, bool is_good);

/* What a call over sessions is, in call.order_state. */
struct session_call {
    struct session *session;    /* of all steps, held; NULL: each step has its own */
    struct session_step *steps; /* [request.item_count], in the request's arena */
    bool is_list;               /* the client sent a list of steps; the operation sets it */
    struct session_turn turn;
    struct session_ticket ticket; /* that of session */
};

/* On the connection thread, in begin of the operation: makes the call one over sessions. With a
 * session, which is taken over, all steps are about it, and its turn is taken at once. */
bool session_call_begin(struct call *call, struct session *session, struct fault *fault);

/* When the request has its items: makes a step for each. The operation then sets what is asked, and
 * the session where each step has its own. */
bool session_call_make(struct call *call, struct session_store *store, struct fault *fault);

/* Then, where each step has its own session: takes the turns of all. */
bool session_call_take_turns(struct call *call, struct fault *fault);

/* For the operation's drop: gives the turn and the sessions back. */
void session_call_drop(struct call *call);

/* How such a call waits, is prepared, checked and ended; session_call_begin() sets it. */
extern const struct call_order session_call_order;

struct session_step *session_call_step(const struct call *call, int64_t number);

#endif
