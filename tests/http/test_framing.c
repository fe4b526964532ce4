/* SPDX-License-Identifier: Apache-2.0 */
/* test_framing.c - messages that one reader of HTTP may take for one request and another reader for
 * two.
 *
 * Each message of framing_messages.txt goes over a bare socket. First it goes to the daemon alone:
 * the daemon must answer what is HTTP to the letter, refuse what is not, and run nothing that is
 * hidden behind it. Then it goes through nginx and haproxy, each set to be as lax as possible: the
 * proxy and the daemon must have seen the same requests. At last the messages go to a daemon by
 * TLS. */
#include "answer.h"
#include "balancer.h"
#include "fixture.h"
#include "framing_message.h"
#include "request_text.h"
#include "test.h"
#include "tls_daemon.h"

static struct framing_messages messages;

static int start(void **state)
{
    framing_messages_read(&messages);
    assert_true(messages.count >= 200);
    return fixture_start(state);
}

static int clear(void **state)
{
    framing_messages_free(&messages);
    return fixture_clear(state);
}

/* The daemon's log, with a line for each request whose headers it read. The log has all requests
 * that were sent before this call. */
static char *log_until_now(const char *mark)
{
    char path[64];
    snprintf(path, sizeof(path), "/%s", mark);
    const struct http_client_tls *tls = client.tls;
    http_client_free(&client);
    http_client_init(&client, server.port);
    client.tls = tls;
    answer_send_refused(&client, &(struct http_request){ .path = path }, 404, "not_found", "");
    free(daemon_log_with(&server, path));
    return daemon_log(&server);
}

/* ---------------------------------------------------------------- the daemon alone -- */

static void expect_taken(struct http_raw *raw, const struct framing_message *message)
{
    for (int i = 0; i < message->taken; i++) {
        struct http_response response = http_raw_receive(raw, 10 * daemon_slowness());
        if (response.status != 404 && response.status != 405)
            fail_msg("%s: answer %d of %d is %ld: %s", message->name, i + 1, message->taken,
                     response.status, response.body ? response.body : "");
        http_response_free(&response);
    }
}

/* libmicrohttpd's own answer to a bad Content-Length has its headers twice. So this function drops
 * what follows the first answer. */
static void expect_refused(struct http_raw *raw, const struct framing_message *message)
{
    struct http_response response = http_raw_receive(raw, 10 * daemon_slowness());
    const long status = response.status;
    http_response_free(&response);
    if (message->refused && status != message->refused)
        fail_msg("%s is answered with %ld, not %ld", message->name, status, message->refused);
    if (status != 0 && (status < 400 || status == 404))
        fail_msg("%s is answered with %ld", message->name, status);
    if (!http_raw_is_closed(raw, 10 * daemon_slowness()))
        fail_msg("%s does not end its connection", message->name);
}

/* Sends a message to the daemon, by TLS where the daemon speaks it. */
static void send_alone(const struct framing_message *message)
{
    struct tls_tunnel tunnel;
    if (client.tls)
        assert_true(tls_tunnel_open(&tunnel, server.port, NULL));
    else
        http_raw_connect(&tunnel.raw, server.port);
    http_raw_send(&tunnel.raw, message->bytes, message->size);
    if (message->taken > 0)
        expect_taken(&tunnel.raw, message);
    else if (message->taken == 0)
        expect_refused(&tunnel.raw, message);
    if (client.tls)
        tls_tunnel_close(&tunnel);
    else
        http_raw_close(&tunnel.raw);
}

TEST(alone)
{
    for (int i = 0; i < messages.count; i++)
        send_alone(&messages.items[i]);
    char *log = log_until_now("alone");
    for (int i = 0; i < messages.count; i++) {
        const struct framing_message *message = &messages.items[i];
        const int own = framing_message_count(message, "t", log);
        const int hidden = framing_message_count(message, "hidden", log);
        if (message->taken > 0 ? own + hidden != message->taken : message->taken == 0 && hidden > 0)
            fail_msg("%s: %d requests and %d hidden ones were run", message->name, own, hidden);
    }
    free(log);
}

#define POST "POST /v1/attention HTTP/1.1\r\nHost: x\r\n"

