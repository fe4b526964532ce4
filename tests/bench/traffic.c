/* SPDX-License-Identifier: Apache-2.0 */
/* traffic.c - see traffic.h.
 *
 * Connections that have a request are in a list, in the order of their intended times, so that
 * the longest waiting one is at its head. Idle connections are a stack, so that as few as
 * possible are used. A closed connection is opened again when it is needed. If an open loop has
 * as many connections as it may, arrivals wait for one in a ring, and their wait is part of
 * their latency. */
#include "traffic.h"

#include "base/clock.h"
#include "traffic_connection.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS_MAX = 64, BACKLOG_MAX = 1 << 17 };

static const double PATIENCE_S = 60; /* without a deadline */

struct arrival {
    int64_t intended_ns;
    const struct traffic_request *request;
};

struct run {
    const struct traffic_load *load;
    struct traffic_result *result;
    int epoll;
    struct traffic_connection *connections;
    struct traffic_connection **idle, **closed; /* stacks */
    LIST_OF(struct traffic_connection) busy;    /* with a request */
    int idle_count, closed_count;
    int begun;               /* callers of a closed loop */
    struct arrival *backlog; /* a ring */
    unsigned backlog_first, backlog_end;
    int64_t start_ns, counted_from_ns, end_ns, patience_ns, next_arrival_ns;
    double weight_sum;
    uint64_t random;
};

static void *memory(size_t count, size_t bytes)
{
    void *made = calloc(count, bytes);
    if (!made) {
        fprintf(stderr, "no memory for the load\n");
        exit(1);
    }
    return made;
}

/* Uniform in (0, 1]; splitmix64. */
static double uniform(struct run *run)
{
    uint64_t x = run->random += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    return (double)((x >> 11) + 1) * 0x1p-53;
}

static const struct traffic_request *choose(struct run *run)
{
    const struct traffic_load *load = run->load;
    double at = uniform(run) * run->weight_sum;
    int i = 0;
    while (i < load->request_count - 1 && (at -= load->requests[i].weight) > 0)
        i++;
    return &load->requests[i];
}

/* The number of an arrival's slice; the last one has all later ones too. */
static int slice_of(const struct run *run, int64_t intended_ns)
{
    const double slice = (double)(intended_ns - run->counted_from_ns) / 1e9 / TRAFFIC_SLICE_S;
    return slice < TRAFFIC_SLICES_MAX - 1 ? (int)slice : TRAFFIC_SLICES_MAX - 1;
}

static double rate_at(const struct run *run, int64_t now_ns)
{
    const struct traffic_load *load = run->load;
    const double at_s = (double)(now_ns - run->counted_from_ns) / 1e9 - load->burst_at_s;
    return load->burst_rate > 0 && at_s >= 0 && at_s < load->burst_s ? load->burst_rate
                                                                     : load->rate;
}

static bool is_counted(const struct run *run, int64_t intended_ns)
{
    return intended_ns >= run->counted_from_ns && intended_ns < run->end_ns;
}

/* ------------------------------------------------------------ connections -- */

static void connect_to(struct run *run, struct traffic_connection *connection)
{
    struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                 .data.ptr = connection };
    const struct traffic_place place = { run->load->port, run->load->unix_path, run->load->is_tls };
    if (!traffic_connection_open_at(connection, &place)
        || epoll_ctl(run->epoll, EPOLL_CTL_ADD, connection->descriptor, &event) != 0) {
        perror("a connection to the server");
        exit(1);
    }
}

/* Returns a connection that has no request, or NULL. */
static struct traffic_connection *free_connection(struct run *run)
{
    if (run->idle_count > 0)
        return run->idle[--run->idle_count];
    if (run->closed_count == 0)
        return NULL;
    struct traffic_connection *connection = run->closed[--run->closed_count];
    connect_to(run, connection);
    return connection;
}

static void handle(struct run *run, struct traffic_connection *connection);

static void begin(struct run *run, struct traffic_connection *connection,
                  const struct arrival *arrival)
{
    const int64_t now_ns = clock_now_ns();
    if (is_counted(run, arrival->intended_ns))
        traffic_samples_add(&run->result->late_ms, (double)(now_ns - arrival->intended_ns) / 1e6);
    traffic_connection_begin(connection, arrival->request, arrival->intended_ns);
    LIST_APPEND(&run->busy, connection, in_busy);
    handle(run, connection);
}

/* Takes the arrival that has waited longest for a connection; false: there is none. */
static bool backlog_take(struct run *run, struct arrival *arrival)
{
    while (run->backlog_first != run->backlog_end) {
        *arrival = run->backlog[run->backlog_first++ % BACKLOG_MAX];
        if (clock_now_ns() - arrival->intended_ns < run->patience_ns)
            return true;
        run->result->unsent += is_counted(run, arrival->intended_ns);
    }
    return false;
}

