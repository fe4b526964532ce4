/* http.h - the only door to libmicrohttpd.
 *
 * Connection threads of our own drive it over its epoll descriptor. They move
 * bytes and nothing else: a handler runs on one of them once the whole body is
 * there, and either replies at once or parks the exchange; then any thread may
 * reply later. */
#ifndef ATTND_HTTP_H
#define ATTND_HTTP_H

#include "base/bytes.h"
#include "base/fault.h"
#include "base/memory_budget.h"
#include "http/http_headers.h"

#include <stdint.h>

struct exchange; /* one HTTP request and its coming response */

enum { EXCHANGE_PARTS_MAX = 32 }; /* that lie where they were computed; pieces of text beside */

enum { ROUTE_PARAMS_MAX = 2 };

/* What is known of a body that is to come. */
struct body_outlook {
    size_t bytes;         /* announced; 0: that is not known */
    int64_t wait_ns;      /* how long the first of those that wait has waited already */
    int64_t others_count; /* bodies that come before it, and what they said will be their cost */
    int64_t others_cost_ns;
    bool is_counted; /* it has its place already */

    /* What the route has to say. */
    int64_t cost_ns;   /* predicted time of one worker; 0: not known */
    int64_t latest_ns; /* when its turn is to come at the latest; 0: it does not matter */
};

struct route {
    const char *method;
    const char *pattern; /* "/v1/models/{model}": a braced segment matches any one segment; the
                            first route that matches is taken */
    void (*handle)(struct exchange *exchange);
    bool health;       /* answered also while the daemon stops */
    int metrics_index; /* from metrics_route() */

    /* Asked when the headers are there, and again when a long body's turn has come: false, with its
     * fault, where it need not come. NULL: nothing is asked. */
    bool (*takes_body)(const struct exchange *exchange, struct body_outlook *outlook,
                       struct fault *fault);
    bool plain; /* answers are packed only for who refuses them as they are */
};

struct http_options {
    const char *const *listen; /* "127.0.0.1:8080", "[::1]:0" */
    int listen_count;
    int thread_count;
    size_t body_bytes_max;
    int64_t body_timeout_ns;
    int64_t idle_timeout_ns; /* of a connection without a request */
    int64_t send_timeout_ns; /* without progress of an answer */
    size_t pack_bytes_min;   /* of an answer that is packed where its client takes that */
    int connections_max;
    int connections_per_ip_max; /* 0: none */
    struct route *routes;
    int route_count;
    int unknown_route_metrics_index; /* for paths that no route matches */
    void *context;                   /* for exchange_context() */
};

struct http;

/* Binds, starts the threads and logs a "listening" line for each address. */
bool http_create(struct http **http, const struct http_options *options, struct fault *fault);

/* From now on every answer is the last on its connection, so that clients come back by another. */
void http_end_connections(struct http *http);

/* After http_end_connections(): takes the connections that have been made so far and no other,
 * answers what comes on those there are, and closes those on which nothing comes. */
void http_drain(struct http *http);

/* Whether it is through with that. */
bool http_is_drained(const struct http *http);

/* From now on a new request gets 503 and Connection: close. */
void http_refuse(struct http *http);

/* Exchanges between their first byte and the end of their answer. */
int64_t http_active_count(const struct http *http);

/* Ends threads and connections. No exchange may be parked any more. NULL is fine. */
void http_free(struct http *http);

/* ---------------------------------------------------------- in a handler -- */

void *exchange_context(const struct exchange *exchange);
const char *exchange_request_id(const struct exchange *exchange);

/* Whether it is the first that came since this connection thread last waited for its clients. In a
 * handler. */
bool exchange_is_first(const struct exchange *exchange);

/* Whether its route was asked for its body, and took it with a time to be read by. */
bool exchange_was_judged(const struct exchange *exchange);

/* These three on the connection thread alone, before exchange_park(). */
const char *exchange_header(const struct exchange *exchange, enum http_header header); /* or NULL */
const char *exchange_param(const struct exchange *exchange,
                           int index); /* of the braced segments, decoded; "" */
const char *exchange_body_type(const struct exchange *exchange); /* Content-Type without
                                                                    parameters, "" if none */

/* What coding_unpack() has to undo, which is for a worker, once the body is taken. */
enum coding exchange_body_coding(const struct exchange *exchange);

/* How an answer is packed that is long enough. */
enum coding exchange_answer_coding(const struct exchange *exchange);

/* The body as it came, which the caller frees with free(); data NULL where it is empty. Once. */
struct byte_slice exchange_take_body(struct exchange *exchange);

/* The same where it came: the caller frees *memory. What follows so many bytes as a header
 * Inference-Header-Content-Length says is aligned as malloc() aligns. */
struct byte_slice exchange_take_body_in_place(struct exchange *exchange, void **memory);

/* Its share of the budget (memory_budget.h), for whoever may reply just then. The bytes of its body
 * are counted there. */
struct memory_share *exchange_memory(struct exchange *exchange);

const char *exchange_path(const struct exchange *exchange); /* as it was sent, cut */
int64_t exchange_started_ns(const struct exchange *exchange);

/* What is known of the request so far, to be filled in before the reply (request_record.h). */
struct request_record;
struct request_record *exchange_record(struct exchange *exchange);

enum exchange_end {
    EXCHANGE_DEADLINE, /* its time passed */
    EXCHANGE_LEFT,     /* the client closed its end: whatever is answered, nobody reads it */
};

/* Park before handing the exchange to another thread. Past deadline_ns (0: none), or
 * when the client leaves, end(owner, why) is called on the connection thread, once at
 * the most; whoever replies still does. release(owner) is called on the connection
 * thread when no call of end can come any more. */
void exchange_park(struct exchange *exchange, int64_t deadline_ns,
                   void (*end)(void *owner, enum exchange_end why), void (*release)(void *owner),
                   void *owner);

/* --------------------------------------- the end of an exchange, exactly one -- */

/* A header line of the answer. Before the reply. */
void exchange_set_header_length(struct exchange *exchange, size_t length);

/* data is malloc'd and taken; NULL for an empty answer. content_type is a constant. What is long
 * enough is packed here, where the client takes that. */
void exchange_reply(struct exchange *exchange, int status, const char *content_type, char *data,
                    size_t size);

/* The same with parts, which are sent as they lie; many, or long ones, by way of a small buffer.
 * All of it stays, the array too, until release(owner) is called, on the connection thread. */
void exchange_reply_parts(struct exchange *exchange, int status, const char *content_type,
                          const struct byte_slice *parts, int part_count,
                          void (*release)(void *owner), void *owner);

/* Whether an answer of so many bytes is to be packed, and whether it is refused otherwise. A reply
 * packs what is to be packed, at once, unless somebody who did it in pieces has said before the
 * reply whether its bytes are packed. */
bool exchange_packs(const struct exchange *exchange, size_t bytes, bool *is_required);
void exchange_set_packed(struct exchange *exchange, bool is_packed);

/* The same with a text, which is taken; where writing it failed, that fault. */
struct text;
void exchange_reply_text(struct exchange *exchange, int status, const char *content_type,
                         struct text *text);

void exchange_fail(struct exchange *exchange, const struct fault *fault);

#endif
