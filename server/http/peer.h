/* peer.h - whose connection it is, as far as its address tells. */
#ifndef ATTND_PEER_H
#define ATTND_PEER_H

#include <stdint.h>
#include <sys/socket.h>

/* A number that is the same for all of one peer, and for two hardly ever: of an IPv4 address, or of
 * the network of 64 bits that an IPv6 address is in, which is one customer's. What has no address
 * is one peer. Which numbers there are nobody outside knows. */
uint32_t peer_number(const struct sockaddr *address);

#endif