static void arrive(struct run *run, int64_t intended_ns)
{
    const struct arrival arrival = { intended_ns, choose(run) };
    run->result->arrived += is_counted(run, intended_ns);
    if (is_counted(run, intended_ns))
        run->result->arrived_in[slice_of(run, intended_ns)]++;
    struct traffic_connection *connection = free_connection(run);
    if (connection)
        begin(run, connection, &arrival);
    else if (run->backlog_end - run->backlog_first < BACKLOG_MAX)
        run->backlog[run->backlog_end++ % BACKLOG_MAX] = arrival;
    else
        run->result->unsent += is_counted(run, intended_ns);
}

/* The connection's request is over: the connection takes another request, or rests. */
static void go_on(struct run *run, struct traffic_connection *connection, bool is_open)
{
    struct arrival arrival;
    connection->request = NULL;
    if (is_open) {
        run->idle[run->idle_count++] = connection;
    } else {
        traffic_connection_close(connection);
        run->closed[run->closed_count++] = connection;
    }
    if (run->load->rate > 0 && backlog_take(run, &arrival))
        begin(run, free_connection(run), &arrival);
}

/* ---------------------------------------------------------------- answers -- */

static void count_answer(struct run *run, const struct traffic_connection *connection)
{
    struct traffic_result *result = run->result;
    const double seconds = (double)(clock_now_ns() - connection->intended_ns) / 1e9;
    result->answered++;
    if (!is_counted(run, connection->intended_ns))
        return;
    result->statuses[connection->status]++;
    if (connection->status != 200)
        return;
    if (run->load->deadline_s <= 0 || seconds <= run->load->deadline_s) {
        result->good++;
        result->good_in[slice_of(run, connection->intended_ns)]++;
        result->good_bytes += (double)connection->request->size;
    }
    traffic_samples_add(&result->latency_ms, seconds * 1e3);
    const double compute_ms = traffic_connection_timing(connection, "compute");
    if (compute_ms >= 0)
        traffic_samples_add(&result->compute_ms, compute_ms);
}

static void handle(struct run *run, struct traffic_connection *connection)
{
    const enum traffic_step step = traffic_connection_step(connection);
    if (step == TRAFFIC_WAITS)
        return;
    LIST_TAKE_OUT(&run->busy, connection, in_busy);
    if (step == TRAFFIC_DONE)
        count_answer(run, connection);
    else
        run->result->broken += is_counted(run, connection->intended_ns);
    go_on(run, connection, step == TRAFFIC_DONE && !connection->closes);
}

static void abandon_late(struct run *run, int64_t now_ns)
{
    while (run->busy.first && now_ns - run->busy.first->intended_ns >= run->patience_ns) {
        struct traffic_connection *connection = run->busy.first;
        run->result->abandoned += is_counted(run, connection->intended_ns);
        LIST_TAKE_OUT(&run->busy, connection, in_busy);
        go_on(run, connection, false);
    }
}

/* ------------------------------------------------------------------- loop -- */

/* When a caller of a closed loop sends its first request: one after the other in the first half of
 * the warm-up. Where the workers of a server accept from one socket, the first that wakes would
 * take all connections that come at once, and the others had none. */
static int64_t first_call_ns(const struct run *run, int caller)
{
    return run->start_ns + (run->counted_from_ns - run->start_ns) / 2 * caller / run->load->callers;
}

static void call_again(struct run *run, int64_t now_ns)
{
    while (run->begun < run->load->callers && first_call_ns(run, run->begun) <= now_ns)
        run->begun++;
    const int waiting = run->load->callers - run->begun;
    for (int count = run->idle_count + run->closed_count - waiting; count > 0; count--)
        arrive(run, now_ns);
}

static void arrivals(struct run *run, int64_t now_ns)
{
    const struct traffic_load *load = run->load;
    if (load->rate <= 0) {
        if (now_ns < run->end_ns)
            call_again(run, now_ns);
        return;
    }
    for (int i = 0; i < EVENTS_MAX && run->next_arrival_ns <= now_ns; i++) {
        if (run->next_arrival_ns < run->end_ns)
            arrive(run, run->next_arrival_ns);
        run->next_arrival_ns += (int64_t)(-log(uniform(run)) / rate_at(run, now_ns) * 1e9);
    }
}

