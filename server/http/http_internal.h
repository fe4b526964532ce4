/* SPDX-License-Identifier: Apache-2.0 */
/* http_internal.h - what the files that drive libmicrohttpd share: http.c, for one request, and all
 * http_*.c but http_headers.c and http_origin.c. Only they include microhttpd.h. */
#ifndef ATTND_HTTP_INTERNAL_H
#define ATTND_HTTP_INTERNAL_H

#include "base/heap.h"
#include "http/exchange.h"

#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    HTTP_TIMER_MS = 10,             /* how late a deadline may be noticed */
    HTTP_POOL_BYTES = 16384,        /* of a connection; 9 900 idle ones stay under 200 MiB */
    HTTP_DROPPED_BYTES = 64 * 1024, /* dropped after a refusal where no body is on its way */
};

/* What http_thread.disconnects watches; the first member of each struct that it watches. */
/* The longest query of a target that a route can read. */
enum { HTTP_QUERY_BYTES = 511 };

enum http_watched { HTTP_WATCHED_CONNECTION, HTTP_WATCHED_LINGER };

struct http_tls_session;  /* http_tls_session.h */
struct http_tls_bytes;    /* http_tls_bytes.h */
struct http_tls_identity; /* http_tls_identity.h */

/* A connection, as libmicrohttpd's socket context. Its thread alone reads and writes it. */
struct http_connection {
    enum http_watched watched;
    int socket;
    struct MHD_Connection *library;
    struct http_tls_session *tls;                 /* NULL: the connection is plain */
    struct exchange *exchange;                    /* under way; NULL between two requests */
    bool left;                                    /* the client has closed its end */
    LIST_LINK(struct http_connection) in_leaving; /* while the thread has not acted upon that */
    bool closing;                                 /* the daemon has begun to close it */
    size_t window_bytes;     /* of a body, for which the receive window was opened; 0: not opened */
    bool served;             /* it has had a request */
    uint64_t dropped_max;    /* bytes of an unread request that may be dropped after its refusal */
    bool was_refused;        /* its latest request, for load or for its key: http_is_refused() */
    int64_t refused_paid_ns; /* of its latest refusal (http_refusals.c) */
    bool shut;               /* both ends are shut down, and the client gets no time to read more */
    const char *target;      /* of the request being read; lies in libmicrohttpd's pool */
    size_t target_size;      /* up to the first NUL */
    bool target_is_word;     /* it has no character that a target may not have */
    char query[HTTP_QUERY_BYTES + 1]; /* of the target, behind its "?"; "": none, or too long */
    bool query_is_long;
    const struct listener *listener; /* the one that it came to */
    uint64_t given_bytes;            /* of long answers, to libmicrohttpd */
    char client[INET6_ADDRSTRLEN];   /* "192.0.2.7", "unix:uid=1000" */
    uint32_t peer;                   /* peer.h */
    LIST_LINK(struct http_connection) in_idle;
    int64_t idle_since_ns;
};

/* An accepted connection on its way to its thread. */
struct http_arrival {
    struct http_arrival *next;
    int socket;
    const struct listener *listener;
    bool is_tls;
    int64_t uid; /* of the process at the other end of a Unix socket; -1: not known */
    socklen_t address_size;
    struct sockaddr_storage address;
};

struct http_linger; /* an ended connection whose client still sends */
struct http_watch;  /* the descriptors that a thread waits on (http_threads.c) */

/* Exchanges in the order in which they came. */
struct http_queue {
    LIST_OF(struct exchange) list;
    int count;
    size_t bytes; /* that their bodies announce */
};

/* The long bodies of one thread (http_body_queue.c). */
struct http_body_queue {
    struct http_queue waiting; /* for their turn, their connections suspended */
    struct http_queue reading;
    bool called; /* an exchange has been called, and goes on in the next run of libmicrohttpd */
    struct fault full; /* the latest refusal for a full queue, while bodies wait too long since;
                          only without keys */
};

/* The refusals of one thread (http_refusals.c). */
struct http_refusals {
    struct heap held;    /* exchanges whose refusals wait, their connections suspended */
    struct heap resting; /* those whose connections rest before */
    int in_turn;         /* refusals of this turn */
};

/* The TLS handshakes of one thread (http_tls_handshakes.c). */
struct http_tls_handshakes {
    LIST_OF(struct http_tls_session) all;     /* under way, the oldest first */
    LIST_OF(struct http_tls_session) ready;   /* their next bytes have come */
    LIST_OF(struct http_tls_session) running; /* resumed for the next run of libmicrohttpd */
    LIST_OF(struct http_tls_session) unread;  /* any: bytes may be left in the socket */
};

