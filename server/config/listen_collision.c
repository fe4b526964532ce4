/* listen_collision.c - see listen_collision.h. */
#include "config/listen_collision.h"

#include "config/listen_address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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
