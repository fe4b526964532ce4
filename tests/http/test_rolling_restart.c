/* SPDX-License-Identifier: Apache-2.0 */
/* test_rolling_restart.c - two daemons behind nginx and behind haproxy, as deploy/ sets them up.
 * They are restarted one after the other under load, and one of them is killed: not one request
 * fails.
 *
 * ATTND_TEST_PROBLEMS is the least number of requests. There are also tests without a balancer: a
 * client that keeps a connection is told to close it before the daemon ends. */
#include "answer.h"
#include "balancer.h"
#include "daemon.h"
#include "problem_count.h"
#include "request_text.h"
#include "test.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

static const char PATH[] = "/v1/attention";
static const char GOOD[] = JSON({"model":"demo","query":[[1,0,0],[0,1,0]]});

enum { REPLICAS = BALANCER_REPLICAS, CLIENTS = 4 };

static struct daemon replicas[REPLICAS];
static struct balancer balancer;

static void start_replica(int i, int port, const char *delay)
{
    char address[32];
    snprintf(address, sizeof(address), "127.0.0.1:%d", port);
    const char *const arguments[] = { "--listen", address, "--drain-delay", delay, "--workers",
                                      "1",        NULL };
    daemon_start(&replicas[i],
                 &(struct daemon_options){ .arguments = arguments, .listen_count = 1 });
}

struct load {
    int port;
    int share; /* so many requests come between a replica's end and its new start */
    _Atomic bool stop;
    _Atomic int answered, failed;
};

/* The pause leaves the CPUs to the daemons that start, and to other tests: a request comes every
 * few hundred microseconds all the same. */
static void *send_requests(void *argument)
{
    struct load *load = argument;
    struct http_client client;
    http_client_init(&client, load->port);
    while (!atomic_load(&load->stop)) {
        struct http_response response = http_client_post(&client, PATH, GOOD);
        if (response.status == 200)
            atomic_fetch_add(&load->answered, 1);
        else
            atomic_fetch_add(&load->failed, 1);
        http_response_free(&response);
        daemon_pause(0.001);
    }
    http_client_free(&client);
    return NULL;
}

static void wait_for_answers(struct load *load, int count)
{
    const int wanted = atomic_load(&load->answered) + count;
    for (double until = daemon_now() + 60 * daemon_slowness();
         atomic_load(&load->answered) < wanted && atomic_load(&load->failed) == 0;) {
        assert_true(daemon_now() < until);
        daemon_pause(0.01);
    }
}

/* The balancer sends requests to a replica again once it has seen that it is ready. Its checks of
 * /livez and /readyz do not count here, so the replica's first inference shows this. */
static void wait_until_used(int i)
{
    static const char requests[] =
        "attnd_requests_total{method=\"POST\",route=\"/v1/attention\",status=\"200\"}";
    struct http_client client;
    struct metrics_page page = { 0 };
    http_client_init(&client, replicas[i].port);
    for (double until = daemon_now() + 20 * daemon_slowness();;) {
        answer_metrics(&client, &page);
        const bool used = metrics_page_value(&page, requests) > 0;
        metrics_page_free(&page);
        if (used)
            break;
        assert_true(daemon_now() < until);
        daemon_pause(0.02);
    }
    http_client_free(&client);
}

static void wait_for_balancer(int port)
{
    for (double until = daemon_now() + 20 * daemon_slowness();;) {
        struct http_client client;
        http_client_init(&client, port);
        struct http_response response = http_client_post(&client, PATH, GOOD);
        const bool up = response.status == 200;
        http_response_free(&response);
        http_client_free(&client);
        if (up)
            return;
        assert_true(daemon_now() < until);
        daemon_pause(0.05);
    }
}

/* The explorer and a request that only reads pass under their own paths; a request that changes a
 * replica does not. */
static void assert_models_pass(int port)
{
    static const struct {
        const char *method, *path;
        long status;
    } requests[] = {
        { "GET", "/", 200 },
        { "GET", "/explorer/app/main.js", 200 },
        { "GET", "/v1/models", 200 },
        { "POST", "/v1/models", 405 },
        { "GET", "/v1/models/demo", 200 },
        { "DELETE", "/v1/models/demo", 403 },
        { "PUT", "/v1/models/new", 403 },
        { "GET", "/v2/models", 200 },
        { "GET", "/v2/models/demo", 200 },
        { "GET", "/metrics", 403 },
    };
    struct http_client client;
    http_client_init(&client, port);
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        struct http_response response =
            http_client_send(&client, &(struct http_request){ .method = requests[i].method,
                                                              .path = requests[i].path });
        if (response.status != requests[i].status)
            fail_msg("%s %s: %ld", requests[i].method, requests[i].path, response.status);
        http_response_free(&response);
    }
    http_client_free(&client);
}

/* Checks the files in deploy/ as they are, except for the addresses. The balancer has no warning
 * about them. */
static void check_file(enum balancer_kind kind)
{
    char *said;
    balancer_need(kind);
    balancer_prepare(&balancer, kind, (const int[REPLICAS]){ 1, 2 });
    const int status = balancer_check(&balancer, kind, &said);
    if (status != 0 || strstr(said, "[WARNING]") || strstr(said, "[warn]"))
        fail_msg("%s: exit status %d\n%s", balancer_file(kind), status, said);
    free(said);
}

