/* exchange.h - the inside of an exchange, between http.c and exchange.c only.
 *
 * An exchange belongs to one connection thread. While it is parked another
 * thread may write its answer, and nothing else; the hand-over back goes through
 * the connection thread's list of answered exchanges, under that list's lock. */
#ifndef ATTND_EXCHANGE_H
#define ATTND_EXCHANGE_H

#include "base/list.h"
#include "http/http.h"
#include "watch/request_record.h"

enum { EXCHANGE_ID_MAX = 128, EXCHANGE_PARAM_MAX = 256, EXCHANGE_LOGGED_MAX = 256 };

struct exchange_answer {
    int status;
    const char *content_type;
    char *data;                     /* malloc'd */
    size_t size;                    /* of data, or of all parts */
    const struct byte_slice *parts; /* in place of data; NULL: none */
    int part_count;
    void (*release)(void *owner); /* of the parts */
    void *owner;
    enum coding coding;
    bool varies;          /* with Accept-Encoding */
    size_t header_length; /* Inference-Header-Content-Length; 0: none */
    bool close;           /* the connection after it */
    int retry_after_s;    /* 0: no Retry-After */
    bool encodings;       /* Accept-Encoding: those that are taken */
    char allow[64];       /* "" is none */
};

/* Of a long body (http_gate.c). */
enum http_gate_state {
    HTTP_GATE_NONE,  /* it is short, silent, or not of interest any more */
    HTTP_GATE_WAITS, /* for its turn */
    HTTP_GATE_PLACE, /* it is read */
};

struct exchange {
    struct http_thread *thread;
    void *connection; /* struct MHD_Connection */
    void *context;
    const struct route *route; /* NULL: the path has none, and fault says so */

    struct http_headers headers;
    char request_id[EXCHANGE_ID_MAX + 1];
    char params[ROUTE_PARAMS_MAX][EXCHANGE_PARAM_MAX];
    char method[16];
    char path[EXCHANGE_LOGGED_MAX];        /* as sent, cut; for the log */
    char traceparent[EXCHANGE_LOGGED_MAX]; /* the same */
    const char *client;                    /* its address, of the connection */

    int64_t started_ns;
    int64_t body_deadline_ns;
    int64_t sending_since_ns;  /* 0: not looked at yet */
    uint64_t sending_taken;    /* by the client until then */
    int64_t draining_since_ns; /* the same of a body on its way while the daemon stops */
    size_t draining_received;

    enum http_gate_state gate;
    bool called;           /* it waited at the gate, and is to go on */
    int64_t gate_cost_ns;  /* for which it counts there */
    int64_t gate_since_ns; /* it is in this state there */
    int64_t flowed_ns;     /* some of its body came */
    int silent_rounds;     /* of its thread, in which none did */
    LIST_LINK(struct exchange) at_gate;
    struct body_outlook outlook;

    int stalled_looks;      /* in a row at which bytes of it lay unread (http_chunk_line.c) */
    uint64_t stalled_bytes; /* and so many had been read */

    struct memory_share memory; /* of all that is held for it */
    char *body;                 /* malloc'd; its bytes begin at body_offset */
    size_t body_offset, body_size, body_capacity;
    size_t body_announced; /* by the Content-Length, which may lie; 0: none */
    size_t received;       /* body bytes, dropped ones too */
    bool is_chunked;       /* it comes with a Transfer-Encoding */
    bool may_be_page;      /* it has a header that http_origin.h takes for the sign of a browser */
    enum coding body_coding;

    enum coding answer_coding; /* that the client takes; identity too, unless it is refused */
    bool identity_refused;
    bool packing_done; /* answer.coding says with what outcome */
    size_t pack_bytes_min;

    struct fault fault; /* known before the body: answered once it has been read */
    struct exchange_answer answer;
    struct request_record record;
    bool is_framed; /* it says in one way where its body ends */
    bool has_room;  /* libmicrohttpd has some for the answer's headers */
    bool reading;   /* its body is still coming */
    bool parked;
    bool answered;
    bool queued;  /* the answer is libmicrohttpd's */
    bool stalled; /* and its client took too little of it */

    int64_t deadline_ns;
    void (*end)(void *owner, enum exchange_end why);
    void (*release)(void *owner);
    void *owner;

    /* In the thread's list of exchanges that wait for something. */
    LIST_LINK(struct exchange) in_waiting;
    /* In the thread's list of parked exchanges that were answered. */
    struct exchange *next_answered;
};

/* Takes the client's id where it is 1 to 128 visible ASCII characters without quotes and
 * backslashes, else makes one. */
void exchange_set_request_id(struct exchange *exchange, const char *given);

/* Finds the route of method and raw path, fills route, params and record.route;
 * else sets exchange->fault (not_found, method) and answer.allow. */
void exchange_find_route(struct exchange *exchange, const struct route *routes, int route_count,
                         const char *method, const char *path);

/* The body of an answer that says the fault: no more bytes than that. */
enum { EXCHANGE_FAULT_BYTES_MAX = 6 * (FAULT_MESSAGE_MAX + FAULT_POINTER_MAX) + 512 };
void exchange_write_fault(const struct exchange *exchange, const struct fault *fault,
                          struct text *text);

/* Takes size bytes of body, at most bytes_max in all. False: more than a client
 * may send after its fault is known; the connection is to be closed. */
bool exchange_receive(struct exchange *exchange, const char *bytes, size_t size, size_t bytes_max);

/* The line of a request that has ended, by the thread of its connection. */
void exchange_log(const struct exchange *exchange, int status, int64_t duration_ns);

/* Frees what the exchange owns, and itself. */
void exchange_free(struct exchange *exchange);

/* http.c: the answer of a parked exchange is complete; from any thread. */
void http_exchange_answered(struct exchange *exchange);

#endif
