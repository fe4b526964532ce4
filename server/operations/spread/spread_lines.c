/* SPDX-License-Identifier: Apache-2.0 */
/* spread_lines.c - see spread_lines.h. One mutex for all: it is held for a few steps. */
#include "operations/spread/spread_lines.h"

#include "base/clock.h"
#include "base/unique_id.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FREE_NS (INT64_C(2) * 1000000000) /* that the end gives to what is queued */

struct spread_line {
    struct spread_lines *lines;
    int peer;
    pthread_t thread;
    bool runs;
    struct remote *remote;
    struct remote_stop stop;
    bool is_stopped; /* stop is set */
};

struct spread_queue {
    LIST_OF(struct spread_request) requests;
    int64_t count;
    int busy; /* lines that send */
    pthread_cond_t come;
    struct remote_trust *trust;
    struct spread_line lines[SPREAD_LINES];
};

struct spread_lines {
    const struct spread_peers *peers;
    pthread_mutex_t mutex;
    bool ends;
    _Atomic uint64_t number;
    char tag[RANDOM_ID_LENGTH + 1];
    struct spread_queue queues[SPREAD_PEERS_MAX];
    pthread_t watch;
    bool is_watched;
    int64_t watch_ns; /* when the watch wakes by itself */
    pthread_cond_t watch_sooner;
};

/* ---------------------------------------------------------------- requests -- */

struct spread_request *spread_request_create(int peer, const char *method, int64_t deadline_ns)
{
    enum { SHORT_ANSWER = 1 << 20 };
    struct spread_request *request = calloc(1, sizeof *request);
    if (!request)
        return NULL;
    request->peer = peer;
    request->method = method;
    request->deadline_ns = deadline_ns;
    request->answer_bytes_max = SHORT_ANSWER;
    request->may_repeat = true;
    return request;
}

void spread_request_free(struct spread_request *request)
{
    if (!request)
        return;
    free(request->body);
    free(request->answer);
    free(request);
}

/* Under the mutex. */
static void let_go(struct spread_request *request)
{
    if (--request->holders == 0)
        spread_request_free(request);
}

void spread_lines_send(struct spread_lines *lines, struct spread_request *request,
                       struct spread_wait *wait)
{
    struct spread_queue *queue = &lines->queues[request->peer];
    pthread_mutex_lock(&lines->mutex);
    request->wait = wait;
    request->holders = wait ? 2 : 1;
    request->is_open = true;
    if (wait) {
        wait->requests[wait->count++] = request;
        wait->open++;
    }
    LIST_APPEND(&queue->requests, request, in_queue);
    queue->count++;
    pthread_cond_signal(&queue->come);
    if (wait && queue->busy + queue->count > SPREAD_LINES && request->deadline_ns < lines->watch_ns)
        pthread_cond_signal(&lines->watch_sooner);
    pthread_mutex_unlock(&lines->mutex);
}

int64_t spread_lines_queue(struct spread_lines *lines, int peer)
{
    pthread_mutex_lock(&lines->mutex);
    const int64_t count = lines->queues[peer].count;
    pthread_mutex_unlock(&lines->mutex);
    return count;
}

/* ------------------------------------------------------------------- lines -- */

/* What was answered lies in the connection until its next request. */
static void take_answer(struct spread_request *request, const struct remote_answer *answer)
{
    request->status = answer->status;
    request->answer = malloc(answer->size + 1);
    if (!request->answer) {
        request->end = REMOTE_UNKNOWN;
        snprintf(request->reason, sizeof request->reason, "there is no memory for its answer");
        return;
    }
    if (answer->size > 0)
        memcpy(request->answer, answer->body, answer->size);
    request->answer[answer->size] = '\0';
    request->answer_size = answer->size;
}

static void say_late(struct spread_request *request)
{
    request->end = REMOTE_NOT_SENT;
    snprintf(request->reason, sizeof request->reason, "all connections to it are in use");
}

