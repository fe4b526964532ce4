/* SPDX-License-Identifier: Apache-2.0 */
/* test_memory.c - --memory-max, which is one budget for all requests in flight, and the memory that
 * the daemon holds when it has no requests.
 *
 * Two tests compare resident memory: after a burst, and with idle connections. They do so on the
 * plain build alone, because a sanitizer keeps freed memory. Where ATTND_TEST_PROBLEMS is set, the
 * soak sends a hundred times as many requests as it says. */
#include "answer.h"
#include "fixture.h"
#include "problem_count.h"
#include "request_text.h"
#include "test.h"

#include <sys/resource.h>
#include <sys/socket.h>

static const char PATH[] = "/v1/attention";
static const char GOOD[] = JSON({"model":"sdpa","query":[[1]]});
static const char IN_FLIGHT[] = "attnd_memory_in_flight_bytes";

enum { MIB = 1 << 20, THREAD_SANITIZER = 8 /* times as slow, as tests/run says */ };

static void start(const char *flag, const char *value)
{
    fixture_serve("--workers", "2", flag, value);
}

static void stop(void)
{
    cJSON_Delete(answer_post(&client, PATH, GOOD));
    answer_wait_for_metric(&client, IN_FLIGHT, 0, 0);
    http_client_free(&client);
    daemon_stop(&server);
}

static void begin(struct http_raw *raw, int content_length)
{
    char head[200];
    snprintf(head, sizeof(head),
             "POST /v1/attention HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n",
             content_length);
    http_raw_connect(raw, server.port);
    assert_true(http_raw_send_text(raw, head));
}

/* The same, and sends this many bytes of the body. */
static void begin_with(struct http_raw *raw, int content_length, int sent)
{
    char *bytes = malloc((size_t)sent);
    memset(bytes, ' ', (size_t)sent);
    begin(raw, content_length);
    assert_true(http_raw_send(raw, bytes, (size_t)sent));
    free(bytes);
}

/* The refusal comes before the body, which this test never sends. */
static void expect_refused(int content_length, long status, const char *code)
{
    struct http_raw raw;
    char value[32];
    begin(&raw, content_length);
    struct http_response response = http_raw_receive(&raw, 10 * daemon_slowness());
    answer_expect_fault(&response, status, code, NULL);
    if (status == 503)
        assert_non_null(http_response_header(&response, "Retry-After", value, sizeof(value)));
    assert_true(http_raw_is_closed(&raw, 10 * daemon_slowness()));
    http_response_free(&response);
    http_raw_close(&raw);
}

TEST(announced_bodies)
{
    struct http_raw first;
    start("--memory-max", "8MiB");
    assert_true(answer_metric(&client, "attnd_memory_max_bytes") == 8 * MIB);
    expect_refused(4 * MIB + 1, 413, "too_large"); /* can never fit */
    begin(&first, 3 * MIB);
    expect_refused(4 * MIB + 1, 413, "too_large");
    assert_true(answer_metric(&client, IN_FLIGHT) == 0); /* an announced body takes no memory */
    http_raw_close(&first);
    begin_with(&first, 3 * MIB, 3 * MIB - 1);
    answer_wait_for_metric(&client, IN_FLIGHT, 3 * MIB, 3 * MIB);
    expect_refused(2 * MIB, 503, "memory"); /* it does not fit now */
    cJSON_Delete(answer_post(&client, PATH, GOOD));
    assert_true(answer_metric(&client, "attnd_memory_refused_total") >= 1);
    assert_true(answer_metric(&client, "attnd_refused_total{reason=\"memory\"}") == 1);
    http_raw_close(&first);
    answer_wait_for_metric(&client, IN_FLIGHT, 0, 0);
    struct http_raw second;
    begin_with(&second, 2 * MIB, 2 * MIB - 1);
    answer_wait_for_metric(&client, IN_FLIGHT, 2 * MIB, 2 * MIB);
    http_raw_close(&second);
    stop();
}

/* A chunked body announces no length; it takes more of the budget as it grows. */
TEST(chunked_bodies)
{
    start("--memory-max", "2MiB");
    char *body = malloc(MIB + 2);
    memset(body, ' ', MIB + 2);
    memcpy(body, GOOD, strlen(GOOD));
    struct http_response response = http_client_send(
        &client, &(struct http_request){
                     .path = PATH, .body = body, .body_size = MIB / 2, .chunked = true });
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    answer_send_refused(
        &client,
        &(struct http_request){ .path = PATH, .body = body, .body_size = MIB + 1, .chunked = true },
        413, "too_large", NULL);
    struct http_raw first;
    begin_with(&first, MIB - 1024, MIB - 1025);
    answer_wait_for_metric(&client, IN_FLIGHT, MIB - 1024, MIB - 1024);
    answer_send_refused(
        &client,
        &(struct http_request){ .path = PATH, .body = body, .body_size = MIB / 2, .chunked = true },
        503, "memory", NULL);
    http_raw_close(&first);
    free(body);
    stop();
}

