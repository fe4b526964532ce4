/* SPDX-License-Identifier: Apache-2.0 */
/* traffic_equal.c - see traffic_equal.h.
 *
 * Each caller sends one call after another; those that belong together come one after the other,
 * and a call that is refused is sent again. Some answers later, in a new phase, there are more
 * callers or fewer. In a phase of bursts all callers wait for each other and then send at once. In
 * a phase of alike calls they send calls that stand near each other, so that they meet in products
 * and sessions. */
#include "traffic_equal.h"

#include "fill.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
    WAIT_MS = 60000,
    REFUSALS_MAX = 100000,
    PHASE_ANSWERS = 200,
    NEAR = 10,
    SHOWN = 160,
    SHOWN_MAX = 20
};

/* What may differ between answers to equal requests: the values of these members, where they begin
 * so. Headers are not compared but Content-Type. */
static const struct {
    const char *name, *begins;
} MAY_DIFFER[] = {
    { "\"request_id\":", "\"" }, /* of a fault, made at random */
    { "\"id\":", "\"cmpl-" },    /* of a completion, too */
    { "\"created\":", "" },      /* when a completion was made */
    { "\"age_ms\":", "" },       /* how long a session has been there */
    { "\"expires\":", "\"" },    /* when it ends */
    { "\"expires_in_ms\":", "" },
};

static void give_up(const char *what, const char *path)
{
    fprintf(stderr, "%s: %s\n", path, what);
    exit(1);
}

/* -------------------------------------------------------------------- answers -- */

size_t equal_strip(char *body, size_t size)
{
    for (size_t i = 0; i < sizeof MAY_DIFFER / sizeof MAY_DIFFER[0]; i++) {
        const size_t name = strlen(MAY_DIFFER[i].name), begins = strlen(MAY_DIFFER[i].begins);
        char *at = body;
        while ((at = memmem(at, size - (size_t)(at - body), MAY_DIFFER[i].name, name))) {
            char *end = at += name;
            const size_t left = size - (size_t)(at - body);
            if (left < begins || memcmp(at, MAY_DIFFER[i].begins, begins) != 0)
                continue;
            while (end < body + size && *end != ',' && *end != '}')
                end++;
            memmove(at, end, (size_t)(body + size - end));
            size -= (size_t)(end - at);
        }
    }
    return size;
}

/* The answer on a connection, as the first caller would have it. It has the connection's bytes. */
static struct equal_answer answer_on(const struct traffic_connection *connection, int caller)
{
    const char *type = traffic_connection_header(connection, "content-type");
    struct equal_answer answer = { .status = connection->status,
                                   .body = connection->body->bytes,
                                   .size = connection->body->used };
    if (type)
        snprintf(answer.type, sizeof answer.type, "%.*s", (int)strcspn(type, "\r"), type);
    kinds_name_first(answer.body, answer.size, caller);
    if (strcmp(answer.type, "application/json") == 0)
        answer.size = equal_strip(answer.body, answer.size);
    return answer;
}

static bool is_refused(int status)
{
    return status == 429 || status == 503;
}

static bool are_equal(const struct equal_answer *one, const struct equal_answer *other)
{
    return one->status == other->status && one->size == other->size
           && strcmp(one->type, other->type) == 0 && memcmp(one->body, other->body, one->size) == 0;
}

static void show_answer(const char *whose, const struct equal_answer *answer, size_t from)
{
    const size_t left = answer->size > from ? answer->size - from : 0;
    printf("    %s %d %s, %zu bytes: ", whose, answer->status, answer->type, answer->size);
    for (size_t i = 0; i < left && i < SHOWN; i++) {
        const unsigned char byte = (unsigned char)answer->body[from + i];
        printf(byte >= ' ' && byte < 127 ? "%c" : "\\x%02x", byte);
    }
    printf("\n");
}

static void show_difference(const char *daemon, const struct kind_call *call, int callers,
                            const struct equal_answer *own, const struct equal_answer *wanted)
{
    size_t at = 0;
    while (at < own->size && at < wanted->size && own->body[at] == wanted->body[at])
        at++;
    const size_t from = at > SHOWN / 2 ? at - SHOWN / 2 : 0;
    printf("  differs: %s, %s, %d callers; at byte %zu\n", call->path, daemon, callers, at);
    show_answer("own  ", own, from);
    show_answer("alone", wanted, from);
}

