/* SPDX-License-Identifier: Apache-2.0 */
/* session_save.h - sessions on disk between two lives of a daemon (--session-save DIR).
 *
 * The end of the daemon writes each session as a file (session_file.h), and the next start makes
 * sessions of the files. A file stays until its session changes or ends, and is removed before that
 * is answered. So a daemon that is killed loses no session that is as it was saved, and none is
 * loaded as it was before a change. */
#ifndef ATTND_SESSION_SAVE_H
#define ATTND_SESSION_SAVE_H

#include "access/access_keys.h"
#include "models/store/model_store.h"
#include "operations/session/session_store.h"

struct session_save {
    const char *directory;
    int lock; /* its descriptor, locked: two daemons would both make the sessions */
};

/* Takes the directory, which is borrowed, and removes what a crash left of files that were being
 * written. False, with the fault: it is none, cannot be written to, or another daemon has it. */
bool session_save_open(struct session_save *save, const char *directory, struct fault *fault);

/* Whether the directory could be taken if no other daemon had it. Changes nothing. */
bool session_save_try(const char *directory, struct fault *fault);

void session_save_close(struct session_save *save); /* a zeroed struct is fine */

/* Makes a session of each file, the newest first. A file of which none can be made stays, and a log
 * line says why. keys NULL: no keys are in use. */
void session_save_restore(const struct session_save *save, struct session_store *sessions,
                          struct model_store *models, struct access_keys *keys);

/* Writes all sessions, each checked by reading it back; no call may be about any. False where one
 * is lost; a log line says which and why. */
bool session_save_write(const struct session_save *save, struct session_store *sessions);

#endif
