/* SPDX-License-Identifier: Apache-2.0 */
/* test_http_origin.c - which requests were made by a page of another origin. */
#include "http/http_origin.h"
#include "test.h"

static const char *const LISTEN[] = { "127.0.0.1:8080", "box.example:80", "[::1]:8080",
                                      "unix:/run/attnd.sock" };

static const struct http_pages PAGES = { .listen = LISTEN, .listen_count = 4 };

#define AGENT "Mozilla/5.0 (X11; Linux x86_64)"

/* What a request says of where it comes from; NULL for a header that the request has not. */
struct origin {
    const char *method, *host, *origin;
    const char *site, *mode, *dest; /* Sec-Fetch-Site, -Mode, -Dest */
    const char *user_agent, *accept_language;
};

static const struct origin_case {
    bool is_taken;
    struct origin from; /* in the order of its fields */
} CASES[] = {
    /* Not a browser, or one that looks like none: a page may set User-Agent. */
    { true, { "POST", "127.0.0.1:8080", NULL, NULL, NULL, NULL, NULL, NULL } },
    { true, { "POST", "localhost:9", NULL, NULL, NULL, NULL, "curl/8.5.0", NULL } },
    { true, { "POST", "box.EXAMPLE:8080", NULL, NULL, NULL, NULL, NULL, NULL } },
    { true, { "POST", "[::1]", NULL, NULL, NULL, NULL, NULL, NULL } },
    { true, { "POST", "[fe80::1%eth0]:8080", NULL, NULL, NULL, NULL, NULL, NULL } },
    { true, { "POST", "10.0.0.7: \t", NULL, NULL, NULL, NULL, NULL, NULL } },
    { true, { "POST", NULL, NULL, NULL, NULL, NULL, NULL, NULL } },
    { false, { "POST", "attnd.default.svc:8080", NULL, NULL, NULL, NULL, NULL, NULL } },
    { false, { "GET", "evil.example:8080", NULL, NULL, NULL, NULL, "curl/8.5.0", NULL } },
    { false, { "GET", "attnd:8080", NULL, NULL, "cors", NULL, "node", "*" } },
    { false, { "GET", "127.0.0.1:21410.evil", NULL, NULL, NULL, NULL, NULL, NULL } },
    { false, { "GET", "127.0.0.1:80:80", NULL, NULL, NULL, NULL, NULL, NULL } },
    { false, { "GET", "127.1", NULL, NULL, NULL, NULL, NULL, NULL } },
    { false, { "GET", "::1", NULL, NULL, NULL, NULL, NULL, NULL } },
    { false, { "GET", "[evil.example]", NULL, NULL, NULL, NULL, NULL, NULL } },
    { false, { "GET", "[%::1]", NULL, NULL, NULL, NULL, NULL, NULL } },
    { false, { "GET", "box.example.", NULL, NULL, NULL, NULL, NULL, NULL } },
    { false, { "GET", "", NULL, NULL, NULL, NULL, NULL, NULL } },
    /* The daemon's own page. */
    { true,
      { "POST", "127.0.0.1:8080", "http://127.0.0.1:8080", "same-origin", "cors", "empty", NULL,
        NULL } },
    { true, { "POST", "127.0.0.1:8080", "http://127.0.0.1:8080", NULL, NULL, NULL, NULL, NULL } },
    { true, { "POST", "LocalHost:8080", "http://localhost:8080", NULL, NULL, NULL, NULL, NULL } },
    { true, { "POST", "a.localhost", "http://a.localhost", NULL, NULL, NULL, NULL, NULL } },
    { true, { "POST", "[::1]:8080", "http://[::1]:8080", "same-origin", NULL, NULL, NULL, NULL } },
    { true,
      { "POST", "192.168.1.7:8080", "http://192.168.1.7:8080", NULL, NULL, NULL, NULL, NULL } },
    { true, { "POST", "box.example", "http://box.example", NULL, NULL, NULL, NULL, NULL } },
    { true, { "GET", "127.0.0.1:8080", NULL, "same-origin", "cors", "empty", NULL, NULL } },
    { true,
      { "POST", "127.0.0.1:8080", "https://front.example", "same-origin", NULL, NULL, NULL,
        NULL } },
    /* A user opened it, by hand or by a link, in a window of its own. */
    { true, { "GET", "box.example", NULL, "none", "navigate", "document", AGENT, "en" } },
    { false, { "GET", "box.lan:8080", NULL, "none", "navigate", "document", AGENT, "en" } },
    { true, { "GET", "127.0.0.1:8080", NULL, "cross-site", "navigate", "document", AGENT, "en" } },
    { true, { "HEAD", "127.0.0.1:8080", NULL, "same-site", "navigate", NULL, NULL, NULL } },
    { true, { "GET", "127.0.0.1:8080", NULL, NULL, NULL, NULL, AGENT, "en" } },
    /* Another page. */
    { false,
      { "POST", "127.0.0.1:8080", "http://evil.example", "cross-site", "no-cors", "empty", NULL,
        NULL } },
    { false, { "POST", "127.0.0.1:8080", "http://evil.example", NULL, NULL, NULL, NULL, NULL } },
    { false, { "POST", "127.0.0.1:8080", "null", NULL, NULL, NULL, NULL, NULL } },
    { false, { "POST", "127.0.0.1:8080", "null", "cross-site", "navigate", "iframe", NULL, NULL } },
    { false, { "POST", "127.0.0.1:8080", "", NULL, NULL, NULL, NULL, NULL } },
    { false,
      { "POST", "127.0.0.1:8080", "http://127.0.0.1:3000", "same-site", "cors", NULL, NULL,
        NULL } },
    { false, { "POST", "127.0.0.1:8080", "http://127.0.0.1", NULL, NULL, NULL, NULL, NULL } },
    { false,
      { "POST", "127.0.0.1:8080", "http://127.0.0.1:8080.evil.example", NULL, NULL, NULL, NULL,
        NULL } },
    { false,
      { "POST", "127.0.0.1:8080", "http://evil.example", "cross-site", "navigate", "document", NULL,
        NULL } },
    { false, { "POST", "127.0.0.1:8080", NULL, "cross-site", "navigate", "document", NULL, NULL } },
    { false, { "GET", "127.0.0.1:8080", NULL, "cross-site", "no-cors", "image", NULL, NULL } },
    { false, { "GET", "127.0.0.1:8080", NULL, "cross-site", "navigate", "iframe", NULL, NULL } },
    { false, { "GET", "127.0.0.1:8080", "http://evil.example", NULL, "cors", NULL, NULL, NULL } },
    { false,
      { "OPTIONS", "127.0.0.1:8080", "http://evil.example", "cross-site", "cors", "empty", NULL,
        NULL } },
    { false, { "GET", "127.0.0.1:8080", NULL, "Same-Origin", NULL, NULL, NULL, NULL } },
    { false, { "GET", "127.0.0.1:8080", NULL, "", NULL, NULL, NULL, NULL } },
    { false, { "POST", NULL, "http://evil.example", NULL, NULL, NULL, NULL, NULL } },
    /* A foreign name whose owner made it lead to this daemon: the browser takes all for one
     * origin. */
    { false,
      { "POST", "evil.example:8080", "http://evil.example:8080", NULL, NULL, NULL, AGENT, "en" } },
    { false,
      { "POST", "evil.example:8080", "http://evil.example:8080", "same-origin", "cors", NULL, NULL,
        NULL } },
    { false, { "GET", "evil.example:8080", NULL, "same-origin", "cors", "empty", NULL, NULL } },
    { false,
      { "GET", "evil.example:8080", NULL, "cross-site", "navigate", "document", NULL, NULL } },
    { false, { "GET", "evil.example:8080", NULL, NULL, NULL, NULL, AGENT, "en" } },
    { false, { "GET", "unix:8080", NULL, NULL, NULL, NULL, AGENT, "en" } },
    { false, { "GET", "notlocalhost", NULL, NULL, NULL, NULL, AGENT, "en" } },
    { false, { "GET", "localhost.evil.example", NULL, NULL, NULL, NULL, AGENT, "en" } },
    { false, { "GET", "127.0.0.1.evil.example", NULL, NULL, NULL, NULL, AGENT, "en" } },
    { false, { "GET", "[::1", NULL, NULL, NULL, NULL, AGENT, "en" } },
    { false, { "GET", "[::1].evil.example", NULL, NULL, NULL, NULL, AGENT, "en" } },
    { false, { "GET", "", NULL, NULL, NULL, NULL, AGENT, "en" } },
    { false, { "GET", NULL, NULL, NULL, NULL, NULL, AGENT, "en" } },
};

