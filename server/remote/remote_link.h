/* SPDX-License-Identifier: Apache-2.0 */
/* remote_link.h - the bytes of one connection, plain or by TLS: connected, sent and received by a
 * deadline. */
#ifndef ATTND_REMOTE_LINK_H
#define ATTND_REMOTE_LINK_H

#include "remote/remote.h"

#include <sys/types.h>

struct gnutls_session_int;

struct remote_link {
    int socket;                         /* -1: there is no connection */
    struct gnutls_session_int *session; /* NULL: plain */
    struct remote_stop *stop;           /* or NULL */
};

/* Resolves, connects, and shakes hands where the address is of TLS. False, with the reason; there
 * is no connection then. */
bool remote_link_open(struct remote_link *link, const struct remote_address *address,
                      const struct remote_trust *trust, int64_t deadline_ns,
                      char reason[REMOTE_REASON_MAX]);

/* Sends all bytes. *answered: the other side said something before it took all, so there may be an
 * answer. False, with the reason, where not all was sent. */
bool remote_link_send(struct remote_link *link, const char *bytes, size_t size, bool more,
                      int64_t deadline_ns, bool *answered, char reason[REMOTE_REASON_MAX]);

/* Receives some bytes, or 0 where the other side has ended; -1 with the reason. */
ssize_t remote_link_receive(struct remote_link *link, char *bytes, size_t size, int64_t deadline_ns,
                            char reason[REMOTE_REASON_MAX]);

/* Whether nothing has come, not even the end: a kept connection is used again only then. */
bool remote_link_is_quiet(const struct remote_link *link);

void remote_link_close(struct remote_link *link);

#endif
