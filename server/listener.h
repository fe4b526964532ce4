/* listener.h - a listening socket from an address as it is typed. */
#ifndef ATTND_LISTENER_H
#define ATTND_LISTENER_H

#include "fault.h"

enum { LISTENER_ADDRESS_MAX = 80 };

struct listener {
    int socket;                         /* non-blocking; -1: none */
    char address[LISTENER_ADDRESS_MAX]; /* in use: "127.0.0.1:8080", "[::1]:40123" */
};

/* "ADDR:PORT" with a numeric address, IPv6 in brackets; port 0 takes a free one. */
bool listener_open(struct listener *listener, const char *address, struct fault *fault);
void listener_close(struct listener *listener);

/* From now on a client that begins to connect gets no answer, as if its packet were lost, and tries
 * again until the socket is closed and refuses it. Handshakes under way go on, so that the queue
 * can be emptied for good. Without effect where the kernel takes no filter. */
void listener_begin_none(const struct listener *listener);

#endif
