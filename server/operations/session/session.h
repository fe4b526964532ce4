/* SPDX-License-Identifier: Apache-2.0 */
/* session.h - a session: keys and values of layers of one model that stay between calls, for the
 * key that made it.
 *
 * The calls of a session take turns, in the order of their arrival (session_turn.h); a call whose
 * turn it is may change what the session holds, and nobody else may. What lists and metrics show of
 * a session is atomic. References are counted: a session that was deleted, or has expired,
 * stays until its last call has left. */
#ifndef ATTND_SESSION_H
#define ATTND_SESSION_H

#include "access/access_account.h"
#include "base/list.h"
#include "models/model/model.h"
#include "operations/session/session_rows.h"

#include <stdatomic.h>

enum {
    SESSION_ID_MAX = 64, /* 32 hexadecimal digits, or a name of the client's */
    SESSION_NAME_MAX = MODEL_NAME_MAX + 1 + SESSION_ID_MAX, /* or MODEL:ID, of a sequence */
};

#define SESSION_TTL_DEFAULT_NS (INT64_C(600) * 1000000000)
#define SESSION_TTL_MAX_NS     (INT64_C(86400) * 1000000000)

struct session_layer {
    int64_t number; /* as in GET /v1/models/{model} */
    struct session_rows rows;
    bool keeps_nothing;  /* a layer that no call appends to: its kind has no state, or it shares */
    bool shares;         /* its keys and values are those of an earlier layer of the session */
    bool in_step;        /* of the call whose turn it is */
    int64_t kv_len_then; /* after that call, once it is computed */

    /* What rows held when the last call left. */
    _Atomic int64_t kv_len;
    _Atomic size_t bytes, bytes_held;
};

/* Why a session is not there any more. */
enum session_end {
    SESSION_LIVES,
    SESSION_DELETED,
    SESSION_EXPIRED,
    SESSION_EVICTED,
    SESSION_MOVED, /* to another daemon, which moved_to names */
};

struct session_ticket;

/* Where keys and values are that are not here: the first member of what a room above keeps for the
 * session (operations/spread/spread.h). */
struct session_elsewhere {
    void (*free)(struct session_elsewhere *elsewhere); /* with the session's last reference */
};

/* Where it stands in its store (session_places.h). */
struct session_place {
    int64_t entry;          /* in the order of their making */
    int64_t by_end, by_use; /* in the heaps; -1: in none */
    int64_t used_ns;        /* the last use that the heaps know, or an earlier one */
};

struct session {
    _Atomic int holders;
    char id[SESSION_NAME_MAX + 1];
    _Atomic bool is_evictable;      /* may end when memory is short */
    _Atomic bool stays;             /* it could not be moved (session_mover.h) */
    struct access_account *account; /* of the key that made it, held; NULL: no keys are in use */
    struct model *model;            /* retained */
    enum attn_dtype dtype;          /* of its keys and values */
    _Atomic int end;                /* enum session_end */
    int64_t kv_len_max;             /* of each layer; INT64_MAX: no bound but memory */
    int64_t window, first_keys; /* a row sees so many last keys, its own among them, and so many of
                                   the first; window 0: all */
    int64_t created_ns;         /* clock_now_ns() */
    _Atomic int64_t ttl_ns;     /* from its last use on */
    _Atomic int64_t used_ns;
    union {
        char *digest; /* of the file that it was made of, without ages; malloc'd; NULL: of none */
        const struct fault_place *moved_to; /* once end is SESSION_MOVED */
    };
    struct session_budget *budget; /* that own_bytes are counted in; NULL: in none */
    size_t own_bytes;              /* of session_count_own() */
    _Atomic(char *) saved; /* path of the file that it was loaded from, malloc'd; NULL: none */
    struct session_layer *layers; /* [layer_count], ascending */
    int64_t layer_count;
    struct session_elsewhere *elsewhere; /* of a session whose layers have no rows; NULL: here */