/* A daemon of libmicrohttpd. The library speaks either TLS or plain HTTP on all connections of a
 * daemon. */
struct http_library {
    struct MHD_Daemon *daemon;
    int poll_fd; /* the daemon's epoll descriptor */
    bool is_tls;
};

enum { HTTP_LIBRARIES_MAX = 2 };

/* A connection thread. It alone reads and writes what is neither atomic nor under the mutex. */
struct http_thread {
    struct http *http;
    pthread_t thread;
    int event;                                         /* eventfd that wakes the thread */
    struct http_watch *watch;                          /* while it runs */
    struct http_library libraries[HTTP_LIBRARIES_MAX]; /* those that the listeners need */
    int library_count;
    struct http_connection *opened;       /* the latest one; NULL: its record is gone */
    const struct http_arrival *arriving;  /* the connection that libmicrohttpd is just given */
    _Atomic int open_count;               /* connections that the daemon has */
    _Atomic int arriving_count;           /* connections on their way to this thread */
    _Atomic int closing_count;            /* open connections that the thread has begun to close */
    LIST_OF(struct http_connection) idle; /* without a request, the longest idle first */
    _Atomic int64_t idle_first_ns;        /* idle_since_ns of the first of idle; INT64_MAX: none */
    LIST_OF(struct exchange) waiting;     /* for bytes, for a reply, or for the answer to be sent */
    int64_t timers_checked_ns;
    _Atomic bool is_busy; /* its last two turns were long */
    bool turn_was_long;
    int64_t ran_ns; /* when the latest turn began to run libmicrohttpd */
    struct http_body_queue bodies;
    struct http_refusals refusals;
    int handled_count;           /* requests since the thread last waited */
    int64_t turn_cost_ns;        /* predicted time of those that it computes itself */
    unsigned run_count, read_in; /* number of the latest run of libmicrohttpd, and of the latest
                                    one that read some of a body */
    unsigned call_count;         /* callbacks that libmicrohttpd has made, and TLS moves of bytes */
    unsigned idle_runs; /* runs without a callback after which it wanted the next at once */
    bool ran_idle;      /* the latest run made no callback */
    LIST_OF(struct http_connection) leaving;
    LIST_OF(struct http_linger) lingering;
    struct http_tls_handshakes handshakes;
    struct http_tls_bytes *tls_bytes; /* NULL: there is no TLS */
    int disconnects; /* epoll of connections whose client may close its end, of those in a TLS
                       handshake, and of lingering ones */

    pthread_mutex_t mutex;
    struct exchange *answered;     /* under the mutex: parked exchanges that have their answer */
    struct http_arrival *arrivals; /* under the mutex: connections for this thread */
};

struct http {
    struct http_options options;
    struct listener listeners[LISTENERS_MAX];
    int listener_count;
    struct MHD_Response *no_memory;
    _Atomic int64_t active_count;                 /* exchanges */
    _Atomic int64_t coming_count, coming_cost_ns; /* bodies in the body queues of all threads */
    _Atomic bool ending;                          /* every answer is the last on its connection */
    _Atomic int64_t draining_since_ns;            /* 0: the daemon takes connections as ever */
    _Atomic bool refusing;                        /* new requests get 503 */
    _Atomic bool accepting;                       /* the listening sockets are open */
    _Atomic bool stopping;                        /* threads end */
    int64_t accepts_again_ns;  /* the first thread's: it pauses until then; 0: no pause */
    int64_t handshakes_end_ns; /* the first thread's: of the last clients; 0: not draining */
    bool parses_in_place;      /* libmicrohttpd does (http_framing.c) */
    _Atomic int64_t refused_paid_ns[1024]; /* by owner, of the latest refusal (http_refusals.c) */
    _Atomic int lingering_count;
    _Atomic int64_t dropped_paid_ns; /* when the dropped bytes of refused requests are paid for */
    bool has_tls;                    /* all listeners but those of unix sockets */
    pthread_mutex_t identity_mutex;
    struct http_tls_identity *identity; /* under the mutex; NULL: there is no TLS */
    int thread_count;
    struct http_thread threads[];
};

/* ------------------------------------------------------ http_connection.c -- */

/* Makes a thread look at what others have put there for it; from any thread. */
void http_wake(struct http_thread *thread);

/* The record of a connection; NULL where there was no memory for one. */
struct http_connection *http_connection_of(struct MHD_Connection *connection);

/* Sends bytes past libmicrohttpd, as far as the socket takes them at once; false with errno where
 * it does not take them all. */
bool http_connection_send(struct http_connection *connection, const void *data, size_t size);

