/* listen_address.c - see listen_address.h. */
#include "listen_address.h"

#include "config_value.h"

#include <stdio.h>
#include <string.h>

static const char LOCALHOST[] = "localhost";

enum { PORT_DEFAULT = 8080, PORT_MAX = 65535 };

bool listen_address_read(struct listen_address *address, const char *text)
{
    int64_t port = PORT_DEFAULT;
    const bool is_bare = strcmp(text, LOCALHOST) == 0;
    const char *colon = strrchr(text, ':');
    if (!is_bare && (!colon || !config_value_integer(colon + 1, &port) || port > PORT_MAX))
        return false;
    const char *host = text;
    size_t length = is_bare ? strlen(text) : (size_t)(colon - text);
    if (host[0] == '[') {
        if (length < 3 || host[length - 1] != ']')
            return false;
        host++;
        length -= 2;
    }
    if (length >= LISTEN_HOST_MAX || memchr(host, ',', length))
        return false;
    memcpy(address->host, host, length);
    address->host[length] = '\0';
    snprintf(address->port, sizeof address->port, "%d", (int)port);
    address->is_localhost = length == 0 || strcmp(address->host, LOCALHOST) == 0;
    if (address->is_localhost)
        memcpy(address->host, LOCALHOST, sizeof LOCALHOST);
    return true;
}
