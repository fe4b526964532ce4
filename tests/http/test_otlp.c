/* SPDX-License-Identifier: Apache-2.0 */
/* test_otlp.c - the spans of requests, as a collector gets them, and what a collector that is slow,
 * gone or wrong does to the daemon: nothing but numbers in /metrics. */
#include "answer.h"
#include "fixture.h"
#include "sandbox_state.h"
#include "stub_collector.h"
#include "test.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#define TRACE  "0af7651916cd43dd8448eb211c80319c"
#define PARENT "b7ad6b7169203331"

enum { STATE_MAX = 512 }; /* bytes of tracestate in a span */

static const char PATH[] = "/v1/attention";
static const char GOOD[] = JSON({"model":"demo","query":[[1,0,0],[0,1,0]]});
static const char *const TAKES[] = { STUB_TAKES, NULL };

static struct stub_collector stub;

/* ------------------------------------------------------------------ begin -- */

/* A daemon that sends to this port, with one more variable and one more flag, or NULL. */
static void serve(int port, const char *delay, const char *variable, const char *flag)
{
    char endpoint[64];
    snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", port);
    const char *arguments[] = { "--otlp-endpoint", endpoint, "--log-format", "json", flag, NULL };
    const char *environment[] = { delay, "OTEL_SERVICE_NAME=tested", variable, NULL };
    daemon_start(&server,
                 &(struct daemon_options){ .arguments = arguments, .environment = environment });
    http_client_init(&client, server.port);
}

#define SOON "OTEL_BSP_SCHEDULE_DELAY=20"

static void send_headers(const char *path, const char *body, const char *const *headers,
                         long status)
{
    struct http_response response = http_client_send(
        &client, &(struct http_request){ .path = path, .body = body, .headers = headers });
    assert_int_equal(response.status, status);
    http_response_free(&response);
}

static void send_traced(const char *path, const char *body, const char *traceparent, long status)
{
    char header[200];
    snprintf(header, sizeof header, "traceparent: %s", traceparent);
    const char *const headers[] = { header, "tracestate: congo=t61rcWkgMzE,rojo=1",
                                    "Content-Type: application/json", "X-Request-Id: traced",
                                    NULL };
    send_headers(path, body, headers, status);
}

static void stop(void)
{
    http_client_free(&client);
    daemon_stop(&server);
}

/* ------------------------------------------------------------------ fields -- */

static const char *text_of(const cJSON *span, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(span, name));
    if (!text)
        fail_msg("no %s in %s", name, cJSON_PrintUnformatted(span));
    return text;
}

static long long time_of(const cJSON *span, const char *name)
{
    return strtoll(text_of(span, name), NULL, 10);
}

static const cJSON *attribute(const cJSON *span, const char *name)
{
    const cJSON *found;
    cJSON_ArrayForEach(found, cJSON_GetObjectItem(span, "attributes")) {
        if (strcmp(text_of(found, "key"), name) == 0)
            return cJSON_GetObjectItem(found, "value");
    }
    return NULL;
}

static void expect_attribute(const cJSON *span, const char *name, const char *want)
{
    cJSON *wanted = want ? cJSON_Parse(want) : NULL;
    const cJSON *value = attribute(span, name);
    if (want ? !cJSON_Compare(value, wanted, true) : value != NULL)
        fail_msg("%s is not %s in %s", name, want ? want : "away", cJSON_Print(span));
    cJSON_Delete(wanted);
}

/* The span of the request: the SERVER span of the trace. */
static const cJSON *request_of(const cJSON *spans, const char *trace_id)
{
    const cJSON *span;
    cJSON_ArrayForEach(span, spans) {
        if (strcmp(text_of(span, "traceId"), trace_id) == 0
            && cJSON_GetObjectItem(span, "kind")->valueint == 2)
            return span;
    }
    fail_msg("no span of %s", trace_id);
    return NULL;
}

/* The stages follow one another from the beginning of the request to its end; parse is there in
 * every inference, and the names are in their order. Returns how many. */