/* Shuts one end of the socket down, or both (shutdown(2)); a TLS client is told before. */
void http_connection_shut(struct http_connection *connection, int how);

/* The bytes that have come and that libmicrohttpd has not read: in the kernel, and in GnuTLS; false
 * where that is not known. */
bool http_connection_unread(const struct http_connection *connection, size_t *bytes);

/* Shuts a connection down while a body may still be on its way. libmicrohttpd may never read the
 * end of that body, so a timeout of its own makes it notice within two seconds. */
void http_connection_end(struct http_connection *connection);

/* The least time that has passed since bytes of the connection came last, by the kernel's count. */
int64_t http_came_ago_ns(const struct http_connection *connection);

/* Puts an exchange on its thread's list of exchanges that wait for something outside, and takes it
 * off. Both do nothing where that is done already. */
void http_waiting_add(struct exchange *exchange);
void http_waiting_remove(struct exchange *exchange);

/* Puts a connection at the end of its thread's list of connections without a request, and takes it
 * off where it is on it. */
void http_idle_begin(struct http_thread *thread, struct http_connection *connection);
void http_idle_end(struct http_thread *thread, struct http_connection *connection);

/* ---------------------------------------------------------- http_accept.c -- */

/* Whether no more connections may be opened. Counts those that are open or on their way to their
 * thread, but not those that the daemon has begun to close. */
bool http_is_full(const struct http *http);

/* Counts a connection of this thread; by the thread. */
void http_connection_opened(struct http_thread *thread);
void http_connection_closed(struct http_thread *thread);

/* Whether connections may be accepted now. This function and the next three are for the first
 * thread alone. */
bool http_may_accept(const struct http *http);

/* How long to wait at most, of most_ms, before http_may_accept() is asked again. */
int http_accept_ms(const struct http *http, int most_ms);

/* Accepts the connections that have come to a listener. True: its socket has none left. */
bool http_accept(struct http *http, const struct listener *listener);

/* Whether a listener speaks TLS. */
bool http_is_tls(const struct http *http, const struct listener *listener);

/* Gives the connections that have been put there for this thread to libmicrohttpd, or closes
 * them. */
void http_take_arrivals(struct http_thread *thread);
void http_drop_arrivals(struct http_thread *thread);

/* ------------------------------------------------------------- http_tls.c -- */

/* What the daemons of libmicrohttpd for TLS are told beyond what all are. */
extern const struct MHD_OptionItem HTTP_TLS_OPTIONS[];

/* Reads the certificate, where there is to be TLS. The second is called after a failure too. */
bool http_tls_init(struct http *http, struct fault *fault);
void http_tls_free(struct http *http);

/* ----------------------------------------------------- http_tls_session.c -- */

/* Longer common names of clients count as none. */
enum { HTTP_TLS_SUBJECT_MAX = 64 };

/* The common name of the client's certificate, which has been verified; "" where it has none or
 * several; NULL where the client sent no certificate. */
const char *http_tls_subject(const struct http_connection *connection);

/* For http_connection.c: bytes that GnuTLS has read and libmicrohttpd has not; sends bytes; tells
 * the client that no more bytes come. */
size_t http_tls_pending(const struct http_connection *connection);
bool http_tls_send(struct http_connection *connection, const void *data, size_t size);
void http_tls_say_bye(struct http_connection *connection);

/* An answer has been queued whose body will be written right behind its head. */
void http_tls_expect_body(struct http_connection *connection);

/* -------------------------------------------------- http_tls_handshakes.c -- */

/* Makes and frees connection->tls. False: there is no memory. */
bool http_tls_open(struct http_thread *thread, struct http_connection *connection);
void http_tls_close(struct http_connection *connection);

/* Begins the handshake of a connection, after libmicrohttpd has taken it. */
void http_tls_begin(struct http_thread *thread, struct http_connection *connection);

/* Whether the connection is TLS and its handshake has not ended. */
bool http_tls_is_handshaking(const struct http_connection *connection);

/* Notes that bytes of such a connection have come, or its end. */
void http_tls_see(struct http_thread *thread, struct http_connection *connection);

/* Goes on with handshakes whose bytes have come; before libmicrohttpd is run. */
void http_tls_run(struct http_thread *thread);

/* Suspends those that go on; after libmicrohttpd has been run. */
void http_tls_ran(struct http_thread *thread);

/* Ends handshakes that take too long. */
void http_tls_check(struct http_thread *thread, int64_t now_ns);

/* How long to wait at most, of most_ms, before http_tls_run() and http_tls_check() are called. */
int http_tls_ms(const struct http_thread *thread, int most_ms);

