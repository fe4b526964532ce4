/* SPDX-License-Identifier: Apache-2.0 */
/* http.h - the only door to libmicrohttpd.
 *
 * The daemon's own connection threads drive it over its epoll descriptor. They only move bytes. A
 * handler runs on one of them once the whole body is there. It replies at once, or it parks the
 * exchange, and then any thread may reply later. */
#ifndef ATTND_HTTP_H
#define ATTND_HTTP_H

#include "access/access_key.h"
#include "base/bytes.h"
#include "base/fault.h"
#include "base/memory_budget.h"
#include "http/http_origin.h"
#include "http/listeners.h"

#include <stdint.h>

struct access_key;
struct access_keys;
struct span_exporter;
struct exchange; /* one HTTP request and its coming response */

/* A short answer of at most so many parts goes to the socket in one call, from where they lie. */
enum { EXCHANGE_PARTS_MAX = 32 };

enum { ROUTE_PARAMS_MAX = 2 };

/* What is known of a body before it is read. */
struct body_outlook {
    size_t bytes;           /* announced; of a chunked body 64 KiB */
    int64_t wait_ns;        /* how long the first waiting body of the thread has waited already */
    int64_t others_count;   /* bodies that are read before this one */
    int64_t others_cost_ns; /* the sum of their cost_ns */
    int64_t own_count, own_cost_ns; /* the same of those with a key of the same name */
    bool is_counted; /* the body has waited: it is counted already, and the above are 0 */

    /* Filled in by the route. */
    int64_t cost_ns;   /* predicted time of one worker for the request; 0: not known */
    int64_t latest_ns; /* when the turn of the body must come at the latest; 0: at any time */
};

struct route {
    const char *method;
    const char *pattern;     /* "/v1/models/{model}": a braced segment matches any one segment; the
                                first route that matches is taken */
    enum access_scope scope; /* that a key needs, where keys are in use */
    void (*handle)(struct exchange *exchange);
    bool health;       /* answered even while the daemon refuses other requests */
    int metrics_index; /* from metrics_route() */

    /* Whether the body of a request should come; false, with a fault, where the request is refused
     * before its body. Asked when the headers are there, and again when the turn of a long body has
     * come. NULL: every body should come. */
    bool (*takes_body)(const struct exchange *exchange, struct body_outlook *outlook,
                       struct fault *fault);
    bool audited; /* its requests are lines of the audit, beside those of models and admin */
    bool plain;   /* an answer is packed only where the client does not take it unpacked */
    bool
        framed; /* a page of any origin may open it in a frame; the answer says which may show it */
};

/* The files of TLS, in PEM. */
struct http_tls_files {
    const char *certificate; /* or a chain, the daemon's own first; NULL: no TLS */
    const char *key;         /* not encrypted */
    const char *client_ca;   /* whose certificates clients may show; NULL: none is asked for */
};

struct http_options {
    bool has_operators;          /* a listener is the operators' (--admin-listen) */
    const char *replica;         /* the name of this daemon, for Attnd-Replica */
    struct listeners *listeners; /* open; http_create() takes the sockets out of it */
    struct http_pages pages;
    struct http_tls_files tls; /* for all listeners but unix sockets */
    int thread_count;
    size_t body_bytes_max;
    int64_t body_timeout_ns;
    int64_t idle_timeout_ns; /* of a connection without a request */
    int64_t send_timeout_ns; /* of an answer without progress */
    size_t pack_bytes_min;   /* the shortest answer that is packed for a client that takes that */
    int connections_max;
    int connections_per_ip_max;  /* 0: no bound */
    struct access_keys *keys;    /* NULL: no keys are in use */
    struct span_exporter *spans; /* NULL: no spans are sent */
    struct route *routes;
    int route_count;
    int unknown_route_metrics_index; /* for paths that no route matches */
    void *context;                   /* for exchange_context() */
};

struct http;

/* Starts the threads and logs a "listening" line for each address. */
bool http_create(struct http **http, const struct http_options *options, struct fault *fault);

/* Whether TLS could be spoken with these files. */
bool http_tls_files_check(const struct http_tls_files *files, struct fault *fault);

/* Reads the files of TLS again, where there is TLS: handshakes from now on use what is in them.
 * Wrong ones are logged and change nothing. */
void http_tls_read_again(struct http *http);

/* From now on every answer is the last on its connection, so that its client opens a new one. */
void http_end_connections(struct http *http);

/* After http_end_connections(): from now on accepts only the connections that clients have made by
 * this time, answers what comes on open connections, and closes those on which nothing comes. */
void http_drain(struct http *http);

/* Whether http_drain() has come to its end: no connection and no exchange is left. */
bool http_is_drained(const struct http *http);

/* From now on a new request gets 503 and Connection: close. */
void http_refuse(struct http *http);

/* The number of exchanges between their headers and the end of their answer. */
int64_t http_active_count(const struct http *http);

/* Ends threads and connections. No exchange may be parked any more. NULL is fine. */
void http_free(struct http *http);

/* ---------------------------------------------------------- in a handler -- */

void *exchange_context(const struct exchange *exchange);
const char *exchange_request_id(const struct exchange *exchange);

/* The key of the request, which the exchange holds to its end; NULL: no keys are in use, or the
 * route asks for none. */
struct access_key *exchange_key(const struct exchange *exchange);

/* What the requests of the name of that key may use; NULL where there is no key. */
struct access_quota;
struct access_quota *exchange_quota(const struct exchange *exchange);

/* Whether the exchange is the first one handled since its connection thread last waited for its
 * clients. For a handler. */
bool exchange_is_first(const struct exchange *exchange);

/* What handlers have said that they compute on the connection thread itself since it last waited,
 * and how many connection threads there are. For a handler; the second is how it says so. */
