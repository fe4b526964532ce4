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

static void wait_until_ready(void)
{
    const double until = daemon_now() + 20 * daemon_slowness();
    for (long status = 0; status != 200; daemon_pause(0.003)) {
        struct http_response response = http_client_get(&client, "/readyz");
        status = response.status;
        http_response_free(&response);
        if (daemon_now() > until)
            fail_msg("no answer by TLS");
    }
}

void tls_daemon_start(const char *argument, ...)
{
    static char certificate[PATH_BYTES], key[PATH_BYTES];
    const char *arguments[ARGUMENTS_MAX] = { "--tls-cert", certificate, "--tls-key", key };
    int count = 4;
    va_list list;
    snprintf(certificate, sizeof certificate, "%s/server.pem", directory);
    snprintf(key, sizeof key, "%s/server-key.pem", directory);
    va_start(list, argument);
    for (; argument && count < ARGUMENTS_MAX - 1; argument = va_arg(list, const char *))
        arguments[count++] = argument;
    va_end(list);
    daemon_start(&server,
                 &(struct daemon_options){ .arguments = arguments, .may_not_be_ready = true });
    http_client_init(&client, server.port);
    tls_client = (struct http_client_tls){ .ca = certificate };
    client.tls = &tls_client;
    wait_until_ready();
}

void tls_daemon_stop(void)
{
    if (!directory)
        return;
    fixture_stop(NULL);
    daemon_directory_remove(directory);
    directory = NULL;
}
