/* session_evict.h - which sessions end where memory is short. */
#ifndef ATTND_SESSION_EVICT_H
#define ATTND_SESSION_EVICT_H

#include "session/session.h"

/* Chooses among sessions that nobody holds but the store, under its mutex: the least recently used
 * ones whose end frees so many bytes, without those whose end frees none of them. A page that they
 * share counts once, and one that another session has not at all. Puts the chosen first and returns
 * how many they are; 0: all of them together would not free so many. */
int64_t session_evict_choose(struct session **sessions, int64_t count, size_t bytes);

#endif
