/* SPDX-License-Identifier: Apache-2.0 */
/* test_span_json.c - a record as OTLP's JSON, field for field, read back by cJSON. */
#include "telemetry/span_record.h"
#include "test.h"

#include <cjson/cJSON.h>

#define TRACE "0af7651916cd43dd8448eb211c80319c"

enum { UNIX_NS = 1000000000 };

static struct span_record made(void)
{
    struct span_record record = {
        .began_ns = 1000,
        .ended_ns = 2000,
        .route = "/v1/attention",
        .status = 200,
        .bytes_in = 42,
        .bytes_out = 151,
        .version = 3,
        .layer = 1,
        .item_count = 2,
        .q_len = 5,
        .kv_len = 7,
        .method = "POST",
        .request_id = "an-id",
        .model = "demo",
        .path = "/v1/attention",
        .state = "a=\"1\",b=2",
    };
    assert_true(trace_context_read(&record.context, "00-" TRACE "-b7ad6b7169203331-01"));
    memset(record.context.span_id, 0xab, SPAN_ID_BYTES);
    return record;
}

/* The array of spans of a request with this one record. */
static cJSON *spans_of(const struct span_record *record, cJSON **whole)
{
    static char buffer[SPAN_JSON_BYTES_MAX + 512];
    struct fault fault;
    struct text text = text_in(buffer, sizeof buffer);
    span_json_begin(&text, JSON([{"key":"service.name","value":{"stringValue":"x"}}]));
    span_json_write(&text, record, UNIX_NS);
    span_json_end(&text);
    assert_true(text_finish(&text, &fault));
    *whole = cJSON_ParseWithLength(text.data, text.used);
    assert_non_null(*whole);
    cJSON *resource = cJSON_GetArrayItem(cJSON_GetObjectItem(*whole, "resourceSpans"), 0);
    cJSON *scope = cJSON_GetArrayItem(cJSON_GetObjectItem(resource, "scopeSpans"), 0);
    cJSON *spans = cJSON_GetObjectItem(scope, "spans");
    assert_int_equal(cJSON_GetArraySize(spans), span_record_count(record));
    return spans;
}

/* The span without its attributes, which are deleted or go to *attributes. */
static void expect_span(const cJSON *span, const char *want)
{
    cJSON *copy = cJSON_Duplicate(span, true), *wanted = cJSON_Parse(want);
    cJSON_DeleteItemFromObject(copy, "attributes");
    assert_non_null(wanted);
    if (!cJSON_Compare(copy, wanted, true))
        fail_msg("%s\nand not %s", cJSON_PrintUnformatted(copy), want);
    cJSON_Delete(copy);
    cJSON_Delete(wanted);
}

/* All attributes of a span, and no other. */
static void expect_attributes(const cJSON *span, const char *want)
{
    cJSON *wanted = cJSON_Parse(want);
    const cJSON *attributes = cJSON_GetObjectItem(span, "attributes"), *attribute;
    assert_non_null(wanted);
    cJSON_ArrayForEach(attribute, attributes) {
        const char *key = cJSON_GetStringValue(cJSON_GetObjectItem(attribute, "key"));
        const cJSON *value = cJSON_GetObjectItem(attribute, "value");
        if (!cJSON_Compare(value, cJSON_GetObjectItemCaseSensitive(wanted, key), true))
            fail_msg("%s: %s", key, cJSON_PrintUnformatted(value));
    }
    assert_int_equal(cJSON_GetArraySize(attributes), cJSON_GetArraySize(wanted));
    cJSON_Delete(wanted);
}

