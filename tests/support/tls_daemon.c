/* SPDX-License-Identifier: Apache-2.0 */
/* tls_daemon.c - see tls_daemon.h. */
#include "tls_daemon.h"
#include "test.h"

enum { ARGUMENTS_MAX = 24, PATH_BYTES = 256 };

struct http_client_tls tls_client;

bool tls_daemon_prepare(void)
{
    if (!tls_files_possible())
        return false;
    directory = daemon_directory_create();
    tls_files_make_server(directory, "server", TLS_FILES_EC);
    return true;
}

static void wait_until_ready(struct http_client *at)
{
    const double until = daemon_now() + 20 * daemon_slowness();
    for (long status = 0; status != 200; daemon_pause(0.003)) {
        struct http_response response = http_client_get(at, "/readyz");
        status = response.status;
        http_response_free(&response);
        if (daemon_now() > until)
            fail_msg("no answer by TLS");
    }
}

void tls_daemon_start_at(struct daemon *daemon, struct http_client *at,
                         const char *const *arguments)
{
    static char certificate[PATH_BYTES], key[PATH_BYTES];
    const char *all[ARGUMENTS_MAX] = { "--tls-cert", certificate, "--tls-key", key };
    snprintf(certificate, sizeof certificate, "%s/server.pem", directory);
    snprintf(key, sizeof key, "%s/server-key.pem", directory);
    for (int i = 4; *arguments && i < ARGUMENTS_MAX - 1; i++)
        all[i] = *arguments++;
    daemon_start(daemon, &(struct daemon_options){ .arguments = all, .may_not_be_ready = true });
    http_client_init(at, daemon->port);
    tls_client = (struct http_client_tls){ .ca = certificate };
    at->tls = &tls_client;
    wait_until_ready(at);
}

void tls_daemon_start(const char *argument, ...)
{
    const char *arguments[ARGUMENTS_MAX] = { NULL };
    va_list list;
    va_start(list, argument);
    for (int i = 0; argument && i < ARGUMENTS_MAX - 1; argument = va_arg(list, const char *))
        arguments[i++] = argument;
    va_end(list);
    tls_daemon_start_at(&server, &client, arguments);
}

void tls_daemon_stop(void)
{
    if (!directory)
        return;
    fixture_stop(NULL);
    daemon_directory_remove(directory);
    directory = NULL;
}
