/* SPDX-License-Identifier: Apache-2.0 */
/* test_tls_storm.c - clients of TLS that do what no client should: handshakes that never end, bytes
 * that are no TLS, connections that are cut at any moment, hundreds of handshakes at once. Other
 * clients are served meanwhile, and afterwards nothing is left of it. */
#include "answer.h"
#include "request_text.h"
#include "test.h"
#include "tls_daemon.h"
#include "tls_hello.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS = 200 };

static int descriptors;

/* As the daemon says: with a key of TLS no other process may look at its descriptors. */
static int open_files(void)
{
    return (int)answer_metric(&client, "process_open_fds");
}

static int start_with(const char *idle_timeout)
{
    if (!tls_daemon_prepare())
        return 0;
    tls_daemon_start("--idle-timeout", idle_timeout, "--connections-max", "600", NULL);
    cJSON_Delete(answer_get(&client, "/livez"));
    answer_wait_for_metric(&client, "attnd_connections", 1, 1);
    descriptors = open_files();
    return 0;
}

static int start(void **state)
{
    return start_with("120s");
}

static int start_impatient(void **state)
{
    return start_with("2s");
}

static int stop(void **state)
{
    tls_daemon_stop();
    return 0;
}

/* Only the client's own connection is left, and no thread of the daemon runs. */
static void expect_rest(void)
{
    answer_wait_for_metric(&client, "attnd_connections", 1, 1);
    answer_wait_for_metric(&client, "attnd_requests_active", 1, 1);
    const double until = daemon_now() + 10 * daemon_slowness();
    while (open_files() > descriptors && daemon_now() < until)
        daemon_pause(0.01);
    assert_int_equal(open_files(), descriptors);
    const double before = daemon_cpu_seconds(&server);
    daemon_pause(1);
    const double used = daemon_cpu_seconds(&server) - before;
    if (used > 0.2)
        fail_msg("%.2f s of CPU in 1 s without a request", used);
}

/* ------------------------------------------------------------ what is no handshake -- */

static void test_garbage(void **state)
{
    tls_files_need();
    static const struct {
        const char *bytes;
        size_t size;
    } CASES[] = {
#define CASE(text) { text, sizeof(text) - 1 }
        CASE("\x16"),
        CASE("\x16\x03\x01"),
        CASE("\x16\x03\x01\xff\xff"),
        CASE("\x16\x03\x01\x00\x00"),
        CASE("\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"),
        CASE("\x16\x03\x01\x00\x04\x01\xff\xff\xff"),
        CASE("\x15\x03\x01\x00\x02\x01\x00"),
        CASE("\x15\x03\x01\x00\x02\x02\x28"),
        CASE("\x17\x03\x03\x00\x05hello"),
        CASE("\x14\x03\x03\x00\x01\x01"),
        CASE("\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10"), /* SSLv2 */
        CASE("\x00\x00\x00\x00\x00\x00\x00\x00"),
        CASE("\xff\xff\xff\xff\xff\xff\xff\xff"),
        CASE("hello, world\r\n"),
        CASE("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        CASE("SSH-2.0-OpenSSH_9.2\r\n"),
#undef CASE
    };
    enum { COUNT = 3 * sizeof CASES / sizeof CASES[0] };
    struct http_raw raws[COUNT];
    for (int i = 0; i < COUNT; i++) {
        http_raw_connect(&raws[i], server.port);
        http_raw_send(&raws[i], CASES[i / 3].bytes, CASES[i / 3].size);
        if (i % 3 == 1)
            shutdown(raws[i].socket, SHUT_WR);
    }
    for (int i = 0; i < COUNT; i++) {
        if (i % 3 < 2) /* after the bytes, or after the idle timeout */
            assert_true(http_raw_is_closed(&raws[i], 20 * daemon_slowness()));
        http_raw_close(&raws[i]);
    }
    expect_rest();
}

/* Hellos of which a byte comes now and then, and clients that send nothing, cost no CPU and are
 * ended after the idle timeout. */
static void test_slow_handshakes(void **state)
{
    tls_files_need();
    enum { COUNT = 40 };
    static const unsigned char HELLO[] = { 0x16, 0x03, 0x01, 0x01, 0x00, 0x01, 0x00, 0x00, 0xfc };
    struct http_raw raws[COUNT];
    for (int i = 0; i < COUNT; i++)
        http_raw_connect(&raws[i], server.port);
    const double before = daemon_cpu_seconds(&server);
    for (size_t at = 0; at < sizeof HELLO; at++) {
        for (int i = COUNT / 2; i < COUNT; i++)
            http_raw_send(&raws[i], &HELLO[at], 1);
        daemon_pause(0.05);
    }
    assert_true(daemon_cpu_seconds(&server) - before < 0.3 * daemon_slowness());
    for (int i = 0; i < COUNT; i++) {
        assert_true(http_raw_is_closed(&raws[i], 20 * daemon_slowness()));
        http_raw_close(&raws[i]);
    }
    expect_rest();
}

/* ---------------------------------------------------------------- many handshakes -- */

static void *ask_once(void *context)
{
    struct tls_tunnel tunnel;
    long *status = context;
    if (!tls_tunnel_open(&tunnel, server.port, NULL))
        return NULL;
    http_raw_send_text(&tunnel.raw, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
    struct http_response response = http_raw_receive(&tunnel.raw, 30 * daemon_slowness());
    *status = response.status;
    http_response_free(&response);
    tls_tunnel_close(&tunnel);
    return NULL;
}

static void test_many_at_once(void **state)
{
    tls_files_need();
    pthread_t threads[CLIENTS];
    long statuses[CLIENTS] = { 0 };
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_once, &statuses[i]), 0);
    for (int i = 0; i < 50; i++) {
        struct http_response response =
            http_client_post(&client, "/v1/softmax", "{\"input\":[1,2,3]}");
        assert_int_equal(response.status, 200);
        assert_false(response.on_new_connection);
        http_response_free(&response);
    }
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(statuses[i], 200);
    }
    expect_rest();
}

