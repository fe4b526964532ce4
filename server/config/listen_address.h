/* listen_address.h - the parts of an address to listen on, as it is typed. */
#ifndef ATTND_LISTEN_ADDRESS_H
#define ATTND_LISTEN_ADDRESS_H

#include <stdbool.h>

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

#endif
