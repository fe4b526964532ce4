/* session_call.h - attention over sessions: an inference (infer_job.h) whose items append to the
 * layers of sessions, or look at them.
 *
 * An operation reads a request into items and steps: item i belongs to step i. It names the
 * sessions and takes their turn; session_call_order then does the rest: it waits for the turn, sets
 * what hangs on the lengths that are there, opens the caches, and keeps or drops what was appended.
 * A call that fails, whose client leaves before it is computed, or whose deadline passes has
 * appended nothing.
 */
#ifndef ATTND_SESSION_CALL_H
#define ATTND_SESSION_CALL_H

#include "infer/infer_job.h"
#include "session/session_step.h"
#include "session/session_turn.h"

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
