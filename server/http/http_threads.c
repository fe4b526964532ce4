/* SPDX-License-Identifier: Apache-2.0 */
/* http_threads.c - the threads that drive libmicrohttpd.
 *
 * Each connection thread owns one daemon of libmicrohttpd, which has no listening socket
 * (http_accept.c), or two where some connections are TLS and others are not. The thread waits in
 * poll() on the epoll descriptors of its daemons, and on an eventfd that other threads write to
 * when they have answered a parked exchange or brought a connection. The library's own epoll
 * threads are not used, because they stall when exactly a multiple of 128 connections is ready. */
#include "http/http_internal.h"
#include "http/http_tls_bytes.h"

#include "base/clock.h"
#include "base/memory_budget.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

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
    TURN_MS = 10, /* a thread whose turns take longer is busy */
    POLL_MS_MAX = 1000,
    RUNS_MAX = 8, /* of libmicrohttpd in one turn, while it has bodies to read */
};

/* MHD_USE_NO_THREAD_SAFETY of libmicrohttpd 0.9.77 and newer, which the headers of 0.9.75 lack: one
 * thread alone uses the daemon. Without it the newer library takes a connection not when it is
 * given, but in a later run. */
enum { USE_NO_THREAD_SAFETY = 1 << 19 };

/* --------------------------------------------------- what the library calls -- */

/* Leaves a path as it was sent: libmicrohttpd would decode %2F into a slash. */
static size_t keep_escapes(void *context, struct MHD_Connection *connection, char *string)
{
    (void)connection;
    ((struct http_thread *)context)->call_count++;
    return strlen(string);
}

static void log_library(void *context, const char *format, va_list arguments)
{
    (void)context;
    char message[256];
    if (!log_enabled(LOG_DEBUG))
        return;
    vsnprintf(message, sizeof message, format, arguments);
    message[strcspn(message, "\n")] = '\0';
    if (strstr(message, "TCP_") || strstr(message, "push the data"))
        return; /* said with every answer on a Unix socket, which has neither option nor need of it
                 */
    log_line(LOG_DEBUG, "libmicrohttpd", LOG_STRING("message", message));
}

/* --------------------------------------------------------------- threads -- */

static int poll_timeout_ms(struct http_thread *thread)
{
    int timeout_ms = POLL_MS_MAX;
    MHD_UNSIGNED_LONG_LONG daemon_ms;
    for (int i = 0; i < thread->library_count; i++)
        if (MHD_get_timeout(thread->libraries[i].daemon, &daemon_ms) == MHD_YES
            && daemon_ms < (MHD_UNSIGNED_LONG_LONG)timeout_ms)
            timeout_ms = (int)daemon_ms;
    timeout_ms = http_chunk_line_ms(thread, timeout_ms);
    if (thread == &thread->http->threads[0])
        timeout_ms = http_accept_ms(thread->http, timeout_ms);
    timeout_ms = http_tls_ms(thread, http_linger_ms(thread, timeout_ms));
    timeout_ms = http_refusals_ms(thread, timeout_ms);
    return http_body_queue_ms(thread, http_timers_ms(thread, timeout_ms));
}

/* Whether a daemon has more to do at once. */
static bool has_more(const struct http_thread *thread)
{
    MHD_UNSIGNED_LONG_LONG ms;
    for (int i = 0; i < thread->library_count; i++)
        if (MHD_get_timeout(thread->libraries[i].daemon, &ms) == MHD_YES && ms == 0)
            return true;
    return false;
}

/* Runs the daemons, which read once from each socket. True: they have read of a body and have more
 * to read. */
static bool run_once(struct http_thread *thread)
{
    const unsigned calls = thread->call_count;
    thread->run_count++;
    for (int i = 0; i < thread->library_count; i++)
        MHD_run(thread->libraries[i].daemon);
    http_chunk_line_run(thread, thread->call_count != calls);
    return thread->read_in == thread->run_count && has_more(thread);
}

