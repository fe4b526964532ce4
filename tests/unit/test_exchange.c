/* SPDX-License-Identifier: Apache-2.0 */
/* Routes, request ids and bodies of an exchange, apart from HTTP. */
#include "http/exchange.h"
#include "test.h"

static void handle(struct exchange *exchange)
{
    (void)exchange;
}

#define ROUTE(METHOD, PATTERN, SCOPE, INDEX)                                                       \
    {                                                                                              \
        .method = METHOD, .pattern = PATTERN, .scope = ACCESS_##SCOPE, .handle = handle,           \
        .metrics_index = INDEX                                                                     \
    }

static const struct route routes[] = {
    ROUTE("GET", "/v1/models", INFER, 1),
    ROUTE("GET", "/v1/models/{model}", INFER, 2),
    ROUTE("PUT", "/v1/models/{model}", MODELS, 3),
    ROUTE("POST", "/v1/models/{model}/versions/x", INFER, 4),
    ROUTE("GET", "/v2/models/stats", METRICS, 5),
    ROUTE("GET", "/v2/models/{model}", INFER, 6),
    ROUTE("GET", "/v2/models/{model}/versions/{version}/ready", INFER, 7),
};
enum { ROUTE_COUNT = sizeof routes / sizeof routes[0] };

static struct exchange *find_shown(unsigned hidden_scopes, const char *method, const char *path)
{
    struct exchange *exchange = calloc(1, sizeof *exchange);
    assert_non_null(exchange);
    exchange_find_route(exchange, routes, ROUTE_COUNT, hidden_scopes, method, path);
    return exchange;
}

static struct exchange *find(const char *method, const char *path)
{
    return find_shown(0, method, path);
}

static void assert_route_of_two(const char *method, const char *path, int index, const char *first,
                                const char *second)
{
    struct exchange *exchange = find(method, path);
    assert_ptr_equal(exchange->route, &routes[index]);
    assert_string_equal(exchange_param(exchange, 0), first);
    assert_string_equal(exchange_param(exchange, 1), second);
    assert_int_equal(exchange->record.route, routes[index].metrics_index);
    assert_string_equal(exchange->answer.allow, "");
    exchange_free(exchange);
}

static void assert_route(const char *method, const char *path, int index, const char *param)
{
    assert_route_of_two(method, path, index, param, "");
}

TEST(routes_match)
{
    assert_route("GET", "/v1/models", 0, "");
    assert_route("HEAD", "/v1/models", 0, "");
    assert_route("GET", "/v1/models/demo", 1, "demo");
    assert_route("PUT", "/v1/models/demo", 2, "demo");
    assert_route("GET", "/v1/models/a%2Fb", 1, "a/b");
    assert_route("GET", "/v1/models/%e4%BD%a0", 1, "\xe4\xbd\xa0");
    assert_route("POST", "/v1/models/demo/versions/x", 3, "demo");
    assert_route_of_two("GET", "/v2/models/de%6Do/versions/%31/ready", 6, "demo", "1");
    /* Of two patterns that match, the first one counts. A segment that an earlier pattern took
     * is forgotten. */
    assert_route("GET", "/v2/models/stats", 4, "");
    assert_route("GET", "/v2/models/stat", 5, "stat");
}

static void assert_no_route(const char *method, const char *path, enum fault_code code,
                            const char *allow)
{
    struct exchange *exchange = find(method, path);
    assert_null(exchange->route);
    assert_int_equal(exchange->fault.code, code);
    assert_string_equal(exchange->answer.allow, allow);
    exchange_free(exchange);
}

TEST(routes_do_not_match)
{
    assert_no_route("GET", "/", FAULT_NOT_FOUND, "");
    assert_no_route("GET", "/v1/models/", FAULT_NOT_FOUND, "");
    assert_no_route("GET", "/v1/models/a/b", FAULT_NOT_FOUND, "");
    assert_no_route("GET", "/v1/model", FAULT_NOT_FOUND, "");
    assert_no_route("GET", "/v1/models/a%2", FAULT_NOT_FOUND, "");
    assert_no_route("GET", "/v1/models/a%zz", FAULT_NOT_FOUND, "");
    assert_no_route("GET", "/v1/models/a%00b", FAULT_NOT_FOUND, "");
    assert_no_route("DELETE", "/v1/models/demo", FAULT_METHOD, "GET, HEAD, PUT");
    assert_no_route("GET", "/v1/models/demo/versions/x", FAULT_METHOD, "POST");
    assert_no_route("POST", "/v2/models/stats", FAULT_METHOD, "GET, HEAD");
    char path[1000];
    memset(path, 'a', sizeof path);
    memcpy(path, "/v1/models/", 11);
    path[sizeof path - 1] = '\0';
    assert_no_route("GET", path, FAULT_NOT_FOUND, "");
}

static void assert_id(const char *given, bool kept)
{
    struct exchange *exchange = calloc(1, sizeof *exchange);
    assert_non_null(exchange);
    exchange_set_request_id(exchange, given);
    assert_true(strlen(exchange->request_id) > 0);
    if (kept)
        assert_string_equal(exchange->request_id, given);
    else if (given)
        assert_string_not_equal(exchange->request_id, given);
    exchange_free(exchange);
}