TEST(request)
{
    cJSON *whole;
    const struct span_record record = made();
    const cJSON *span = cJSON_GetArrayItem(spans_of(&record, &whole), 0);
    expect_span(span, "{\"traceId\":\"" TRACE "\",\"spanId\":\"abababababababab\","
                      "\"parentSpanId\":\"b7ad6b7169203331\",\"traceState\":\"a=\\\"1\\\",b=2\","
                      "\"name\":\"POST /v1/attention\",\"kind\":2,\"flags\":769,"
                      "\"startTimeUnixNano\":\"1000001000\",\"endTimeUnixNano\":\"1000002000\"}");
    expect_attributes(
        span, "{\"http.request.method\":{\"stringValue\":\"POST\"},"
              "\"http.route\":{\"stringValue\":\"/v1/attention\"},"
              "\"url.path\":{\"stringValue\":\"/v1/attention\"},"
              "\"url.scheme\":{\"stringValue\":\"http\"},"
              "\"network.protocol.version\":{\"stringValue\":\"1.1\"},"
              "\"http.response.status_code\":{\"intValue\":\"200\"},"
              "\"http.request.body.size\":{\"intValue\":\"42\"},"
              "\"http.response.body.size\":{\"intValue\":\"151\"},"
              "\"attnd.request_id\":{\"stringValue\":\"an-id\"},"
              "\"attnd.model\":{\"stringValue\":\"demo\"},\"attnd.version\":{\"intValue\":\"3\"},"
              "\"attnd.layer\":{\"intValue\":\"1\"},\"attnd.items\":{\"intValue\":\"2\"},"
              "\"attnd.q_len\":{\"intValue\":\"5\"},\"attnd.kv_len\":{\"intValue\":\"7\"}}");
    cJSON_Delete(whole);
}

/* Without a client's span, a route and a model; with a fault of the daemon's own, over TLS. */
TEST(fault)
{
    cJSON *whole;
    struct span_record record = made();
    record.context.has_parent = false;
    record.context.flags = TRACE_FLAG_SAMPLED;
    record.route = NULL;
    record.status = 503;
    record.fault = FAULT_MEMORY;
    record.is_tls = record.is_http_1_0 = true;
    record.item_count = 0;
    record.model[0] = record.state[0] = '\0';
    strcpy(record.method, "BREW");
    strcpy(record.path, "/a\"b\x80");
    const cJSON *span = cJSON_GetArrayItem(spans_of(&record, &whole), 0);
    expect_span(span, "{\"traceId\":\"" TRACE "\",\"spanId\":\"abababababababab\","
                      "\"name\":\"HTTP\",\"kind\":2,\"flags\":257,\"status\":{\"code\":2},"
                      "\"startTimeUnixNano\":\"1000001000\",\"endTimeUnixNano\":\"1000002000\"}");
    expect_attributes(span, "{\"http.request.method\":{\"stringValue\":\"_OTHER\"},"
                            "\"http.request.method_original\":{\"stringValue\":\"BREW\"},"
                            "\"url.path\":{\"stringValue\":\"/a\\\"b\\ufffd\"},"
                            "\"url.scheme\":{\"stringValue\":\"https\"},"
                            "\"network.protocol.version\":{\"stringValue\":\"1.0\"},"
                            "\"http.response.status_code\":{\"intValue\":\"503\"},"
                            "\"attnd.fault\":{\"stringValue\":\"memory\"},"
                            "\"error.type\":{\"stringValue\":\"memory\"},"
                            "\"http.request.body.size\":{\"intValue\":\"42\"},"
                            "\"http.response.body.size\":{\"intValue\":\"151\"},"
                            "\"attnd.request_id\":{\"stringValue\":\"an-id\"}}");
    cJSON_Delete(whole);
}

static bool has_attribute(const cJSON *span, const char *name)
{
    const cJSON *attribute;
    cJSON_ArrayForEach(attribute, cJSON_GetObjectItem(span, "attributes")) {
        if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(attribute, "key")), name) == 0)
            return true;
    }
    return false;
}

/* A client's mistake is no error of the daemon; a client that left got no status. */
TEST(client_faults)
{
    cJSON *whole;
    struct span_record record = made();
    record.status = 400;
    record.fault = FAULT_SHAPE;
    const cJSON *span = cJSON_GetArrayItem(spans_of(&record, &whole), 0);
    assert_true(has_attribute(span, "attnd.fault") && !has_attribute(span, "error.type"));
    assert_null(cJSON_GetObjectItem(span, "status"));
    cJSON_Delete(whole);
    record.status = 499;
    record.fault = FAULT_LEFT;
    span = cJSON_GetArrayItem(spans_of(&record, &whole), 0);
    assert_true(has_attribute(span, "attnd.fault"));
    assert_false(has_attribute(span, "http.response.status_code"));
    cJSON_Delete(whole);
}

