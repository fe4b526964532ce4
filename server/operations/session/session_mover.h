/* SPDX-License-Identifier: Apache-2.0 */
/* session_mover.h - sessions move to other daemons (--move-to): each as its file, by PUT.
 *
 * A move takes its turn among the calls of its session. When the other daemon has the session, it
 * ends here, and calls of it, also those that waited, are told where it is (FAULT_MOVED). When the
 * other daemon does not take it, it stays, and the waiting calls go on. So at any time one daemon
 * answers for a session. A PUT without an answer is sent again: the other daemon knows the file. */
#ifndef ATTND_SESSION_MOVER_H
#define ATTND_SESSION_MOVER_H

#include "host/config.h"
#include "operations/session/session_store.h"
#include "remote/remote.h"

enum { SESSION_MOVE_TARGETS_MAX = CONFIG_LIST_MAX, SESSION_MOVE_FAULTS_MAX = 20 };

struct session_mover; /* thread-safe; one move of all at a time */

/* Reads addresses, key and authorities; connects to nobody. *mover is NULL where --move-to is not
 * given. */
bool session_mover_create(struct session_mover **mover, const struct config *config,
                          struct fault *fault);
void session_mover_free(struct session_mover *mover); /* when its sessions are; NULL is fine */

/* This daemon listens on that port: a target with it and with this daemon's name is the daemon. */
void session_mover_add_own_port(struct session_mover *mover, int port);

/* What the process connects to: at most count addresses. Returns how many. */
int session_mover_addresses(const struct session_mover *mover, const struct remote_address **out,
                            int count);

struct session_moved {
    int64_t moved, stay; /* sessions */
    size_t bytes;        /* of files that were sent */
    struct {
        const char *url, *replica; /* until the mover is freed */
        int64_t moved;
        char reason[REMOTE_REASON_MAX]; /* why it takes no more; "": it does */
    } targets[SESSION_MOVE_TARGETS_MAX];
    int target_count;
    struct {
        char id[SESSION_NAME_MAX + 1], owner[ACCESS_NAME_MAX + 1];
        char reason[REMOTE_REASON_MAX];
    } faults[SESSION_MOVE_FAULTS_MAX]; /* of the first that stay */
    int fault_count;
};

/* Moves all sessions until the deadline; to is the URL of one target, as in the flag, or NULL: to
 * all of them, those behind this daemon's own entry first. only_new: not those that an earlier move
 * had to leave. False, with the fault: to is none of the targets. For a thread that may wait. */
bool session_mover_run(struct session_mover *mover, struct session_store *sessions, const char *to,
                       bool only_new, int64_t deadline_ns, struct session_moved *result,
                       struct fault *fault);

/* From now on no move, also one that runs, goes on beyond this time. */
void session_mover_end_by(struct session_mover *mover, int64_t ends_ns);

#endif
