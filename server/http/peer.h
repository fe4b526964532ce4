/* SPDX-License-Identifier: Apache-2.0 */
/* peer.h - which peer a connection belongs to, as far as its address tells. */
#ifndef ATTND_PEER_H
#define ATTND_PEER_H

#include <stdint.h>
#include <sys/socket.h>

/* A number that is the same for all connections of one peer, and hardly ever the same for two
 * peers. A peer is an IPv4 address, or the network of 64 bits around an IPv6 address, which belongs
 * to one customer. The numbers cannot be foretold from outside: a secret of the process is mixed
 * in. */
uint32_t peer_number(const struct sockaddr *address);

/* The same for a client of a Unix socket: a peer is a user, by number. All clients whose user is
 * not known, -1, are one peer. */
uint32_t peer_number_of_user(int64_t uid);

#endif
