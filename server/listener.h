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

#endif
