/* session_hole.h - positions of a cache that nobody will see again: their memory goes back, and
 * zeros are read in their place. They are one part, from rows->dropped_from to rows->dropped, with
 * a page that is void (session_page.h). */
#ifndef ATTND_SESSION_HOLE_H
#define ATTND_SESSION_HOLE_H

#include "session/session_rows.h"

/* Positions from first on and before end will not be seen again. Gives back the pages that have no
 * others, and copies the others where they are few beside their page; so what is kept of positions
 * before end, besides those before first, is at most a page of session_rows_page_rows_max() or half
 * a page. first is that of each time before. Needs no room in the budget but for what is copied of
 * pages that other sessions hold, too; where there is none, those stay until the next time. */
void session_rows_drop(struct session_rows *rows, int64_t first, int64_t end);

/* Puts so many positions that are gone behind those that are there, which had none. False: no
 * memory. */
bool session_rows_skip(struct session_rows *rows, int64_t count);

#endif
