/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.h - the inside of an exchange, for the files of this room alone.
 *
 * An exchange belongs to one connection thread. While it is parked, another thread may write its
 * answer, and nothing else. That thread hands the exchange back by the connection thread's list of
 * answered exchanges, under the mutex of the connection thread. */
#ifndef ATTND_EXCHANGE_H
#define ATTND_EXCHANGE_H

#include "access/access_key.h"
#include "base/list.h"
#include "http/http.h"
#include "telemetry/metrics_inference.h"
#include "telemetry/trace_context.h"

enum { EXCHANGE_ID_MAX = 128, EXCHANGE_PARAM_MAX = 256, EXCHANGE_LOGGED_MAX = 256 };
enum { EXCHANGE_FIELDS_MAX = 8, EXCHANGE_FIELD_MAX = 64 };

struct exchange_answer {
    int status;
    const char *content_type;
    char *data;                     /* malloc'd */
    size_t size;                    /* of data, or of all parts */
    const struct byte_slice *parts; /* in place of data; NULL: none */
    int part_count;
    void (*release)(void *owner); /* gives the parts back to their owner */
    void *owner;
    enum coding coding;
    bool varies;          /* Vary: Accept-Encoding */
    bool varies_by_page;  /* Vary: Origin */
    size_t header_length; /* Inference-Header-Content-Length; 0: no such header */
    struct {
        const char *name, *value;
        char copy[EXCHANGE_FIELD_MAX]; /* where value lies, unless it is a constant */
    } fields[EXCHANGE_FIELDS_MAX];     /* further headers, of exchange_add_header() */
    int field_count;
    bool close;        /* Connection: close */
    int retry_after_s; /* 0: no Retry-After */
    bool encodings;    /* Accept-Encoding: the codings that request bodies may have */
    char allow[64];    /* Allow; "": no such header */
    char *location;    /* Location, malloc'd; NULL: no such header */
};

/* The state of a body in the body queue (http_body_queue.c). */
enum http_body_state {
    HTTP_BODY_NONE,  /* short, or without a place any more: silent, slow, or whole */
    HTTP_BODY_WAITS, /* for its turn */
    HTTP_BODY_PLACE, /* has a place, and is being read */
};

struct exchange {
    struct http_thread *thread; /* NULL: it came from no connection (local.h) */
    void *connection;           /* struct MHD_Connection */
    struct local *local;        /* where its answer goes instead; this and the next three */
    void (*local_answered)(struct exchange *exchange); /* from any thread */
    void *local_owner;
    struct byte_slice local_whole;
    void *context;
    const struct route *route; /* NULL: no route matches, and fault says why */

    struct http_headers headers;
    char request_id[EXCHANGE_ID_MAX + 1];
    char params[ROUTE_PARAMS_MAX][EXCHANGE_PARAM_MAX];
    char *query;        /* of the target, malloc'd; NULL: none */
    bool query_is_long; /* it is not kept */
    bool query_is_lost; /* there was no memory for it */
    char method[16];
    char path[EXCHANGE_LOGGED_MAX];        /* as sent, but cut to this size; for the log */
    char traceparent[EXCHANGE_LOGGED_MAX]; /* the same */
    char trace_state[TRACE_STATE_MAX + 1]; /* where spans are sent; this and the next three */
    bool is_http_1_0;
    bool has_span; /* a span of this context is on its way */
    struct trace_context trace;
    const char *client; /* the client's address; the connection owns it */

    struct access_key *key; /* held; NULL: see exchange_key(), or the request has no good key */
    bool left_quota;        /* it counts for the key no more */
    bool key_came;          /* the request has a key, good or not */
    unsigned audit_levels;  /* of the log when a request for a change came; 0: not audited */

    int64_t started_ns;
    int64_t body_deadline_ns;
    int64_t sending_since_ns;  /* when sending_taken was read; 0: not yet */
    uint64_t sending_taken;    /* bytes that the client had acknowledged then */
    int64_t draining_since_ns; /* when draining_received was read; 0: not yet */
    size_t draining_received;  /* received, as it was then; while the daemon drains */

    enum http_body_state body_state;
    bool called;           /* its wait in the body queue has ended, and the exchange continues */
    int64_t body_cost_ns;  /* that the body counts for in the body queue */
    int64_t body_since_ns; /* when the body came into its state there */
    int64_t flowed_ns;     /* when some of the body came last */
    int silent_rounds;     /* of the body queue since then */
    LIST_LINK(struct exchange) in_body_queue;
    struct body_outlook outlook;

    bool was_held;          /* its refusal has had its turn given (http_refusals.c) */
    bool is_held;           /* and waits for it */
    int64_t refused_due_ns; /* the turn */
    int64_t rests_until_ns; /* before it waits for its turn, its connection rests */
    bool rests;             /* and does so now */
    int64_t refused_place;  /* in the heap of those that wait */

