/* session_window.h - sessions whose rows see the first keys and the last ones alone (Xiao et al.
 * 2024, StreamingLLM). Positions stay those that the keys came at.
 *
 * Row p sees key k where k < first_keys, or k > p - window. Pages that no later row can see are
 * given back, so a session of any length takes the memory of its window. */
#ifndef ATTND_SESSION_WINDOW_H
#define ATTND_SESSION_WINDOW_H

#include "session/session.h"

/* Rows of a new page at most: small beside the window. 0: no bound of its own. */
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
