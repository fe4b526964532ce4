/* SPDX-License-Identifier: Apache-2.0 */
/* tls_hello.c - see tls_hello.h. RFC 5246, 7.4.1.2. */
#include "tls_hello.h"

#include "daemon.h"
#include "http_client.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>

enum { RECORD_HEAD = 5, HANDSHAKE = 22, ALERT = 21 };

/* X25519 and P-256; signatures by ECDSA and RSA with SHA-256, and by ECDSA with SHA-1; points as
 * they are. */
static const unsigned char EXTENSIONS[] = {
    0, 10, 0, 6, 0, 4, 0, 29, 0, 23,       /* supported_groups */
    0, 13, 0, 8, 0, 6, 4, 3,  4, 1,  2, 3, /* signature_algorithms */
    0, 11, 0, 2, 1, 0,                     /* ec_point_formats */
};

static void put_16(unsigned char *at, size_t value)
{
    at[0] = (unsigned char)(value >> 8);
    at[1] = (unsigned char)value;
}

/* Returns the size of the record. */
static size_t make_hello(unsigned char *record, int version, int suite)
{
    unsigned char *at = record + RECORD_HEAD + 4;
    put_16(at, (size_t)version);
    memset(at + 2, 7, 32); /* its random bytes */
    at[34] = 0;            /* no earlier session */
    put_16(at + 35, 2);
    put_16(at + 37, (size_t)suite);
    at[39] = 1;
    at[40] = 0; /* no compression */
    put_16(at + 41, sizeof EXTENSIONS);
    memcpy(at + 43, EXTENSIONS, sizeof EXTENSIONS);
    const size_t size = 43 + sizeof EXTENSIONS;
    record[0] = HANDSHAKE;
    put_16(record + 1, version > 0x0301 ? 0x0301 : (size_t)version);
    put_16(record + 3, 4 + size);
    record[5] = 1; /* client_hello */
    record[6] = 0;
    put_16(record + 7, size);
    return RECORD_HEAD + 4 + size;
}

void tls_hello_begin(struct http_raw *raw, int version, int suite)
{
    unsigned char record[256];
    http_raw_send(raw, record, make_hello(record, version, suite));
}

int tls_hello_send(int port, int version, int suite)
{
    unsigned char answer[7];
    struct http_raw raw;
    size_t used = 0;
    http_raw_connect(&raw, port);
    tls_hello_begin(&raw, version, suite);
    struct pollfd wanted = { .fd = raw.socket, .events = POLLIN };
    while (used < sizeof answer && poll(&wanted, 1, (int)(10000 * daemon_slowness())) > 0) {
        const ssize_t some = recv(raw.socket, answer + used, sizeof answer - used, 0);
        if (some <= 0)
            break;
        used += (size_t)some;
    }
    http_raw_close(&raw);
    if (used == 0)
        return TLS_HELLO_CLOSED;
    if (used < sizeof answer)
        return TLS_HELLO_OTHER;
    if (answer[0] == ALERT)
        return TLS_HELLO_ALERT + answer[6];
    return answer[0] == HANDSHAKE && answer[5] == 2 ? TLS_HELLO_TAKEN : TLS_HELLO_OTHER;
}
