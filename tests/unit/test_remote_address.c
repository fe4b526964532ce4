/* SPDX-License-Identifier: Apache-2.0 */
/* test_remote_address.c - the address of another server, read from what a person may write. */
#include "remote/remote.h"
#include "test.h"

static struct remote_address read_good(const char *url)
{
    struct remote_address address;
    struct fault fault;
    if (!remote_address_read(&address, "--move-to", url, &fault))
        fail_msg("%s: %s", url, fault.message);
    return address;
}

TEST(good)
{
    struct remote_address address = read_good("http://127.0.0.1:8080");
    assert_string_equal(address.host, "127.0.0.1");
    assert_int_equal(address.port, 8080);
    assert_false(address.is_tls);
    assert_false(address.host_is_name);
    assert_string_equal(address.base, "");
    assert_string_equal(address.url, "http://127.0.0.1:8080");
    address = read_good("HTTPS://attnd-1.attnd/");
    assert_string_equal(address.host, "attnd-1.attnd");
    assert_true(address.is_tls && address.host_is_name);
    assert_int_equal(address.port, 443);
    assert_string_equal(address.url, "https://attnd-1.attnd:443");
    address = read_good("http://[fe80::1]:1/a/b//");
    assert_string_equal(address.host, "fe80::1");
    assert_false(address.host_is_name);
    assert_string_equal(address.base, "/a/b");
    assert_string_equal(address.url, "http://[fe80::1]:1/a/b");
    assert_int_equal(read_good("http://a").port, 80);
    assert_string_equal(read_good("http://[::1]").url, "http://[::1]:80");
}

TEST(refused)
{
    static const char *const URLS[] = {
        "",
        "a",
        "a:80",
        "//a",
        "ftp://a",
        "http:/a",
        "http://",
        "http://:80",
        "http://a:",
        "http://a:0",
        "http://a:65536",
        "http://a:123456",
        "http://a:-1",
        "http://a:8x",
        "http://a:80:80",
        "http://::1",
        "http://[::1",
        "http://[::1]8",
        "http://[::x]",
        "http://[]",
        "http://[127.0.0.1]",
        "http://a b",
        "http://a\r\nX: y",
        "http://a/\x7f",
        "http://a?b",
        "http://a/b?c",
        "http://a/#b",
        "http://a\\b",
    };
    struct remote_address address;
    struct fault fault;
    for (size_t i = 0; i < sizeof URLS / sizeof URLS[0]; i++) {
        if (remote_address_read(&address, "--move-to", URLS[i], &fault))
            fail_msg("taken: '%s' as %s", URLS[i], address.url);
        assert_int_equal(fault.code, FAULT_OPTION);
        assert_non_null(strstr(fault.message, "--move-to: "));
    }
}

TEST(a_password_is_not_said)
{
    struct remote_address address;
    struct fault fault;
    assert_false(remote_address_read(&address, "to", "http://me:secret@host", &fault));
    assert_null(strstr(fault.message, "secret"));
}

TEST(too_long)
{
    struct remote_address address;
    struct fault fault;
    char url[1200];
    for (size_t host = 250; host < 258; host++) {
        snprintf(url, sizeof url, "http://%0*d", (int)host, 0);
        assert_int_equal(remote_address_read(&address, "to", url, &fault), host <= REMOTE_HOST_MAX);
    }
    for (size_t base = 480; base < 530; base++) {
        snprintf(url, sizeof url, "http://a/%0*d", (int)base, 0);
        const bool fits = strlen("http://a:80/") + base < REMOTE_URL_MAX;
        assert_int_equal(remote_address_read(&address, "to", url, &fault), fits);
    }
}