static void ask(struct spread_line *line, struct spread_request *request)
{
    const struct byte_slice body = { request->body, request->body_size };
    const struct remote_request asked = { .method = request->method,
                                          .target = request->target,
                                          .headers = request->headers,
                                          .parts = &body,
                                          .part_count = request->body ? 1 : 0,
                                          .deadline_ns = request->deadline_ns,
                                          .answer_bytes_max = request->answer_bytes_max,
                                          .may_repeat = request->may_repeat };
    struct remote_answer answer = { 0 };
    if (clock_now_ns() >= request->deadline_ns)
        say_late(request);
    else
        request->end = remote_ask(line->remote, &asked, &answer, request->reason);
    if (request->end == REMOTE_ANSWERED)
        take_answer(request, &answer);
}

/* Under the mutex: claims the job that the request was the last one for. */
static struct job *answer_wait(struct spread_request *request, struct scheduler **scheduler)
{
    struct spread_wait *wait = request->wait;
    if (!wait)
        return NULL;
    wait->open--;
    wait->is_failed = wait->is_failed || (!wait->for_all && request->end != REMOTE_ANSWERED);
    if (!wait->waits || (wait->open > 0 && !wait->is_failed))
        return NULL;
    wait->waits = false;
    *scheduler = wait->scheduler;
    return scheduler_claim(wait->scheduler, wait->job) ? wait->job : NULL;
}

/* Under the mutex, which it leaves where a job goes on. */
static void end_request(struct spread_lines *lines, struct spread_request *request)
{
    struct scheduler *scheduler = NULL;
    request->line = NULL;
    request->is_open = false;
    struct job *job = answer_wait(request, &scheduler);
    let_go(request);
    if (!job)
        return;
    pthread_mutex_unlock(&lines->mutex);
    scheduler_continue(scheduler, job, 1);
    pthread_mutex_lock(&lines->mutex);
}

/* Under the mutex: a stop ends one request, and the next one may come. */
static void clear_stop(struct spread_line *line)
{
    struct fault fault;
    if (!line->is_stopped || line->lines->ends)
        return;
    remote_close(line->remote);
    remote_stop_free(&line->stop);
    line->is_stopped = !remote_stop_init(&line->stop, &fault);
}

/* Under the mutex, which it leaves while it asks. */
static void serve(struct spread_line *line, struct spread_queue *queue)
{
    struct spread_lines *lines = line->lines;
    struct spread_request *request = queue->requests.first;
    LIST_TAKE_OUT(&queue->requests, request, in_queue);
    queue->count--;
    queue->busy++;
    request->line = line;
    pthread_mutex_unlock(&lines->mutex);
    ask(line, request);
    pthread_mutex_lock(&lines->mutex);
    queue->busy--;
    clear_stop(line);
    end_request(lines, request);
}

static void *line_run(void *context)
{
    struct spread_line *line = context;
    struct spread_lines *lines = line->lines;
    struct spread_queue *queue = &lines->queues[line->peer];
    pthread_mutex_lock(&lines->mutex);
    for (;;) {
        while (!lines->ends && !queue->requests.first)
            pthread_cond_wait(&queue->come, &lines->mutex);
        if (!queue->requests.first)
            break;
        serve(line, queue);
    }
    pthread_mutex_unlock(&lines->mutex);
    return NULL;
}

/* Under the mutex: of the requests that a job waits for and that no line has, the one whose time
 * passes first; NULL: there is none. */
static struct spread_request *next_late(const struct spread_lines *lines)
{
    struct spread_request *next = NULL;
    for (int i = 0; i < lines->peers->count; i++) {
        struct spread_request *request = lines->queues[i].requests.first;
        for (; request; request = request->in_queue.next)
            if (request->wait && (!next || request->deadline_ns < next->deadline_ns))
                next = request;
    }
    return next;
}