static int check_stages(const cJSON *spans, const cJSON *request)
{
    static const char ORDER[] = "receive queue parse compute write send";
    const char *place = ORDER;
    long long at = time_of(request, "startTimeUnixNano");
    int count = 0;
    const cJSON *span;
    cJSON_ArrayForEach(span, spans) {
        if (span == request || strcmp(text_of(span, "traceId"), text_of(request, "traceId")) != 0)
            continue;
        assert_int_equal(cJSON_GetObjectItem(span, "kind")->valueint, 1);
        assert_string_equal(text_of(span, "parentSpanId"), text_of(request, "spanId"));
        assert_string_not_equal(text_of(span, "spanId"), text_of(request, "spanId"));
        place = strstr(place, text_of(span, "name"));
        if (!place)
            fail_msg("%s is out of order", text_of(span, "name"));
        assert_true(time_of(span, "startTimeUnixNano") == at);
        at = time_of(span, "endTimeUnixNano");
        assert_true(at > time_of(span, "startTimeUnixNano"));
        count++;
    }
    assert_true(at <= time_of(request, "endTimeUnixNano"));
    return count;
}

/* The line of the request in the log has the ids of its span. */
static void check_log(const cJSON *request)
{
    char words[200];
    snprintf(words, sizeof words, "\"trace_id\":\"%s\",\"span_id\":\"%s\"",
             text_of(request, "traceId"), text_of(request, "spanId"));
    free(daemon_log_with(&server, words));
}

/* -------------------------------------------------------------------- spans -- */

TEST(an_inference)
{
    cJSON *whole;
    stub_collector_start(&stub, TAKES);
    serve(stub.port, SOON, "OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=here", NULL);
    send_traced(PATH, GOOD, "00-" TRACE "-" PARENT "-01", 200);
    const cJSON *spans = stub_collector_spans(&stub, TRACE, &whole);
    const cJSON *request = request_of(spans, TRACE);
    assert_string_equal(text_of(request, "name"), "POST /v1/attention");
    assert_string_equal(text_of(request, "parentSpanId"), PARENT);
    assert_string_equal(text_of(request, "traceState"), "congo=t61rcWkgMzE,rojo=1");
    assert_int_equal(cJSON_GetObjectItem(request, "flags")->valueint, 0x301);
    assert_null(cJSON_GetObjectItem(request, "status"));
    expect_attribute(request, "http.route", JSON({"stringValue":"/v1/attention"}));
    expect_attribute(request, "http.response.status_code", JSON({"intValue":"200"}));
    expect_attribute(request, "http.request.body.size", JSON({"intValue":"42"}));
    expect_attribute(request, "url.scheme", JSON({"stringValue":"http"}));
    expect_attribute(request, "network.protocol.version", JSON({"stringValue":"1.1"}));
    expect_attribute(request, "attnd.request_id", JSON({"stringValue":"traced"}));
    expect_attribute(request, "attnd.model", JSON({"stringValue":"demo"}));
    expect_attribute(request, "attnd.q_len", JSON({"intValue":"2"}));
    expect_attribute(request, "error.type", NULL);
    assert_in_range(check_stages(spans, request), 3, 6);
    check_log(request);
    const cJSON *resource = cJSON_GetObjectItem(
        cJSON_GetArrayItem(cJSON_GetObjectItem(whole, "resourceSpans"), 0), "resource");
    expect_attribute(resource, "service.name", JSON({"stringValue":"tested"}));
    expect_attribute(resource, "deployment.environment.name", JSON({"stringValue":"here"}));
    assert_non_null(attribute(resource, "service.instance.id"));
    cJSON_Delete(whole);
    const struct stub_post *post = stub_collector_post(&stub, 0);
    assert_ptr_equal(strstr(post->head, "POST /v1/traces HTTP/1.1\r\n"), post->head);
    assert_non_null(strstr(post->head, "\r\nContent-Type: application/json\r\n"));
    answer_wait_for_metric(&client, "attnd_otlp_spans_exported_total", 4, 7);
    stop();
    stub_collector_stop(&stub);
}

