/* SPDX-License-Identifier: Apache-2.0 */
/* sessions.h - sessions (API_SESSIONS.md) listed, looked at, moved, and as files, out and in. What
 * else is done about one is an operation (operations/sessions.h), as attention over it is. */
#ifndef ATTND_SESSIONS_H
#define ATTND_SESSIONS_H

#include "http/http.h"

void sessions_list(struct exchange *exchange);
void sessions_get(struct exchange *exchange);
void sessions_get_file(struct exchange *exchange); /* for sessions_get() */
void sessions_put(struct exchange *exchange);
void sessions_drain(struct exchange *exchange); /* moves all to other daemons */

#endif