/* Ends requests whose time passes in the queue: a silent peer keeps all its lines for long. */
static void *watch_run(void *context)
{
    struct spread_lines *lines = context;
    pthread_mutex_lock(&lines->mutex);
    while (!lines->ends) {
        struct spread_request *request = next_late(lines);
        lines->watch_ns = request ? request->deadline_ns : INT64_MAX;
        if (!request || clock_now_ns() < lines->watch_ns) {
            const struct timespec until = clock_timespec(lines->watch_ns);
            pthread_cond_timedwait(&lines->watch_sooner, &lines->mutex, &until);
            continue;
        }
        LIST_TAKE_OUT(&lines->queues[request->peer].requests, request, in_queue);
        lines->queues[request->peer].count--;
        say_late(request);
        end_request(lines, request);
    }
    pthread_mutex_unlock(&lines->mutex);
    return NULL;
}

static bool start_line(struct spread_line *line, struct spread_lines *lines, int peer,
                       struct fault *fault)
{
    const struct spread_peer *to = &lines->peers->peers[peer];
    line->lines = lines;
    line->peer = peer;
    if (!remote_stop_init(&line->stop, fault))
        return false;
    line->remote = remote_create(&to->address, lines->queues[peer].trust, to->key, &line->stop);
    line->runs = line->remote && pthread_create(&line->thread, NULL, line_run, line) == 0;
    if (line->runs)
        return true;
    remote_free(line->remote);
    remote_stop_free(&line->stop);
    return fault_set(fault, FAULT_MEMORY, "no thread for the peer '%s'", to->name);
}

/* Whom the peer's certificate must come from. */
static bool read_trust(struct spread_lines *lines, int peer, struct fault *fault)
{
    const struct spread_peer *to = &lines->peers->peers[peer];
    if (!to->address.is_tls)
        return true;
    lines->queues[peer].trust = remote_trust_create(to->ca, fault);
    return lines->queues[peer].trust || fault_name_file(fault, to->name);
}

bool spread_lines_start(struct spread_lines *lines, struct fault *fault)
{
    for (int i = 0; i < lines->peers->count; i++)
        for (int k = 0; k < SPREAD_LINES; k++)
            if (!start_line(&lines->queues[i].lines[k], lines, i, fault))
                return false;
    lines->is_watched = pthread_create(&lines->watch, NULL, watch_run, lines) == 0;
    return lines->is_watched || fault_set(fault, FAULT_MEMORY, "no thread for the peers");
}

struct spread_lines *spread_lines_create(const struct spread_peers *peers, struct fault *fault)
{
    struct spread_lines *lines = calloc(1, sizeof *lines);
    if (!lines || !random_id_make(lines->tag)) {
        free(lines);
        fault_no_memory(fault);
        return NULL;
    }
    lines->peers = peers;
    pthread_mutex_init(&lines->mutex, NULL);
    clock_init_condition(&lines->watch_sooner);
    for (int i = 0; i < SPREAD_PEERS_MAX; i++)
        pthread_cond_init(&lines->queues[i].come, NULL);
    for (int i = 0; i < peers->count; i++)
        if (!read_trust(lines, i, fault)) {
            spread_lines_free(lines);
            return NULL;
        }
    return lines;
}

/* --------------------------------------------------------------------- end -- */

static bool is_idle(struct spread_lines *lines)
{
    bool idle = true;
    pthread_mutex_lock(&lines->mutex);
    for (int i = 0; i < lines->peers->count; i++)
        idle = idle && lines->queues[i].count == 0 && lines->queues[i].busy == 0;
    pthread_mutex_unlock(&lines->mutex);
    return idle;
}