/* ----------------------------------------------------------------------- alone -- */

static void ask(struct traffic_connection *connection, int port, const struct kind_call *call,
                int caller)
{
    enum traffic_step step;
    struct traffic_body *body = connection->body;
    if (connection->descriptor < 0 && !traffic_connection_open(connection, port))
        give_up("no connection", call->path);
    connection->body = body;
    traffic_connection_begin(connection, &call->requests[caller], 0);
    while ((step = traffic_connection_step(connection)) == TRAFFIC_WAITS) {
        const bool is_sent = connection->sent_bytes == call->requests[caller].size;
        struct pollfd wait = { .fd = connection->descriptor,
                               .events = (short)(is_sent ? POLLIN : POLLIN | POLLOUT) };
        if (poll(&wait, 1, WAIT_MS) <= 0)
            break;
    }
    if (step != TRAFFIC_DONE)
        give_up("no answer from an idle daemon", call->path);
    if (connection->closes)
        traffic_connection_close(connection);
}

static struct equal_answer ask_and_keep(struct traffic_connection *connection, int port,
                                        const struct kind_call *call)
{
    ask(connection, port, call, 0);
    struct equal_answer answer = answer_on(connection, 0);
    if ((answer.status >= 400) != call->fails) {
        show_answer(call->path, &answer, 0);
        give_up("this answer of an idle daemon was not expected", call->path);
    }
    answer.body = memcpy(malloc(answer.size + 1), answer.body, answer.size);
    return answer;
}

void equal_ask_alone(int port, const struct kind_calls *kinds, struct equal_answer *answers)
{
    struct traffic_body body = { NULL, 0, 0 };
    struct traffic_connection connection = { .descriptor = -1, .body = &body };
    for (int i = 0; i < kinds->count; i++)
        for (int caller = 0; kinds->calls[i].is_first && caller < KIND_KEYS; caller++)
            ask(&connection, port, &kinds->calls[i], caller);
    for (int i = 0; answers && i < kinds->count; i++)
        if (!kinds->calls[i].is_first)
            answers[i] = ask_and_keep(&connection, port, &kinds->calls[i]);
    if (connection.descriptor >= 0)
        traffic_connection_close(&connection);
    free(body.bytes);
}

void equal_answers_free(struct equal_answer *answers, int count)
{
    for (int i = 0; i < count; i++)
        free(answers[i].body);
}

/* ------------------------------------------------------------------ under load -- */

struct caller {
    struct traffic_connection connection;
    struct traffic_body body;
    bool is_open, is_busy;
    int number, call, left; /* the next call, and how many belong to it, itself too */
    int refusals;           /* of this call */
};

struct run {
    const struct equal_load *load;
    struct equal_counts *counts;
    struct fill fill;
    int epoll, busy_count;
    bool is_ending;
    struct caller callers[KIND_CALLERS];

    /* The phase. */
    int caller_count;
    bool has_bursts, are_alike;
    int centre;        /* the first of the calls that are near */
    int64_t phase_end; /* in answers of this run */
};

static int64_t answered(const struct run *run, const struct equal_counts *before)
{
    return run->counts->answers - before->answers;
}

static void open_connection(struct run *run, struct caller *caller)
{
    struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = caller };
    if (!traffic_connection_open(&caller->connection, run->load->port)
        || epoll_ctl(run->epoll, EPOLL_CTL_ADD, caller->connection.descriptor, &event) != 0)
        give_up(strerror(errno), run->load->name);
    caller->connection.body = &caller->body;
    caller->is_open = true;
}

static void close_connection(struct caller *caller)
{
    if (caller->is_open)
        traffic_connection_close(&caller->connection);
    caller->is_open = false;
}

/* Whether a caller may begin with it. */
static bool begins(const struct kind_call *call)
{
    return !call->goes_on && !call->is_first;
}

static void choose_call(struct run *run, struct caller *caller)
{
    const struct kind_calls *kinds = run->load->kinds;
    do
        caller->call = run->are_alike
                           ? (run->centre + (int)fill_below(&run->fill, NEAR)) % kinds->count
                           : (int)fill_below(&run->fill, kinds->count);
    while (!begins(&kinds->calls[caller->call]));
    caller->left = kinds_length(kinds, caller->call);
}

