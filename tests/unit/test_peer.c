/* SPDX-License-Identifier: Apache-2.0 */
/* test_peer.c - which addresses count as one peer. */
#include "http/peer.h"
#include "test.h"

#include <arpa/inet.h>
#include <netinet/in.h>

static uint32_t number_of(const char *text)
{
    struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(80) };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(443) };
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return peer_number((const struct sockaddr *)&v4);
    assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    return peer_number((const struct sockaddr *)&v6);
}

TEST(addresses)
{
    assert_int_equal(number_of("10.0.0.1"), number_of("10.0.0.1"));
    assert_int_not_equal(number_of("10.0.0.1"), number_of("10.0.0.2"));
    assert_int_equal(number_of("10.0.0.1"), number_of("::ffff:10.0.0.1"));
    assert_int_equal(number_of("2001:db8:1:2::1"), number_of("2001:db8:1:2:ffff::9"));
    assert_int_not_equal(number_of("2001:db8:1:2::1"), number_of("2001:db8:1:3::1"));
}

/* Users of this machine are told apart by their numbers, and are not taken for addresses. */
TEST(users)
{
    assert_int_equal(peer_number_of_user(1000), peer_number_of_user(1000));
    assert_int_not_equal(peer_number_of_user(0), peer_number_of_user(1000));
    assert_int_not_equal(peer_number_of_user(-1), peer_number_of_user(0));
    assert_int_not_equal(peer_number_of_user(0), number_of("0.0.0.0"));
    assert_int_not_equal(peer_number_of_user(127), number_of("127.0.0.0"));
}
