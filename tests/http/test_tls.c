/* SPDX-License-Identifier: Apache-2.0 */
/* test_tls.c - the daemon behind TLS: which versions and suites it speaks, that requests and
 * answers are those of plain HTTP, and how connections end. */
#include "answer.h"
#include "request_text.h"
#include "test.h"
#include "tls_daemon.h"
#include "tls_hello.h"

#include <sys/socket.h>
#include <sys/un.h>

static int start(void **state)
{
    if (tls_daemon_prepare())
        tls_daemon_start("--body-max", "16MiB", "--idle-timeout", "30s", NULL);
    return 0;
}

static int stop(void **state)
{
    tls_daemon_stop();
    return 0;
}

static double wait_seconds(void)
{
    return 10 * daemon_slowness();
}

/* ------------------------------------------------------------ versions, suites -- */

/* Whether openssl's client can shake hands with these flags. */
static bool openssl_connects(const char *flags)
{
    char *command = NULL;
    assert_true(asprintf(&command,
                         "openssl s_client -connect 127.0.0.1:%d -CAfile %s/server.pem %s "
                         "-verify_return_error </dev/null >/dev/null 2>&1",
                         server.port, directory, flags)
                > 0);
    const int status = system(command);
    free(command);
    return status == 0;
}

TEST(versions)
{
    tls_files_need();
    assert_true(openssl_connects(""));
    assert_true(openssl_connects("-tls1_3"));
    assert_true(openssl_connects("-tls1_2"));
    assert_true(openssl_connects("-tls1_2 -cipher ECDHE-ECDSA-CHACHA20-POLY1305"));
    assert_false(openssl_connects("-tls1_1 -cipher ALL:@SECLEVEL=0"));
    assert_false(openssl_connects("-tls1 -cipher ALL:@SECLEVEL=0"));
    for (int version = 0x0300; version <= 0x0302; version++)
        assert_int_equal(tls_hello_send(server.port, version, TLS_ECDHE_ECDSA_AES_128_GCM),
                         TLS_HELLO_ALERT + TLS_ALERT_PROTOCOL_VERSION);
}

/* The hello is made here byte by byte: no library that is around still offers all of these. */
TEST(suites)
{
    tls_files_need();
    static const struct {
        int suite;
        const char *name;
    } WEAK[] = {
        { 0x0000, "NULL" },
        { 0x0001, "RSA with NULL and MD5" },
        { 0x0002, "RSA with NULL and SHA" },
        { 0x003b, "RSA with NULL and SHA-256" },
        { 0xc006, "ECDHE-ECDSA with NULL" },
        { 0x0003, "RSA-EXPORT with RC4 of 40 bits" },
        { 0x0008, "RSA-EXPORT with DES of 40 bits" },
        { 0x0004, "RSA with RC4 and MD5" },
        { 0x0005, "RSA with RC4 and SHA" },
        { 0xc007, "ECDHE-ECDSA with RC4" },
        { 0x0009, "RSA with DES" },
        { 0x000a, "RSA with 3DES" },
        { 0xc008, "ECDHE-ECDSA with 3DES" },
        { 0x0018, "anonymous DH with RC4" },
        { 0x0034, "anonymous DH with AES" },
        { 0x00a6, "anonymous DH with AES-GCM" },
        { 0xc018, "anonymous ECDH with AES" },
        { 0x002f, "RSA with AES-CBC" },
        { 0x009c, "RSA with AES-GCM, which keeps no secret for later" },
        { 0x0033, "DHE-RSA with AES-CBC" },
        { 0xc009, "ECDHE-ECDSA with AES-CBC and SHA" },
        { 0xc023, "ECDHE-ECDSA with AES-CBC and SHA-256" },
        { 0xc072, "ECDHE-ECDSA with Camellia-CBC" },
    };
    assert_int_equal(tls_hello_send(server.port, 0x0303, TLS_ECDHE_ECDSA_AES_128_GCM),
                     TLS_HELLO_TAKEN);
    for (size_t i = 0; i < sizeof WEAK / sizeof WEAK[0]; i++) {
        const int outcome = tls_hello_send(server.port, 0x0303, WEAK[i].suite);
        if (outcome != TLS_HELLO_ALERT + TLS_ALERT_HANDSHAKE_FAILURE)
            fail_msg("%s: outcome %d", WEAK[i].name, outcome);
    }
}

/* --------------------------------------------------------- requests and answers -- */

static void expect_same(const struct http_response *one, const struct http_response *other)
{
    assert_int_equal(one->status, 200);
    assert_int_equal(other->status, 200);
    assert_int_equal(one->body_size, other->body_size);
    assert_memory_equal(one->body, other->body, one->body_size);
}

