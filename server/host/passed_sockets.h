/* passed_sockets.h - listening sockets that a service manager has opened for the daemon, as systemd
 * does for a unit with a .socket file (sd_listen_fds(3)). */
#ifndef ATTND_PASSED_SOCKETS_H
#define ATTND_PASSED_SOCKETS_H

#include "base/fault.h"

enum { PASSED_SOCKETS_MAX = 16, PASSED_NAME_MAX = 64 };

struct passed_socket {
    int descriptor;
    char name[PASSED_NAME_MAX]; /* FileDescriptorName= of the unit; "" where there is none */
};

/* Takes what was passed to this process, and unsets the variables that say so. The descriptors are
 * the caller's, and no program that this process starts gets them. *count is 0 where nothing was
 * passed. False, with a fault, where the variables make no sense. */
bool passed_sockets_take(struct passed_socket sockets[PASSED_SOCKETS_MAX], int *count,
                         struct fault *fault);

#endif