static void wait_for_sockets(struct run *run)
{
    struct epoll_event events[EVENTS_MAX];
    int64_t until_ns = run->end_ns;
    if (run->load->rate > 0 && run->next_arrival_ns < until_ns)
        until_ns = run->next_arrival_ns;
    if (run->load->rate <= 0 && run->begun < run->load->callers
        && first_call_ns(run, run->begun) < until_ns)
        until_ns = first_call_ns(run, run->begun);
    if (run->busy.first && run->busy.first->intended_ns + run->patience_ns < until_ns)
        until_ns = run->busy.first->intended_ns + run->patience_ns;
    int64_t left_ns = until_ns - clock_now_ns();
    if (left_ns < 0)
        left_ns = clock_now_ns() < run->end_ns ? 0 : 1000000;
    const struct timespec left = { .tv_sec = (time_t)(left_ns / 1000000000),
                                   .tv_nsec = (long)(left_ns % 1000000000) };
    const int count = run->load->spins ? epoll_wait(run->epoll, events, EVENTS_MAX, 0)
                                       : epoll_pwait2(run->epoll, events, EVENTS_MAX, &left, NULL);
    for (int i = 0; i < count; i++) {
        struct traffic_connection *connection = events[i].data.ptr;
        if (connection->request)
            handle(run, connection);
    }
}

static double own_cpu_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void allow_connections(int count)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < (rlim_t)count + 64) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static void run_init(struct run *run, const struct traffic_load *load,
                     struct traffic_result *result)
{
    const int64_t now_ns = clock_now_ns();
    const int64_t counted_ns = (int64_t)(load->seconds * 1e9);
    *run = (struct run){ .load = load, .result = result, .random = 42 };
    allow_connections(load->callers);
    run->connections = memory((size_t)load->callers, sizeof *run->connections);
    run->idle = memory((size_t)load->callers, sizeof(struct traffic_connection *));
    run->closed = memory((size_t)load->callers, sizeof(struct traffic_connection *));
    for (run->closed_count = 0; run->closed_count < load->callers; run->closed_count++)
        run->closed[run->closed_count] = &run->connections[run->closed_count];
    run->backlog = memory(BACKLOG_MAX, sizeof *run->backlog);
    run->epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < load->request_count; i++)
        run->weight_sum += load->requests[i].weight;
    run->start_ns = now_ns;
    run->counted_from_ns = now_ns + counted_ns / 5;
    run->end_ns = run->counted_from_ns + counted_ns;
    run->patience_ns = (int64_t)(2e9 * (load->deadline_s > 0 ? load->deadline_s : PATIENCE_S));
    run->next_arrival_ns = now_ns;
}

void traffic_run(const struct traffic_load *load, struct traffic_result *result)
{
    struct run run;
    struct arrival arrival;
    *result = (struct traffic_result){ .seconds = load->seconds };
    run_init(&run, load, result);
    const int64_t start_ns = clock_now_ns();
    const double start_cpu_s = own_cpu_s();
    while (run.busy.first || clock_now_ns() < run.end_ns) {
        const int64_t now_ns = clock_now_ns();
        arrivals(&run, now_ns);
        abandon_late(&run, now_ns);
        wait_for_sockets(&run);
    }
    while (backlog_take(&run, &arrival))
        result->unsent += is_counted(&run, arrival.intended_ns);
    result->elapsed_s = (double)(clock_now_ns() - start_ns) / 1e9;
    result->cpu_s = own_cpu_s() - start_cpu_s;
    while (run.idle_count > 0)
        traffic_connection_close(run.idle[--run.idle_count]);
    close(run.epoll);
    free(run.connections);
    free((void *)run.idle);
    free((void *)run.closed);
    free(run.backlog);
}

void traffic_result_free(struct traffic_result *result)
{
    traffic_samples_free(&result->latency_ms);
    traffic_samples_free(&result->compute_ms);
    traffic_samples_free(&result->late_ms);
}

/* -------------------------------------------------------------------- try -- */

void traffic_try(int port, const struct traffic_request *requests, int request_count)
{
    struct traffic_connection connection;
    for (int i = 0; i < request_count; i++) {
        enum traffic_step step = TRAFFIC_BROKEN;
        int count;
        if (traffic_connection_open(&connection, port)) {
            traffic_connection_begin(&connection, &requests[i], 0);
            while ((step = traffic_connection_step(&connection)) == TRAFFIC_WAITS) {
                const bool is_sent = connection.sent_bytes == requests[i].size;
                struct pollfd poll_for = { .fd = connection.descriptor,
                                           .events = is_sent ? POLLIN : POLLIN | POLLOUT };
                if (poll(&poll_for, 1, (int)(PATIENCE_S * 1e3)) <= 0)
                    break;
            }
            traffic_connection_close(&connection);
        }
        if (step == TRAFFIC_DONE && connection.status == 200)
            continue;
        const char *bytes = traffic_connection_last_bytes(&count);
        fprintf(stderr, "a request of the load got no 200:\n%.*s\n%.*s\n",
                (int)strcspn(requests[i].bytes, "\r"), requests[i].bytes, count, bytes);
        exit(1);
    }
}