static bool check_as(const struct origin *from, bool framed, bool at_any_host, struct fault *fault)
{
    const struct http_asked asked = { from->method, framed, at_any_host };
    const struct http_headers headers = {
        .values = {
            [HTTP_HEADER_HOST] = from->host,
            [HTTP_HEADER_ORIGIN] = from->origin,
            [HTTP_HEADER_SEC_FETCH_SITE] = from->site,
            [HTTP_HEADER_SEC_FETCH_MODE] = from->mode,
            [HTTP_HEADER_SEC_FETCH_DEST] = from->dest,
            [HTTP_HEADER_USER_AGENT] = from->user_agent,
            [HTTP_HEADER_ACCEPT_LANGUAGE] = from->accept_language,
        },
    };
    return http_origin_check(&PAGES, &asked, &headers, fault);
}

static bool check_framed(const struct origin *from, bool framed, struct fault *fault)
{
    return check_as(from, framed, false, fault);
}

static bool check(const struct origin *from, struct fault *fault)
{
    return check_framed(from, false, fault);
}

TEST(cases)
{
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        const struct origin *from = &CASES[i].from;
        struct fault fault = { .code = FAULT_NONE };
        const bool is_taken = check(from, &fault);
        if (is_taken != CASES[i].is_taken)
            fail_msg("case %zu: %s, Host %s, Origin %s, Sec-Fetch-Site %s: %s", i, from->method,
                     from->host ? from->host : "(none)", from->origin ? from->origin : "(none)",
                     from->site ? from->site : "(none)", is_taken ? "taken" : fault.message);
        assert_int_equal(fault.code, is_taken ? FAULT_NONE : FAULT_FORBIDDEN);
    }
}

