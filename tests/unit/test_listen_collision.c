/* SPDX-License-Identifier: Apache-2.0 */
/* test_listen_collision.c - addresses that include each other on one port, however they are
 * written. */
#include "host/listen_address.h"
#include "test.h"

TEST(collide)
{
    static const char *const pairs[][2] = {
        { "127.0.0.1:9195", "127.0.0.1:9195" },  { "0.0.0.0:9195", "127.0.0.1:9195" },
        { "127.0.0.1:9195", "localhost:9195" },  { "LOCALHOST", "localhost:8080" },
        { "[::1]:9195", "[0:0::0:1]:9195" },     { "[::1]:9195", ":9195" },
        { "[::1]:9195", "[::]:9195" },           { "[::ffff:127.0.0.1]:9195", "127.0.0.1:9195" },
        { "[::ffff:0.0.0.0]:80", "1.2.3.4:80" }, { "unix:/a", "unix:/a" },
    };
    struct fault fault;
    for (size_t i = 0; i < 2 * sizeof pairs / sizeof pairs[0]; i++) {
        const char *const two[] = { pairs[i / 2][i % 2], pairs[i / 2][1 - i % 2] };
        if (listen_collision_check(two, 2, &fault))
            fail_msg("%s and %s are taken", two[0], two[1]);
        assert_non_null(strstr(fault.message, two[0]));
        assert_non_null(strstr(fault.message, two[1]));
    }
    const char *const three[] = { "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:1" };
    assert_false(listen_collision_check(three, 3, &fault));
}

TEST(apart)
{
    static const char *const all[] = { "127.0.0.1:9195", "127.0.0.2:9195", "127.0.0.1:9196",
                                       "[::1]:9195",     "localhost:0",    "localhost:0",
                                       "0.0.0.0:0",      "[::]:0",         "unix:/a",
                                       "unix:@a",        "unix:/b" };
    struct fault fault;
    assert_true(listen_collision_check(all, sizeof all / sizeof all[0], &fault));
    assert_true(listen_collision_check(all, 1, &fault));
    assert_true(listen_collision_check(all, 0, &fault));
}
