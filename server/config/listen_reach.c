/* listen_reach.c - see listen_reach.h. */
#include "config/listen_reach.h"

#include "config/listen_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

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