int64_t exchange_turn_cost_ns(const struct exchange *exchange);
void exchange_add_turn_cost(const struct exchange *exchange, int64_t ns);
int exchange_thread_count(const struct exchange *exchange);

/* Whether something has come for the connection thread since it last waited: clients, or answers of
 * others. For a handler that computes, between two pieces. */
bool exchange_thread_is_wanted(const struct exchange *exchange);

/* Whether the route took the body before it came, and said by when it must be read: takes_body()
 * was asked and set outlook->latest_ns. */
bool exchange_was_judged(const struct exchange *exchange);

/* The value of a header; NULL where the request has none of that name. This function and the next
 * two are for the connection thread alone, before exchange_park(). */
const char *exchange_header(const struct exchange *exchange, enum http_header header);

/* The braced segment of the path at that index, decoded; "" where the pattern has fewer. */
const char *exchange_param(const struct exchange *exchange, int index);

/* A parameter of the query of the target, "?name=value&...", decoded, in value[size]. False where
 * the query has no such parameter. For the connection thread, in the handler of a route that reads
 * its query. */
bool exchange_query(const struct exchange *exchange, const char *name, char *value, size_t size);

/* Whether the query has no parameter but those of a list, each once and whole; else the fault names
 * the parameter. */
bool exchange_check_query(const struct exchange *exchange, const char *const *names, int name_count,
                          struct fault *fault);

/* The Content-Type without its parameters; "" where the request has none. */
const char *exchange_body_type(const struct exchange *exchange);

/* The coding of the body. A worker undoes it with coding_unpack(), once the body is taken. */
enum coding exchange_body_coding(const struct exchange *exchange);

/* The coding of an answer that is long enough to be packed. */
enum coding exchange_answer_coding(const struct exchange *exchange);

/* Takes the body as it came, at most once. The caller frees data with free(); data is NULL where
 * the body is empty. */
struct byte_slice exchange_take_body(struct exchange *exchange);

/* The same without moving the body: the caller frees *memory instead of data. Where the request has
 * the header Inference-Header-Content-Length, the byte at that offset is aligned as malloc()
 * aligns. */
struct byte_slice exchange_take_body_in_place(struct exchange *exchange, void **memory);

/* The exchange's share of the budget (memory_budget.h), in which its body is counted. For the
 * thread that may reply at the time. */
struct memory_share *exchange_memory(struct exchange *exchange);

/* The path as it was sent, cut to a bound. */
const char *exchange_path(const struct exchange *exchange);

/* When the request came, as clock_now_ns(). */
int64_t exchange_started_ns(const struct exchange *exchange);

/* The record of the request for the log (metrics_inference.h), to be filled in before the reply. */
struct request_record;
struct request_record *exchange_record(struct exchange *exchange);

enum exchange_end {
    EXCHANGE_DEADLINE, /* the deadline of the exchange passed */
    EXCHANGE_LEFT,     /* the client closed its end: nobody reads the answer */
};

/* Parks an exchange, before it is handed to another thread. Past deadline_ns (0: no deadline), or
 * when the client leaves, end(owner, why) is called on the connection thread, at most once; the
 * exchange still needs its reply. release(owner) is called on the connection thread when no call of
 * end can come any more. */
void exchange_park(struct exchange *exchange, int64_t deadline_ns,
                   void (*end)(void *owner, enum exchange_end why), void (*release)(void *owner),
                   void *owner);

/* ------------------------------------ the reply, exactly one for each exchange -- */

/* Sets the header Inference-Header-Content-Length of the answer; before the reply. */
void exchange_set_header_length(struct exchange *exchange, size_t length);

/* Adds a header to the answer, unless it turns out to be a fault; before the reply. name is a
 * constant, value is copied and has less than 64 bytes. At most 8. */
void exchange_add_header(struct exchange *exchange, const char *name, const char *value);

/* The same with a value that stays until the daemon ends, of any length: it is not copied. */
void exchange_add_constant(struct exchange *exchange, const char *name, const char *value);

/* Says with Vary, whatever the size of the answer, that it depends on the codings that the client
 * takes; before the reply. */
void exchange_vary_by_coding(struct exchange *exchange);

/* Replies with data, which is malloc'd and which the exchange then owns; NULL for an empty answer.
 * content_type is a constant. An answer that is long enough is packed here, if the client takes
 * that. */
void exchange_reply(struct exchange *exchange, int status, const char *content_type, char *data,
                    size_t size);

/* Replies with parts, which are sent from where they lie; many parts, or a long answer, go through
 * a small buffer. The parts and their array must stay until release(owner) is called, on the
 * connection thread. */
void exchange_reply_parts(struct exchange *exchange, int status, const char *content_type,
                          const struct byte_slice *parts, int part_count,
                          void (*release)(void *owner), void *owner);

/* Before the reply: settle is called once, on the connection thread, when the exchange ends, and is
 * told whether the client had its whole answer. */
void exchange_on_settled(struct exchange *exchange,
                         void (*settle)(void *settled, bool is_delivered), void *settled);

/* Whether an answer of so many bytes should be packed. *is_required: the client does not take it
 * unpacked. */
bool exchange_packs(const struct exchange *exchange, size_t bytes, bool *is_required);

/* Says before the reply whether the bytes of the answer are packed already. Otherwise the reply
 * packs, at once, an answer that should be packed. */
void exchange_set_packed(struct exchange *exchange, bool is_packed);

/* Replies with a text, which it takes, or with the fault where writing the text failed. */
struct text;
void exchange_reply_text(struct exchange *exchange, int status, const char *content_type,
                         struct text *text);

/* Replies with a fault: its status, and its message and code as JSON. */
void exchange_fail(struct exchange *exchange, const struct fault *fault);

#endif