/* This request is small on the wire and large to compute. The daemon refuses it where it can never
 * fit. The whole budget is free again after it. */
TEST(computing)
{
    start("--memory-max", "4MiB");
    struct request_text text = { 0 };
    request_text_add(&text, "{\"model\":\"sdpa\",\"outputs\":[\"weights\"],\"query\":");
    request_text_random(&text, 3, 1500, 2);
    request_text_add(&text, "}");
    struct http_response response = http_client_post(&client, PATH, text.data);
    answer_expect_fault(&response, 413, "too_large", NULL);
    http_response_free(&response);
    free(text.data);
    for (int i = 0; i < 20; i++)
        cJSON_Delete(answer_post(&client, PATH, GOOD));
    stop();
}

/* What would not fit into an idle daemon is 413 with the bound, also where that is found out by and
 * by, and the client is not told to come again. */
TEST(never_fits)
{
    enum { BYTES = 200 << 10 };
    char *body = malloc(BYTES + 100), value[32];
    const int head = sprintf(body, "{\"model\":\"stories260K\",\"text\":\"");
    for (int i = 0; i < BYTES; i++)
        body[head + i] = "word "[i % 5];
    strcpy(body + head + BYTES, "\"}");
    fixture_serve("--memory-max", "16MiB", "--models", "examples/models", "--timeout", "600s");
    struct http_response response = http_client_post(&client, "/v1/tokenize", body);
    assert_null(http_response_header(&response, "Retry-After", value, sizeof(value)));
    assert_non_null(strstr(response.body, "12582912 bytes"));
    answer_expect_fault(&response, 413, "too_large", NULL);
    http_response_free(&response);
    free(body);
    stop();
}

/* Sends a request and reads the head of its answer, and no more. Returns the bytes of the answer.
 */
static double ask_and_stop(struct http_raw *raw, const char *path, const char *headers,
                           const char *body)
{
    char *head = NULL, *end;
    assert_true(asprintf(&head,
                         "POST %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %zu\r\n\r\n",
                         path, headers, strlen(body))
                > 0);
    http_raw_connect(raw, server.port);
    assert_true(http_raw_send_text(raw, head) && http_raw_send_text(raw, body));
    free(head);
    char answer[1024] = "";
    while (recv(raw->socket, answer, sizeof answer - 1, MSG_PEEK) > 0
           && !(end = strstr(answer, "\r\n\r\n")))
        ;
    assert_int_equal(strncmp(answer, "HTTP/1.1 200", 12), 0);
    return strtod(strstr(answer, "Content-Length: ") + strlen("Content-Length: "), NULL);
}

/* An answer counts until the client has taken it, by what it holds: not the room that its numbers
 * might have needed, and nothing that it was computed from. */
TEST(answers)
{
    struct request_text weights = { 0 }, tokens = { 0 };
    request_text_add(&weights, "{\"model\":\"sdpa\",\"outputs\":[\"weights\"],\"query\":");
    request_text_random(&weights, 5, 1500, 2);
    request_text_add(&weights, "}");
    request_text_add(&tokens, "{\"model\":\"stories260K\",\"text\":\"");
    for (int i = 0; i < 40000; i++)
        request_text_add(&tokens, "a word ");
    request_text_add(&tokens, "\"}");
    const struct {
        const char *path, *headers, *body;
    } CASES[] = { { PATH, "", weights.data },
                  { PATH, "Accept-Encoding: gzip\r\n", weights.data },
                  { "/v1/tokenize", "", tokens.data } };
    fixture_serve("--send-timeout", "60s", "--models", "examples/models", "--timeout", "600s");
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct http_raw raw;
        const double bytes = ask_and_stop(&raw, CASES[i].path, CASES[i].headers, CASES[i].body);
        const double booked = answer_metric(&client, IN_FLIGHT);
        print_message("    an answer of %.0f bytes: %.0f are booked\n", bytes, booked);
        assert_true(bytes > 5 * MIB && booked >= bytes && booked < 1.2 * bytes);
        struct http_response response = http_raw_receive(&raw, 30 * daemon_slowness());
        assert_int_equal(response.status, 200);
        http_response_free(&response);
        http_raw_close(&raw);
    }
    free(weights.data);
    free(tokens.data);
    stop();
}

/* ------------------------------------------------------------------- resident -- */

static size_t resident_after(double seconds)
{
    daemon_pause(seconds);
    return daemon_memory_bytes(&server);
}

