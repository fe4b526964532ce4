/* session_bounds.h - the bounds of the keys of a page (select.h), beside it for all sessions that
 * share it.
 *
 * They are made when a call first selects, for each complete group of 64 rows of the page, and stay
 * with it. Their bytes count in the budget; where it has no room there are none, and a call makes
 * them for itself. Sessions that share a page make them one at a time. */
#ifndef ATTND_SESSION_BOUNDS_H
#define ATTND_SESSION_BOUNDS_H

#include "session/session_rows.h"

/* Sets rows->bounds to those of all complete groups that are there. After session_rows_begin(). */
void session_bounds_make(struct session_rows *rows);

/* Rows from `row` on will be written anew. For who may write them. */
void session_bounds_cut(struct session_page *page, int64_t row);

/* Of a page, in the budget. */
size_t session_bounds_bytes(const struct session_page *page);

/* With the page. */
void session_bounds_free(struct session_page *page);

#endif
