/* session_ended.h - the last SESSION_ENDED_MAX sessions that ended, and why. The store guards it.
 */
#ifndef ATTND_SESSION_ENDED_H
#define ATTND_SESSION_ENDED_H

#include "session/session.h"

enum { SESSION_ENDED_MAX = 8192 };

/* Zeroed: none. */
struct session_ended {
    struct {
        char id[SESSION_NAME_MAX + 1];
        char account[ACCESS_NAME_MAX + 1]; /* "": no keys were in use */
        enum session_end why;
    } all[SESSION_ENDED_MAX];
    uint32_t hashes[SESSION_ENDED_MAX]; /* of their ids: a search reads these alone */
    int64_t count;                      /* ever */
};

void session_ended_add(struct session_ended *ended, const struct session *session,
                       enum session_end why);

/* Why the last session of that id and name of a key ended; SESSION_LIVES: it is not known. */
enum session_end session_ended_why(const struct session_ended *ended, const char *id,
                                   const char *account);

/* The name of a key that had a session of that id, from the place *next on, which it moves on; from
 * 0 on, all of them, perhaps twice. NULL: no more. */
const char *session_ended_next(const struct session_ended *ended, const char *id, int64_t *next);

/* Sets the fault gone, with the reason; false. */
bool session_ended_fault(const char *id, enum session_end why, struct fault *fault);

#endif
