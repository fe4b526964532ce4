/* session_saved.h - the file that a session was made of at the start, or written to at the end. */
#ifndef ATTND_SESSION_SAVED_H
#define ATTND_SESSION_SAVED_H

#include "session/session.h"

#define SESSION_SAVED_PREFIX "session-"
#define SESSION_SAVED_ENDING ".safetensors"
#define SESSION_SAVED_WORDS  "sessions' directory"

enum { SESSION_SAVED_MODE = 0600 };

/* Before the session changes or ends: removes its file, if it has one. False, with the fault: the
 * file cannot be removed, and the session would come back as it was. */
bool session_saved_remove(struct session *session, struct fault *fault);

/* The same of a session that has ended already; a failure is logged. */
void session_saved_drop(struct session *session);

/* The same of a file of which no session was made. */
void session_saved_drop_file(const char *id, const char *path);

#endif
