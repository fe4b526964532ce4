/* listen_address.h - the parts of an address to listen on, as it is typed. */
#ifndef ATTND_LISTEN_ADDRESS_H
#define ATTND_LISTEN_ADDRESS_H

#include <stdbool.h>

enum { LISTEN_HOST_MAX = 64 };

/* What an address may be, for messages. */
#define LISTEN_ADDRESS_FORMS                                                                       \
    "expected an IPv4 address as in 127.0.0.1:8080, an IPv6 address as in [::1]:8080, or "         \
    "localhost:8080"

struct listen_address {
    char host[LISTEN_HOST_MAX]; /* without brackets; this machine may not have it */
    char port[8];               /* digits, 0 to 65535 */
    bool is_localhost; /* means 127.0.0.1 and ::1; host is "localhost", no name is looked up */
};

/* Reads "127.0.0.1:8080" or "[::1]:0"; "localhost:8080", in upper or lower case, or ":8080", which
 * means the same; and "localhost" alone, whose port is 8080. False for anything else. */
bool listen_address_read(struct listen_address *address, const char *text);

#endif
