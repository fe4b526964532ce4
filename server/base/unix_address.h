/* SPDX-License-Identifier: Apache-2.0 */
/* unix_address.h - the address of a Unix socket from its name (unix(7)). */
#ifndef ATTND_UNIX_ADDRESS_H
#define ATTND_UNIX_ADDRESS_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

/* The longest name that an address holds. */
enum { UNIX_NAME_MAX = sizeof((struct sockaddr_un *)0)->sun_path - 1 };

/* Fills in the address of "/run/x", a path, or of "@x", one of the abstract names of Linux: a NUL
 * byte stands in place of the "@", and the length alone says where the name ends. Returns the size
 * of the address; 0 where name is neither or longer than UNIX_NAME_MAX. */
socklen_t unix_address(struct sockaddr_un *address, const char *name);

#endif
