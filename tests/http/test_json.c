/* SPDX-License-Identifier: Apache-2.0 */
/* test_json.c - bodies that are not JSON, or that only a lenient reader takes for JSON.
 *
 * The grammar is RFC 8259 to the letter. Every body goes over one connection. A refusal must leave
 * that connection usable, because the daemon has read the body. */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "test.h"

static const char PATH[] = "/v1/attention";

/* A body with most of the fields that a request may have. */
static const char FULL[] = "{\"model\":\"sdpa\",\"layer\":0,\"query\":[[1,0.5],[-2e0,3]],"
                           "\"key\":[[1,2],[3,4]],\"value\":[[1],[2]],\"mask\":[[true,false],"
                           "[true,true]],\"causal\":false,\"kv_len\":[2,1],\"scale\":1e-1,"
                           "\"outputs\":[\"context\",\"lse\"]}";

#define QUERY(number) "{\"model\":\"sdpa\",\"query\":[[1," number "]]}"
#define VALUE(value)  "{\"model\":" value ",\"query\":[[1]]}"

/* Not one of these is JSON. */
static const char *const MALFORMED[] = {
    " ",
    "\n\t\r ",
    "{",
    "}",
    "[",
    "]",
    "{]",
    "[}",
    "x",
    "query",
    "'query'",
    "{query:[[1]]}",
    "{'model':\"sdpa\",\"query\":[[1]]}",
    "{1:2}",
    "{null:2}",
    "{\"model\" \"sdpa\"}",
    "{\"model\"}",
    "{\"model\":}",
    "{\"model\":\"sdpa\" \"query\":[[1]]}",
    "{\"model\"=\"sdpa\",\"query\":[[1]]}",
    "{\"model\"::\"sdpa\",\"query\":[[1]]}",
    "{,\"model\":\"sdpa\",\"query\":[[1]]}",
    "{\"model\":\"sdpa\",,\"query\":[[1]]}",
    "{\"model\":\"sdpa\";\"query\":[[1]]}",
    /* commas */
    "{\"model\":\"sdpa\",\"query\":[[1]],}",
    "{\"model\":\"sdpa\",\"query\":[[1],]}",
    "{\"model\":\"sdpa\",\"query\":[[1,]]}",
    "{\"model\":\"sdpa\",\"query\":[[,1]]}",
    "{\"model\":\"sdpa\",\"query\":[,[1]]}",
    "{\"model\":\"sdpa\",\"query\":[[1,,2]]}",
    "{\"model\":\"sdpa\",\"query\":[[1 2]]}",
    "{\"model\":\"sdpa\",\"query\":[[1][2]]}",
    "{\"model\":\"sdpa\",\"query\":[[1]}",
    "{\"model\":\"sdpa\",\"query\":[[1]]]}",
    "{\"model\":\"sdpa\",\"query\":[[1}]}",
    /* after the end, and before the start */
    "{\"model\":\"sdpa\",\"query\":[[1]]}x",
    "{\"model\":\"sdpa\",\"query\":[[1]]}}",
    "{\"model\":\"sdpa\",\"query\":[[1]]}{}",
    "{\"model\":\"sdpa\",\"query\":[[1]]},",
    "{\"model\":\"sdpa\",\"query\":[[1]]}//",
    "x{\"model\":\"sdpa\",\"query\":[[1]]}",
    "\xEF\xBB\xBF{\"model\":\"sdpa\",\"query\":[[1]]}",
    /* comments */
    "/* words */{\"model\":\"sdpa\",\"query\":[[1]]}",
    "{\"model\":\"sdpa\",/* words */\"query\":[[1]]}",
    "{\"model\":\"sdpa\",// words\n\"query\":[[1]]}",
    "{\"model\":\"sdpa\",# words\n\"query\":[[1]]}",
    "{\"model\":\"sdpa\",\"query\":[[1/**/]]}",
    /* characters that look like white space but are not white space in JSON */
    "{\"model\":\"sdpa\",\v\"query\":[[1]]}",
    "{\"model\":\"sdpa\",\f\"query\":[[1]]}",
    "{\"model\":\"sdpa\",\xC2\xA0\"query\":[[1]]}",
    "{\"model\":\"sdpa\",\"query\":[[\v1]]}",
    "{\"model\":\"sdpa\",\"query\":[[1\f]]}",
    /* numbers */
    QUERY("+1"),
    QUERY("01"),
    QUERY("-01"),
    QUERY("00"),
    QUERY("-"),
    QUERY("--1"),
    QUERY("+-1"),
    QUERY(".5"),
    QUERY("-.5"),
    QUERY("1."),
    QUERY("1.e5"),
    QUERY("1..5"),
    QUERY("1.5.5"),
    QUERY("1e"),
    QUERY("1e+"),
    QUERY("1e-"),
    QUERY("1E+-5"),
    QUERY("1e5.5"),
    QUERY("e5"),
    QUERY("0x10"),
    QUERY("1_000"),
    QUERY("1f"),
    QUERY("1d0"),
    QUERY("- 1"),
    QUERY("1 e5"),
    QUERY("\xD9\xA1"), /* a digit, but not an ASCII one */
    QUERY("1\\u0030"),
    "{\"model\":\"sdpa\",\"query\":[[1]],\"scale\":+1}",
    "{\"model\":\"sdpa\",\"query\":[[1]],\"scale\":.5}",
    "{\"model\":\"sdpa\",\"query\":[[1]],\"scale\":1.}",
    "{\"model\":\"sdpa\",\"query\":[[1]],\"kv_len\":01}",
    "{\"model\":\"sdpa\",\"query\":[[1]],\"kv_len\":0x1}",
    /* literals */
    QUERY("True"),
    QUERY("tru"),
    QUERY("truee"),
    QUERY("NULL"),
    QUERY("nul"),
    QUERY("undefined"),
    "{\"model\":\"sdpa\",\"query\":[[1]],\"causal\":True}",
    "{\"model\":\"sdpa\",\"query\":[[1]],\"causal\":fals}",
    "{\"model\":\"sdpa\",\"query\":[[1]],\"causal\":falsee}",
    "{\"model\":\"sdpa\",\"query\":[[1]],\"causal\":no}",
    /* strings */
    VALUE("\"sdpa"),
    VALUE("sdpa\""),
    VALUE("\"sd\npa\""),
    VALUE("\"sd\tpa\""),
    VALUE("\"sd\x01pa\""),
    VALUE("\"sd\x1fpa\""),
    VALUE("\"sd\\pa\""),
    VALUE("\"sd\\x41pa\""),
    VALUE("\"sd\\'pa\""),
    VALUE("\"sd\\U0041pa\""),
    VALUE("\"sd\\u12\""),
    VALUE("\"sd\\u12G4\""),
    VALUE("\"sd\\u+123\""),
    VALUE("\"sdpa\\\""),
    VALUE("\"\\ud800\""),
    VALUE("\"\\udc00\""),
    VALUE("\"\\ud800x\""),
    VALUE("\"\\ud800\\n\""),
    VALUE("\"\\ud800\\ud800\""),
    VALUE("\"\\ud800\\u0041\""),
    VALUE("\"\\udc00\\ud800\""),
    /* not UTF-8 */
    VALUE("\"\xFF\""),
    VALUE("\"\x80\""),
    VALUE("\"\xC3\""),
    VALUE("\"\xC3(\""),
    VALUE("\"\xE2\x82\""),
    VALUE("\"\xC0\xAF\""),         /* overlong */
    VALUE("\"\xE0\x80\xAF\""),     /* overlong */
    VALUE("\"\xF0\x80\x80\xAF\""), /* overlong */
    VALUE("\"\xED\xA0\x80\""),     /* half of a surrogate pair */
    VALUE("\"\xF4\x90\x80\x80\""), /* past the last code point */
    VALUE("\"\xF8\x88\x80\x80\x80\""),
    "{\"model\":\"sdpa\",\"q\xFFuery\":[[1]]}",
    "\xFF\xFE{\"model\":\"sdpa\",\"query\":[[1]]}",
};

