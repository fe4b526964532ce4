/* listen_address.c - see listen_address.h. */
#include "config/listen_address.h"

#include "base/unix_address.h"
#include "config/config_value.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char LOCALHOST[] = "localhost";

enum { PORT_DEFAULT = 8080, PORT_MAX = 65535 };

/* An address as RFC 4291 writes it; one of a link may have the link's name behind '%' (RFC
 * 4007). */
static bool is_ipv6(const char *host)
{
    char number[LISTEN_HOST_MAX];
    struct in6_addr bytes;
    const size_t length = strcspn(host, "%");
    memcpy(number, host, length);
    number[length] = '\0';
    return inet_pton(AF_INET6, number, &bytes) == 1 && (!host[length] || host[length + 1]);
}

/* Four numbers. The resolver would take more: "127.1", "0", and "*", which means every address. */
static bool is_ipv4(const char *host)
{
    struct in_addr bytes;
    return inet_pton(AF_INET, host, &bytes) == 1;
}

static bool is_unix(const char *text)
{
    return strncmp(text, LISTEN_UNIX_PREFIX, strlen(LISTEN_UNIX_PREFIX)) == 0;
}

/* A name begins with '/' or, in the namespace of abstract ones, with '@'. */
static bool read_unix(struct listen_address *address, const char *name)
{
    struct sockaddr_un known;
    address->unix_name = name;
    return name[0] && name[1] && unix_address(&known, name) > 0;
}

_Static_assert(UNIX_NAME_MAX == 107, "listen_address_forms() says so");

static bool read_tcp(struct listen_address *address, const char *text)
{
    int64_t port = PORT_DEFAULT;
    const bool is_bare = strcasecmp(text, LOCALHOST) == 0;
    const char *colon = strrchr(text, ':');
    if (!is_bare && (!colon || !config_value_integer(colon + 1, &port) || port > PORT_MAX))
        return false;
    const char *host = text;
    size_t length = is_bare ? strlen(text) : (size_t)(colon - text);
    const bool is_bracketed = host[0] == '[';
    if (is_bracketed) {
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
    address->is_localhost =
        !is_bracketed && (length == 0 || strcasecmp(address->host, LOCALHOST) == 0);
    if (address->is_localhost)
        memcpy(address->host, LOCALHOST, sizeof LOCALHOST);
    return address->is_localhost || (is_bracketed ? is_ipv6 : is_ipv4)(address->host);
}

bool listen_address_read(struct listen_address *address, const char *text)
{
    *address = (struct listen_address){ .unix_name = NULL };
    return is_unix(text) ? read_unix(address, text + strlen(LISTEN_UNIX_PREFIX))
                         : read_tcp(address, text);
}

const char *listen_address_forms(const char *text)
{
    if (!is_unix(text))
        return "expected an IPv4 address as in 127.0.0.1:8080, an IPv6 address as in [::1]:8080, "
               "or localhost:8080";
    if (strlen(text) - strlen(LISTEN_UNIX_PREFIX) > UNIX_NAME_MAX)
        return "the system takes a name of at most 107 bytes for a Unix socket";
    return "expected a Unix socket as in unix:/run/attnd.sock or unix:@attnd";
}
