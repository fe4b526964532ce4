/* session_step.h - rows of one layer of a session in a call: what was asked, the cache that they
 * are appended to, and whether they stay.
 *
 * An append at a place that is filled already is a retry: it is computed again, compared with the
 * rows that are there, answered as the first time, and appends nothing. */
#ifndef ATTND_SESSION_STEP_H
#define ATTND_SESSION_STEP_H

#include "infer/infer.h"
#include "session/session_store.h"

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
};

/* Nothing asked yet. The session is held; NULL: it is set later. */
void session_step_init(struct session_step *step, struct session *session,
                       struct session_store *store);

/* When the turn has come: takes the layer, and sets what of the item hangs on the rows that are
 * there. */
bool session_step_prepare(struct session_step *step, struct infer_item *item, struct fault *fault);

/* When all is computed: whether rows can be kept in the session's dtype (else nonfinite), whether
 * those of a retry are those that are there (else conflict), and how long the layer is afterwards.
 */
bool session_step_check(const struct session_step *step, struct fault *fault);

/* Keeps what was appended, or drops it, and gives the layer back. A second time does nothing. */
void session_step_end(struct session_step *step, bool is_good);

#endif
