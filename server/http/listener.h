/* listener.h - listening sockets from an address as it is typed. */
#ifndef ATTND_LISTENER_H
#define ATTND_LISTENER_H

#include "base/fault.h"

enum { LISTENER_ADDRESS_MAX = 80, LISTENERS_OF_ONE = 2 };

struct listener {
    int socket;                         /* non-blocking; -1: none */
    char address[LISTENER_ADDRESS_MAX]; /* in use: "127.0.0.1:8080", "[::1]:40123" */
};

/* One for an address (listen_address.h) that is numeric; for localhost one for each of 127.0.0.1
 * and
 * ::1 that this machine has. Port 0 takes a free one, the same for both. */
bool listener_open(struct listener listeners[LISTENERS_OF_ONE], int *count, const char *address,
                   struct fault *fault);

/* Whether it could be opened, but for what listens there now. Leaves nothing open. */
bool listener_try(const char *address, struct fault *fault);

void listener_close(struct listener *listener);

/* From now on a client that begins to connect gets no answer, as if its packet were lost, and tries
 * again until the socket is closed and refuses it. Handshakes under way go on, so that the queue
 * can be emptied for good. Without effect where the kernel takes no filter. */
void listener_begin_none(const struct listener *listener);

#endif
