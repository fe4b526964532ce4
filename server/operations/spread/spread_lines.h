/* SPDX-License-Identifier: Apache-2.0 */
/* spread_lines.h - requests to peers, by threads that do nothing but wait for their answers.
 *
 * Each peer has a few lines, a thread and a connection each, and a queue of requests for them. A
 * job that has asked peers waits outside its scheduler (JOB_WAITS), so no worker waits for a peer:
 * it goes on when all peers have answered, or as soon as one cannot be reached. A request whose
 * time passes in the queue ends there: a silent peer may keep all its lines. */
#ifndef ATTND_SPREAD_LINES_H
#define ATTND_SPREAD_LINES_H

#include "base/list.h"
#include "operations/spread/spread_peers.h"
#include "scheduler/scheduler.h"

enum {
    SPREAD_LINES = 4,         /* to each peer */
    SPREAD_TARGET_MAX = 128,  /* of a path */
    SPREAD_HEADERS_MAX = 512, /* of headers */
};

struct spread_lines;
struct spread_wait;

struct spread_request {
    /* What is asked. */
    int peer;
    const char *method; /* a constant */
    char target[SPREAD_TARGET_MAX];
    char headers[SPREAD_HEADERS_MAX]; /* each with its end of line */
    char *body;                       /* malloc'd, the request's; NULL: none */
    size_t body_size;
    int64_t deadline_ns;
    size_t answer_bytes_max;
    bool may_repeat; /* as in remote.h */

    /* What came. */
    enum remote_end end;
    int status;
    char *answer; /* malloc'd, the request's, with a NUL behind it; NULL: none */
    size_t answer_size;
    char reason[REMOTE_REASON_MAX]; /* why there is no answer */

    /* spread_lines.c's own, under its mutex. */
    struct spread_wait *wait; /* NULL: nobody waits */
    int holders;
    bool is_open;
    struct spread_line *line; /* that sends it; NULL: none does */
    LIST_LINK(struct spread_request) in_queue;
};

/* What a job waits for. Zeroed: nothing. For the thread of its job; the requests' are others'. */
struct spread_wait {
    struct spread_lines *lines;
    struct scheduler *scheduler;
    struct job *job;
    struct spread_request *requests[SPREAD_PEERS_MAX + 1];
    int count;
    int open;       /* not answered */
    bool for_all;   /* the owner's: a peer that is not reached is no reason to go on */
    bool is_failed; /* a peer was not reached: the others are not waited for */
    bool waits;     /* the job waits, and is to be continued */
};

/* Reads the files that the peers name, which is all that is read of them. peers is borrowed. NULL,
 * with the fault. */
struct spread_lines *spread_lines_create(const struct spread_peers *peers, struct fault *fault);

/* Starts the threads. */
bool spread_lines_start(struct spread_lines *lines, struct fault *fault);

/* Sends what nobody waits for any more, for a short time, then ends all. NULL is fine. */
void spread_lines_free(struct spread_lines *lines);

const struct spread_peers *spread_lines_peers(const struct spread_lines *lines);

/* An id for a session at a peer, which no other has. is_own: this daemon has made it. */
void spread_lines_id(struct spread_lines *lines, char *id, size_t size);
bool spread_lines_is_own_id(const struct spread_lines *lines, const char *id);

/* A request without a body. NULL: no memory. */
struct spread_request *spread_request_create(int peer, const char *method, int64_t deadline_ns);
void spread_request_free(struct spread_request *request); /* one that was not sent */

/* Sends it, and takes it. wait NULL: nobody waits for it. */
void spread_lines_send(struct spread_lines *lines, struct spread_request *request,
                       struct spread_wait *wait);

/* How many requests wait for a line to the peer. */
int64_t spread_lines_queue(struct spread_lines *lines, int peer);

/* Whether the request of that number has ended; it is then nobody else's any more. */
bool spread_wait_has(struct spread_wait *wait, int number);

/* In stage_tasks() of the job: whether all is there that it waits for. Where it is not, the job is
 * continued with one task when it is. */
bool spread_wait_is_over(struct spread_wait *wait);

/* Lets go of all requests; those without an answer are cancelled. A second time does nothing. */
void spread_wait_leave(struct spread_wait *wait);

#endif