    int stalled_looks;      /* in a row that found unread bytes (http_chunk_line.c) */
    uint64_t stalled_bytes; /* that had been read of the connection at all these looks */

    struct memory_share memory; /* of the budget, for all that is held for the exchange */
    char *body;                 /* malloc'd; its bytes begin at body_offset */
    size_t body_offset, body_size, body_capacity;
    size_t body_announced; /* by the Content-Length, which may lie; 0: there is none */
    size_t received;       /* bytes of the body, with those that were dropped */
    bool is_chunked;       /* the body comes with a Transfer-Encoding */
    bool is_preflight;     /* of a page that may ask (http_origin.h); it needs no route */
    const char *allowed;   /* for Access-Control-Allow-Origin (http_origin.h); NULL: none */
    enum coding body_coding;

    enum coding answer_coding; /* that the client takes, beside identity */
    bool identity_refused;     /* the client does not take identity */
    bool packing_done;         /* answer.coding is settled */
    size_t pack_bytes_min;

    struct fault fault; /* known before the body; usually answered when the body has been read */
    struct exchange_answer answer;
    struct request_record record;
    bool is_framed; /* the request says in one way where its body ends */
    bool has_room;  /* libmicrohttpd's pool has room for the headers of the answer */
    bool reading;   /* the body is still coming */
    bool parked;
    bool answered;
    bool queued;  /* libmicrohttpd has the answer */
    bool stalled; /* the client took too little of the answer in its time */

    int64_t deadline_ns; /* this and the next three: see exchange_park() */
    void (*end)(void *owner, enum exchange_end why);
    void (*release)(void *owner);
    void *owner;

    void (*settle)(void *settled, bool is_delivered); /* this and the next: see */
    void *settled;                                    /* exchange_on_settled() */

    /* In the thread's list of exchanges that wait for something. */
    LIST_LINK(struct exchange) in_waiting;
    /* In the thread's list of parked exchanges that were answered. */
    struct exchange *next_answered;
};

/* Calls what exchange_on_settled() was given, if it was not called before. */
void exchange_settle(struct exchange *exchange, bool is_delivered);

/* Takes the client's id where it is 1 to 128 visible ASCII characters without quotes and
 * backslashes; otherwise makes an id. */
void exchange_set_request_id(struct exchange *exchange, const char *given);

/* Finds the route of a method and a path as sent, and fills route, params and record.route. Where
 * no route matches, sets exchange->fault (not_found or method) and answer.allow. A route of a scope
 * in hidden_scopes, a bit 1 << scope for each, is not found. */
void exchange_find_route(struct exchange *exchange, const struct route *routes, int route_count,
                         unsigned hidden_scopes, const char *method, const char *path);

/* Percent-decodes a piece of a target. False where it is empty, does not fit, or has a broken
 * escape or a NUL byte. */
bool exchange_decode(char *out, size_t out_size, const char *piece, size_t length);

/* The {model} of the path; NULL where the route has none. */
const char *exchange_model(const struct exchange *exchange);

/* Writes the body of the answer that reports a fault, at most so many bytes. */
enum { EXCHANGE_FAULT_BYTES_MAX = 6 * (FAULT_MESSAGE_MAX + FAULT_POINTER_MAX) + 512 };
void exchange_write_fault(const struct exchange *exchange, const struct fault *fault,
                          struct text *text);

/* Takes size bytes of the body, at most bytes_max in all; from a fault on it drops them. False: the
 * client has sent more than it may after a fault, and the caller closes the connection. */
bool exchange_receive(struct exchange *exchange, const char *bytes, size_t size, size_t bytes_max);

/* Keeps from the headers what the span of the request needs; version is "HTTP/1.1". */
void exchange_note_span(struct exchange *exchange, const char *version);

/* Has the spans of a request that has ended sent, if they are sampled; before exchange_log(), on
 * the thread of its connection. */
void exchange_send_span(struct exchange *exchange, int status, int64_t duration_ns);

/* Logs the line of a request that has ended; on the thread of its connection. */
void exchange_log(const struct exchange *exchange, int status, int64_t duration_ns);

/* Whether the request, if it is done, changes what the daemon serves or logs. */
bool exchange_is_change(const struct exchange *exchange);

/* Logs such a request, done or not: who asked for what, and what came of it. What was done for a
 * client that left before its answer was sent is logged as done. */
void exchange_audit(const struct exchange *exchange);

/* From here on the exchange does not count for its key. */
void exchange_leave_quota(struct exchange *exchange);

/* Frees the exchange and what it owns; NULL is fine. */
void exchange_free(struct exchange *exchange);

/* http_handler.c: gives a parked exchange, whose answer is complete, back to its connection thread;
 * from any thread. */
void http_exchange_answered(struct exchange *exchange);

#endif
