/* http_internal.h - what http.c (one request), http_accept.c, http_gate.c, http_send.c,
 * http_departures.c, http_drain.c, http_timers.c and http_threads.c (the threads that drive
 * libmicrohttpd) share. They alone include microhttpd.h. */
#ifndef ATTND_HTTP_INTERNAL_H
#define ATTND_HTTP_INTERNAL_H

#include "http/exchange.h"
#include "http/listener.h"

#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    HTTP_LISTEN_MAX = 8,            /* addresses as they are typed */
    HTTP_TIMER_MS = 10,             /* how late a deadline may be noticed */
    HTTP_POOL_BYTES = 16384,        /* of a connection; 9 900 idle ones stay under 200 MiB */
    HTTP_DROPPED_BYTES = 64 * 1024, /* of a refused client, where no body is on its way */
};

/* What a thread's second set of descriptors watches; the first member of each. */
enum http_watched { HTTP_WATCHED_CONNECTION, HTTP_WATCHED_LINGER };

/* libmicrohttpd's context of a connection. */
struct http_connection {
    enum http_watched watched;
    int socket;
    struct MHD_Connection *library;
    struct exchange *exchange;                    /* the one that is under way, or NULL */
    bool left;                                    /* the client has closed its end */
    LIST_LINK(struct http_connection) in_leaving; /* and that is still to be acted upon */
    bool closing;                                 /* by us */
    size_t window_bytes; /* of a body, for which its window was opened; 0: the kernel's own */
    bool served;         /* it has had a request */
    uint64_t
        dropped_max;     /* bytes of a request that is not all read, for which its end would wait */
    bool shut;           /* both its ends are, and nobody is to be waited for */
    const char *target;  /* of the request that comes, as it lies in the pool */
    size_t target_size;  /* up to its first NUL */
    bool target_is_word; /* it has no character that a target may not have */
    char client[INET6_ADDRSTRLEN];
    uint32_t peer; /* peer.h */
    LIST_LINK(struct http_connection) in_idle;
    int64_t idle_since_ns;
};

struct http_arrival; /* a connection on its way to its thread */
struct http_linger;  /* one that has ended, and whose client still sends */

/* Exchanges in the order in which they came. */
struct http_queue {
    LIST_OF(struct exchange) list;
    int count;
    size_t bytes; /* announced */
};

/* Long bodies of one thread. */
struct http_gate {
    struct http_queue waiting; /* for their turn, suspended */
    struct http_queue reading;
    bool called; /* one or more, who are to go on with the next run */
};

struct http_thread {
    struct http *http;
    pthread_t thread;
    int event; /* eventfd */
    struct MHD_Daemon *daemon;
    int poll_fd;                          /* the daemon's */
    _Atomic int open_count;               /* connections */
    _Atomic int arriving_count;           /* and those that are to be this thread's */
    _Atomic int closing_count;            /* of the open ones, told to close */
    LIST_OF(struct http_connection) idle; /* without a request, the longest idle first */
    _Atomic int64_t idle_first_ns;        /* since when the first is; INT64_MAX: there is none */
    LIST_OF(struct exchange) waiting;     /* reading, parked or sending */
    int64_t timers_checked_ns;
    _Atomic bool is_busy; /* its last two turns were long */
    bool turn_was_long;
    int64_t ran_ns; /* when it last began to look for what had come */
    struct http_gate gate;
    int handled_count;           /* requests since it last waited */
    unsigned run_count, read_in; /* runs of libmicrohttpd; the last one that read of a body */
    unsigned call_count;         /* calls that libmicrohttpd has made */
    unsigned idle_runs;          /* in which it made none, and wanted to be run at once again */
    bool ran_idle;               /* the last time */
    LIST_OF(struct http_connection) leaving;
    LIST_OF(struct http_linger) lingering;
    int departures; /* epoll of clients that have closed their end */

    pthread_mutex_t mutex;
    struct exchange *answered; /* under mutex, as the next */
    struct http_arrival *arrivals;
};

struct http {
    struct http_options options;
    struct listener listeners[HTTP_LISTEN_MAX * LISTENERS_OF_ONE];
    int listener_count;
    struct MHD_Response *no_memory;
    _Atomic int64_t active_count;
    _Atomic int64_t coming_count, coming_cost_ns; /* of bodies at the gates */
    _Atomic bool ending;                          /* the connection of each answer */
    _Atomic int64_t draining_since_ns;            /* 0: connections are taken as ever */
    _Atomic bool refusing;                        /* new requests get 503 */
    _Atomic bool accepting; /* the first thread, the only one that does, has not stopped yet */
    _Atomic bool stopping;
    int64_t accepts_again_ns;  /* that thread's; 0: nothing keeps it from doing so */
    int64_t handshakes_end_ns; /* that thread's too: of the last connections; 0: they go on */
    bool parses_in_place;      /* libmicrohttpd (http_framing.c) */
    _Atomic int lingering_count;
    int thread_count;
    struct http_thread threads[];
};

/* Makes a thread look at what has been put there for it; from any thread. */
void http_wake(struct http_thread *thread);

/* Whether as many connections are open, or on their way to their thread, as may be. Those that have
 * been told to close do not count. */
bool http_is_full(const struct http *http);

/* A connection of this thread's, by the thread. */
void http_connection_opened(struct http_thread *thread);
void http_connection_closed(struct http_thread *thread);

/* These four by the first thread alone: whether it may take connections, how long at the most to
 * wait before asking again, taking those that have come to a listening socket (true: it has none
 * left), and, while draining, taking the last ones of all: true when the sockets are closed. */
bool http_may_accept(const struct http *http);
int http_accept_ms(const struct http *http, int most_ms);
bool http_accept(struct http *http, int listening);
bool http_accept_last(struct http *http);