static bool is_same(const char *text, const char *word)
{
    return text && strcmp(text, word) == 0;
}

/* Where a frame is allowed, it is all that is allowed beside: a GET or HEAD that opens the address
 * in a frame, at a Host that leads nowhere else. */
TEST(frames)
{
    static const struct origin FRAME = { "GET",      "127.0.0.1:8080", NULL, "cross-site",
                                         "navigate", "iframe",         NULL, NULL };
    struct fault fault;
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        const struct origin *from = &CASES[i].from;
        const bool opens = !from->origin && is_same(from->mode, "navigate")
                           && is_same(from->dest, "iframe") && !is_same(from->method, "POST");
        assert_int_equal(check_framed(from, true, &fault), CASES[i].is_taken || opens);
    }
    assert_true(check_framed(&FRAME, true, &fault));
    struct origin renamed = FRAME, posted = FRAME, asked = FRAME;
    renamed.host = "evil.example:8080";
    posted.method = "POST";
    asked.origin = "http://evil.example";
    assert_false(check_framed(&renamed, true, &fault));
    assert_false(check_framed(&posted, true, &fault));
    assert_false(check_framed(&asked, true, &fault));
}

/* Where a key is asked for, or everybody gets the same answer, a client that does not look like a
 * browser may come by any name, and for a browser nothing changes. */