/* Runs the daemons again at once while bodies come: a run reads at most half a pool of a long body,
 * and between two such pieces the thread need not look at anything else. */
static void run_daemons(struct http_thread *thread)
{
    for (int runs = 1; run_once(thread) && runs < RUNS_MAX; runs++)
        ;
}

/* The descriptors that a thread waits on: two of its own, those of its daemons, and the listening
 * sockets, which only the first thread has. */
enum { WATCH_EVENT, WATCH_DEPARTURES, WATCH_LIBRARIES };

struct http_watch {
    struct pollfd fds[WATCH_LIBRARIES + HTTP_LIBRARIES_MAX + LISTENERS_MAX];
    nfds_t listeners; /* where the listening sockets begin */
    nfds_t count;
};

static void watch_add(struct http_watch *watch, int descriptor)
{
    watch->fds[watch->count++] = (struct pollfd){ .fd = descriptor, .events = POLLIN };
}

static void watch_begin(struct http_watch *watch, const struct http_thread *thread)
{
    const struct http *http = thread->http;
    watch->count = 0;
    watch_add(watch, thread->event);
    watch_add(watch, thread->disconnects);
    for (int i = 0; i < thread->library_count; i++)
        watch_add(watch, thread->libraries[i].poll_fd);
    watch->listeners = watch->count;
    for (int i = 0; thread == &http->threads[0] && i < http->listener_count; i++)
        watch_add(watch, http->listeners[i].socket);
}

/* Whether the thread waits for connections. */
static bool watches_listeners(const struct http_watch *watch, const struct http *http)
{
    return watch->count > watch->listeners && http_may_accept(http);
}

static void wait_for_any(struct http_watch *watch, struct http_thread *thread)
{
    const bool listens = watches_listeners(watch, thread->http);
    watch->fds[WATCH_EVENT].revents = watch->fds[WATCH_DEPARTURES].revents = 0;
    for (nfds_t i = watch->listeners; i < watch->count; i++)
        watch->fds[i].revents = 0;
    poll(watch->fds, listens ? watch->count : watch->listeners, poll_timeout_ms(thread));
}

/* Connections that libmicrohttpd has been told of in this run are not seen. */
bool exchange_thread_is_wanted(const struct exchange *exchange)
{
    struct http_watch *watch = exchange->thread->watch;
    const bool listens = watches_listeners(watch, exchange->thread->http);
    return poll(watch->fds, listens ? watch->count : watch->listeners, 0) > 0;
}

/* A Unix socket that lets no more clients connect is always ready to be read. So poll() leaves it
 * out, and http_accept_ms() says when to look again. */
static void watch_end_unix(struct http_watch *watch, const struct http *http)
{
    for (nfds_t i = watch->listeners; i < watch->count; i++)
        if (http->listeners[i - watch->listeners].is_unix)
            watch->fds[i].fd = -1;
}

static void accept_all(struct http_watch *watch, struct http *http)
{
    if (watch->count > watch->listeners && atomic_load(&http->draining_since_ns)) {
        if (http_accept_last(http))
            watch->count = watch->listeners;
        watch_end_unix(watch, http);
        return;
    }
    for (nfds_t i = watch->listeners; i < watch->count; i++)
        if (watch->fds[i].revents)
            http_accept(http, &http->listeners[i - watch->listeners]);
}

/* Notes whether the thread is busy: after two long turns in a row, because the system may have
 * delayed one. */
static void note_turn(struct http_thread *thread, int64_t turn_ns)
{
    const bool is_long = turn_ns > TURN_MS * INT64_C(1000000);
    atomic_store_explicit(&thread->is_busy, is_long && thread->turn_was_long, memory_order_relaxed);
    thread->turn_was_long = is_long;
}

static void refuse_expired(struct http_thread *thread)
{
    for (struct exchange *expired; (expired = http_body_queue_expire(thread));)
        http_refusals_take(expired);
}