/* Many large requests run at once, then none. Resident memory returns to what it was before, or at
 * most a tenth plus half a MiB above that. */
TEST(burst)
{
    enum { COUNT = 6 };
    if (daemon_slowness() > 1)
        skip();
    start("--timeout", "60s");
    struct http_request requests[COUNT];
    struct http_response responses[COUNT];
    struct http_crowd crowd;
    struct request_text text = { 0 };
    request_text_add(&text, "{\"model\":\"sdpa\",\"outputs\":[\"weights\"],\"query\":");
    request_text_random(&text, 5, 1500, 2);
    request_text_add(&text, "}");
    for (int i = 0; i < COUNT; i++)
        requests[i] = (struct http_request){ .path = PATH, .body = text.data };
    for (int i = 0; i < 100; i++)
        cJSON_Delete(answer_post(&client, PATH, GOOD));
    const size_t before = daemon_memory_bytes(&server);
    http_crowd_init(&crowd, server.port, COUNT);
    http_crowd_send(&crowd, requests, responses);
    const size_t during = daemon_memory_bytes(&server);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(responses[i].status, 200);
        http_response_free(&responses[i]);
    }
    http_crowd_free(&crowd);
    free(text.data);
    size_t after = 0;
    const double until = daemon_now() + 10;
    while ((after = resident_after(0.1)) > before + before / 10 + MIB / 2)
        if (daemon_now() > until)
            fail_msg("resident: %zu, %zu after a burst, now %zu", before, during, after);
    print_message("    resident: %.1f MiB, after a burst %.1f, then %.1f\n", (double)before / MIB,
                  (double)during / MIB, (double)after / MIB);
    stop();
}

/* Memory does not grow with the number of requests, of whatever kind they are. */
TEST(soak)
{
    enum { KINDS = 6, WARM_UP = 3000 };
    static const char *const bodies[KINDS] = {
        GOOD,
        "{\"model\":\"demo\",\"query\":[[1,0,0],[0,1,0]]}",
        "{\"query\":",
        "{\"model\":\"nobody\",\"query\":[[1]]}",
        "{\"model\":\"sdpa\",\"query\":[[1,2],[3,4],[5,6]],\"outputs\":[\"weights\",\"lse\"]}",
        "{\"model\":\"sdpa\",\"query\":[[1,2],[3]]}",
    };
    const int count = 100 * (int)problem_count(daemon_slowness() > 1 ? 20 : 170);
    daemon_keep_little();
    start("--timeout", "60s");
    size_t before = 0;
    for (int i = 0; i < WARM_UP + count; i++) {
        struct http_response response = http_client_post(&client, PATH, bodies[i % KINDS]);
        assert_true(response.status == 200 || response.status == 400 || response.status == 404);
        http_response_free(&response);
        if (i == WARM_UP)
            before = daemon_memory_bytes(&server);
    }
    const size_t after = daemon_memory_bytes(&server);
    print_message("    resident: %.2f MiB, after %d requests %.2f\n", (double)before / MIB, count,
                  (double)after / MIB);
    /* ThreadSanitizer's own memory grows with what threads have done. */
    if (daemon_slowness() < THREAD_SANITIZER)
        assert_true(after < before + MIB);
    stop();
}

/* These connections stay open and silent after a request of 20 KB. 9 900 of them take no more than
 * 200 MiB. */
TEST(idle_connections)
{
    enum { BODY = 20000 };
    const int idle_count = problem_count(0) > 0 ? 9900 : 1000;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (daemon_slowness() > 1 || limit.rlim_cur < (rlim_t)idle_count + 100)
        skip();
    start("--connections-max", "10000");
    char *body = malloc(BODY + 1);
    memset(body, ' ', BODY);
    body[BODY] = '\0';
    memcpy(body, GOOD, strlen(GOOD));
    struct http_raw *idle = calloc((size_t)idle_count, sizeof(*idle));
    for (int i = 0; i < idle_count; i++) {
        begin(&idle[i], BODY);
        assert_true(http_raw_send_text(&idle[i], body));
        struct http_response response = http_raw_receive(&idle[i], 10);
        assert_int_equal(response.status, 200);
        http_response_free(&response);
    }
    for (int i = 0; i < 100; i++)
        cJSON_Delete(answer_post(&client, PATH, GOOD));
    const size_t resident = daemon_memory_bytes(&server);
    print_message("    resident: %.1f MiB with %d idle connections\n", (double)resident / MIB,
                  idle_count);
    assert_true(resident < (size_t)20 * MIB + (size_t)idle_count * (200 * (size_t)MIB / 10000));
    for (int i = 0; i < idle_count; i++)
        http_raw_close(&idle[i]);
    free(idle);
    free(body);
    stop();
}

EACH_TEST(NULL, fixture_clear);