static void assert_shown(const char *method, const char *path, enum fault_code fault,
                         const char *allow)
{
    struct exchange *exchange = find_shown(ACCESS_OF_OPERATORS, method, path);
    assert_int_equal(exchange->route != NULL, fault == FAULT_NONE);
    assert_int_equal(exchange->fault.code, fault);
    assert_string_equal(exchange->answer.allow, allow);
    exchange_free(exchange);
}

/* A hidden route is not there: not even another pattern that matches its path, and Allow has no
 * method of it. */
TEST(hidden_routes)
{
    assert_shown("GET", "/v1/models/demo", FAULT_NONE, "");
    assert_shown("PUT", "/v1/models/demo", FAULT_NOT_FOUND, "");
    assert_shown("POST", "/v1/models/demo", FAULT_METHOD, "GET, HEAD");
    assert_shown("GET", "/v2/models/stats", FAULT_NOT_FOUND, "");
    assert_shown("HEAD", "/v2/models/stats", FAULT_NOT_FOUND, "");
    assert_shown("GET", "/v2/models/stat", FAULT_NONE, "");
}

TEST(request_ids)
{
    char longest[EXCHANGE_ID_MAX + 2];
    memset(longest, 'x', sizeof longest);
    longest[EXCHANGE_ID_MAX + 1] = '\0';
    assert_id(longest, false);
    longest[EXCHANGE_ID_MAX] = '\0';
    assert_id(longest, true);
    assert_id("a-b_c.1/~", true);
    assert_id(NULL, false);
    assert_id("", false);
    assert_id("a b", false);
    assert_id("a\"b", false);
    assert_id("a\\b", false);
    assert_id("a\nb", false);
    assert_id("\xc3\xa9", false);
}

TEST(made_ids_differ)
{
    struct exchange *one = calloc(1, sizeof *one), *two = calloc(1, sizeof *two);
    assert_non_null(one);
    assert_non_null(two);
    exchange_set_request_id(one, NULL);
    exchange_set_request_id(two, NULL);
    assert_string_not_equal(one->request_id, two->request_id);
    exchange_free(one);
    exchange_free(two);
}

TEST(a_body_is_collected)
{
    struct exchange *exchange = calloc(1, sizeof *exchange);
    assert_non_null(exchange);
    char bytes[1000];
    for (int i = 0; i < 100; i++) {
        memset(bytes, i, sizeof bytes);
        assert_true(exchange_receive(exchange, bytes, sizeof bytes, 100000));
    }
    const struct byte_slice body = exchange_take_body(exchange);
    assert_int_equal(body.size, 100000);
    for (size_t i = 0; i < body.size; i++)
        assert_int_equal(((const char *)body.data)[i], (char)(i / 1000));
    assert_null(exchange_take_body(exchange).data);
    free((void *)body.data);
    exchange_free(exchange);
}

static void count_release(void *owner)
{
    ++*(int *)owner;
}

TEST(a_body_has_a_bound)
{
    struct exchange *exchange = calloc(1, sizeof *exchange);
    assert_non_null(exchange);
    const char bytes[100] = { 0 };
    int taken = 0;
    while (exchange_receive(exchange, bytes, sizeof bytes, 1000) && taken < 1000)
        taken++;
    assert_int_equal(exchange->fault.code, FAULT_TOO_LARGE);
    assert_int_equal(exchange->body_capacity, 0); /* nothing is kept of it */
    assert_true(taken >= 19 && taken <= 21);      /* twice the bound, then no more */
    exchange_free(exchange);
}

TEST(a_body_may_begin_anywhere)
{
    for (size_t offset = 0; offset < 16; offset++) {
        struct exchange *exchange = calloc(1, sizeof *exchange);
        assert_non_null(exchange);
        exchange->body_offset = offset;
        for (int i = 0; i < 5000; i++)
            assert_true(exchange_receive(exchange, "0123456", 7, 35000));
        void *memory;
        struct byte_slice body;
        if (offset % 2 == 0) {
            body = exchange_take_body_in_place(exchange, &memory);
            assert_ptr_equal(body.data, (char *)memory + offset);
        } else {
            body = exchange_take_body(exchange);
            memory = (void *)body.data; /* what free() takes */
        }
        assert_int_equal(body.size, 35000);
        for (size_t i = 0; i < body.size; i++)
            assert_int_equal(((const char *)body.data)[i], '0' + (int)(i % 7));
        free(memory);
        exchange_free(exchange);
    }
}

TEST(parts_are_given_back)
{
    int released = 0;
    const struct byte_slice parts[] = { { "abc", 3 }, { "", 0 }, { "defg", 4 } };
    struct exchange *exchange = calloc(1, sizeof *exchange);
    assert_non_null(exchange);
    exchange_reply_parts(exchange, 200, "text/plain", parts, 3, count_release, &released);
    assert_int_equal(exchange->answer.size, 7);
    assert_int_equal(released, 0);
    exchange_free(exchange); /* the client left before it was sent */
    assert_int_equal(released, 1);
}
