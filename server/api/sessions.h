/* sessions.h - the resource of sessions (API_SESSIONS.md): made, listed, looked at, forked, cut,
 * moved and ended. Attention over them is an inference (infer_handlers.h). */
#ifndef ATTND_SESSIONS_H
#define ATTND_SESSIONS_H

#include "http/http.h"

void sessions_list(struct exchange *exchange);
void sessions_get(struct exchange *exchange);
void sessions_get_file(struct exchange *exchange); /* for sessions_get() */
void sessions_put(struct exchange *exchange);
void sessions_create(struct exchange *exchange);
void sessions_change(struct exchange *exchange);
void sessions_fork(struct exchange *exchange);
void sessions_truncate(struct exchange *exchange);
void sessions_delete(struct exchange *exchange);

#endif