/* A body and an answer of over 8 MB, with a Content-Length and chunked. */
TEST(long_bodies)
{
    tls_files_need();
    struct daemon plain_server;
    struct http_client plain_client;
    struct request_text text = { 0 };
    daemon_start_with(&plain_server, "--body-max", "16MiB", NULL);
    http_client_init(&plain_client, plain_server.port);
    request_text_add(&text, "{\"input\":");
    request_text_random(&text, 7, 800, 1000);
    request_text_add(&text, "}");
    struct http_request request = { .path = "/v1/softmax",
                                    .body = text.data,
                                    .timeout_seconds = 60 };
    assert_true(text.used > 8 << 20);
    struct http_response plain = http_client_send(&plain_client, &request);
    assert_true(plain.body_size > 8 << 20);
    for (int i = 0; i < 2; i++) {
        request.chunked = i == 1;
        struct http_response by_tls = http_client_send(&client, &request);
        expect_same(&plain, &by_tls);
        assert_false(by_tls.on_new_connection);
        http_response_free(&by_tls);
    }
    http_response_free(&plain);
    free(text.data);
    http_client_free(&plain_client);
    daemon_stop(&plain_server);
}

TEST(kept_connections)
{
    tls_files_need();
    for (int i = 0; i < 100; i++) {
        struct http_response response =
            http_client_post(&client, "/v1/softmax", "{\"input\":[[1,2,3]]}");
        assert_int_equal(response.status, 200);
        assert_false(response.on_new_connection);
        http_response_free(&response);
    }
}

/* All requests lie in one record of TLS, and in records of one byte each. */
TEST(pipelining)
{
    tls_files_need();
    static const char requests[] = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
                                   "POST /v1/softmax HTTP/1.1\r\nHost: x\r\n"
                                   "Content-Type: application/json\r\nContent-Length: 19\r\n\r\n"
                                   "{\"input\":[[1,2,3]]}"
                                   "GET /none HTTP/1.1\r\nHost: x\r\n\r\n"
                                   "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n";
    static const long STATUSES[] = { 200, 200, 404, 200 };
    for (int by_bytes = 0; by_bytes < 2; by_bytes++) {
        struct tls_tunnel tunnel;
        assert_true(tls_tunnel_open(&tunnel, server.port, NULL));
        for (size_t i = 0; by_bytes && i < sizeof requests - 1; i++) {
            assert_true(http_raw_send(&tunnel.raw, requests + i, 1));
            daemon_pause(0.0005);
        }
        assert_true(by_bytes || http_raw_send(&tunnel.raw, requests, sizeof requests - 1));
        for (int i = 0; i < 4; i++) {
            struct http_response response = http_raw_receive(&tunnel.raw, wait_seconds());
            assert_int_equal(response.status, STATUSES[i]);
            http_response_free(&response);
        }
        tls_tunnel_close(&tunnel);
    }
}

/* Connections of the same thread whose records come in parts and in turns: some of a record is read
 * ahead for one connection when another one is read. */
TEST(interleaved_records)
{
    tls_files_need();
    enum { TUNNELS = 8, REQUESTS = 3, BLANKS = 21000, PIECE = 1777 };
    struct tls_tunnel tunnels[TUNNELS];
    char bodies[TUNNELS][64];
    struct request_text texts[TUNNELS] = { { .data = NULL } };
    for (int i = 0; i < TUNNELS; i++) {
        const int size = snprintf(bodies[i], sizeof bodies[i], JSON({"input":[[0,%d]]}), i);
        for (int j = 0; j < REQUESTS; j++)
            request_text_add(&texts[i],
                             "POST /v1/softmax HTTP/1.1\r\nHost: x\r\nContent-Type: "
                             "application/json\r\nContent-Length: %d\r\n\r\n%s%*s",
                             size + BLANKS, bodies[i], BLANKS, "");
        assert_true(tls_tunnel_open(&tunnels[i], server.port, NULL));
    }
    for (size_t at = 0; at < texts[0].used; at += PIECE)
        for (int i = 0; i < TUNNELS; i++) {
            const size_t left = texts[i].used - at;
            assert_true(
                http_raw_send(&tunnels[i].raw, texts[i].data + at, left < PIECE ? left : PIECE));
        }
    for (int i = 0; i < TUNNELS; i++) {
        for (int j = 0; j < REQUESTS; j++) {
            struct http_response response = http_raw_receive(&tunnels[i].raw, wait_seconds());
            struct http_response expected = http_client_post(&client, "/v1/softmax", bodies[i]);
            assert_int_equal(response.status, 200);
            assert_string_equal(response.body, expected.body);
            http_response_free(&expected);
            http_response_free(&response);
        }
        tls_tunnel_close(&tunnels[i]);
        free(texts[i].data);
    }
}

