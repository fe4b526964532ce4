/* SPDX-License-Identifier: Apache-2.0 */
/* test_remote.c - the daemon's own client of HTTP against servers: the daemon itself, plain and
 * with TLS, openssl's server, and stubs that answer what nobody should. */
#include "answer.h"
#include "base/clock.h"
#include "remote/remote.h"
#include "stub_collector.h"
#include "test.h"
#include "tls_daemon.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER_BYTES_MAX = 1 << 20 };

static struct remote_address address;
static struct remote_answer answer;
static char reason[REMOTE_REASON_MAX];

static void read_address(const char *scheme, const char *host, int port)
{
    char url[100];
    struct fault fault;
    snprintf(url, sizeof url, "%s://%s:%d", scheme, host, port);
    assert_true(remote_address_read(&address, "url", url, &fault));
}

static int64_t soon(double seconds)
{
    return clock_now_ns() + (int64_t)(seconds * daemon_slowness() * 1e9);
}

static enum remote_end ask(struct remote *remote, const char *target, double seconds)
{
    return remote_ask(remote,
                      &(struct remote_request){ .method = "GET",
                                                .target = target,
                                                .deadline_ns = soon(seconds),
                                                .answer_bytes_max = ANSWER_BYTES_MAX },
                      &answer, reason);
}

static enum remote_end post(struct remote *remote, const char *target, const char *body,
                            bool may_repeat)
{
    const size_t half = strlen(body) / 2;
    const struct byte_slice parts[] = { { body, half }, { body + half, strlen(body) - half } };
    return remote_ask(remote,
                      &(struct remote_request){ .method = "POST",
                                                .target = target,
                                                .headers = "Content-Type: application/json\r\n",
                                                .parts = parts,
                                                .part_count = 2,
                                                .deadline_ns = soon(20),
                                                .answer_bytes_max = ANSWER_BYTES_MAX,
                                                .may_repeat = may_repeat },
                      &answer, reason);
}

static void expect_answer(enum remote_end end, int status)
{
    if (end != REMOTE_ANSWERED)
        fail_msg("no answer: %s", reason);
    assert_int_equal(answer.status, status);
}

static void expect_fault(enum remote_end end, enum remote_end wanted, const char *says)
{
    assert_int_equal(end, wanted);
    if (!strstr(reason, says))
        fail_msg("'%s' does not say %s", reason, says);
}

/* ------------------------------------------------------------------- a daemon -- */

/* Answers of any length come whole, over one connection. */
static void use(struct remote *remote)
{
    static const char BODY[] =
        JSON({"model":"sdpa","query":[[1,0]],"key":[[1,0],[0,1]],
                                     "value":[[1,0],[0,1]],"outputs":["context"]});
    for (int i = 0; i < 3; i++) {
        expect_answer(post(remote, "/v1/attention", BODY, false), 200);
        assert_non_null(strstr(answer.body, "\"context\":[[0.66976154,0.33023846]]"));
        assert_string_not_equal(answer.replica, "");
        expect_answer(ask(remote, "/openapi.json", 20), 200);
        assert_true(answer.size > 100000);
        assert_int_equal(strlen(answer.body), answer.size);
        expect_answer(ask(remote, "/nowhere", 20), 404);
    }
}

static double connections(void)
{
    struct metrics_page page = { 0 };
    answer_metrics(&client, &page);
    const double value = metrics_page_value(&page, "attnd_connections_accepted_total");
    metrics_page_free(&page);
    return value;
}

TEST(plain)
{
    fixture_serve("--body-max", "64KiB", "--replica", "here");
    read_address("http", "127.0.0.1", server.port);
    struct remote *remote = remote_create(&address, NULL, NULL, NULL);
    const double before = connections();
    use(remote);
    assert_true(connections() - before <= 1);
    assert_string_equal(answer.replica, "here");

    /* What is too long is refused before all of it is read, and the answer is read all the same. */
    char *large = calloc(1, (8 << 20) + 1);
    memset(large, ' ', 8 << 20);
    expect_answer(post(remote, "/v1/attention", large, false), 413);
    free(large);
    use(remote);

    /* A kept connection that has ended meanwhile is not used, and nothing fails for it. */
    http_client_free(&client);
    const int port = server.port;
    char listen[32];
    snprintf(listen, sizeof listen, "127.0.0.1:%d", port);
    daemon_stop(&server);
    expect_fault(ask(remote, "/livez", 20), REMOTE_NOT_SENT, "connect: Connection refused");
    daemon_start(&server, &(struct daemon_options){
                              .arguments = (const char *const[]){ "--listen", listen, NULL },
                              .listen_count = 1 });
    http_client_init(&client, port);
    use(remote);
    remote_free(remote);
    http_client_free(&client);
    daemon_stop(&server);
}