/* Resumes the connections of all handshakes, so that libmicrohttpd can stop. */
void http_tls_end(struct http_thread *thread);

/* ----------------------------------------------------------- http_drain.c -- */

/* While draining: accepts the last connections of all, by the first thread. True: the listening
 * sockets are closed. */
bool http_accept_last(struct http *http);

/* While draining: closes the connections of a thread on which nothing comes. */
void http_drain_idle(struct http_thread *thread);

/* --------------------------------------------------------- http_framing.c -- */

/* libmicrohttpd's callback for a target, before the library cuts it into pieces; context is the
 * struct http_thread. */
void *http_on_target(void *context, const char *target, struct MHD_Connection *connection);

/* Whether the head of a request says one thing to all readers, above all where the body ends.
 * Otherwise the exchange has a fault, and nothing behind the head may be read. */
bool http_check_framing(struct exchange *exchange, const char *method, const char *path,
                        const char *version);

/* The same of the trailers of a chunked body, once the body is there. */
bool http_check_trailers(struct exchange *exchange);

/* ------------------------------------------------------------- http_key.c -- */

/* Whether the request may be run by its key. Otherwise the exchange has a fault. For a daemon with
 * keys, once for each request, when its head is known to be framed. */
bool http_check_key(struct exchange *exchange);

/* Overwrites the keys among the headers, which nobody reads any more, so that they are not in the
 * memory of connections that are over. Once a request has been checked, and at the end of one that
 * the library refused before. */
void http_forget_key(struct MHD_Connection *connection);

/* The value of WWW-Authenticate in the answer to a request that was refused for its key (RFC 6750,
 * 3); "" for any other. */
const char *http_challenge(const struct exchange *exchange);

/* ---------------------------------------------------------- http_linger.c -- */

/* Keeps a connection that libmicrohttpd is about to close for a while, if the client may still be
 * sending. */
void http_linger_begin(struct http_thread *thread, const struct http_connection *connection);

/* Drops the bytes that came on a lingering connection; ends it where no more may come. */
void http_linger_read(struct http_thread *thread, struct http_linger *linger);

/* Ends the lingering connections whose time has passed. */
void http_linger_check(struct http_thread *thread, int64_t now_ns);

/* How long to wait at most, of most_ms, before http_linger_check() is called again. */
int http_linger_ms(const struct http_thread *thread, int most_ms);

/* Ends all lingering connections of a thread. */
void http_linger_end(struct http_thread *thread);

/* ------------------------------------------------------ http_chunk_line.c -- */

/* Whether a chunked body has stopped at a line for which libmicrohttpd has no room. To be asked
 * repeatedly, with runs of libmicrohttpd between. */
bool http_chunk_line_stalls(struct exchange *exchange);

/* Notes, after a run of libmicrohttpd, whether the library made a callback in it. */
void http_chunk_line_run(struct http_thread *thread, bool had_calls);

/* How long to wait where libmicrohttpd wants to be run again after wanted_ms: longer where it asks
 * for one run after another and does nothing. */
int http_chunk_line_ms(struct http_thread *thread, int wanted_ms);

/* ----------------------------------------------------- http_disconnects.c -- */

/* libmicrohttpd's callback for a connection that opens or closes; context is the struct
 * http_thread. */
void http_on_connection(void *context, struct MHD_Connection *connection, void **state,
                        enum MHD_ConnectionNotificationCode code);

/* Notes the clients that have closed their end; before libmicrohttpd is run. */
void http_see_disconnects(struct http_thread *thread);

/* Acts upon the noted clients, after libmicrohttpd has been run: closes the connection of a client
 * that left between two requests or while it sent a body, and ends its parked exchange or its wait
 * in the body queue. */
void http_end_disconnects(struct http_thread *thread);

/* ------------------------------------------------------------ http_send.c -- */

/* A response of the bytes of the answer. It owns the bytes, and gives them back when they have been
 * sent or the connection has ended. NULL: there is no memory, and the answer still owns them. */
struct MHD_Response *http_take_bytes(struct exchange *exchange);

/* --------------------------------------------------------- http_handler.c -- */

/* Runs the handler of a request. Afterwards the exchange is answered, or parked. */
void http_handle(struct exchange *exchange);

/* Resumes the connections whose parked exchanges other threads have answered. */
void http_resume_answered(struct http_thread *thread);

/* ------------------------------------------------------ http_body_queue.c -- */

/* Whether a fault of this code is a refusal; and whether the fault of a request refuses it for the
 * work or the memory that it would take, for the page that sent it, or for its key. Its body need
 * not be read, but to read it may still be cheaper. */
