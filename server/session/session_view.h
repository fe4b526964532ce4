/* session_view.h - the view of a cache that attention reads (attn.h, struct attn_pages): where the
 * rows of each part lie. */
#ifndef ATTND_SESSION_VIEW_H
#define ATTND_SESSION_VIEW_H

#include "session/session_rows.h"

/* Makes rows->cache, when there is room for the rows that an append brings. False: no memory. */
bool session_view_make(struct session_rows *rows, struct fault *fault);

/* A session that nobody calls keeps none. */
void session_view_free(struct session_rows *rows);

#endif