static void take_answer(struct run *run, struct caller *caller)
{
    const struct kind_call *call = &run->load->kinds->calls[caller->call];
    const struct equal_answer *wanted = &run->load->wanted[caller->call];
    const struct equal_answer own = answer_on(&caller->connection, caller->number);
    if (is_refused(own.status)) {
        run->counts->refused++;
        if (++caller->refusals > REFUSALS_MAX)
            give_up("refused without end", call->path);
        return;
    }
    run->counts->answers++;
    if (!are_equal(&own, wanted) && run->counts->differ++ < SHOWN_MAX)
        show_difference(run->load->name, call, run->caller_count, &own, wanted);
    caller->refusals = 0;
    caller->call++;
    caller->left--;
}

static void handle(struct run *run, struct caller *caller)
{
    const enum traffic_step step = traffic_connection_step(&caller->connection);
    if (step == TRAFFIC_WAITS)
        return;
    caller->is_busy = false;
    run->busy_count--;
    if (step == TRAFFIC_DONE)
        take_answer(run, caller);
    else if (run->is_ending)
        run->counts->unanswered++;
    else
        give_up("the connection ended without an answer",
                run->load->kinds->calls[caller->call].path);
    if (step != TRAFFIC_DONE || caller->connection.closes || fill_below(&run->fill, 64) == 0)
        close_connection(caller);
}

static void begin(struct run *run, struct caller *caller)
{
    if (!caller->is_open)
        open_connection(run, caller);
    if (caller->left == 0)
        choose_call(run, caller);
    caller->is_busy = true;
    run->busy_count++;
    traffic_connection_begin(&caller->connection,
                             &run->load->kinds->calls[caller->call].requests[caller->number], 0);
    handle(run, caller);
}

static void begin_all(struct run *run)
{
    if (run->has_bursts && run->busy_count > 0)
        return;
    for (int i = 0; i < KIND_CALLERS; i++)
        if (!run->callers[i].is_busy && (i < run->caller_count || run->callers[i].left > 0))
            begin(run, &run->callers[i]);
}

static void begin_phase(struct run *run, int64_t done)
{
    static const int COUNTS[] = { 1, 2, 4, 8, 16, 32, 32, 32 };
    if (done < run->phase_end)
        return;
    run->caller_count = COUNTS[fill_below(&run->fill, sizeof COUNTS / sizeof COUNTS[0])];
    run->has_bursts = fill_below(&run->fill, 3) == 0;
    run->are_alike = fill_below(&run->fill, 2) == 0;
    do
        run->centre = (int)fill_below(&run->fill, run->load->kinds->count);
    while (!begins(&run->load->kinds->calls[run->centre]));
    run->phase_end = done + PHASE_ANSWERS;
}

static void wait_for_answers(struct run *run)
{
    struct epoll_event events[KIND_CALLERS];
    const int count = epoll_wait(run->epoll, events, KIND_CALLERS, WAIT_MS);
    if (count == 0)
        give_up("no answer in a minute", run->load->name);
    for (int i = 0; i < count; i++) {
        struct caller *caller = events[i].data.ptr;
        if (caller->is_busy)
            handle(run, caller);
    }
}

void equal_run(const struct equal_load *load, struct equal_counts *counts)
{
    static struct run run;
    const struct equal_counts before = *counts;
    run = (struct run){ .load = load,
                        .counts = counts,
                        .fill = { load->seed },
                        .epoll = epoll_create1(EPOLL_CLOEXEC) };
    for (int i = 0; i < KIND_CALLERS; i++)
        run.callers[i].number = i;
    while (answered(&run, &before) < load->count) {
        begin_phase(&run, answered(&run, &before));
        begin_all(&run);
        if (run.busy_count > 0)
            wait_for_answers(&run);
    }
    run.is_ending = true;
    kill(load->pid, SIGTERM);
    while (run.busy_count > 0)
        wait_for_answers(&run);
    for (int i = 0; i < KIND_CALLERS; i++) {
        close_connection(&run.callers[i]);
        free(run.callers[i].body.bytes);
    }
    close(run.epoll);
}