/* These bodies are JSON, though they look unusual. */
static const char *const WELL_FORMED[] = {
    " \t\r\n{ \"model\" : \"sdpa\" ,\r\n\t\"query\" : [ [ 1 , 2 ] ] } \n\t\r ",
    "{\"model\":\"\\u0073d\\u0070a\",\"query\":[[1]]}",
    "{\"\\u006dodel\":\"sdpa\",\"query\":[[1]]}",
    "{\"query\":[[1]],\"model\":\"sdpa\"}",
    QUERY("-0"),
    QUERY("-0.0e-0"),
    QUERY("0e+99"),
    QUERY("1E5"),
    QUERY("1e-999999999999"),
    QUERY("0.00000000000000000000000000000000000000000000000000001e53"),
    QUERY("123456789012345678901234567890.123456789012345678901234567890"),
    "{\"model\":\"sdpa\",\"query\":[[1]],\"outputs\":[\"\\u0063ontext\"]}",
};

static struct http_response post(const char *body, size_t size)
{
    struct http_response response = http_client_send(
        &client, &(struct http_request){ .path = PATH, .body = body, .body_size = size });
    if (response.on_new_connection)
        fail_msg("the connection was not kept; now: %.200s", body);
    return response;
}

static void refused(const char *body, size_t size, const char *code)
{
    struct http_response response = post(body, size);
    if (response.status != 400)
        fprintf(stderr, "request: %.*s\n", (int)(size < 300 ? size : 300), body);
    answer_expect_fault(&response, 400, code, NULL);
    http_response_free(&response);
}