bool http_is_refusal(enum fault_code code);
bool http_is_refused(const struct exchange *exchange);

/* Whether it is refused for its key, or for what its key may use. */
bool http_is_refused_by_key(const struct exchange *exchange);

/* Whether a request is answered before its body comes, which ends the connection. */
bool http_is_before_body(const struct exchange *exchange);

/* Fills in what is known of the turn of a body, for the route: exchange->outlook. */
void http_body_queue_look(struct exchange *exchange);

/* Whether a body may come now. Otherwise the connection is suspended, and http_on_request() is
 * called again for the exchange, with exchange->called set, when its turn has come or
 * http_body_queue_call() has been called. */
bool http_body_queue_enter(struct exchange *exchange);

/* Where the queue has no room for the body of an exchange, which has that fault: takes the oldest
 * body from the body queue that is late enough to give its place to this one. The fault then moves
 * to the returned exchange, whose connection stays suspended until http_refusals_take(). NULL:
 * there is none, or the fault is another. */
struct exchange *http_body_queue_displace(struct exchange *newest);

/* The same of a body that has waited too long, before http_body_queue_run(); to be called until it
 * returns NULL. */
struct exchange *http_body_queue_expire(struct http_thread *thread);

/* Ends the wait of an exchange in the body queue. */
void http_body_queue_call(struct exchange *exchange);

/* Lets the kernel take as much of a long body at once as it would in the end; before the body is
 * read. */
void http_body_queue_open_window(const struct exchange *exchange);

/* Notes that some of a body came. */
void http_body_queue_flow(struct exchange *exchange);

/* Takes an exchange from the body queue: its body is whole, or does not matter any more. */
void http_body_queue_leave(struct exchange *exchange);

/* Calls the exchanges whose turn has come; before libmicrohttpd is run. */
void http_body_queue_run(struct http_thread *thread);

/* How long to wait at most, of most_ms, before http_body_queue_run() is called again. */
int http_body_queue_ms(const struct http_thread *thread, int most_ms);

/* Resumes all connections in the body queue of a thread that has ended. */
void http_body_queue_end(struct http_thread *thread);

/* -------------------------------------------------------- http_refusals.c -- */

/* Has the refusal of an exchange wait, if it is one and may not go now: the connection is suspended
 * then, and http_on_request() is called again for the exchange. Once for each exchange. */
bool http_refusals_hold(struct exchange *exchange);

/* The same for an exchange that waited in the body queue: its connection is suspended already. */
void http_refusals_take(struct exchange *exchange);

/* Ends the wait of an exchange. */
void http_refusals_release(struct exchange *exchange);

/* Releases the exchanges whose turn has come; before libmicrohttpd is run. */
void http_refusals_run(struct http_thread *thread);

/* How long to wait at most, of most_ms, before http_refusals_run() is called again. */
int http_refusals_ms(const struct http_thread *thread, int most_ms);

/* Releases all exchanges of a thread that has ended. */
void http_refusals_end(struct http_thread *thread);

/* ---------------------------------------------------------- http_answer.c -- */

/* Sends the fault of a request to the socket directly, because libmicrohttpd takes no answer while
 * a body is arriving. The library has sent no part of an answer to this request, so these bytes do
 * not land in the middle of one. */
void http_answer_directly(struct exchange *exchange);

/* The answer of an exchange with its headers, for libmicrohttpd. NULL: there is no memory. */
struct MHD_Response *http_make_response(struct exchange *exchange);

/* ----------------------------------------------------------------- http.c -- */

/* libmicrohttpd's callbacks for a request; context is the struct http_thread, *state the exchange.
 * The first is called when the headers are there, for each piece of the body, when the body is
 * whole, and when its connection is resumed; the second when the request has ended in any way. */
enum MHD_Result http_on_request(void *context, struct MHD_Connection *connection, const char *path,
                                const char *method, const char *version, const char *upload,
                                size_t *upload_size, void **state);
void http_on_completed(void *context, struct MHD_Connection *connection, void **state,
                       enum MHD_RequestTerminationCode reason);

/* Answers a request with its fault while its body is still coming, and closes its connection. */
void http_end_body(struct exchange *exchange);

/* ---------------------------------------------------------- http_timers.c -- */

/* Ends bodies and answers that take too long, tells the owners of parked exchanges whose deadline
 * has passed, and closes connections that are idle for too long. */
void http_check_timers(struct http_thread *thread);

/* How long to wait at most, of most_ms, before http_check_timers() is called again. */
int http_timers_ms(const struct http_thread *thread, int most_ms);

#endif
