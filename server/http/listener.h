/* SPDX-License-Identifier: Apache-2.0 */
/* listener.h - one listening socket, of TCP or of Unix, from an address as it is typed. */
#ifndef ATTND_LISTENER_H
#define ATTND_LISTENER_H

#include "base/fault.h"

#include <sys/types.h>

enum { LISTENER_ADDRESS_MAX = 128, LISTENERS_OF_ONE = 2 };

struct listener {
    int socket;                         /* non-blocking; -1: none */
    char address[LISTENER_ADDRESS_MAX]; /* in use: "127.0.0.1:8080", "[::1]:40123",
                                           "unix:/run/attnd.sock" */
    bool is_operators;                  /* of --admin-listen: it serves all routes */
    bool is_passed; /* opened by a service manager, which may keep it and pass it on */
    bool is_unix;   /* it has clients of this machine alone, and no TLS */

    /* The file of a Unix socket; without meaning for other sockets. */
    bool has_file; /* this process has made it */
    int folder;    /* the one that it lies in; -1: it could not be opened */
    dev_t device;
    ino_t inode;
};

/* What becomes of the files of Unix sockets. */
struct listener_options {
    int unix_mode;          /* of the file, as in chmod(2) */
    const char *unix_owner; /* "USER", "USER:GROUP" or ":GROUP", names or numbers; NULL: the
                               process's */
};

/* Opens *count listening sockets for an address (listen_address.h): one for a numeric address or a
 * Unix socket, and for localhost one for each of 127.0.0.1 and ::1 that this machine has. Port 0
 * takes a free port, the same for both. */
bool listener_open(struct listener listeners[LISTENERS_OF_ONE], int *count, const char *address,
                   const struct listener_options *options, struct fault *fault);

/* Takes a socket that a service manager has opened; name is what the manager calls it. The listener
 * has it even where this fails, for it is not a listening socket of a stream. */
bool listener_adopt(struct listener *listener, int socket, const char *name, struct fault *fault);

/* Whether the address could be opened if no other socket listened there. Leaves nothing open. */
bool listener_try(const char *address, const struct listener_options *options, struct fault *fault);

/* The file of a Unix socket that has one. */
const char *listener_file(const struct listener *listener);

/* Closes the socket, if it is open, and removes the file that was made for it. */
void listener_close(struct listener *listener);

/* Lets no more clients connect, so that the queue of the socket can be emptied for good. A client
 * of TCP that connects from now on gets no answer, as if its packet were lost, and tries again
 * until the socket is closed and the kernel refuses it; handshakes under way go on. Without effect
 * where the kernel takes no filter. A client of a Unix socket is refused at once. Of a socket that
 * was passed, clients continue to connect: the next process that gets it serves them. */
void listener_begin_none(const struct listener *listener);

#endif
