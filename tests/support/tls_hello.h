/* SPDX-License-Identifier: Apache-2.0 */
/* tls_hello.h - the first message of a TLS client, made byte by byte, and what a server makes of
 * it. So a test can offer what no library offers any more. */
#ifndef TLS_HELLO_H
#define TLS_HELLO_H

enum { TLS_ECDHE_ECDSA_AES_128_GCM = 0xc02b };
enum { TLS_ALERT_HANDSHAKE_FAILURE = 40, TLS_ALERT_PROTOCOL_VERSION = 70 };

/* What came back: nothing but the end, a server's hello, or an alert of this number plus the number
 * of TLS_HELLO_ALERT. */
enum { TLS_HELLO_CLOSED, TLS_HELLO_TAKEN, TLS_HELLO_OTHER, TLS_HELLO_ALERT = 1000 };

/* Offers one version (0x0303 is TLS 1.2) and one suite (RFC 5246, A.5) to a port. */
int tls_hello_send(int port, int version, int suite);

/* Sends such a hello on a connection, and waits for nothing. */
struct http_raw;
void tls_hello_begin(struct http_raw *raw, int version, int suite);

#endif
