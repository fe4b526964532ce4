/* SPDX-License-Identifier: Apache-2.0 */
/* session_turn.c - one mutex for all sessions: it is held for a few steps, and tickets of several
 * sessions are taken in one of them. */
#include "operations/session/session_turn.h"

#include "base/clock.h"

#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t thread_may_go = PTHREAD_COND_INITIALIZER;

void session_turn_take(struct session_turn *turn)
{
    pthread_mutex_lock(&mutex);
    for (int64_t i = 0; i < turn->count; i++) {
        struct session_ticket *ticket = &turn->tickets[i];
        struct session *session = ticket->session;
        if (session->tickets.last && session->tickets.last->turn == turn)
            continue; /* it has one of this session */
        ticket->turn = turn;
        LIST_APPEND(&session->tickets, ticket, in_session);
    }
    turn->is_taken = true;
    pthread_mutex_unlock(&mutex);
}

static bool has_come(const struct session_turn *turn)
{
    for (int64_t i = 0; i < turn->count; i++)
        if (turn->tickets[i].turn && turn->tickets[i].session->tickets.first != &turn->tickets[i])
            return false;
    return true;
}

bool session_turn_has_come(struct session_turn *turn)
{
    pthread_mutex_lock(&mutex);
    const bool come = has_come(turn);
    turn->waits = !come;
    pthread_mutex_unlock(&mutex);
    return come;
}

bool session_turn_wait(struct session_turn *turn, int64_t deadline_ns)
{
    const struct timespec until = clock_timespec(deadline_ns);
    pthread_mutex_lock(&mutex);
    bool come;
    while (!(come = has_come(turn)) && clock_now_ns() < deadline_ns)
        pthread_cond_clockwait(&thread_may_go, &mutex, CLOCK_MONOTONIC, &until);
    pthread_mutex_unlock(&mutex);
    return come;
}

/* Claims the job of a call that waits and whose turn has come, under the mutex: the call takes part
 * in its lists, so it has not left. */
static struct session_turn *claim_first(const struct session *session)
{
    struct session_turn *turn = session->tickets.first ? session->tickets.first->turn : NULL;
    if (!turn || !turn->waits || !has_come(turn))
        return NULL;
    turn->waits = false;
    return scheduler_claim(turn->scheduler, turn->job) ? turn : NULL;
}

/* Takes one ticket back, and continues the call whose turn it then is. */
static void give_back(struct session_ticket *ticket)
{
    pthread_mutex_lock(&mutex);
    struct session *session = ticket->session;
    LIST_TAKE_OUT(&session->tickets, ticket, in_session);
    if (session->tickets.first && !session->tickets.first->turn->job)
        pthread_cond_broadcast(&thread_may_go);
    struct session_turn *next = claim_first(session);
    struct scheduler *scheduler = next ? next->scheduler : NULL;
    struct job *job = next ? next->job : NULL;
    pthread_mutex_unlock(&mutex);
    if (job)
        scheduler_continue(scheduler, job, 1);
}

void session_turn_leave(struct session_turn *turn)
{
    pthread_mutex_lock(&mutex);
    const bool is_taken = turn->is_taken;
    turn->is_taken = turn->waits = false;
    pthread_mutex_unlock(&mutex);
    for (int64_t i = 0; is_taken && i < turn->count; i++)
        if (turn->tickets[i].turn)
            give_back(&turn->tickets[i]);
}
