/* SPDX-License-Identifier: Apache-2.0 */
/* test_config_replica.c - the name of a daemon among its replicas: as given, by its host, refused.
 */
#include "host/config.h"
#include "test.h"

#include <unistd.h>

static void expect_taken(const char *name)
{
    struct config config = { .replica = name };
    struct fault fault;
    assert_true(config_replica_settle(&config, &fault));
    assert_string_equal(config.replica_name, name);
}

static void expect_refused(const char *name)
{
    struct config config = { .replica = name };
    struct fault fault;
    assert_false(config_replica_settle(&config, &fault));
    assert_non_null(strstr(fault.message, "--replica: '"));
    assert_non_null(strstr(fault.message, "expected 1 to 31 of A-Z a-z 0-9 _ -"));
}

TEST(given)
{
    expect_taken("a");
    expect_taken("attnd-0");
    expect_taken("A_z-09");
    expect_taken("1234567890123456789012345678901");
}

/* A dot would end the name in an id; all else could end a header or a line of a balancer. */
TEST(refused)
{
    expect_refused("");
    expect_refused("a.b");
    expect_refused("a b");
    expect_refused("a\r\nSet-Cookie: b");
    expect_refused("\xC3\xA9");
    expect_refused("12345678901234567890123456789012");
}

/* What the host's name makes could have been given. */
TEST(host_name)
{
    struct config config = { 0 }, given = { .replica = config.replica_name };
    struct fault fault;
    char host[256] = "";
    assert_true(config_replica_settle(&config, &fault));
    assert_true(config_replica_settle(&given, &fault));
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    host[strcspn(host, ".")] = '\0';
    for (size_t i = 0; config.replica_name[i]; i++)
        assert_true(!host[0] || config.replica_name[i] == host[i] || config.replica_name[i] == '-');
}
