/* SPDX-License-Identifier: Apache-2.0 */
/* remote.h - one connection to another server of HTTP, over which requests are sent one by one.
 *
 * HTTP/1.1 over TCP, or over TLS, whose certificate must be for the host of the address. Every call
 * ends by its deadline, or soon after a stop, whatever the other side does; only a name that the
 * resolver looks up may take as long as the resolver tries. A connection is kept between requests.
 * Answers are read strictly and within bounds; what is not understood ends the connection, so that
 * nothing of one answer is taken for the next. Redirections are answers like others. */
#ifndef ATTND_REMOTE_H
#define ATTND_REMOTE_H

#include "base/bytes.h"
#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --------------------------------------------------------------- address -- */

enum { REMOTE_HOST_MAX = 253, REMOTE_URL_MAX = 512, REMOTE_REASON_MAX = 256 };

struct remote_address {
    bool is_tls;
    bool host_is_name;              /* the resolver looks it up, for each connection */
    char host[REMOTE_HOST_MAX + 1]; /* a name or an address; one of IPv6 without brackets */
    int port;
    char url[REMOTE_URL_MAX]; /* "https://host:port/prefix", without a slash at its end */
    char
        base[REMOTE_URL_MAX]; /* "/prefix", which goes before each target; "" where there is none */
};

/* Reads "http://host:8080", "https://[::1]/prefix". Without a port it is 80 or 443. False, with the
 * fault option, where it is none or has a user, a query or a fragment; label is the flag or the
 * field that it came in. */
bool remote_address_read(struct remote_address *address, const char *label, const char *url,
                         struct fault *fault);

/* ----------------------------------------------------------------- trust -- */

/* The authorities that certificates of others must come from; for any number of connections and
 * threads. Files are read here, and never again. */
struct remote_trust;

/* ca is a file in PEM; NULL: the authorities of the system. NULL, with the fault. */
struct remote_trust *remote_trust_create(const char *ca, struct fault *fault);
void remote_trust_free(struct remote_trust *trust); /* NULL is fine */

/* ------------------------------------------------------------------ stop -- */

/* Ends the calls of many connections at once. The struct is the caller's, and stays as long as a
 * connection has it. */
struct remote_stop {
    int wake;                /* eventfd(2): readable once ends_ns is set */
    _Atomic int64_t ends_ns; /* by clock_now_ns(): no call goes on beyond it; 0: not set */
};

bool remote_stop_init(struct remote_stop *stop, struct fault *fault); /* false: no descriptor */
void remote_stop_set(struct remote_stop *stop, int64_t ends_ns);      /* from any thread */
void remote_stop_free(struct remote_stop *stop);

/* Waits until the time by clock_now_ns(); false, and sooner, where the stop is set. */
bool remote_stop_wait(struct remote_stop *stop, int64_t until_ns);

/* ------------------------------------------------------------ connection -- */

/* For one thread at a time. */
struct remote;

/* All that is given is borrowed. trust may be NULL where the address is none of TLS, stop where
 * nothing stops, and key, the secret of Authorization: Bearer, where there is none. NULL: no
 * memory. Connects to nobody yet. */
struct remote *remote_create(const struct remote_address *address, const struct remote_trust *trust,
                             const char *key, struct remote_stop *stop);
void remote_free(struct remote *remote); /* NULL is fine */

/* Closes the connection; the next request opens one. */
void remote_close(struct remote *remote);

struct remote_request {
    const char *method;
    const char *target;             /* behind the base of the address: "/v1/sessions/a?x=y" */
    const char *headers;            /* further ones, each with "\r\n" at its end; NULL: none */
    const struct byte_slice *parts; /* [part_count], the body */
    int part_count;
    int64_t deadline_ns;     /* by clock_now_ns() */
    size_t answer_bytes_max; /* of the answer's body */
    bool may_repeat;         /* a second time does what one does: it is sent again where a kept
                                connection ends before a byte of the answer came */
};

struct remote_answer {
    int status;        /* 200 to 599 */
    int retry_after_s; /* 0: it does not say */
    char replica[128]; /* Attnd-Replica; "": it does not say */
    const char *body;  /* of the connection, until its next call; with a NUL behind it */
    size_t size;
};

enum remote_end {
    REMOTE_ANSWERED,
    REMOTE_NOT_SENT, /* no whole request can have reached the other side: it has done nothing */
    REMOTE_UNKNOWN,  /* no whole answer came, and the other side may have done what was asked */
};

/* Sends the request and reads its answer. The reason says in words why there is none. */
enum remote_end remote_ask(struct remote *remote, const struct remote_request *request,
                           struct remote_answer *answer, char reason[REMOTE_REASON_MAX]);

#endif
