/* SPDX-License-Identifier: Apache-2.0 */
/* unix_client.c - see unix_client.h. */
#include "unix_client.h"
#include "test.h"

#include "base/unix_address.h"
#include "daemon.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

int unix_client_connect(const char *name)
{
    struct sockaddr_un address;
    const socklen_t size = unix_address(&address, name);
    const int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(client >= 0);
    if (connect(client, (const struct sockaddr *)&address, size) == 0)
        return client;
    const int error = errno;
    close(client);
    errno = error;
    return -1;
}

void unix_client_send(int client, const char *text)
{
    const size_t size = strlen(text);
    assert_int_equal(send(client, text, size, MSG_NOSIGNAL), size);
}

char *unix_client_read(int client)
{
    const double until = daemon_now() + 20 * daemon_slowness();
    size_t used = 0, room = 1 << 16;
    char *text = malloc(room);
    for (;;) {
        assert_non_null(text);
        struct pollfd readable = { .fd = client, .events = POLLIN };
        if (daemon_now() > until)
            fail_msg("nothing more comes, and the connection stays: %.*s", (int)used, text);
        if (poll(&readable, 1, 100) <= 0)
            continue;
        const ssize_t size = recv(client, text + used, room - used - 1, 0);
        if (size <= 0)
            break;
        used += (size_t)size;
        if (room - used < 1 << 12)
            text = realloc(text, room *= 2);
    }
    text[used] = '\0';
    close(client);
    return text;
}

char *unix_client_ask(const char *name, const char *method, const char *path, const char *body)
{
    char request[4096];
    const int client = unix_client_connect(name);
    if (client < 0)
        fail_msg("%s: %s", name, strerror(errno));
    snprintf(request, sizeof request,
             "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n"
             "%s",
             method, path, body ? strlen(body) : 0, body ? body : "");
    unix_client_send(client, request);
    return unix_client_read(client);
}

int unix_client_status(const char *answer)
{
    int status = 0;
    return sscanf(answer, "HTTP/1.1 %d", &status) == 1 ? status : 0;
}