/* What its client does not sample, health and metrics have no span; the request behind them has. */
TEST(which_requests)
{
    static const char OTHER[] = "1af7651916cd43dd8448eb211c80319c";
    cJSON *whole;
    stub_collector_start(&stub, TAKES);
    serve(stub.port, "OTEL_BSP_SCHEDULE_DELAY=300", NULL, NULL);
    send_traced(PATH, GOOD, "00-" TRACE "-" PARENT "-00", 200);
    send_traced("/livez", NULL, "00-" TRACE "-" PARENT "-01", 200);
    send_traced("/metrics", NULL, "00-" TRACE "-" PARENT "-01", 200);
    send_traced("/v2/health/ready", NULL, "00-" TRACE "-" PARENT "-01", 200);
    send_traced(PATH, JSON({"model":"demo"}), "00-" TRACE "-" PARENT "-xx", 400);
    send_traced("/v1/models/none", NULL, "00-1af7651916cd43dd8448eb211c80319c-" PARENT "-01", 404);
    const cJSON *spans = stub_collector_spans(&stub, OTHER, &whole), *span;
    const cJSON *request = request_of(spans, OTHER);
    assert_string_equal(text_of(request, "name"), "GET /v1/models/{model}");
    expect_attribute(request, "url.path", JSON({"stringValue":"/v1/models/none"}));
    expect_attribute(request, "attnd.fault", JSON({"stringValue":"not_found"}));
    expect_attribute(request, "error.type", NULL);
    cJSON_ArrayForEach(span, spans) {
        assert_string_not_equal(text_of(span, "traceId"), TRACE);
        if (cJSON_GetObjectItem(span, "kind")->valueint == 2 && span != request)
            assert_null(cJSON_GetObjectItem(span, "parentSpanId"));
    }
    cJSON_Delete(whole);
    stop();
    stub_collector_stop(&stub);
}

/* Several headers are one list, which is cut between two members as one header's. */
TEST(several_states)
{
    char longest[STATE_MAX + 20] = "tracestate: long=";
    cJSON *whole;
    memset(longest + strlen(longest), 'x', STATE_MAX - 20);
    const char *const headers[] = { "traceparent: 00-" TRACE "-" PARENT "-01 ",
                                    "tracestate: congo=1",
                                    "Tracestate;",
                                    "TRACESTATE: rojo=2,b=3",
                                    longest,
                                    NULL };
    stub_collector_start(&stub, TAKES);
    serve(stub.port, SOON, NULL, NULL);
    send_headers("/v1/models", NULL, headers, 200);
    const cJSON *request = request_of(stub_collector_spans(&stub, TRACE, &whole), TRACE);
    assert_string_equal(text_of(request, "parentSpanId"), PARENT);
    assert_string_equal(text_of(request, "traceState"), "congo=1,rojo=2,b=3");
    cJSON_Delete(whole);
    stop();
    stub_collector_stop(&stub);
}

/* ------------------------------------------------------- collectors that fail -- */

/* A port on which nobody listens, as long as the socket is there. */
static int dead_port(int *socket_of)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    *socket_of = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(*socket_of, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(*socket_of, (struct sockaddr *)&address, &size), 0);
    return ntohs(address.sin_port);
}

/* The queue is full and drops, the requests are answered, and the end comes. */
TEST(dead)
{
    int socket_of;
    serve(dead_port(&socket_of), SOON, "OTEL_BSP_MAX_QUEUE_SIZE=4", NULL);
    cJSON_Delete(answer_post(&client, PATH, GOOD));
    answer_wait_for_metric(&client, "attnd_otlp_posts_failed_total", 1, 1e9);
    for (int i = 0; i < 20; i++)
        cJSON_Delete(answer_post(&client, PATH, GOOD));
    answer_wait_for_metric(&client, "attnd_otlp_spans_dropped_total{reason=\"queue\"}", 1, 1e9);
    assert_true(answer_metric(&client, "attnd_otlp_spans_exported_total") == 0);
    free(daemon_log_with(&server, "spans not taken"));
    stop();
    close(socket_of);
}

