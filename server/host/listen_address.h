/* SPDX-License-Identifier: Apache-2.0 */
/* listen_address.h - addresses to listen on, as they are typed: their parts, two that are the same,
 * and those that other machines reach. */
#ifndef ATTND_LISTEN_ADDRESS_H
#define ATTND_LISTEN_ADDRESS_H

#include "base/fault.h"
#include "host/config.h"

#include <stdbool.h>
#include <sys/socket.h>

/* ------------------------------------------------------------------ parts -- */

enum { LISTEN_HOST_MAX = 64 };

/* Stands before the name of a Unix socket. */
#define LISTEN_UNIX_PREFIX "unix:"

struct listen_address {
    const char *unix_name; /* of a Unix socket, within the text: "/run/attnd.sock" or "@attnd"; NULL
                              for an address of TCP, which the others describe */
    char host[LISTEN_HOST_MAX]; /* without brackets; this machine may not have it */
    char port[8];               /* digits, 0 to 65535 */
    bool is_localhost; /* means 127.0.0.1 and ::1; host is "localhost", no name is looked up */
};

/* Reads "127.0.0.1:8080" or "[::1]:0"; "localhost:8080", in upper or lower case, or ":8080", which
 * means the same; "localhost" alone, whose port is 8080; "unix:/run/attnd.sock" or "unix:@attnd".
 * False for anything else. */
bool listen_address_read(struct listen_address *address, const char *text);

/* What may stand in place of a text that is no address, for messages: "expected ...". */
const char *listen_address_forms(const char *text);

/* ------------------------------------------------------------- collisions -- */

/* False, with a fault, where two of the addresses, as typed, include the same address at the same
 * port, or name the same Unix socket. Port 0 collides with nothing, nor does a text that is no
 * address. What other processes listen on is not checked. */
bool listen_collision_check(const char *const *addresses, int count, struct fault *fault);

/* Checks all addresses of a configuration so. */
bool listen_collision_check_config(const struct config *config, struct fault *fault);

/* ------------------------------------------------------------------ reach -- */

/* Which addresses other machines reach, and what it takes to listen there.
 *
 * Without keys the daemon does for everybody whatever they ask: compute, load and delete models. So
 * it listens on an address that is not of this machine alone only where its owner gave a file of
 * keys, or said in words that everybody may do everything. Everything has one exception: shared
 * memory of this machine is for others by their keys alone. */

/* Whether only this machine reaches a socket of that address: 127.0.0.0/8, also in the form mapped
 * to IPv6, ::1, and every Unix socket. */
bool listen_reach_is_local(const struct sockaddr *address);

/* Whether the configuration lets the daemon listen where other machines reach it. */
bool listen_reach_is_allowed(const struct config *config);

/* Sets the fault for an address, as typed or as a socket has it, that other machines reach. Returns
 * false. */
bool listen_reach_refuse(const struct config *config, const char *address, struct fault *fault);

/* False, with a fault, where other machines reach an address of the configuration and it does not
 * allow that. */
bool listen_reach_check(const struct config *config, struct fault *fault);

#endif