/* Clients that connect and say nothing, and ones that say hello and no more: another client is
 * served while all of them are there. */
static void test_silent_handshakes(void **state)
{
    tls_files_need();
    enum { COUNT = 580 };
    static struct http_raw raws[COUNT];
    for (int i = 0; i < COUNT; i++) {
        http_raw_connect(&raws[i], server.port);
        if (i % 2)
            tls_hello_begin(&raws[i], 0x0303, TLS_ECDHE_ECDSA_AES_128_GCM);
    }
    long status = 0;
    ask_once(&status);
    assert_int_equal(status, 200);
    for (int i = 0; i < COUNT; i++) {
        assert_false(http_raw_is_closed(&raws[i], 0));
        http_raw_close(&raws[i]);
    }
    expect_rest();
}

/* More handshakes than there may be connections: a client that comes then is served once the idle
 * ones have been ended. */
static void test_full_of_handshakes(void **state)
{
    tls_files_need();
    enum { COUNT = 640 };
    static struct http_raw raws[COUNT];
    for (int i = 0; i < COUNT; i++)
        http_raw_connect(&raws[i], server.port);
    long status = 0;
    ask_once(&status);
    assert_int_equal(status, 200);
    for (int i = 0; i < COUNT; i++)
        http_raw_close(&raws[i]);
    expect_rest();
}

/* ------------------------------------------------------------ suspend and resume -- */

/* A client that sends requests that are parked, or whose bodies wait for their turn, and is cut off
 * at some moment, in some way. */
struct rough_client {
    pthread_t thread;
    unsigned seed;
    const char *request; /* whole, with a body of more than a turn */
    size_t request_size;
    int answered;
};

static void send_roughly(struct rough_client *rough)
{
    struct tls_tunnel tunnel;
    const int way = rand_r(&rough->seed) % 5;
    if (!tls_tunnel_open(&tunnel, server.port,
                         &(struct tls_tunnel_options){
                             .cuts_off = way % 2 == 1,
                             .priorities = way == 4 ? "NORMAL:-VERS-ALL:+VERS-TLS1.2" : NULL }))
        return;
    const size_t size =
        way == 0 ? rough->request_size : rand_r(&rough->seed) % rough->request_size + 1;
    http_raw_send(&tunnel.raw, rough->request, size);
    if (way == 0 || way == 2) {
        struct http_response response =
            http_raw_receive(&tunnel.raw, way == 0 ? 30 * daemon_slowness() : 0.002);
        rough->answered += response.status == 200;
        http_response_free(&response);
    }
    tls_tunnel_close(&tunnel);
}

static void *run_roughly(void *context)
{
    for (int i = 0; i < 20; i++)
        send_roughly(context);
    return NULL;
}

static void test_suspend_and_resume(void **state)
{
    tls_files_need();
    enum { COUNT = 24 };
    struct rough_client clients[COUNT];
    struct request_text body = { 0 };
    char *request = NULL;
    request_text_add(&body, "{\"model\":\"sdpa\",\"outputs\":[\"lse\"],\"query\":");
    request_text_random(&body, 3, 900, 8);
    request_text_add(&body, "}");
    assert_true(asprintf(&request,
                         "POST /v1/attention HTTP/1.1\r\nHost: x\r\n"
                         "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                         body.used, body.data)
                > 0);
    for (int i = 0; i < COUNT; i++) {
        clients[i] = (struct rough_client){ .seed = (unsigned)i + 1,
                                            .request = request,
                                            .request_size = strlen(request) };
        pthread_create(&clients[i].thread, NULL, run_roughly, &clients[i]);
    }
    int answered = 0;
    for (int i = 0; i < COUNT; i++) {
        pthread_join(clients[i].thread, NULL);
        answered += clients[i].answered;
    }
    assert_true(answered > COUNT);
    free(request);
    free(body.data);
    expect_rest();
}

int main(void)
{
    const struct CMUnitTest impatient[] = {
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_slow_handshakes),
        cmocka_unit_test(test_full_of_handshakes),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_silent_handshakes),
        cmocka_unit_test(test_suspend_and_resume),
    };
    const int failed = cmocka_run_group_tests(impatient, start_impatient, stop);
    return failed + cmocka_run_group_tests(tests, start, stop);
}
