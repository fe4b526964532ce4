/* SPDX-License-Identifier: Apache-2.0 */
/* service_manager.h - what the service manager and the daemon tell each other (systemd). */
#ifndef ATTND_SERVICE_MANAGER_H
#define ATTND_SERVICE_MANAGER_H

#include "base/fault.h"

/* Listening sockets that a service manager has opened for the daemon, as systemd
 * does for a unit with a .socket file (sd_listen_fds(3)). */

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

/* Sends one or several lines of sd_notify(3), such as "READY=1", to the socket that the environment
 * variable NOTIFY_SOCKET names. Does nothing without the variable, and only logs a warning where
 * the socket cannot be reached. */
void notify(const char *lines);

/* Connects to the manager, where there is one, for a process that can open no socket later: from
 * then on notify() uses this connection. Called before threads start. */
void notify_keep(void);

#endif