TEST(malformed)
{
    for (size_t i = 0; i < sizeof(MALFORMED) / sizeof(MALFORMED[0]); i++)
        refused(MALFORMED[i], strlen(MALFORMED[i]), "json");
}

TEST(well_formed)
{
    for (size_t i = 0; i < sizeof(WELL_FORMED) / sizeof(WELL_FORMED[0]); i++)
        cJSON_Delete(answer_post(&client, PATH, WELL_FORMED[i]));
}

TEST(empty_body)
{
    struct http_response response =
        http_client_send(&client, &(struct http_request){ .method = "POST", .path = PATH });
    answer_expect_fault(&response, 400, "json", NULL);
    http_response_free(&response);
}

TEST(zero_bytes)
{
    static const char after[] = "{\"model\":\"sdpa\",\"query\":[[1]]}\0";
    static const char inside[] = "{\"model\":\"sd\0pa\",\"query\":[[1]]}";
    static const char between[] = "{\"model\":\"sdpa\",\0\"query\":[[1]]}";
    static const char hidden[] = "{\"model\":\"sdpa\",\"query\":[[1]]}\0{\"";
    refused(after, sizeof(after) - 1, "json");
    refused(inside, sizeof(inside) - 1, "json");
    refused(between, sizeof(between) - 1, "json");
    refused(hidden, sizeof(hidden) - 1, "json");
    refused("\0", 1, "json");
    /* This is legal JSON, but no model and no field can have such a name. */
    struct http_response response =
        post(VALUE("\"sdpa\\u0000\""), strlen(VALUE("\"sdpa\\u0000\"")));
    assert_true(response.status == 400 || response.status == 404);
    http_response_free(&response);
}

TEST(utf16)
{
    char wide[2 * sizeof(FULL)];
    for (size_t i = 0; i < sizeof(FULL); i++) {
        wide[2 * i] = FULL[i];
        wide[2 * i + 1] = 0;
    }
    refused(wide, 2 * (sizeof(FULL) - 1), "json");
    refused(wide + 1, 2 * (sizeof(FULL) - 1), "json");
}

TEST(truncated_at_every_byte)
{
    cJSON_Delete(answer_post(&client, PATH, FULL));
    for (size_t size = 1; size < sizeof(FULL) - 1; size++)
        refused(FULL, size, "json");
}

/* One byte of a good body is changed. The body is still good, or the daemon refuses it as the
 * client's fault. */
TEST(one_byte_changed)
{
    static const char other[] = { '"', '\\', '[', '}', ',', '9', 'e', '-', ' ', '\xFF', '\0' };
    char body[sizeof(FULL)];
    for (size_t i = 0; i < sizeof(FULL) - 1; i++)
        for (size_t o = 0; o < sizeof(other); o++) {
            memcpy(body, FULL, sizeof(FULL));
            body[i] = other[o];
            struct http_response response = post(body, sizeof(FULL) - 1);
            if (response.status == 200)
                cJSON_Delete(answer_json(&response, 200));
            else
                answer_expect_fault(&response, response.status == 404 ? 404 : 400,
                                    "json|field|duplicate|type|shape|ragged|nonfinite|option|"
                                    "length|not_found",
                                    NULL);
            http_response_free(&response);
        }
}

