/* SPDX-License-Identifier: Apache-2.0 */
/* test_web_origin.c - origins of web pages and names of hosts, as they are typed and sent. */
#include "host/web_origin.h"
#include "test.h"

#define COUNT(array) (int)(sizeof(array) / sizeof(array)[0])

#define LABEL_60 "a23456789-b23456789-c23456789-d23456789-e23456789-f234567890"

TEST(serialised)
{
    static const char *const CASES[][2] = {
        { "https://app.example", "https://app.example" },
        { "HTTPS://App.EXAMPLE", "https://app.example" },
        { "https://app.example:443", "https://app.example" },
        { "https://app.example:00443", "https://app.example" },
        { "http://app.example:80", "http://app.example" },
        { "http://app.example:443", "http://app.example:443" },
        { "https://app.example:80", "https://app.example:80" },
        { "http://localhost:3000", "http://localhost:3000" },
        { "http://127.0.0.1:8080", "http://127.0.0.1:8080" },
        { "http://[::1]:8080", "http://[::1]:8080" },
        { "http://[0:0:0:0:0:0:0:1]", "http://[::1]" },
        { "https://[2001:DB8::A]:443", "https://[2001:db8::a]" },
        { "https://a_b.example", "https://a_b.example" },
        { "https://xn--bcher-kva.example", "https://xn--bcher-kva.example" },
        { "tauri://localhost", "tauri://localhost" },
        { "chrome-extension://abcdef", "chrome-extension://abcdef" },
        /* A name with a dot behind it is another origin (RFC 6454, 4). */
        { "https://app.example.", "https://app.example." },
        { "https://" LABEL_60 "." LABEL_60 "." LABEL_60 "." LABEL_60,
          "https://" LABEL_60 "." LABEL_60 "." LABEL_60 "." LABEL_60 },
    };
    for (int i = 0; i < COUNT(CASES); i++) {
        char serialised[WEB_ORIGIN_BYTES];
        if (!web_origin_read(serialised, CASES[i][0]))
            fail_msg("'%s' is refused", CASES[i][0]);
        assert_string_equal(serialised, CASES[i][1]);
    }
}

TEST(refused)
{
    static const char *const CASES[] = {
        "",
        "*",
        "null",
        "app.example",
        "//app.example",
        "://app.example",
        "https:/app.example",
        "https:app.example",
        "https://",
        "https://:443",
        "https://.",
        "https://app.example/",
        "https://app.example/path",
        "https://app.example?query",
        "https://app.example#part",
        "https://app.example:",
        "https://app.example:/",
        "https://app.example:65536",
        "https://app.example:000443",
        "https://app.example:-1",
        "https://app.example: 443",
        "https://app.example:443:443",
        "https://app.example ",
        " https://app.example",
        "https://user@app.example",
        "https://*.app.example",
        "https://app.example,https://other.example",
        "https://app.example https://other.example",
        "https://b\303\274cher.example",
        "https://app%2eexample",
        "https://app\\.example",
        "https://[::1",
        "https://::1",
        "https://[]",
        "https://[::1]x",
        "https://[::1%25eth0]",
        "https://[127.0.0.1]",
        "https://[g::1]",
        "file://",
        "file:///tmp/page.html",
        "file://host",
        "1http://app.example",
        "ht tp://app.example",
        "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz://app.example",
        "https://" LABEL_60 "." LABEL_60 "." LABEL_60 "." LABEL_60 "." LABEL_60,
    };
    for (int i = 0; i < COUNT(CASES); i++) {
        char serialised[WEB_ORIGIN_BYTES];
        if (web_origin_read(serialised, CASES[i]))
            fail_msg("'%s' is taken as '%s'", CASES[i], serialised);
    }
}

TEST(hosts)
{
    static const char *const GOOD[] = { "attnd.example", "attnd",   "Attnd.Example:8443",
                                        "10.0.0.7",      "[::1]:8", "attnd.example." };
    static const char *const BAD[] = {
        "",
        "https://attnd.example",
        "attnd.example/",
        "attnd example",
        "*.example",
        "attnd:",
        "attnd:port",
        "[::1",
        "::1",
        "a,b",
    };
    for (int i = 0; i < COUNT(GOOD); i++)
        if (!web_host_is_valid(GOOD[i]))
            fail_msg("'%s' is refused", GOOD[i]);
    for (int i = 0; i < COUNT(BAD); i++)
        if (web_host_is_valid(BAD[i]))
            fail_msg("'%s' is taken", BAD[i]);
}
