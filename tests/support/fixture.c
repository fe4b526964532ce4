/* SPDX-License-Identifier: Apache-2.0 */
/* fixture.c - see fixture.h. */
#include "fixture.h"

#include <stdio.h>

struct daemon server;
struct http_client client;
char *directory;

int fixture_start(void **state)
{
    (void)state;
    daemon_start(&server, NULL);
    http_client_init(&client, server.port);
    return 0;
}

int fixture_start_with_examples(void **state)
{
    (void)state;
    fixture_serve("--models", "examples/models");
    return 0;
}

int fixture_start_with_directory(void **state)
{
    (void)state;
    directory = daemon_directory_create();
    fixture_serve("--models", directory, "--model-control", "explicit");
    return 0;
}

int fixture_make_directory(void **state)
{
    (void)state;
    directory = daemon_directory_create();
    return 0;
}

const char *fixture_path(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

int fixture_stop(void **state)
{
    (void)state;
    http_client_free(&client);
    daemon_stop(&server);
    return 0;
}

int fixture_clear(void **state)
{
    (void)state;
    daemon_kill(&server);
    daemon_directory_remove(directory);
    directory = NULL;
    return 0;
}

void test_stops_cleanly(void **state)
{
    fixture_stop(state);
}
