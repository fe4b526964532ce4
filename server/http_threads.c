/* http_threads.c - the threads that drive libmicrohttpd.
 *
 * Each connection thread owns one libmicrohttpd daemon a listening address, all
 * sharing the listening sockets, and waits in poll() on their epoll descriptors
 * and on an eventfd that other threads write when they have answered a parked
 * exchange. The library's own epoll threads are not used: they stall when exactly
 * a multiple of 128 connections is ready. */
#include "http_internal.h"

#include "clock.h"
#include "log.h"
#include "memory_budget.h"
#include "metrics.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    CONNECTION_POOL_BYTES = 16384, /* 9 900 idle connections stay under 200 MiB */
    POLL_MS_MAX = 1000,
    RUNS_MAX = 8, /* of libmicrohttpd while it has bytes to read, before others are looked at */
};

/* --------------------------------------------------- what the library calls -- */

/* Paths stay as they were sent: libmicrohttpd would decode %2F into a slash. */
static size_t keep_escapes(void *context, struct MHD_Connection *connection, char *string)
{
    (void)context;
    (void)connection;
    return strlen(string);
}

static void log_library(void *context, const char *format, va_list arguments)
{
    (void)context;
    char message[256];
    vsnprintf(message, sizeof message, format, arguments);
    message[strcspn(message, "\n")] = '\0';
    log_line(LOG_DEBUG, "libmicrohttpd", LOG_STRING("message", message));
}

/* --------------------------------------------------------------- threads -- */

static int poll_timeout_ms(struct http_thread *thread)
{
    uint64_t timeout_ms = POLL_MS_MAX;
    /* Below the limit of connections again, it listens from its next run on. */
    if (thread->closed_some)
        return 0;
    for (int i = 0; i < thread->daemon_count; i++) {
        MHD_UNSIGNED_LONG_LONG daemon_ms;
        if (MHD_get_timeout(thread->daemons[i], &daemon_ms) == MHD_YES && daemon_ms < timeout_ms)
            timeout_ms = daemon_ms;
    }
    return http_gate_ms(thread, http_timers_ms(thread, (int)timeout_ms));
}

/* Runs a daemon, which reads once from each socket; whether it has more to read. */
static bool run_daemon(struct http_thread *thread, struct MHD_Daemon *daemon)
{
    MHD_UNSIGNED_LONG_LONG ms;
    thread->run_count++;
    MHD_run(daemon);
    return thread->read_in == thread->run_count && MHD_get_timeout(daemon, &ms) == MHD_YES
           && ms == 0;
}

/* A large body comes in pieces of half a pool; between two of them nothing else is asked for. */
static void run_daemons(struct http_thread *thread)
{
    for (int i = 0; i < thread->daemon_count; i++) {
        int runs = 1;
        while (run_daemon(thread, thread->daemons[i]) && runs < RUNS_MAX)
            runs++;
    }
}

static void stop_accepting(struct http_thread *thread)
{
    for (int i = 0; i < thread->daemon_count; i++) {
        const int socket = MHD_quiesce_daemon(thread->daemons[i]);
        if (socket >= 0)
            close(socket);
    }
    atomic_fetch_sub(&thread->http->accepting, 1);
}

static void *connection_thread(void *argument)
{
    struct http_thread *thread = argument;
    struct pollfd fds[HTTP_LISTEN_MAX + 2];
    for (int i = 0; i < thread->daemon_count; i++)
        fds[i] = (struct pollfd){ .fd = thread->poll_fds[i], .events = POLLIN };
    fds[thread->daemon_count] = (struct pollfd){ .fd = thread->event, .events = POLLIN };
    fds[thread->daemon_count + 1] = (struct pollfd){ .fd = thread->departures, .events = POLLIN };

    bool accepting = true;
    while (!atomic_load(&thread->http->stopping)) {
        poll(fds, (nfds_t)thread->daemon_count + 2, poll_timeout_ms(thread));
        thread->handled_count = 0;
        uint64_t count;
        if (fds[thread->daemon_count].revents && read(thread->event, &count, sizeof count) < 0)
            log_line(LOG_ERROR, "eventfd", LOG_STRING("reason", strerror(errno)));
        if (accepting && atomic_load(&thread->http->refusing)) {
            stop_accepting(thread);
            accepting = false;
        }
        http_resume_answered(thread);
        if (fds[thread->daemon_count + 1].revents)
            http_see_departures(thread);
        http_gate_run(thread);
        thread->closed_some = false;
        const int64_t began_ns = clock_now_ns();
        run_daemons(thread);
        thread->ran_ns = began_ns;
        http_end_departures(thread);
        http_check_timers(thread);
        memory_budget_trim(clock_now_ns());
    }
    return NULL;
}

