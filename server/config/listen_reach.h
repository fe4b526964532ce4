/* listen_reach.h - which addresses other machines reach, and what it takes to listen there.
 *
 * Without keys the daemon does for everybody whatever they ask: compute, load and delete models. So
 * it listens on an address that is not of this machine alone only where its owner gave a file of
 * keys, or said in words that everybody may do everything. Everything has one exception: shared
 * memory of this machine is for others by their keys alone. */
#ifndef ATTND_LISTEN_REACH_H
#define ATTND_LISTEN_REACH_H

#include "base/fault.h"
#include "config/config.h"

#include <sys/socket.h>

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