    LIST_OF(struct session_ticket) tickets; /* guarded by session_turn.c */
    /* Guarded by the store. */
    struct session_place place;
    struct session *next;            /* of sessions that were taken out together */
    struct session *earlier, *later; /* of the same id: replaced ones, until the new one is kept */
};

/* Whether it is an id that a client may choose: one segment of a path, written in one way alone. */
bool session_is_id(const char *id);
bool session_id_check(const char *id, struct fault *fault); /* else the fault is option, at /id */

/* A session without rows, with one reference. model is retained. layers NULL: all of the model.
 * NULL: no memory. */
struct session *session_create(struct model *model, const int64_t *layers, int64_t layer_count);
struct session *session_hold(struct session *session);
void session_release(struct session *session); /* NULL is fine */

/* Whether its keys and values are here, which what cannot be done with others asks; else the fault
 * (option) says what that is. */
bool session_check_here(const struct session *session, const char *what, struct fault *fault);

/* The layer of that number; NULL: the session does not have it. */
struct session_layer *session_layer_of(const struct session *session, int64_t number);

/* The layer whose rows it reads: itself, or where it shares that of its keys. */
struct session_layer *session_layer_read(const struct session *session,
                                         struct session_layer *layer);

/* After a change of a layer: what others see of it. */
void session_layer_show(struct session_layer *layer);

/* Its ttl begins again. */
void session_touch(struct session *session);

/* Whether each layer can go back to at most so many positions: a state cannot be cut, and only
 * those of session_rows.h are there. Else the fault (conflict) at the pointer names the layer. */
bool session_state_check_cut(const struct session *session, const struct session_layer *layer,
                             int64_t length, const char *pointer, struct fault *fault);

/* Goes back to at most so many positions in each layer; for a call whose turn it is. */
void session_truncate(struct session *session, int64_t kv_len);

/* The length of the shortest layer, and sums over all layers. */
int64_t session_kv_len(const struct session *session);
int64_t session_kv_len_then(const struct session *session); /* for the call whose turn it is */
size_t session_bytes(const struct session *session);
size_t session_bytes_held(const struct session *session);

/* A session with the same settings that shares all rows; for a call whose turn it is. NULL: no
 * memory. */
struct session *session_fork(const struct session *session);

/* What a session takes beside its pages: itself, its layers and the lists of their pages, of which
 * a fork begins with as many as what it was made from. */
size_t session_own_bytes(const struct session *session);

/* Counts that in the budget of its pages and for the name of its account, until its last reference
 * goes. False, with the fault: there is no room. */
bool session_count_own(struct session *session, struct session_budget *budget, struct fault *fault);

/* -------------------------------------------------------------------- the window --
 *
 * Rows see the first keys and the last ones alone (Xiao et al. 2024, StreamingLLM): row p sees key
 * k where k < first_keys, or k > p - window. Positions stay those that the keys were appended at.
 * Pages that no later row can see are freed, so a session of any length takes the memory of its
 * window. */

/* Rows of a new page at most: small beside the window. 0: no such bound. */
int64_t session_window_page_rows(const struct session *session);

/* Whether all keys of these rows of the layer are there that rows from position past on see. False,
 * with the fault (conflict) at the pointer. */
bool session_window_check(const struct session *session, const struct session_layer *layer,
                          const struct session_rows *rows, int64_t past, const char *pointer,
                          struct fault *fault);

/* The same of what is left of the layer where it is cut to this length. */
bool session_window_check_cut(const struct session *session, const struct session_layer *layer,
                              int64_t length, const char *pointer, struct fault *fault);

/* Whether count keys from position first on are there, to compare those of a retry with; else
 * conflict. */
bool session_window_check_there(const struct session *session, const struct session_layer *layer,
                                int64_t first, int64_t count, const char *pointer,
                                struct fault *fault);

/* Before an append: gives back what neither its rows see nor later ones. What the rows of the
 * append see stays until the next one, so that it can be tried again. */
void session_window_move(const struct session *session, struct session_rows *rows);

#endif
