/* SPDX-License-Identifier: Apache-2.0 */
/* peer.c - see peer.h. */
#include "http/peer.h"

#include "base/clock.h"

#include <netinet/in.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>

/* A random number, drawn once for the process: two threads that draw at the same moment agree on
 * one of their numbers. */
static uint64_t secret(void)
{
    static _Atomic uint64_t drawn;
    uint64_t known = atomic_load_explicit(&drawn, memory_order_relaxed), number;
    if (known != 0)
        return known;
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number)
        number = (uint64_t)clock_now_ns();
    number |= 1;
    return atomic_compare_exchange_strong(&drawn, &known, number) ? number : known;
}

/* The mixing step of splitmix64. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint32_t number_of(uint64_t what)
{
    return (uint32_t)(mix(mix(what + secret()) ^ secret()) >> 32);
}

uint32_t peer_number(const struct sockaddr *address)
{
    uint64_t network = 0;
    if (address->sa_family == AF_INET) {
        network = ((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr;
    } else if (address->sa_family == AF_INET6) {
        const struct in6_addr *v6 =
            &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
        if (IN6_IS_ADDR_V4MAPPED(v6))
            memcpy(&network, v6->s6_addr + 12, sizeof(struct in_addr));
        else
            memcpy(&network, v6->s6_addr, sizeof network);
    }
    return number_of(network);
}

/* No network of IPv6 begins with these bits, and no IPv4 address is as large. */
uint32_t peer_number_of_user(int64_t uid)
{
    return number_of(UINT64_C(0xffff) << 48 | (uint32_t)uid);
}