static bool start_daemon(struct http_thread *thread, const struct listener *listener)
{
    const struct http_options *options = &thread->http->options;
    const unsigned share = (unsigned)(options->thread_count * options->listen_count);
    const unsigned connections = ((unsigned)options->connections_max + share - 1) / share;
    thread->connections_max = (int)connections;
    const int socket = dup(listener->socket);
    if (socket < 0)
        return false;
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_TURBO | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL,
        http_on_request, thread, MHD_OPTION_EXTERNAL_LOGGER, log_library, NULL,
        MHD_OPTION_LISTEN_SOCKET, socket, MHD_OPTION_CONNECTION_LIMIT, connections,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)options->connections_per_ip_max,
        MHD_OPTION_CONNECTION_TIMEOUT, 0U, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_POOL_BYTES, MHD_OPTION_NOTIFY_COMPLETED, http_on_completed, thread,
        MHD_OPTION_NOTIFY_CONNECTION, http_on_connection, thread, MHD_OPTION_UNESCAPE_CALLBACK,
        keep_escapes, NULL, MHD_OPTION_END);
    if (!daemon) {
        close(socket);
        return false;
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
    thread->daemons[thread->daemon_count] = daemon;
    thread->poll_fds[thread->daemon_count++] = info->epoll_fd;
    return true;
}

static bool start_thread(struct http *http, struct http_thread *thread)
{
    thread->http = http;
    pthread_mutex_init(&thread->mutex, NULL);
    thread->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    thread->departures = epoll_create1(EPOLL_CLOEXEC);
    http->thread_count++;
    if (thread->event < 0 || thread->departures < 0)
        return false;
    for (int i = 0; i < http->options.listen_count; i++)
        if (!start_daemon(thread, &http->listeners[i]))
            return false;
    atomic_fetch_add(&http->accepting, 1);
    if (pthread_create(&thread->thread, NULL, connection_thread, thread) == 0)
        return true;
    atomic_fetch_sub(&http->accepting, 1);
    return false;
}

static void wake_threads(struct http *http, int thread_count)
{
    const uint64_t one = 1;
    for (int i = 0; i < thread_count; i++)
        if (write(http->threads[i].event, &one, sizeof one) < 0)
            log_line(LOG_ERROR, "eventfd", LOG_STRING("reason", strerror(errno)));
}

/* Ends everything, of which the first running_count threads run. */
static void destroy(struct http *http, int running_count)
{
    atomic_store(&http->stopping, true);
    wake_threads(http, running_count);
    for (int i = 0; i < running_count; i++)
        pthread_join(http->threads[i].thread, NULL);
    for (int i = 0; i < http->thread_count; i++) {
        struct http_thread *thread = &http->threads[i];
        http_gate_end(thread);
        for (int k = 0; k < thread->daemon_count; k++)
            MHD_stop_daemon(thread->daemons[k]);
        if (thread->event >= 0)
            close(thread->event);
        if (thread->departures >= 0)
            close(thread->departures);
        pthread_mutex_destroy(&thread->mutex);
    }
    for (int i = 0; i < http->options.listen_count; i++)
        listener_close(&http->listeners[i]);
    if (http->no_memory)
        MHD_destroy_response(http->no_memory);
    free(http);
}

static bool start(struct http *http, int *running_count, struct fault *fault)
{
    static const char body[] = "{\"error\":\"there is not enough memory\",\"code\":\"memory\"}\n";
    http->no_memory =
        MHD_create_response_from_buffer(sizeof body - 1, (void *)body, MHD_RESPMEM_PERSISTENT);
    if (!http->no_memory)
        return fault_no_memory(fault);
    MHD_add_response_header(http->no_memory, "Content-Type", "application/json");
    MHD_add_response_header(http->no_memory, "Retry-After", "1");
    for (int i = 0; i < http->options.listen_count; i++)
        if (!listener_open(&http->listeners[i], http->options.listen[i], fault))
            return false;
    for (; *running_count < http->options.thread_count; (*running_count)++)
        if (!start_thread(http, &http->threads[*running_count]))
            return fault_set(fault, FAULT_MEMORY, "a connection thread cannot be started: %s",
                             strerror(errno));
    for (int i = 0; i < http->options.listen_count; i++)
        log_line(LOG_INFO, "listening", LOG_STRING("address", http->listeners[i].address));
    return true;
}

bool http_create(struct http **http, const struct http_options *options, struct fault *fault)
{
    assert(options->listen_count <= HTTP_LISTEN_MAX);
    struct http *made =
        calloc(1, sizeof *made + (size_t)options->thread_count * sizeof made->threads[0]);
    if (!made)
        return fault_no_memory(fault);
    made->options = *options;
    for (int i = 0; i < HTTP_LISTEN_MAX; i++)
        made->listeners[i].socket = -1;
    int running_count = 0;
    if (!start(made, &running_count, fault)) {
        destroy(made, running_count);
        return false;
    }
    *http = made;
    return true;
}

void http_end_connections(struct http *http)
{
    atomic_store(&http->ending, true);
}

void http_stop_accepting(struct http *http)
{
    for (int i = 0; i < http->options.listen_count; i++)
        listener_close(&http->listeners[i]);
    atomic_store(&http->refusing, true);
    wake_threads(http, http->thread_count);
    while (atomic_load(&http->accepting) > 0)
        poll(NULL, 0, 1);
}

int64_t http_active_count(const struct http *http)
{
    return atomic_load(&http->active_count);
}

void http_free(struct http *http)
{
    if (http)
        destroy(http, http->thread_count);
}
