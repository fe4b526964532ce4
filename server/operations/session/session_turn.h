/* SPDX-License-Identifier: Apache-2.0 */
/* session_turn.h - the order of the calls of a session.
 *
 * A call takes a ticket for each session that it is about, all of them at once, and its turn is
 * when its tickets are the first of their sessions. So calls of one session are done in the order
 * of their arrival, and calls of several sessions never wait for each other in a circle. A job
 * that waits holds no worker (JOB_WAITS). */
#ifndef ATTND_SESSION_TURN_H
#define ATTND_SESSION_TURN_H

#include "operations/session/session.h"
#include "scheduler/scheduler.h"

struct session_turn;

struct session_ticket {
    struct session_turn *turn; /* NULL: another ticket of the turn is for this session */
    struct session *session;   /* borrowed */
    LIST_LINK(struct session_ticket) in_session;
};

/* What one call waits for. Zeroed: nothing. */
struct session_turn {
    struct scheduler *scheduler;
    struct job *job;                /* NULL: a thread waits, with session_turn_wait() */
    struct session_ticket *tickets; /* [count], the caller's, with their sessions set */
    int64_t count;
    bool is_taken; /* the tickets are in their lists */
    bool waits;    /* the job waits, and is to be continued */
};

/* Takes the tickets. A session may be in several; the first one counts. */
void session_turn_take(struct session_turn *turn);

/* In stage_tasks() of the job: whether its turn has come. Where it has not, the job is continued
 * with one task when it comes. */
bool session_turn_has_come(struct session_turn *turn);

/* Waits until the turn of a thread without a job has come; false: the deadline came first, by
 * clock_now_ns(). */
bool session_turn_wait(struct session_turn *turn, int64_t deadline_ns);

/* Gives the tickets back, whether its turn had come or not; the next waiting call then
 * continues. In
 * the job's done or before; a second time does nothing. */
void session_turn_leave(struct session_turn *turn);

#endif