/* The same batch comes again, no sooner than was asked for, and counts once. */
TEST(retry_after)
{
    static const char *const ANSWERS[] = { STUB_ANSWER("429 Too Many Requests",
                                                       "Retry-After: 1\r\n", "0", ""),
                                           STUB_CLOSES, STUB_TAKES, NULL };
    stub_collector_start(&stub, ANSWERS);
    serve(stub.port, SOON, NULL, NULL);
    cJSON_Delete(answer_post(&client, PATH, GOOD));
    answer_wait_for_metric(&client, "attnd_otlp_spans_exported_total", 2, 7);
    const struct stub_post *first = stub_collector_post(&stub, 0);
    const struct stub_post *second = stub_collector_post(&stub, 1);
    const struct stub_post *third = stub_collector_post(&stub, 2);
    assert_string_equal(first->body, second->body);
    assert_string_equal(first->body, third->body);
    assert_true(second->came - first->came >= 1);
    free(daemon_log_with(&server, "status 429"));
    free(daemon_log_with(&server, "spans taken again"));
    stop();
    assert_int_equal(stub_collector_count(&stub), 3);
    stub_collector_stop(&stub);
}

/* A batch that is refused does not come again; of one that is taken in part the rest is counted. */
TEST(refused)
{
    static const char *const ANSWERS[] = {
        STUB_ANSWER("400 Bad Request", "", "0", ""),
        STUB_ANSWER("200 OK", "", "62",
                    "{\"partialSuccess\":{\"rejectedSpans\":\"1\",\"errorMessage\":\"late\"}}"),
        STUB_TAKES, NULL
    };
    static const char REFUSED[] = "attnd_otlp_spans_dropped_total{reason=\"refused\"}";
    stub_collector_start(&stub, ANSWERS);
    serve(stub.port, SOON, NULL, NULL);
    cJSON_Delete(answer_post(&client, PATH, GOOD));
    answer_wait_for_metric(&client, REFUSED, 2, 7);
    const double refused = answer_metric(&client, REFUSED);
    cJSON_Delete(answer_post(&client, PATH, GOOD));
    answer_wait_for_metric(&client, REFUSED, refused + 1, refused + 1);
    free(daemon_log_with(&server, JSON("spans refused","count":1,"reason":"late")));
    cJSON_Delete(answer_post(&client, PATH, GOOD));
    stub_collector_post(&stub, 2);
    assert_string_not_equal(stub_collector_post(&stub, 1)->body,
                            stub_collector_post(&stub, 0)->body);
    assert_true(answer_metric(&client, REFUSED) == refused + 1);
    stop();
    stub_collector_stop(&stub);
}

/* One collector never reads, one never ends its answer, one closes: each post fails, the next comes
 * over a new connection, and the daemon serves. */
TEST(hostile)
{
    static const char *const ANSWERS[] = { STUB_SILENT, STUB_ENDLESS, STUB_CLOSES, STUB_TAKES,
                                           NULL };
    stub_collector_start(&stub, ANSWERS);
    serve(stub.port, SOON, "OTEL_EXPORTER_OTLP_TIMEOUT=200", NULL);
    cJSON_Delete(answer_post(&client, PATH, GOOD));
    answer_wait_for_metric(&client, "attnd_otlp_posts_failed_total", 3, 1e9);
    cJSON_Delete(answer_post(&client, PATH, GOOD));
    answer_wait_for_metric(&client, "attnd_otlp_spans_exported_total", 2, 14);
    stop();
    stub_collector_stop(&stub);
}

/* ---------------------------------------------------------------------- end -- */

#define LATE "OTEL_BSP_SCHEDULE_DELAY=600000"