/* The fault names the byte at which the grammar breaks, counted from 0 or from 1. */
TEST(byte_offset)
{
    static const struct {
        const char *body;
        int offset;
    } cases[] = {
        { "{\"model\":\"sdpa\",}", 16 },
        { "{\"model\":\"sdpa\",\"query\":[[1,x]]}", 28 },
        { "{\"model\":\"sdpa\",\"query\":[[1]]}x", 30 },
        { "x", 0 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct http_response response = http_client_post(&client, PATH, cases[i].body);
        cJSON *fault = answer_json(&response, 400);
        const char *message = cJSON_GetStringValue(cJSON_GetObjectItem(fault, "error"));
        const char *byte = message ? strstr(message, "byte ") : NULL;
        int given = byte ? atoi(byte + 5) : -1;
        if (given != cases[i].offset && given != cases[i].offset + 1)
            fail_msg("expected byte %d: %s", cases[i].offset, message);
        cJSON_Delete(fault);
        http_response_free(&response);
    }
}

/* Writes opening so many times, then middle, then closing as many times. */
static void nested(const char *before, const char *opening, const char *middle, const char *closing,
                   int depth, const char *after, const char *codes)
{
    struct request_text text = { 0 };
    request_text_add(&text, "%s", before);
    for (int i = 0; i < depth; i++)
        request_text_add(&text, "%s", opening);
    request_text_add(&text, "%s", middle);
    for (int i = 0; i < depth; i++)
        request_text_add(&text, "%s", closing);
    request_text_add(&text, "%s", after);
    refused(text.data, text.used, codes);
    free(text.data);
}

TEST(nesting)
{
    static const char query[] = "{\"model\":\"sdpa\",\"query\":";
    nested(query, "[", "1", "]", 9, "}", "shape|ragged|json|type");
    nested(query, "[", "1", "]", 60, "}", "shape|ragged|json|type");
    nested(query, "[", "1", "]", 65, "}", "json");
    nested(query, "[", "1", "]", 100000, "}", "json");
    nested(query, "[", "", "", 1000000, "", "json");
    nested(query, "{\"query\":", "1", "}", 100000, "}", "json");
    nested("", "[", "", "]", 100000, "", "json");
    nested("", "[{\"query\":", "1", "}]", 100000, "", "json");
    nested("", "{\"a\":", "", "", 100000, "", "json");
}

TEST(duplicates)
{
    answer_refused(&client, PATH, "{\"model\":\"sdpa\",\"query\":[[1]],\"query\":[[1]]}", 400,
                   "duplicate", "/query");
    answer_refused(&client, PATH, "{\"model\":\"sdpa\",\"query\":[[1]],\"qu\\u0065ry\":[[1]]}", 400,
                   "duplicate", "/query");
    answer_refused(&client, PATH, "{\"model\":\"sdpa\",\"model\":\"demo\",\"query\":[[1]]}", 400,
                   "duplicate", "/model");
    answer_refused(&client, PATH, "{\"query\":[[1]],\"a/b~c\":{\"x\":1,\"x\":2}}", 400, "duplicate",
                   "/a~1b~0c/x");
    answer_refused(&client, PATH, JSON({"query":[[1]],"":1,"":2}), 400, "duplicate", "/");
}

/* At these sizes quadratic time or unbounded memory would show. */
TEST(much_of_one_thing)
{
    enum { MANY = 200000 };
    struct request_text text = { 0 };
    double start = daemon_now();
    request_text_add(&text, "{\"model\":\"sdpa\",\"query\":[[1]]");
    for (int i = 0; i < MANY; i++)
        request_text_add(&text, ",\"k%d\":0", i);
    request_text_add(&text, "}");
    refused(text.data, text.used, "field|too_large");
    text.used = 0;
    request_text_add(&text, "%*s", 4 * MANY, "");
    refused(text.data, text.used, "json");
    text.used = 0;
    request_text_add(&text, JSON({"%0*d":0}), 4 * MANY, 0);
    refused(text.data, text.used, "field");
    text.used = 0;
    request_text_add(&text, JSON({"model":"%0*d","query":[[1]]}), 4 * MANY, 0);
    struct http_response response = post(text.data, text.used);
    answer_expect_fault(&response, 404, "not_found", "/model");
    http_response_free(&response);
    text.used = 0;
    request_text_add(&text, QUERY("%0*d"), 4 * MANY, 0);
    refused(text.data, text.used, "json");
    text.used = 0;
    request_text_add(&text, QUERY("1%0*de-%d"), 4 * MANY, 0, 4 * MANY);
    cJSON_Delete(answer_post(&client, PATH, text.data));
    free(text.data);
    assert_true(daemon_now() - start < 10 * daemon_slowness());
}

/* A million numbers with a fault at their end. */
TEST(a_late_fault)
{
    enum { ROWS = 1000, COLUMNS = 300 };
    static const char *const ends[] = { ",\"x\"]]}", ",[1]]]}", ",]]}", ",{}]]}", ",1e400]]}" };
    struct request_text text = { 0 };
    request_text_add(&text, "{\"model\":\"sdpa\",\"query\":[");
    for (int i = 0; i < ROWS; i++) {
        request_text_add(&text, i ? "],[1" : "[1");
        for (int j = 1; j < COLUMNS - (i == ROWS - 1); j++)
            request_text_add(&text, ",0.25");
    }
    size_t used = text.used;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        text.used = used;
        request_text_add(&text, "%s", ends[i]);
        refused(text.data, text.used, "json|type|ragged|nonfinite");
    }
    free(text.data);
}

static int start(void **state)
{
    fixture_start(state);
    cJSON_Delete(answer_post(&client, PATH, FULL)); /* the connection that must last */
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