TEST(any_host)
{
    struct fault fault;
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        const struct origin *from = &CASES[i].from;
        const bool is_browser =
            from->origin || from->site
            || (from->user_agent && from->accept_language && from->user_agent[0] == 'M');
        assert_int_equal(check_as(from, false, true, &fault), CASES[i].is_taken || !is_browser);
    }
}

/* Hosts that are longer than any name. */
TEST(long_hosts)
{
    char host[1000];
    struct origin from = { .method = "GET", .host = host, .site = "same-origin" };
    struct fault fault;
    for (size_t length = 1; length < sizeof host; length++) {
        memset(host, 'a', length);
        host[length] = '\0';
        assert_false(check(&from, &fault));
        host[0] = '[';
        assert_false(check(&from, &fault));
    }
}

/* ------------------------------------------------------------ allowed pages -- */

static const char *const ORIGINS[] = { "HTTPS://App.example:443", "http://[::1]:3000" };
static const char *const EVERY[] = { "https://app.example", "*" };
static const char *const HOSTS[] = { "Attnd.example:8443", "[2001:db8::1]" };

static const char *allowed(const struct http_pages *pages, const char *origin, bool is_twice)
{
    struct http_headers headers = { .values = { [HTTP_HEADER_ORIGIN] = origin } };
    headers.is_twice[HTTP_HEADER_ORIGIN] = is_twice;
    return http_origin_allowed(pages, &headers);
}

/* What an answer says of the Origin of its request. */
TEST(allowed)
{
    const struct http_pages some = { .origins = ORIGINS, .origin_count = 2 };
    const struct http_pages all = { .origins = EVERY, .origin_count = 2 };
    static const char *const OTHERS[] = { "https://app.example.",
                                          "http://app.example",
                                          "null",
                                          "*",
                                          "",
                                          "https://app.example, https://app.example" };
    assert_false(http_origin_varies(&PAGES));
    assert_true(http_origin_varies(&some));
    assert_false(http_origin_varies(&all));
    assert_null(allowed(&PAGES, "https://app.example", false));
    assert_string_equal(allowed(&some, "https://app.example", false), "https://app.example");
    assert_string_equal(allowed(&some, "https://APP.example", false), "https://APP.example");
    assert_string_equal(allowed(&some, "http://[::1]:3000", false), "http://[::1]:3000");
    assert_null(allowed(&some, "https://app.example", true));
    assert_null(allowed(&some, NULL, false));
    assert_string_equal(allowed(&all, NULL, false), "*");
    for (size_t i = 0; i < sizeof OTHERS / sizeof OTHERS[0]; i++) {
        assert_null(allowed(&some, OTHERS[i], false));
        assert_string_equal(allowed(&all, OTHERS[i], false), "*");
    }
}

/* An allowed page still needs a name that leads nowhere else. */
TEST(hosts)
{
    const struct http_pages pages = {
        .hosts = HOSTS, .host_count = 2, .origins = ORIGINS, .origin_count = 2
    };
    static const struct {
        const char *host;
        bool is_taken;
    } NAMES[] = { { "attnd.example", true },    { "ATTND.EXAMPLE:1", true },
                  { "localhost", true },        { "[2001:db8::1]:80", true },
                  { "attnd.example.", false },  { "x.attnd.example", false },
                  { "attnd.example.x", false }, { "evil.example:8443", false } };
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        const struct http_headers headers = {
            .values = { [HTTP_HEADER_HOST] = NAMES[i].host,
                        [HTTP_HEADER_ORIGIN] = "https://app.example",
                        [HTTP_HEADER_SEC_FETCH_SITE] = "cross-site" },
        };
        const struct http_asked asked = { .method = "POST", .at_any_host = true };
        struct fault fault;
        const bool is_taken = http_origin_check(&pages, &asked, &headers, &fault);
        if (is_taken != NAMES[i].is_taken)
            fail_msg("%s: %s", NAMES[i].host, is_taken ? "taken" : fault.message);
    }
}
