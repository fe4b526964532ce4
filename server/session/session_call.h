/* session_call.h - attention over sessions: an inference (infer_wire.h) whose items append to the
 * layers of sessions, or look at them.
 *
 * A wire reads a request into items and steps: item i belongs to step i. It names the sessions and
 * takes their turn; session_call_order then does the rest: it waits for the turn, sets what hangs
 * on the lengths that are there, opens the caches, and keeps or drops what was appended. A call
 * that fails, whose client leaves before it is computed, or whose deadline passes has appended
 * nothing.
 *
 * An append at a place that is filled already is a retry: it is computed again, compared with the
 * rows that are there, answered as the first time, and appends nothing. */
#ifndef ATTND_SESSION_CALL_H
#define ATTND_SESSION_CALL_H

#include "infer/infer_wire.h"
#include "session/session_store.h"
#include "session/session_turn.h"

enum { SESSION_AT_NONE = -1 };

struct session_step {
    struct infer_cache cache; /* first: the item's cache is its step */

    /* As asked. */
    struct session *session; /* held */
    bool appends;            /* false: keys and values of the item are dropped afterwards */
    bool has_past_len;       /* the item's is the client's; else it is the length that is there */
    int64_t at;              /* the length that the client believes in; SESSION_AT_NONE */

    /* As done. */
    struct session_store *store;
    struct session_layer *layer;
    struct session_rows retry; /* what a retry appends to */
    struct session_rows *rows; /* opened: of the layer, or retry; NULL: not opened */
    int64_t kv_len;            /* of the layer after the call, for the answer */
};

/* The wire's own part of a call over sessions: infer_call.state points at it. */
struct session_call {
    struct session_step *steps; /* [request.item_count], in the request's arena */
    struct session_turn turn;
};

/* Makes a step for each item of the call's request, of which the first `item_count` are there, and
 * gives each item its cache. False: no memory. The wire then sets the steps' sessions. */
bool session_call_make(struct infer_call *call, struct session_store *store, struct fault *fault);

/* When all steps have their sessions: takes their turn. False: no memory. */
bool session_call_take_turn(struct infer_call *call, struct fault *fault);

extern const struct infer_order session_call_order;

/* For the wire's drop: gives the turn and the sessions back. */
void session_call_drop(struct infer_call *call);

/* Puts the place of the step that has the fault before its pointer: "/steps/2". */
void session_call_point(const struct infer_call *call, const char *list, struct fault *fault);

#endif
