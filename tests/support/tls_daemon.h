/* SPDX-License-Identifier: Apache-2.0 */
/* tls_daemon.h - the fixture of tests that talk TLS: files in a new directory, and a daemon that
 * shows server.pem of it. */
#ifndef TLS_DAEMON_H
#define TLS_DAEMON_H

#include "fixture.h"
#include "tls_files.h"
#include "tls_tunnel.h"

extern struct http_client_tls tls_client; /* believes server.pem, and shows nothing */

/* Makes the directory with server.pem and server-key.pem, an ECDSA pair. False without openssl:
 * then each test of the program skips itself by tls_files_need(), because a group fixture cannot.
 */
bool tls_daemon_prepare(void);

/* Starts a daemon with the pair in directory and further arguments, ended by NULL; at is a client
 * of it. */
void tls_daemon_start_at(struct daemon *daemon, struct http_client *at,
                         const char *const *arguments);

/* Starts the server with TLS and further arguments, ended by NULL; client is a client of it. */
void tls_daemon_start(const char *argument, ...);

/* Stops both, and removes the directory; fails the test unless the daemon ends with 0. Does nothing
 * where there is no directory. */
void tls_daemon_stop(void);

#endif