/* A refusal says what is wrong, in the same form as every other refusal. */
TEST(refusals)
{
    static const struct {
        const char *head, *code, *says;
    } cases[] = {
        { "GET /livez HTTP/1.1\r\nHost : x\r\n\r\n", "http", "the name of a header" },
        { "GET /livez HTTP/1.1\r\nHost: x\r\nX-A: a\r\n b\r\n\r\n", "http", "folded" },
        { "GET /livez HTTP/1.1\r\nHost: x\r\nX-A: a\x01\r\n\r\n", "http", "control character" },
        { "GET /livez HTTP/1.1\nHost: x\r\n\r\n", "http", "does not end with CRLF" },
        { "GET /li vez HTTP/1.1\r\nHost: x\r\n\r\n", "http", "the target has a blank" },
        { "GET http://x/livez HTTP/1.1\r\nHost: x\r\n\r\n", "http", "begin with '/'" },
        { "G@T /livez HTTP/1.1\r\nHost: x\r\n\r\n", "http", "the method is not a token" },
        { "GET /livez HTTP/1.1\r\n\r\n", "http", "there is no Host" },
        { "GET /livez HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", "http", "Host is among" },
        { "GET /livez HTTP/1.1\r\nHost: a b\r\n\r\n", "http", "Host is not a host" },
        { "POST /livez HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "encoding", "HTTP/1.0" },
        { POST "Content-Type: application/json\r\nContent-Type: application/x-npy\r\n\r\n",
          "duplicate", "Content-Type is among the headers twice" },
        { POST "X-Timeout-Ms: 5000\r\nX-Timeout-Ms: 1\r\n\r\n", "duplicate", "X-Timeout-Ms is" },
        { POST "X-Request-Id: a\r\nx-request-id: b\r\n\r\n", "duplicate", "X-Request-Id is" },
        { POST "X-Request-Id: a\r\nX-Request-Id: a\r\nX-Request-Id: b\r\n\r\n", "duplicate",
          "X-Request-Id is" },
        { POST "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Mode: cors\r\n\r\n", "duplicate",
          "Sec-Fetch-Mode is" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct http_raw raw;
        http_raw_connect(&raw, server.port);
        assert_true(http_raw_send_text(&raw, cases[i].head));
        struct http_response response = http_raw_receive(&raw, 10 * daemon_slowness());
        answer_expect_fault(&response, 400, cases[i].code, "");
        if (!strstr(response.body, cases[i].says))
            fail_msg("%s: %s", cases[i].head, response.body);
        http_response_free(&response);
        assert_true(http_raw_is_closed(&raw, 10 * daemon_slowness()));
        http_raw_close(&raw);
    }
}

/* Headers whose value is a list count all, as one list; others may come twice with one value. */
TEST(headers_twice)
{
#define BODY "{\"model\":\"demo\",\"query\":[[1,0,0]]}"
    static const struct {
        const char *headers;
        long status;
        const char *has; /* the answer's headers; NULL: not looked at */
    } cases[] = {
        { "Accept: text/html\r\nAccept: application/x-safetensors\r\n", 200,
          "Content-Type: application/x-safetensors" },
        { "Accept:\r\nAccept:\r\nAccept: application/x-safetensors\r\n", 200,
          "Content-Type: application/x-safetensors" },
        { "Accept-Encoding: gzip\r\nAccept-Encoding: identity;q=0\r\n", 200,
          "Content-Encoding: gzip" },
        { "Content-Encoding: identity\r\nContent-Encoding: identity\r\n", 200, NULL },
        { "Content-Encoding: identity\r\nContent-Encoding: gzip\r\n", 400, NULL },
        { "Content-Encoding: gzip\r\nContent-Encoding: deflate\r\n", 415, NULL },
        { "Content-Type: application/json\r\nContent-Type: application/json\r\n", 200, NULL },
        { "X-Request-Id: a\r\nX-Request-Id: a\r\n", 200, "X-Request-Id: a\r\n" },
        { "User-Agent: a\r\nUser-Agent: b\r\n", 200, NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char message[512];
        struct http_raw raw;
        snprintf(message, sizeof message, POST "%sContent-Length: %zu\r\n\r\n%s", cases[i].headers,
                 strlen(BODY), BODY);
        http_raw_connect(&raw, server.port);
        assert_true(http_raw_send_text(&raw, message));
        struct http_response response = http_raw_receive(&raw, 10 * daemon_slowness());
        if (response.status != cases[i].status
            || (cases[i].has && !strstr(response.headers, cases[i].has)))
            fail_msg("%s: %ld, %s", cases[i].headers, response.status, response.headers);
        http_response_free(&response);
        http_raw_close(&raw);
    }
#undef BODY
}

/* ------------------------------------------------------------------- behind a proxy -- */

/* nginx is as lax as its settings allow, over kept connections. It logs a line for each request:
 * the target, and the status of the daemon's answer, or - if nginx did not ask the daemon. */
static void write_nginx(struct request_text *text, int port, const char *buffering)
{
    request_text_add(text,
                     "log_format requests '$request_uri $upstream_status';\n"
                     "upstream attnd { server 127.0.0.1:%d; keepalive 8; }\n",
                     server.port);
    request_text_add(text,
                     "server { listen 127.0.0.1:%d; access_log " BALANCER_OUTPUT " requests;\n"
                     "  ignore_invalid_headers off; underscores_in_headers on; merge_slashes off;\n"
                     "  client_body_timeout 2s; client_header_timeout 2s; lingering_close off;\n",
                     port);
    request_text_add(text,
                     "  location / { proxy_pass http://attnd; proxy_http_version 1.1;\n"
                     "    proxy_next_upstream off; proxy_request_buffering %s;\n"
                     "    proxy_set_header Connection ''; proxy_set_header Host $http_host; } }\n",
                     buffering);
}

static void write_haproxy(struct request_text *text, int port)
{
    request_text_add(text,
                     "global\n  log stdout format raw local0\ndefaults\n  mode http\n  log global\n"
                     "  log-format '%%HPO %%s %%ST'\n  timeout connect 2s\n  timeout client 2s\n"
                     "  timeout server 10s\n  timeout http-request 2s\n"
                     "  option accept-invalid-http-request\n  http-reuse always\n  retries 0\n");
    request_text_add(text,
                     "frontend front\n  bind 127.0.0.1:%d\n  default_backend back\n"
                     "backend back\n  server attnd 127.0.0.1:%d\n",
                     port, server.port);
}

/* Sends all messages at once, each over its own connection, and waits until nothing more comes. */
static void send_all(int port)
{
    struct http_raw *raw = calloc((size_t)messages.count, sizeof(*raw));
    assert_non_null(raw);
    for (int i = 0; i < messages.count; i++) {
        http_raw_connect(&raw[i], port);
        http_raw_send(&raw[i], messages.items[i].bytes, messages.items[i].size);
    }
    const double until = daemon_now() + 3 * daemon_slowness();
    for (int i = 0; i < messages.count; i++) {
        const double left = until - daemon_now();
        http_raw_is_closed(&raw[i], left > 0 ? left : 0);
        http_raw_close(&raw[i]);
    }
    free(raw);
}

/* For each message the daemon and the proxy have seen the same requests. There is one exception: a
 * request that the daemon refused before the end of its headers is in the proxy's log alone. */
static void expect_same(const char *own_log, const char *proxy_log)
{
    static const char *const targets[] = { "t", "hidden" };
    int forwarded_count = 0;
    for (int i = 0; i < messages.count; i++)
        for (int k = 0; k < 2; k++) {
            const struct framing_message *message = &messages.items[i];
            const int run = framing_message_count(message, targets[k], own_log);
            const int sent = framing_message_count(message, targets[k], proxy_log);
            const bool refused_early = message->taken <= 0 && k == 0 && run == 0 && sent == 1;
            forwarded_count += run;
            if (run != sent && !refused_early)
                fail_msg("%s: of %s %d were run, and the proxy sent %d", message->name, targets[k],
                         run, sent);
        }
    assert_true(forwarded_count > 50);
}

/* The lines of the requests that the proxy passed on to the daemon. */
static char *forwarded(const char *log, const char *not_forwarded)
{
    struct request_text kept = { 0 };
    char *copy = strdup(log), *rest = copy;
    request_text_add(&kept, "%s", "");
    for (char *line; (line = strsep(&rest, "\n"));)
        if (!strstr(line, not_forwarded))
            request_text_add(&kept, "%s\n", line);
    free(copy);
    return kept.data;
}

static void behind(enum balancer_kind kind, const char *buffering)
{
    balancer_need(kind);
    struct request_text text = { 0 };
    struct balancer balancer;
    const int port = daemon_free_port();
    if (kind == BALANCER_NGINX)
        write_nginx(&text, port, buffering);
    else
        write_haproxy(&text, port);
    balancer_prepare_text(&balancer, kind, port, text.data);
    free(text.data);
    char *before = log_until_now("before"), *said = NULL;
    if (balancer_check(&balancer, kind, &said) != 0)
        fail_msg("%s", said);
    free(said);
    balancer_start(&balancer, kind);
    struct http_client through;
    http_client_init(&through, port);
    for (const double until = daemon_now() + 10 * daemon_slowness();; daemon_pause(0.02)) {
        struct http_response response = http_client_get(&through, "/livez");
        const bool is_there = response.status == 200;
        http_response_free(&response);
        if (is_there)
            break;
        assert_true(daemon_now() < until);
    }
    http_client_free(&through);
    send_all(port);
    daemon_pause(0.5);
    char *own = log_until_now("behind"), *output = balancer_output(&balancer);
    char *sent = forwarded(output, kind == BALANCER_NGINX ? " -" : "<NOSRV>");
    balancer_stop(&balancer);
    expect_same(own + strlen(before), sent);
    free(before);
    free(own);
    free(output);
    free(sent);
}

TEST(behind_nginx)
{
    behind(BALANCER_NGINX, "on");
}

TEST(behind_nginx_unbuffered)
{
    behind(BALANCER_NGINX, "off");
}

TEST(behind_haproxy)
{
    behind(BALANCER_HAPROXY, "");
}

/* ------------------------------------------------------------------------- by TLS -- */

TEST(by_tls)
{
    tls_files_need();
    fixture_stop(state);
    assert_true(tls_daemon_prepare());
    tls_daemon_start(NULL);
    test_alone(state);
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, clear);
