/* SPDX-License-Identifier: Apache-2.0 */
/* listen_address.c - reads addresses, compares them, and asks who reaches them. */
#include "host/listen_address.h"

#include "base/unix_address.h"
#include "host/config_value.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

/* ------------------------------------------------------------------ parts -- */

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

/* ------------------------------------------------------------- collisions -- */

/* One address of either family. IPv4 addresses are held in the form mapped to IPv6 (RFC 4291,
 * 2.5.5.2). */
struct place {
    struct in6_addr address;
    uint32_t scope; /* the number of its link */
    bool is_ipv4, is_any;
};

/* What one typed address means: two addresses where it is localhost. */
struct places {
    struct place place[2];
    int count;
    const char *port;
};

static bool read_place(struct place *place, const char *host)
{
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {
        .ai_family = AF_INET6,
        .ai_flags = AI_NUMERICHOST | AI_V4MAPPED,
        .ai_socktype = SOCK_STREAM,
    };
    struct sockaddr_in6 name;
    if (getaddrinfo(host, NULL, &hints, &found) != 0)
        return false;
    memcpy(&name, found->ai_addr, sizeof name);
    freeaddrinfo(found);
    const struct in6_addr any_ipv4 = { .s6_addr = { [10] = 0xff, [11] = 0xff } };
    place->address = name.sin6_addr;
    place->scope = name.sin6_scope_id;
    place->is_ipv4 = IN6_IS_ADDR_V4MAPPED(&name.sin6_addr);
    place->is_any = IN6_IS_ADDR_UNSPECIFIED(&name.sin6_addr)
                    || memcmp(&name.sin6_addr, &any_ipv4, sizeof any_ipv4) == 0;
    return true;
}

static void read_places(struct places *places, struct listen_address *parts, const char *text)
{
    places->count = 0;
    if (!listen_address_read(parts, text) || parts->unix_name)
        return;
    places->port = parts->port;
    if (!parts->is_localhost)
        places->count = read_place(&places->place[0], parts->host);
    else
        places->count =
            read_place(&places->place[0], "127.0.0.1") && read_place(&places->place[1], "::1") ? 2
                                                                                               : 0;
}

/* Whether [::] includes the IPv4 addresses too, which the system decides (ipv6(7), IPV6_V6ONLY). */
static bool ipv6_takes_ipv4(void)
{
    int is_alone = 1;
    socklen_t size = sizeof is_alone;
    const int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (probe < 0)
        return false;
    const bool good = getsockopt(probe, IPPROTO_IPV6, IPV6_V6ONLY, &is_alone, &size) == 0;
    close(probe);
    return good && !is_alone;
}

static bool places_overlap(const struct place *one, const struct place *other, bool any_is_both)
{
    if (one->is_ipv4 != other->is_ipv4)
        return any_is_both && (one->is_ipv4 ? other : one)->is_any;
    return one->is_any || other->is_any
           || (memcmp(&one->address, &other->address, sizeof one->address) == 0
               && one->scope == other->scope);
}

static bool collide(const char *one, const char *other, bool any_is_both)
{
    struct listen_address one_parts, other_parts;
    struct places ones, others;
    read_places(&ones, &one_parts, one);
    read_places(&others, &other_parts, other);
    if (one_parts.unix_name && other_parts.unix_name)
        return strcmp(one, other) == 0;
    if (ones.count == 0 || others.count == 0 || strcmp(ones.port, others.port) != 0
        || strcmp(ones.port, "0") == 0)
        return false;
    for (int i = 0; i < ones.count; i++)
        for (int j = 0; j < others.count; j++)
            if (places_overlap(&ones.place[i], &others.place[j], any_is_both))
                return true;
    return false;
}

static const char *what_is_same(const char *address)
{
    struct listen_address parts;
    return listen_address_read(&parts, address) && parts.unix_name ? "socket"
                                                                   : "port of the same address";
}

bool listen_collision_check(const char *const *addresses, int count, struct fault *fault)
{
    const bool any_is_both = count > 1 && ipv6_takes_ipv4();
    for (int i = 1; i < count; i++)
        for (int j = 0; j < i; j++)
            if (collide(addresses[j], addresses[i], any_is_both))
                return fault_set(fault, FAULT_OPTION,
                                 "cannot listen on both '%s' and '%s': they are the same %s; "
                                 "leave one of them out",
                                 addresses[j], addresses[i], what_is_same(addresses[i]));
    return true;
}

bool listen_collision_check_config(const struct config *config, struct fault *fault)
{
    const struct config_list *const lists[] = { &config->listen, &config->admin_listen };
    const char *all[2 * CONFIG_LIST_MAX];
    int count = 0;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < lists[i]->count; j++)
            all[count++] = lists[i]->items[j];
    return listen_collision_check(all, count, fault);
}

/* ------------------------------------------------------------------ reach -- */

static bool is_loopback_ipv4(uint32_t address)
{
    return ntohl(address) >> 24 == 127;
}

bool listen_reach_is_local(const struct sockaddr *address)
{
    if (address->sa_family == AF_UNIX)
        return true;
    if (address->sa_family == AF_INET)
        return is_loopback_ipv4(
            ((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr);
    if (address->sa_family != AF_INET6)
        return false;
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    if (!IN6_IS_ADDR_V4MAPPED(v6))
        return IN6_IS_ADDR_LOOPBACK(v6);
    uint32_t v4;
    memcpy(&v4, v6->s6_addr + 12, sizeof v4);
    return is_loopback_ipv4(v4);
}

/* The same of an address as typed. A link behind '%' has addresses that other machines reach. */
static bool typed_is_local(const char *text)
{
    struct listen_address parts;
    struct sockaddr_in v4 = { .sin_family = AF_INET };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
    if (!listen_address_read(&parts, text))
        return false;
    if (parts.is_localhost || parts.unix_name)
        return true;
    if (inet_pton(AF_INET, parts.host, &v4.sin_addr) == 1)
        return listen_reach_is_local((const struct sockaddr *)&v4);
    return inet_pton(AF_INET6, parts.host, &v6.sin6_addr) == 1
           && listen_reach_is_local((const struct sockaddr *)&v6);
}

bool listen_reach_is_allowed(const struct config *config)
{
    return config->keys || (config->open && config->shared_memory.count == 0);
}

bool listen_reach_refuse(const struct config *config, const char *address, struct fault *fault)
{
    if (config->open)
        return fault_set(fault, FAULT_OPTION,
                         "%.80s is reachable from other machines, and with --shared-memory-prefix "
                         "whoever reaches it reads and writes shared memory; give --keys FILE",
                         address);
    return fault_set(fault, FAULT_OPTION,
                     "%.80s is reachable from other machines; give --keys FILE (attnd key new NAME "
                     "makes one), or --open to let everybody who reaches it do everything",
                     address);
}

static bool check_list(const struct config *config, const struct config_list *list,
                       struct fault *fault)
{
    for (int i = 0; i < list->count; i++)
        if (!typed_is_local(list->items[i]))
            return listen_reach_refuse(config, list->items[i], fault);
    return true;
}

bool listen_reach_check(const struct config *config, struct fault *fault)
{
    if (listen_reach_is_allowed(config))
        return true;
    return check_list(config, &config->listen, fault)
           && check_list(config, &config->admin_listen, fault);
}