static void expect_stage(const cJSON *span, const char *name, const char *start, const char *end)
{
    char want[400];
    const char *id = cJSON_GetStringValue(cJSON_GetObjectItem(span, "spanId"));
    assert_non_null(id);
    assert_int_equal(strlen(id), 16);
    assert_int_equal(strspn(id, "0123456789abcdef"), 16);
    snprintf(want, sizeof want,
             "{\"traceId\":\"" TRACE "\",\"spanId\":\"%s\",\"parentSpanId\":\"abababababababab\","
             "\"name\":\"%s\",\"kind\":1,\"flags\":257,\"startTimeUnixNano\":\"%s\","
             "\"endTimeUnixNano\":\"%s\"}",
             id, name, start, end);
    expect_span(span, want);
}

TEST(stages)
{
    cJSON *whole;
    struct span_record record = made();
    const struct request_record request = { .was_job = true,
                                            .queue_ns = 100,
                                            .parse_ns = 0,
                                            .compute_ns = 300,
                                            .write_ns = 50,
                                            .total_ns = 650 };
    span_record_stages(&record, &request);
    const cJSON *spans = spans_of(&record, &whole);
    assert_int_equal(cJSON_GetArraySize(spans), 6);
    expect_stage(cJSON_GetArrayItem(spans, 1), "receive", "1000001000", "1000001200");
    expect_stage(cJSON_GetArrayItem(spans, 2), "queue", "1000001200", "1000001300");
    expect_stage(cJSON_GetArrayItem(spans, 3), "compute", "1000001300", "1000001600");
    expect_stage(cJSON_GetArrayItem(spans, 4), "write", "1000001600", "1000001650");
    expect_stage(cJSON_GetArrayItem(spans, 5), "send", "1000001650", "1000002000");
    cJSON_Delete(whole);
    const struct request_record no_job = { .queue_ns = 100, .total_ns = 100 };
    span_record_stages(&record, &no_job);
    assert_int_equal(span_record_count(&record), 1);
}

/* Stages never end after their request. */
TEST(stages_within)
{
    struct span_record record = made();
    int64_t sum_ns = 0;
    const struct request_record request = {
        .was_job = true, .queue_ns = 900, .compute_ns = 900, .write_ns = 900, .total_ns = 2700
    };
    span_record_stages(&record, &request);
    for (int i = 0; i < SPAN_STAGE_COUNT; i++)
        sum_ns += record.stage_ns[i];
    assert_int_equal(sum_ns, record.ended_ns - record.began_ns);
    assert_int_equal(span_record_count(&record), 3);
}

/* The bound of one record holds for the longest that there can be. */
TEST(longest)
{
    static char buffer[2 * SPAN_JSON_BYTES_MAX];
    struct span_record record = made();
    memset(record.path, '\x01', sizeof record.path - 1);
    memset(record.model, '\x01', sizeof record.model - 1);
    memset(record.request_id, '"', sizeof record.request_id - 1);
    memset(record.state, '"', sizeof record.state - 1);
    memset(record.method, 'M', sizeof record.method - 1);
    record.route = "/v2/models/{model}/versions/{version}/trace/stats";
    record.bytes_in = record.bytes_out = record.version = record.layer = INT64_MIN;
    record.item_count = record.q_len = record.kv_len = INT64_MAX;
    record.status = 503;
    record.fault = FAULT_ANSWER_TOO_LARGE;
    for (int i = 0; i < SPAN_STAGE_COUNT; i++)
        record.stage_ns[i] = 1;
    struct text text = text_in(buffer, sizeof buffer);
    span_json_write(&text, &record, INT64_MAX - 100000);
    assert_int_equal(text.failed, FAULT_NONE);
    assert_in_range(text.used, 1, SPAN_JSON_BYTES_MAX);
}
