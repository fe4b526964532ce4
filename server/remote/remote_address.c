/* SPDX-License-Identifier: Apache-2.0 */
/* remote_address.c - an address as a URL, read strictly: it becomes the head of a request. */
#include "remote/remote.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { PORT_OF_HTTP = 80, PORT_OF_TLS = 443, PORT_MAX = 65535 };

/* What may have a password in it is not for the log. */
static const char *shown(const char *url)
{
    return strchr(url, '@') ? "...@..." : url;
}

/* Spaces and control characters would end the line of a request. */
static bool is_visible(const char *text)
{
    for (; *text; text++)
        if (*text <= ' ' || *text > '~')
            return false;
    return true;
}

/* The host without brackets. */
static bool take_host(struct remote_address *address, const char *text, size_t size)
{
    unsigned char bytes[16];
    const bool is_bracketed = size > 2 && text[0] == '[' && text[size - 1] == ']';
    if (is_bracketed) {
        text++;
        size -= 2;
    }
    if (size == 0 || size > REMOTE_HOST_MAX)
        return false;
    memcpy(address->host, text, size);
    address->host[size] = '\0';
    if (is_bracketed)
        return inet_pton(AF_INET6, address->host, bytes) == 1;
    address->host_is_name = inet_pton(AF_INET, address->host, bytes) != 1;
    return strpbrk(address->host, ":@[]\\") == NULL;
}

/* The digits behind the colon. */
static bool take_port(struct remote_address *address, const char *text, size_t size)
{
    int port = 0;
    address->port = address->is_tls ? PORT_OF_TLS : PORT_OF_HTTP;
    if (size == 0)
        return true;
    if (text[0] != ':' || size < 2 || size > 6)
        return false;
    for (size_t i = 1; i < size; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        port = port * 10 + (text[i] - '0');
    }
    address->port = port;
    return port >= 1 && port <= PORT_MAX;
}

static bool take_base(struct remote_address *address, const char *path)
{
    size_t size = strlen(path);
    while (size > 0 && path[size - 1] == '/')
        size--;
    snprintf(address->base, sizeof address->base, "%.*s", (int)size, path);
    return size < sizeof address->base && !strpbrk(path, "?#");
}

static bool read_url(struct remote_address *address, const char *url)
{
    static const char SCHEME[] = "http://", TLS_SCHEME[] = "https://";
    address->is_tls = strncasecmp(url, TLS_SCHEME, sizeof TLS_SCHEME - 1) == 0;
    if (!is_visible(url) || (!address->is_tls && strncasecmp(url, SCHEME, sizeof SCHEME - 1) != 0))
        return false;
    const char *host = url + (address->is_tls ? sizeof TLS_SCHEME : sizeof SCHEME) - 1;
    const char *path = host + strcspn(host, "/?#");
    const char *bracket = memchr(host, ']', (size_t)(path - host));
    const char *after = bracket ? bracket + 1 : host;
    const char *colon = memchr(after, ':', (size_t)(path - after));
    const char *host_end = colon ? colon : path;
    return take_host(address, host, (size_t)(host_end - host))
           && take_port(address, host_end, (size_t)(path - host_end)) && take_base(address, path);
}

bool remote_address_read(struct remote_address *address, const char *label, const char *url,
                         struct fault *fault)
{
    *address = (struct remote_address){ .is_tls = false };
    if (read_url(address, url)) {
        const bool is_v6 = strchr(address->host, ':') != NULL;
        const int length = snprintf(address->url, sizeof address->url, "http%s://%s%s%s:%d%s",
                                    address->is_tls ? "s" : "", is_v6 ? "[" : "", address->host,
                                    is_v6 ? "]" : "", address->port, address->base);
        if (length < (int)sizeof address->url)
            return true;
    }
    return fault_set(fault, FAULT_OPTION,
                     "%s: '%.80s' came; expected the address of a server, as in "
                     "http://127.0.0.1:8080 or https://attnd-1.example:8443",
                     label, shown(url));
}