/* Gives what has been put there for this thread to libmicrohttpd, or closes it. */
void http_take_arrivals(struct http_thread *thread);
void http_drop_arrivals(struct http_thread *thread);

/* libmicrohttpd's callbacks; their context is the struct http_thread. */
enum MHD_Result http_on_request(void *context, struct MHD_Connection *connection, const char *path,
                                const char *method, const char *version, const char *upload,
                                size_t *upload_size, void **state);
void http_on_completed(void *context, struct MHD_Connection *connection, void **state,
                       enum MHD_RequestTerminationCode reason);

void http_on_connection(void *context, struct MHD_Connection *connection, void **state,
                        enum MHD_ConnectionNotificationCode code);

struct http_connection *http_connection_of(struct MHD_Connection *connection);

/* libmicrohttpd's callback for a target, before it is cut into pieces. */
void *http_on_target(void *context, const char *target, struct MHD_Connection *connection);

/* Whether a request ends where every reader thinks it does, and says one thing to all of them: its
 * headers, and once its body is there its trailers. Otherwise it has a fault, and nothing behind it
 * may be read. */
bool http_check_framing(struct exchange *exchange, const char *method, const char *path,
                        const char *version);
bool http_check_trailers(struct exchange *exchange);

/* Shuts a connection down of which a body may still be on its way, and sees to it that
 * libmicrohttpd, which may never read its end, notices within two seconds. */
void http_connection_end(struct http_connection *connection);

/* libmicrohttpd is about to close a connection: if its client may still be sending, it is kept a
 * while. */
void http_linger_begin(struct http_thread *thread, const struct http_connection *connection);

/* Drops what came. Ends those that may not last; how long to wait at the most before that is to be
 * done again; and ends all. */
void http_linger_read(struct http_thread *thread, struct http_linger *linger);
void http_linger_check(struct http_thread *thread, int64_t now_ns);
int http_linger_ms(const struct http_thread *thread, int most_ms);
void http_linger_end(struct http_thread *thread);

/* Whether a chunked body stands at a line for which libmicrohttpd has no room. Asked now and then,
 * with runs of libmicrohttpd between. */
bool http_chunk_line_stalls(struct exchange *exchange);

/* After a run of libmicrohttpd: whether it called anything of ours. And how long to wait for
 * something to happen, where it wants to be run again after wanted_ms. */
void http_chunk_line_run(struct http_thread *thread, bool had_calls);
int http_chunk_line_ms(struct http_thread *thread, int wanted_ms);

/* Notes the clients that have closed their end; before libmicrohttpd is run. */
void http_see_departures(struct http_thread *thread);

/* Closes the connections of those that left in the middle of a request or between
 * two, and ends parked exchanges; after libmicrohttpd has been run. */
void http_end_departures(struct http_thread *thread);

/* Takes the bytes of the answer; whatever comes, they are given back when they have been sent.
 * NULL: no memory, and they have not been taken. */
struct MHD_Response *http_take_bytes(struct http_thread *thread, struct exchange_answer *answer);

/* Puts an exchange on its thread's list of those that wait for something outside, and takes it
 * off. */
void http_waiting_add(struct exchange *exchange);
void http_waiting_remove(struct exchange *exchange);

/* The same for connections without a request. */
void http_idle_begin(struct http_thread *thread, struct http_connection *connection);
void http_idle_end(struct http_thread *thread, struct http_connection *connection);

/* Closes connections without a request, while draining. */
void http_drain_idle(struct http_thread *thread);

/* Runs the handler of a request. Afterwards the exchange is answered, or parked. */
void http_handle(struct exchange *exchange);

/* Wakes the connections whose parked exchanges have been answered meanwhile. */
void http_resume_answered(struct http_thread *thread);

/* Whether it is answered before its body comes, which ends the connection. One that is refused for
 * what it would take, and whose body need not come, may still be cheaper to read. */
bool http_is_before_body(const struct exchange *exchange);
bool http_is_refused(const struct exchange *exchange);

/* What is known of its body's turn, for the route: exchange->outlook. */
void http_gate_look(struct exchange *exchange);

/* Whether its body may come now. If not, the connection has been suspended; http_on_request() is
 * called for it again, with exchange->called set, when its turn has come or http_gate_call() is
 * called. */
bool http_gate_enter(struct exchange *exchange);
void http_gate_call(struct exchange *exchange);

/* A long body is about to be read: the kernel may take as much of it at once as it would in the
 * end. */
void http_gate_open_window(const struct exchange *exchange);

/* Some of its body came. */
void http_gate_flow(struct exchange *exchange);

/* Its body is there, or does not matter any more. */
void http_gate_leave(struct exchange *exchange);

/* Calls those whose turn it is; before libmicrohttpd is run. At most so many milliseconds may pass
 * before it is to be done again. */
void http_gate_run(struct http_thread *thread);
int http_gate_ms(const struct http_thread *thread, int most_ms);

/* Resumes all connections, for a thread that has ended. */
void http_gate_end(struct http_thread *thread);

/* What has passed at least since the last bytes came that nobody has read yet, as far as the kernel
 * says; of those at hand, where all has been read. */
int64_t http_came_ago_ns(const struct http_connection *connection);

/* Answers a request with its fault, whose body has not come to its end, and closes its
 * connection. */
void http_end_body(struct exchange *exchange);

/* Ends bodies and answers that take too long, expires parked exchanges and closes connections that
 * are idle for too long. */
void http_check_timers(struct http_thread *thread);

/* Until when that has to be called again, in milliseconds, most_ms at the most. */
int http_timers_ms(const struct http_thread *thread, int most_ms);

#endif