static void *connection_thread(void *argument)
{
    struct http_thread *thread = argument;
    struct http_watch watch;
    watch_begin(&watch, thread);
    thread->watch = &watch;
    while (!atomic_load(&thread->http->stopping)) {
        uint64_t count;
        wait_for_any(&watch, thread);
        thread->handled_count = 0;
        thread->turn_cost_ns = 0;
        if (watch.fds[WATCH_EVENT].revents) {
            if (read(thread->event, &count, sizeof count) < 0)
                log_line(LOG_ERROR, "eventfd", LOG_STRING("reason", strerror(errno)));
            http_take_arrivals(thread);
        }
        accept_all(&watch, thread->http);
        http_resume_answered(thread);
        if (watch.fds[WATCH_DEPARTURES].revents)
            http_see_disconnects(thread);
        refuse_expired(thread);
        http_body_queue_run(thread);
        http_refusals_run(thread);
        const int64_t began_ns = clock_now_ns();
        http_tls_run(thread);
        run_daemons(thread);
        http_tls_ran(thread);
        http_tls_bytes_ran(thread->tls_bytes);
        thread->ran_ns = began_ns;
        http_end_disconnects(thread);
        http_check_timers(thread);
        const int64_t ended_ns = clock_now_ns();
        note_turn(thread, ended_ns - began_ns);
        memory_budget_trim(ended_ns);
    }
    return NULL;
}

/* The first thread, which accepts connections, keeps the bound on connections for all daemons.
 * MHD_USE_TURBO leaves out the message by which a TLS client knows that an answer is whole. */
static bool start_daemon(struct http_thread *thread, bool is_tls)
{
    const unsigned one_thread = thread->http->parses_in_place ? 0 : USE_NO_THREAD_SAFETY;
    const struct http_options *options = &thread->http->options;
    struct http_library *library = &thread->libraries[thread->library_count];
    static const struct MHD_OptionItem none[] = { { MHD_OPTION_END, 0, NULL } };
    library->is_tls = is_tls;
    library->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | (is_tls ? MHD_USE_TLS : MHD_USE_TURBO) | MHD_ALLOW_SUSPEND_RESUME
            | MHD_USE_ERROR_LOG | MHD_USE_NO_LISTEN_SOCKET | one_thread,
        0, NULL, NULL, http_on_request, thread, MHD_OPTION_EXTERNAL_LOGGER, log_library, NULL,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)options->connections_max,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)options->connections_per_ip_max,
        MHD_OPTION_CONNECTION_TIMEOUT, 0U, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)HTTP_POOL_BYTES, MHD_OPTION_NOTIFY_COMPLETED, http_on_completed, thread,
        MHD_OPTION_NOTIFY_CONNECTION, http_on_connection, thread, MHD_OPTION_UNESCAPE_CALLBACK,
        keep_escapes, thread, MHD_OPTION_URI_LOG_CALLBACK, http_on_target, thread,
#if MHD_VERSION >= 0x00097601
        MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1,
#endif
        MHD_OPTION_ARRAY, is_tls ? HTTP_TLS_OPTIONS : none, MHD_OPTION_END);
    if (!library->daemon)
        return false;
    library->poll_fd = MHD_get_daemon_info(library->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    thread->library_count++;
    return true;
}

/* Starts a daemon for plain connections and one for TLS, as far as there are listeners for it. */
static bool start_daemons(struct http_thread *thread)
{
    const struct http *http = thread->http;
    bool is_needed[HTTP_LIBRARIES_MAX] = { false };
    for (int i = 0; i < http->listener_count; i++)
        is_needed[http_is_tls(http, &http->listeners[i])] = true;
    for (int i = 0; i < HTTP_LIBRARIES_MAX; i++)
        if (is_needed[i] && !start_daemon(thread, i == true))
            return false;
    return true;
}

static void init_thread(struct http *http, struct http_thread *thread)
{
    thread->http = http;
    thread->event = thread->disconnects = -1;
    atomic_store(&thread->idle_first_ns, INT64_MAX);
    pthread_mutex_init(&thread->mutex, NULL);
}