TEST(longer_than_it_may_be)
{
    fixture_serve("--workers", "1");
    read_address("http", "127.0.0.1", server.port);
    struct remote *remote = remote_create(&address, NULL, NULL, NULL);
    const struct remote_request request = { .method = "GET",
                                            .target = "/openapi.json",
                                            .deadline_ns = soon(20),
                                            .answer_bytes_max = 1000 };
    expect_fault(remote_ask(remote, &request, &answer, reason), REMOTE_UNKNOWN,
                 "it is longer than it may be");
    use(remote);
    remote_free(remote);
    http_client_free(&client);
    daemon_stop(&server);
}

TEST(by_tls)
{
    struct fault fault;
    if (!tls_daemon_prepare())
        tls_files_need();
    tls_daemon_start("--workers", "1", NULL);
    struct remote_trust *trust = remote_trust_create(fixture_path("server.pem"), &fault);
    assert_non_null(trust);
    read_address("https", "127.0.0.1", server.port);
    struct remote *remote = remote_create(&address, trust, NULL, NULL);
    use(remote);
    remote_free(remote);
    read_address("https", "localhost", server.port);
    remote = remote_create(&address, trust, NULL, NULL);
    use(remote);
    remote_free(remote);

    read_address("https", "127.1", server.port); /* a name of the same address; not the one shown */
    remote = remote_create(&address, trust, NULL, NULL);
    expect_fault(ask(remote, "/livez", 20), REMOTE_NOT_SENT,
                 "The name in the certificate does not");
    remote_free(remote);
    read_address("http", "127.0.0.1", server.port); /* a plain request meets TLS */
    remote = remote_create(&address, NULL, NULL, NULL);
    expect_answer(ask(remote, "/livez", 20), 400);
    remote_free(remote);

    tls_files_make_authority(directory, "other");
    struct remote_trust *other = remote_trust_create(fixture_path("other.pem"), &fault);
    assert_non_null(other);
    read_address("https", "127.0.0.1", server.port);
    remote = remote_create(&address, other, NULL, NULL);
    expect_fault(ask(remote, "/livez", 20), REMOTE_NOT_SENT, "TLS: The certificate is NOT trusted");
    remote_free(remote);
    remote = remote_create(&address, NULL, NULL, NULL);
    expect_fault(ask(remote, "/livez", 20), REMOTE_NOT_SENT, "TLS: no authority is trusted");
    remote_free(remote);
    remote_trust_free(other);
    remote_trust_free(trust);

    assert_null(remote_trust_create(fixture_path("server-key.pem"), &fault));
    assert_non_null(strstr(fault.message, "server-key.pem: no certificate of an authority"));
    assert_null(remote_trust_create("/nowhere.pem", &fault));
    tls_daemon_stop();
}

/* ------------------------------------------------------------------------ stubs -- */

TEST(odd_answers)
{
    static const char *const ANSWERS[] = {
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n" STUB_ANSWER("429 Too Many Requests", "Retry-After: 9\r\n",
                                                    "2", "{}"),
        STUB_ENDLESS,
        STUB_CLOSES,
        "SSH-2.0-OpenSSH_9.2\r\n",
        NULL,
    };
    struct stub_collector stub;
    stub_collector_start(&stub, ANSWERS);
    read_address("http", "127.0.0.1", stub.port);
    struct remote *remote = remote_create(&address, NULL, NULL, NULL);
    expect_answer(post(remote, "/a", "{}", false), 200);
    assert_string_equal(answer.body, "abc");
    expect_answer(post(remote, "/b", "{}", false), 429);
    assert_int_equal(answer.retry_after_s, 9);
    expect_fault(post(remote, "/c", "{}", false), REMOTE_UNKNOWN, "answer: it is no HTTP/1.1");
    expect_fault(post(remote, "/d", "{}", false), REMOTE_UNKNOWN, "closed the connection");
    expect_fault(post(remote, "/e", "{}", false), REMOTE_UNKNOWN, "answer: it is no HTTP/1.1");
    assert_int_equal(stub_collector_count(&stub), 5);
    remote_free(remote);
    stub_collector_stop(&stub);
}

