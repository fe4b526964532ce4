/* SPDX-License-Identifier: Apache-2.0 */
/* web_origin.c - see web_origin.h.
 *
 * Schemes other than http and https are taken too: the pages of an application that brings its own
 * browser have an origin such as tauri://localhost. A name in other letters than ASCII's has to be
 * in its ASCII form ("xn--..."), which is the form that browsers send. */
#include "host/web_origin.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { SCHEME_BYTES = 32, HOST_BYTES = 256, PORT_MAX = 65535, PORT_DIGITS_MAX = 5 };

#define LETTERS_AND_DIGITS "abcdefghijklmnopqrstuvwxyz0123456789"

/* Copies length bytes, ASCII letters in lower case, whatever the locale. False where they do not
 * fit. */
static bool copy_lower(char *out, size_t out_size, const char *text, size_t length)
{
    if (length >= out_size)
        return false;
    for (size_t i = 0; i < length; i++)
        out[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] + 32 : text[i]);
    out[length] = '\0';
    return true;
}

static bool is_of(const char *text, const char *characters)
{
    return text[0] && text[strspn(text, characters)] == '\0';
}

/* Replaces "[::0001]" by "[::1]". */
static bool unify_ipv6(char host[HOST_BYTES])
{
    struct in6_addr address;
    char text[INET6_ADDRSTRLEN];
    host[strlen(host) - 1] = '\0';
    if (inet_pton(AF_INET6, host + 1, &address) != 1
        || !inet_ntop(AF_INET6, &address, text, sizeof text))
        return false;
    snprintf(host, HOST_BYTES, "[%s]", text);
    return true;
}

/* Reads the host of "host:port", in lower case. */
static bool read_host(char host[HOST_BYTES], const char *text, size_t length)
{
    if (length == 0 || !copy_lower(host, HOST_BYTES, text, length))
        return false;
    if (host[0] == '[')
        return host[length - 1] == ']' && unify_ipv6(host);
    return host[0] != '.' && is_of(host, LETTERS_AND_DIGITS "-._");
}

/* Reads "host", "host:port" or "[v6]:port"; *port is -1 where there is none. */
static bool read_authority(const char *text, char host[HOST_BYTES], int *port)
{
    const char *end = text[0] == '[' ? strchr(text, ']') : text + strcspn(text, ":");
    if (!end)
        return false;
    end += *end == ']';
    if (!read_host(host, text, (size_t)(end - text)))
        return false;
    *port = -1;
    if (*end == '\0')
        return true;
    if (*end != ':' || !is_of(end + 1, "0123456789") || strlen(end + 1) > PORT_DIGITS_MAX)
        return false;
    *port = 0;
    for (const char *digit = end + 1; *digit; digit++)
        *port = *port * 10 + (*digit - '0');
    return *port <= PORT_MAX;
}

static int default_port(const char *scheme)
{
    if (strcmp(scheme, "http") == 0)
        return 80;
    return strcmp(scheme, "https") == 0 ? 443 : -1;
}

bool web_origin_read(char serialised[WEB_ORIGIN_BYTES], const char *text)
{
    char scheme[SCHEME_BYTES], host[HOST_BYTES];
    int port;
    const char *colon = strstr(text, "://");
    if (!colon || !copy_lower(scheme, sizeof scheme, text, (size_t)(colon - text))
        || !is_of(scheme, LETTERS_AND_DIGITS "+-.") || scheme[0] < 'a'
        || strcmp(scheme, "file") == 0 || !read_authority(colon + strlen("://"), host, &port))
        return false;
    if (port < 0 || port == default_port(scheme))
        snprintf(serialised, WEB_ORIGIN_BYTES, "%s://%s", scheme, host);
    else
        snprintf(serialised, WEB_ORIGIN_BYTES, "%s://%s:%d", scheme, host, port);
    return true;
}

bool web_host_is_valid(const char *text)
{
    char host[HOST_BYTES];
    int port;
    return read_authority(text, host, &port);
}