/* Makes all that a thread needs before any thread runs: the first one may bring it connections. */
static bool prepare_thread(struct http_thread *thread)
{
    thread->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    thread->disconnects = epoll_create1(EPOLL_CLOEXEC);
    if (thread->http->has_tls && !(thread->tls_bytes = http_tls_bytes_create()))
        return false;
    return thread->event >= 0 && thread->disconnects >= 0 && start_daemons(thread);
}

static bool start_threads(struct http *http, int *running_count)
{
    for (int i = 0; i < http->thread_count; i++)
        if (!prepare_thread(&http->threads[i]))
            return false;
    for (; *running_count < http->thread_count; (*running_count)++) {
        struct http_thread *thread = &http->threads[*running_count];
        if (pthread_create(&thread->thread, NULL, connection_thread, thread) != 0)
            return false;
    }
    return true;
}

/* Ends and frees everything; the first running_count threads run. */
static void destroy(struct http *http, int running_count)
{
    atomic_store(&http->stopping, true);
    for (int i = 0; i < running_count; i++)
        http_wake(&http->threads[i]);
    for (int i = 0; i < running_count; i++)
        pthread_join(http->threads[i].thread, NULL);
    for (int i = 0; i < http->thread_count; i++) {
        struct http_thread *thread = &http->threads[i];
        http_body_queue_end(thread);
        http_refusals_end(thread);
        http_tls_end(thread);
        for (int j = 0; j < thread->library_count; j++)
            MHD_stop_daemon(thread->libraries[j].daemon);
        http_linger_end(thread);
        http_tls_bytes_free(thread->tls_bytes);
        http_drop_arrivals(thread);
        if (thread->event >= 0)
            close(thread->event);
        if (thread->disconnects >= 0)
            close(thread->disconnects);
        pthread_mutex_destroy(&thread->mutex);
    }
    for (int i = 0; i < http->listener_count; i++)
        listener_close(&http->listeners[i]);
    http_tls_free(http);
    if (http->no_memory)
        MHD_destroy_response(http->no_memory);
    free(http);
}

static void log_listening(const struct http *http, const struct listener *listener)
{
    struct log_field fields[3] = { LOG_STRING("address", listener->address) };
    size_t count = 1;
    if (http_is_tls(http, listener))
        fields[count++] = LOG_STRING("scheme", "https");
    if (listener->is_operators)
        fields[count++] = LOG_STRING("for", "operators");
    log_event(LOG_INFO, "listening", fields, count);
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
    MHD_add_response_header(http->no_memory, "Attnd-Replica", http->options.replica);
    if (!http_tls_init(http, fault))
        return false;
    if (!start_threads(http, running_count))
        return fault_set(fault, FAULT_MEMORY, "a connection thread cannot be started: %s",
                         strerror(errno));
    for (int i = 0; i < http->listener_count; i++)
        log_listening(http, &http->listeners[i]);
    return true;
}

bool http_create(struct http **http, const struct http_options *options, struct fault *fault)
{
    struct http *made =
        calloc(1, sizeof *made + (size_t)options->thread_count * sizeof made->threads[0]);
    if (!made)
        return fault_no_memory(fault);
    made->options = *options;
    made->listener_count = options->listeners->count;
    for (int i = 0; i < made->listener_count; i++)
        made->listeners[i] = options->listeners->all[i];
    options->listeners->count = 0;
    atomic_store(&made->accepting, true);
    made->thread_count = options->thread_count;
    made->parses_in_place = strcmp(MHD_get_version(), "0.9.75") == 0;
    for (int i = 0; i < made->thread_count; i++)
        init_thread(made, &made->threads[i]);
    int running_count = 0;
    if (!start(made, &running_count, fault)) {
        destroy(made, running_count);
        return false;
    }
    *http = made;
    return true;
}

void http_free(struct http *http)
{
    if (http)
        destroy(http, http->thread_count);
}
