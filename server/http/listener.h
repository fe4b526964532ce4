/* listener.h - listening sockets from an address as it is typed. */
#ifndef ATTND_LISTENER_H
#define ATTND_LISTENER_H

#include "base/fault.h"

enum {
    LISTENER_ADDRESS_MAX = 80,
    LISTENERS_OF_ONE = 2,
    LISTENERS_MAX = 8 * LISTENERS_OF_ONE, /* of the addresses in --listen */
};

struct listener {
    int socket;                         /* non-blocking; -1: none */
    bool is_unix;                       /* it has clients of this machine alone, and no TLS */
    char address[LISTENER_ADDRESS_MAX]; /* in use: "127.0.0.1:8080", "[::1]:40123" */
};

/* The sockets of all addresses of the daemon. */
struct listeners {
    struct listener all[LISTENERS_MAX];
    int count;
};

/* Opens the sockets of all addresses, of which there are at most LISTENERS_MAX / LISTENERS_OF_ONE.
 * The caller closes them with listeners_close(), after a failure too. */
bool listeners_open(struct listeners *listeners, const char *const *addresses, int address_count,
                    struct fault *fault);
void listeners_close(struct listeners *listeners);

/* Opens *count listening sockets for an address (listen_address.h): one for a numeric address, and
 * for localhost one for each of 127.0.0.1 and ::1 that this machine has. Port 0 takes a free port,
 * the same for both. */
bool listener_open(struct listener listeners[LISTENERS_OF_ONE], int *count, const char *address,
                   struct fault *fault);

/* Whether the address could be opened if no other socket listened there. Leaves nothing open. */
bool listener_try(const char *address, struct fault *fault);

/* Closes the socket, if it is open. */
void listener_close(struct listener *listener);

/* Begins no more handshakes. From now on a client that connects gets no answer, as if its packet
 * were lost, and tries again until the socket is closed and the kernel refuses it. Handshakes under
 * way go on, so that the queue of the socket can be emptied for good. Without effect where the
 * kernel takes no filter. */
void listener_begin_none(const struct listener *listener);

#endif
