/* health_tls.h - the TLS of `attnd health https://...`: one connection, read and written by a
 * deadline. */
#ifndef ATTND_HEALTH_TLS_H
#define ATTND_HEALTH_TLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct health_tls;

/* Whom the client believes. */
struct health_trust {
    const char *ca;  /* a file in PEM; NULL: the authorities that the system believes */
    bool is_anybody; /* any certificate will do */
};

/* Shakes hands over a connected socket, which stays the caller's. host is a name or an address that
 * the certificate must be for. NULL with the reason, which is cut to size bytes. */
struct health_tls *health_tls_open(int socket, const char *host, const struct health_trust *trust,
                                   int64_t deadline_ns, char *reason, size_t size);

/* As send(2) and recv(2) with a socket that waits until the deadline: -1 with errno. */
ssize_t health_tls_send(struct health_tls *tls, const void *data, size_t size);
ssize_t health_tls_receive(struct health_tls *tls, void *data, size_t size);

/* NULL is fine. */
void health_tls_close(struct health_tls *tls);

#endif