/* From now on nothing is sent. */
static void end_all(struct spread_lines *lines)
{
    pthread_mutex_lock(&lines->mutex);
    lines->ends = true;
    for (int i = 0; i < lines->peers->count; i++) {
        struct spread_queue *queue = &lines->queues[i];
        struct spread_request *request;
        while ((request = queue->requests.first)) {
            /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): none is before the first */
            LIST_TAKE_OUT(&queue->requests, request, in_queue);
            let_go(request);
        }
        queue->count = 0;
        for (int k = 0; k < SPREAD_LINES; k++)
            if (queue->lines[k].runs)
                remote_stop_set(&queue->lines[k].stop, 1);
        pthread_cond_broadcast(&queue->come);
    }
    pthread_cond_signal(&lines->watch_sooner);
    pthread_mutex_unlock(&lines->mutex);
}

void spread_lines_free(struct spread_lines *lines)
{
    if (!lines)
        return;
    const struct timespec step = { .tv_nsec = 1000000 };
    const int64_t until_ns = clock_now_ns() + FREE_NS;
    while (!is_idle(lines) && clock_now_ns() < until_ns)
        nanosleep(&step, NULL);
    end_all(lines);
    if (lines->is_watched)
        pthread_join(lines->watch, NULL);
    for (int i = 0; i < SPREAD_PEERS_MAX; i++) {
        struct spread_queue *queue = &lines->queues[i];
        for (int k = 0; k < SPREAD_LINES; k++) {
            if (!queue->lines[k].runs)
                continue;
            pthread_join(queue->lines[k].thread, NULL);
            remote_free(queue->lines[k].remote);
            remote_stop_free(&queue->lines[k].stop);
        }
        remote_trust_free(queue->trust);
        pthread_cond_destroy(&queue->come);
    }
    pthread_cond_destroy(&lines->watch_sooner);
    pthread_mutex_destroy(&lines->mutex);
    free(lines);
}

/* ------------------------------------------------------------------ waiting -- */

bool spread_wait_has(struct spread_wait *wait, int number)
{
    pthread_mutex_lock(&wait->lines->mutex);
    const bool has = !wait->requests[number]->is_open;
    pthread_mutex_unlock(&wait->lines->mutex);
    return has;
}

bool spread_wait_is_over(struct spread_wait *wait)
{
    if (wait->count == 0)
        return true;
    pthread_mutex_lock(&wait->lines->mutex);
    const bool over = wait->open == 0 || wait->is_failed;
    wait->waits = !over;
    pthread_mutex_unlock(&wait->lines->mutex);
    return over;
}

/* Under the mutex: nobody waits for the request any more. */
static void cancel(struct spread_lines *lines, struct spread_request *request)
{
    struct spread_queue *queue = &lines->queues[request->peer];
    request->wait = NULL;
    if (!request->is_open)
        return;
    if (!request->line) {
        LIST_TAKE_OUT(&queue->requests, request, in_queue);
        queue->count--;
        request->is_open = false;
        let_go(request);
    } else if (!request->line->is_stopped) {
        request->line->is_stopped = true;
        remote_stop_set(&request->line->stop, 1);
    }
}

void spread_wait_leave(struct spread_wait *wait)
{
    if (wait->count == 0)
        return;
    struct spread_lines *lines = wait->lines;
    pthread_mutex_lock(&lines->mutex);
    for (int i = 0; i < wait->count; i++) {
        cancel(lines, wait->requests[i]);
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the wait holds it too */
        let_go(wait->requests[i]);
    }
    wait->count = wait->open = 0;
    wait->is_failed = wait->waits = false;
    pthread_mutex_unlock(&lines->mutex);
}

/* ------------------------------------------------------------------- others -- */

const struct spread_peers *spread_lines_peers(const struct spread_lines *lines)
{
    return lines->peers;
}

void spread_lines_id(struct spread_lines *lines, char *id, size_t size)
{
    snprintf(id, size, "%s-%llu", lines->tag,
             (unsigned long long)atomic_fetch_add(&lines->number, 1));
}

bool spread_lines_is_own_id(const struct spread_lines *lines, const char *id)
{
    return lines && strncmp(id, lines->tag, RANDOM_ID_LENGTH) == 0;
}