/* What is in the queue at the end is sent before the process ends. */
TEST(flush)
{
    cJSON *whole;
    stub_collector_start(&stub, TAKES);
    serve(stub.port, LATE, NULL, NULL);
    send_traced(PATH, GOOD, "00-" TRACE "-" PARENT "-01", 200);
    assert_int_equal(stub_collector_count(&stub), 0);
    stop();
    request_of(stub_collector_spans(&stub, TRACE, &whole), TRACE);
    assert_int_equal(stub_collector_count(&stub), 1);
    cJSON_Delete(whole);
    stub_collector_stop(&stub);
}

/* A collector that says nothing, or that has asked for five minutes, does not keep the process. */
TEST(end_does_not_wait)
{
    static const char *const SILENT[] = { STUB_SILENT, NULL };
    static const char *const LATER[] = {
        STUB_ANSWER("503 Service Unavailable", "Retry-After: 300\r\n", "0", ""), NULL
    };
    stub_collector_start(&stub, SILENT);
    serve(stub.port, LATE, NULL, NULL);
    cJSON_Delete(answer_post(&client, PATH, GOOD));
    stop();
    stub_collector_stop(&stub);
    stub_collector_start(&stub, LATER);
    serve(stub.port, SOON, NULL, NULL);
    cJSON_Delete(answer_post(&client, PATH, GOOD));
    answer_wait_for_metric(&client, "attnd_otlp_posts_failed_total", 1, 1);
    stop();
    assert_int_equal(stub_collector_count(&stub), 2);
    stub_collector_stop(&stub);
}

/* ------------------------------------------------------------------ the rest -- */

/* A name where this machine has one: a root without /etc/hosts may not know localhost. */
static const char *name_of_this_machine(void)
{
    struct addrinfo *found = NULL;
    const bool is_known = getaddrinfo("localhost", NULL, NULL, &found) == 0;
    if (is_known)
        freeaddrinfo(found);
    return is_known ? "localhost" : "127.0.0.1";
}

/* In the sandbox the collector is still found, also by a name that the resolver looks up. */
TEST(sandbox)
{
    char endpoint[64];
    cJSON *whole;
    sandbox_skip_unless(false);
    stub_collector_start(&stub, TAKES);
    snprintf(endpoint, sizeof endpoint, "OTEL_EXPORTER_OTLP_ENDPOINT=http://%s:%d",
             name_of_this_machine(), stub.port);
    const char *const arguments[] = { "--sandbox", NULL };
    const char *const environment[] = { SOON, endpoint, NULL };
    daemon_start(&server,
                 &(struct daemon_options){ .arguments = arguments, .environment = environment });
    http_client_init(&client, server.port);
    send_traced(PATH, GOOD, "00-" TRACE "-" PARENT "-01", 200);
    request_of(stub_collector_spans(&stub, TRACE, &whole), TRACE);
    cJSON_Delete(whole);
    stop();
    stub_collector_stop(&stub);
}

TEST(refused_at_the_start)
{
    static const char *const ARGUMENTS[] = { "--otlp-endpoint", "https://collector:4318", NULL };
    struct daemon_result result = daemon_command(ARGUMENTS, NULL);
    assert_int_equal(result.exit_code, 1);
    assert_non_null(strstr(result.errors, "spans are sent over plain http:// alone"));
    daemon_result_free(&result);
}

/* Without a collector there are no ids in the log and no families in /metrics. */
TEST(off)
{
    struct metrics_page page;
    fixture_serve("--log-format", "json");
    send_traced(PATH, GOOD, "00-" TRACE "-" PARENT "-01", 200);
    char *log = daemon_log_with(&server, "\"traceparent\":\"00-" TRACE);
    assert_null(strstr(log, "span_id"));
    free(log);
    answer_metrics(&client, &page);
    assert_null(metrics_page_type(&page, "attnd_otlp_spans_exported_total"));
    metrics_page_free(&page);
    stop();
}

ALL_TESTS(NULL, fixture_clear);
