/* SPDX-License-Identifier: Apache-2.0 */
/* fixture.h - the beginning and the end of most programs in tests/http: one daemon, one client
 * of it, and a directory of models if they need one. Group and test fixtures of cmocka. */
#ifndef FIXTURE_H
#define FIXTURE_H

#include "daemon.h"
#include "http_client.h"

extern struct daemon server;
extern struct http_client client; /* of server */
extern char *directory;           /* NULL: none was made */

/* Starts the server with these arguments, and its client. */
#define fixture_serve(...)                                                                         \
    (daemon_start_with(&server, __VA_ARGS__, NULL), http_client_init(&client, server.port))

/* The same without arguments. */
int fixture_start(void **state);

/* The same, and the daemon serves the models in examples/models. */
int fixture_start_with_examples(void **state);

/* The same with a new directory of models; requests may put models into it. */
int fixture_start_with_directory(void **state);

/* A new directory only: the tests start daemons on it. */
int fixture_make_directory(void **state);

/* The path of name in the directory. It is valid until the next call. */
const char *fixture_path(const char *name);

/* Ends both. Fails the test unless the server ends cleanly, with 0. */
int fixture_stop(void **state);

/* Clears up even after a failure: kills the server, removes the directory. */
int fixture_clear(void **state);

/* fixture_stop() as a test. It is the last test of a group that ends with fixture_clear(). */
void test_stops_cleanly(void **state);

#endif