/* What may be sent twice is, where a kept connection ends without a byte; nothing else is. */
TEST(sent_again)
{
    static const char *const ANSWERS[] = { STUB_TAKES, STUB_CLOSES, STUB_TAKES, STUB_CLOSES, NULL };
    struct stub_collector stub;
    stub_collector_start(&stub, ANSWERS);
    read_address("http", "127.0.0.1", stub.port);
    struct remote *remote = remote_create(&address, NULL, NULL, NULL);
    expect_answer(post(remote, "/0", "{}", true), 200);
    expect_answer(post(remote, "/1", "{}", true), 200);
    assert_int_equal(stub_collector_count(&stub), 3);
    expect_fault(post(remote, "/3", "{}", false), REMOTE_UNKNOWN, "closed the connection");
    assert_int_equal(stub_collector_count(&stub), 4);
    remote_free(remote);
    stub_collector_stop(&stub);
}

/* A server that accepts and says nothing, one that takes nothing, an address that never answers:
 * the deadline ends each. */
TEST(deadline)
{
    struct stub_collector stub;
    stub_collector_start(&stub, (const char *const[]){ STUB_SILENT, NULL });
    read_address("http", "127.0.0.1", stub.port);
    struct remote *remote = remote_create(&address, NULL, NULL, NULL);
    assert_int_not_equal(ask(remote, "/", 0.2), REMOTE_ANSWERED);
    assert_non_null(strstr(reason, "timed out"));
    static char large[8 << 20];
    const struct byte_slice part = { large, sizeof large };
    const struct remote_request request = {
        .method = "PUT", .target = "/", .parts = &part, .part_count = 1, .deadline_ns = soon(0.2)
    };
    expect_fault(remote_ask(remote, &request, &answer, reason), REMOTE_NOT_SENT, "send: ");
    remote_free(remote);
    stub_collector_stop(&stub);
}

struct stopping {
    struct remote_stop stop;
};

static void *stop_soon(void *argument)
{
    struct stopping *stopping = argument;
    daemon_pause(0.1);
    remote_stop_set(&stopping->stop, clock_now_ns());
    return NULL;
}

TEST(stop)
{
    struct stopping stopping;
    struct stub_collector stub;
    struct fault fault;
    pthread_t thread;
    stub_collector_start(&stub, (const char *const[]){ STUB_SILENT, NULL });
    read_address("http", "127.0.0.1", stub.port);
    assert_true(remote_stop_init(&stopping.stop, &fault));
    struct remote *remote = remote_create(&address, NULL, NULL, &stopping.stop);
    assert_int_equal(pthread_create(&thread, NULL, stop_soon, &stopping), 0);
    expect_fault(ask(remote, "/", 3600), REMOTE_UNKNOWN, "timed out");
    expect_fault(ask(remote, "/", 3600), REMOTE_NOT_SENT, "timed out");
    assert_false(remote_stop_wait(&stopping.stop, soon(3600)));
    pthread_join(thread, NULL);
    remote_free(remote);
    remote_stop_free(&stopping.stop);
    stub_collector_stop(&stub);
}

/* The key goes with each request, and no header that does not fit is cut. */
TEST(key)
{
    struct stub_collector stub;
    stub_collector_start(&stub, (const char *const[]){ STUB_TAKES, NULL });
    read_address("http", "127.0.0.1", stub.port);
    struct remote *remote = remote_create(&address, NULL, "a-secret", NULL);
    expect_answer(post(remote, "/a", "{}", false), 200);
    const struct stub_post *first = stub_collector_post(&stub, 0);
    assert_non_null(strstr(first->head, "POST /a HTTP/1.1\r\n"));
    assert_non_null(strstr(first->head, "\r\nAuthorization: Bearer a-secret\r\n"));
    assert_string_equal(first->body, "{}");
    static char target[5000];
    memset(target, '/', sizeof target - 1);
    expect_fault(ask(remote, target, 20), REMOTE_NOT_SENT, "the head of the request is too long");
    remote_free(remote);
    stub_collector_stop(&stub);
}

EACH_TEST(NULL, fixture_clear);
