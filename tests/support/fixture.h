/* fixture.h - what most programs of tests/http begin and end with: one daemon, one client of it,
 * and where they need one a directory of models. Group and test fixtures of cmocka. */
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

/* The same with the models in examples/models. */
int fixture_start_with_examples(void **state);

/* The same with a new directory of models, into which requests may put some. */
int fixture_start_with_directory(void **state);

/* A new directory alone: the tests start servers over it. */
int fixture_make_directory(void **state);

/* The path of name in the directory, until the next call. */
const char *fixture_path(const char *name);

/* Ends both and fails the test unless the server ends in order, with 0. */
int fixture_stop(void **state);

/* Clears up, whatever has failed: kills the server, removes the directory. */
int fixture_clear(void **state);

/* fixture_stop() as a test, the last of a group that ends with fixture_clear(). */
void test_stops_cleanly(void **state);

#endif