/* Ends a replica, in order or not, and starts it again under the same address. */
static void restart_replica(struct load *load, int i, int signal_number, const char *delay)
{
    const int port = replicas[i].port;
    const int expected = signal_number == SIGTERM ? 0 : 128 + signal_number;
    kill(replicas[i].pid, signal_number);
    assert_int_equal(daemon_wait(&replicas[i], 60 * daemon_slowness()), expected);
    wait_for_answers(load, load->share);
    daemon_kill(&replicas[i]);
    start_replica(i, port, delay);
    wait_until_used(i);
    wait_for_answers(load, load->share);
}

static void restart_behind(enum balancer_kind kind, int rounds, const char *delay)
{
    const int count = (int)problem_count(daemon_slowness() > 1 ? 200 : 2000);
    struct load load = { .share = count / (2 * (rounds * REPLICAS + 1)) + 1 };
    pthread_t threads[CLIENTS];
    balancer_need(kind);
    for (int i = 0; i < REPLICAS; i++)
        start_replica(i, daemon_free_port(), delay);
    balancer_prepare(&balancer, kind, (const int[REPLICAS]){ replicas[0].port, replicas[1].port });
    balancer_start(&balancer, kind);
    load.port = balancer.port;
    wait_for_balancer(load.port);
    assert_models_pass(load.port);
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, send_requests, &load), 0);
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < REPLICAS; i++)
            restart_replica(&load, i, SIGTERM, delay);
    restart_replica(&load, 0, SIGKILL, delay);
    atomic_store(&load.stop, true);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(threads[i], NULL);
    print_message("    %d requests answered, %d failed\n", load.answered, load.failed);
    assert_int_equal(load.failed, 0);
    assert_true(load.answered >= count);
    for (int i = 0; i < REPLICAS; i++)
        daemon_stop(&replicas[i]);
}

TEST(nginx_takes_its_file)
{
    check_file(BALANCER_NGINX);
}

TEST(haproxy_takes_its_file)
{
    check_file(BALANCER_HAPROXY);
}

/* nginx does not ask whether a replica is ready. It learns of a restart when a connection is
 * refused. */
TEST(behind_nginx)
{
    restart_behind(BALANCER_NGINX, 2, "0s");
}

/* haproxy asks whether a replica is ready. The first test gives it the delay that its file names,
 * the second none. */
TEST(behind_haproxy)
{
    restart_behind(BALANCER_HAPROXY, 1, "2s");
}

TEST(behind_haproxy_without_a_delay)
{
    restart_behind(BALANCER_HAPROXY, 2, "0s");
}

/* A client keeps its connection and goes on sending. From SIGTERM until the last answer, every
 * answer says close, and none is missing. */
TEST(kept_connection_is_told)
{
    struct http_client client;
    char value[32];
    start_replica(0, daemon_free_port(), "1s");
    http_client_init(&client, replicas[0].port);
    struct http_response response = http_client_post(&client, PATH, GOOD);
    assert_int_equal(response.status, 200);
    assert_null(http_response_header(&response, "Connection", value, sizeof(value)));
    http_response_free(&response);
    kill(replicas[0].pid, SIGTERM);
    for (bool told = false; !told;) {
        response = http_client_post(&client, PATH, GOOD);
        assert_int_equal(response.status, 200);
        assert_false(response.on_new_connection);
        told = http_response_header(&response, "Connection", value, sizeof(value)) != NULL;
        http_response_free(&response);
    }
    assert_string_equal(value, "close");
    http_client_free(&client);
    assert_int_equal(daemon_wait(&replicas[0], 30 * daemon_slowness()), 0);
}

/* The queue is full, and no job ends in time. The cap holds, each request is answered or its
 * connection closed, and the exit is in order. */
TEST(drain_max_under_load)
{
    enum { COUNT = 16 };
    struct http_client client;
    struct http_background background[COUNT];
    /* The daemon takes all of them, however long it predicts that they take. */
    daemon_start_with(&replicas[0], "--workers", "1", "--drain-max", "300ms", DAEMON_PATIENT, NULL);
    http_client_init(&client, replicas[0].port);
    char *slow = request_text_slow(&client, 2, "");
    for (int i = 0; i < COUNT; i++)
        http_background_start(&background[i], replicas[0].port,
                              &(struct http_request){ .path = PATH, .body = slow });
    answer_wait_for_metric(&client, "attnd_queue_jobs", COUNT / 2, COUNT);
    daemon_stop(&replicas[0]);
    int answered = 0, draining = 0;
    for (int i = 0; i < COUNT; i++) {
        struct http_response response = http_background_join(&background[i]);
        assert_true(response.status == 200 || response.status == 503 || response.status == 0);
        answered += response.status == 200;
        draining += response.status == 503;
        http_response_free(&response);
    }
    print_message("    %d of %d answered, %d told that the daemon stops\n", answered, COUNT,
                  draining);
    assert_true(draining > 0);
    free(slow);
    http_client_free(&client);
}

static int clear(void **state)
{
    for (int i = 0; i < REPLICAS; i++)
        daemon_kill(&replicas[i]);
    balancer_stop(&balancer);
    return 0;
}

EACH_TEST(NULL, clear);