/* An answer that comes before the body of its request goes past libmicrohttpd. */
TEST(early_answers)
{
    tls_files_need();
    static const struct {
        const char *head;
        long status;
        const char *code;
    } CASES[] = {
        { "POST /v1/softmax HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n", 413,
          "too_large" },
        { "POST /v1/softmax HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"
          "ffffffff\r\n",
          0, "" },
        { "GET /livez HTTP/1.1\r\nHost : x\r\n\r\n", 400, "http" },
        { "GET /livez HTTP/1.1\r\n\r\n", 400, "http" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct tls_tunnel tunnel;
        assert_true(tls_tunnel_open(&tunnel, server.port, NULL));
        assert_true(http_raw_send_text(&tunnel.raw, CASES[i].head));
        if (CASES[i].status) {
            struct http_response response = http_raw_receive(&tunnel.raw, wait_seconds());
            answer_expect_fault(&response, CASES[i].status, CASES[i].code, "");
            http_response_free(&response);
            assert_true(http_raw_is_closed(&tunnel.raw, wait_seconds()));
        }
        tls_tunnel_close(&tunnel);
        if (CASES[i].status)
            assert_true(tunnel.ended_well);
    }
}

/* ------------------------------------------------------------------------- ends -- */

/* The daemon says that an answer was the last, so that a client can tell it from a cut one. */
TEST(says_its_end)
{
    tls_files_need();
    struct tls_tunnel tunnel;
    assert_true(tls_tunnel_open(&tunnel, server.port, NULL));
    assert_true(http_raw_send_text(&tunnel.raw,
                                   "GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    struct http_response response = http_raw_receive(&tunnel.raw, wait_seconds());
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    assert_true(http_raw_is_closed(&tunnel.raw, wait_seconds()));
    tls_tunnel_close(&tunnel);
    assert_true(tunnel.ended_well);
}

TEST(plain_http)
{
    tls_files_need();
    struct http_raw raw;
    http_raw_connect(&raw, server.port);
    assert_true(http_raw_send_text(&raw, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"));
    struct http_response response = http_raw_receive(&raw, wait_seconds());
    assert_int_equal(response.status, 400);
    assert_non_null(strstr(response.body, "https://"));
    http_response_free(&response);
    assert_true(http_raw_is_closed(&raw, wait_seconds()));
    http_raw_close(&raw);
}

/* Whether openssl's client, which reads this line first, gets an answer afterwards. */
static bool is_answered_after(const char *line)
{
    char *command = NULL;
    assert_true(asprintf(&command,
                         "{ sleep 0.3; echo '%s'; sleep 1; printf 'GET /livez HTTP/1.1\\r\\nHost: "
                         "x\\r\\n\\r\\n'; sleep 1; } | openssl s_client -tls1_2 -connect "
                         "127.0.0.1:%d 2>&1 | grep -q 'HTTP/1.1 200'",
                         line, server.port)
                > 0);
    const int status = system(command);
    free(command);
    return status == 0;
}

/* A client of TLS 1.2 that begins a second handshake (R) loses its connection. */
TEST(renegotiation)
{
    tls_files_need();
    assert_true(is_answered_after(""));
    assert_false(is_answered_after("R"));
}

/* libmicrohttpd takes a record without data for the end of what came. A client may send some before
 * a request, between requests and within one. */
TEST(records_without_data)
{
    tls_files_need();
    static const struct tls_tunnel_options CASES[] = {
        { .priorities = "NORMAL:-VERS-ALL:+VERS-TLS1.3", .new_keys = 2 },
        { .priorities = "NORMAL:-VERS-ALL:+VERS-TLS1.3", .empty_records = 3 },
        { .priorities = "NORMAL:-VERS-ALL:+VERS-TLS1.3", .empty_records = 40, .new_keys = 1 },
    };
    static const char *const PIECES[] = { "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", "GET /li",
                                          "vez HTTP/1.1\r\nHost: x\r\n\r\n" };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct tls_tunnel tunnel;
        assert_true(tls_tunnel_open(&tunnel, server.port, &CASES[i]));
        for (size_t j = 0; j < sizeof PIECES / sizeof PIECES[0]; j++) {
            assert_true(http_raw_send_text(&tunnel.raw, PIECES[j]));
            daemon_pause(0.02);
            if (j == 1)
                continue;
            struct http_response response = http_raw_receive(&tunnel.raw, wait_seconds());
            assert_int_equal(response.status, 200);
            http_response_free(&response);
        }
        tls_tunnel_close(&tunnel);
    }
}

/* ------------------------------------------------------------------ beside plain -- */

static void connect_unix(struct http_raw *raw, const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    assert_true(strlen(path) < sizeof address.sun_path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    *raw = (struct http_raw){ .socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) };
    assert_int_equal(connect(raw->socket, (struct sockaddr *)&address, sizeof address), 0);
}

static void expect_answer(struct http_raw *raw)
{
    assert_true(http_raw_send_text(raw, "POST /v1/softmax HTTP/1.1\r\nHost: localhost\r\n"
                                        "Content-Type: application/json\r\n"
                                        "Content-Length: 19\r\n\r\n{\"input\":[[1,2,3]]}"));
    struct http_response response = http_raw_receive(raw, wait_seconds());
    assert_int_equal(response.status, 200);
    http_response_free(&response);
}

/* A unix socket is plain, whatever the other listeners speak; one thread serves both. */
TEST(beside_unix_socket)
{
    tls_files_need();
    enum { ROUNDS = 30 };
    struct daemon both;
    struct http_raw by_unix;
    struct tls_tunnel by_tls;
    char listen[256], key[256];
    snprintf(listen, sizeof listen, "unix:%s/socket", directory);
    snprintf(key, sizeof key, "%s/server-key.pem", directory);
    const char *const arguments[] = { "--listen",   "127.0.0.1:0", "--listen",  listen,
                                      "--tls-cert", tls_client.ca, "--tls-key", key,
                                      "--workers",  "1",           NULL };
    daemon_start(&both, &(struct daemon_options){
                            .arguments = arguments, .listen_count = 2, .may_not_be_ready = true });
    free(daemon_log_with(&both, "ready"));
    connect_unix(&by_unix, listen + strlen("unix:"));
    assert_true(tls_tunnel_open(&by_tls, both.port, NULL));
    for (int i = 0; i < ROUNDS; i++) {
        expect_answer(&by_unix);
        expect_answer(&by_tls.raw);
    }
    tls_tunnel_close(&by_tls);
    http_raw_close(&by_unix);
    daemon_stop(&both);
}

/* ------------------------------------------------------------------ attnd health -- */

static void expect_health(const char *const *words, const char *variable, int exit_code,
                          const char *says)
{
    char listen[64];
    snprintf(listen, sizeof listen, "ATTND_LISTEN=127.0.0.1:%d", server.port);
    struct daemon_result result =
        daemon_command(words, (const char *const[]){ listen, variable, NULL });
    if (result.exit_code != exit_code || !strstr(result.errors, says))
        fail_msg("%d, not %d: %s", result.exit_code, exit_code, result.errors);
    daemon_result_free(&result);
}

TEST(health)
{
    tls_files_need();
    char url[64], plain[64], key[256];
    snprintf(url, sizeof url, "https://127.0.0.1:%d", server.port);
    snprintf(plain, sizeof plain, "http://127.0.0.1:%d", server.port);
    snprintf(key, sizeof key, "%s/server-key.pem", directory);
    const char *ca = tls_client.ca;
    expect_health((const char *const[]){ "health", "--ca", ca, url, NULL }, NULL, 0, "");
    expect_health((const char *const[]){ "health", "--insecure", url, NULL }, NULL, 0, "");
    expect_health((const char *const[]){ "health", url, NULL }, NULL, 1, "NOT trusted");
    expect_health((const char *const[]){ "health", "--ca", key, url, NULL }, NULL, 1,
                  "holds no certificate");
    expect_health((const char *const[]){ "health", plain, NULL }, NULL, 1, "answered 400");
    expect_health((const char *const[]){ "health", "--ca", NULL }, NULL, 1, "expected --ca FILE");
    expect_health((const char *const[]){ "health", NULL }, "ATTND_TLS_CERT=any", 0, "");
    expect_health((const char *const[]){ "health", NULL }, NULL, 1, "answered 400");
}

/* Only the client's own connection is left, and the daemon rests. */
TEST(nothing_is_left)
{
    tls_files_need();
    answer_wait_for_metric(&client, "attnd_connections", 1, 1);
    const double before = daemon_cpu_seconds(&server);
    daemon_pause(1);
    assert_true(daemon_cpu_seconds(&server) - before < 0.2);
}

ALL_TESTS(start, stop);
