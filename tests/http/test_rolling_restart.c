/* test_rolling_restart.c - two daemons behind haproxy, restarted one after the other under load:
 * not one request fails.
 *
 * haproxy asks /readyz and obeys it; each daemon has a --drain-delay longer than that takes to be
 * noticed. Also without a balancer: who keeps a connection is told to leave it before the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "answer.h"
#include "daemon.h"
#include "problem_count.h"
#include "request_text.h"
#include "skip.h"

#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const char PATH[] = "/v1/attention";
static const char GOOD[] = "{\"model\":\"demo\",\"query\":[[1,0,0],[0,1,0]]}";
static const char HAPROXY[] = "/usr/sbin/haproxy";

enum { REPLICAS = 2, CLIENTS = 4 };

static struct daemon replicas[REPLICAS];
static pid_t balancer;
static char *directory;

/* A port that nobody has just now. */
static int free_port(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t size = sizeof(address);
    const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(descriptor, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(getsockname(descriptor, (struct sockaddr *)&address, &size), 0);
    close(descriptor);
    return ntohs(address.sin_port);
}

static void start_replica(int i, int port)
{
    char address[32];
    snprintf(address, sizeof(address), "127.0.0.1:%d", port);
    const char *const arguments[] = { "--listen", address, "--drain-delay", "1s", "--workers",
                                      "1",        NULL };
    daemon_start(&replicas[i],
                 &(struct daemon_options){ .arguments = arguments, .listen_count = 1 });
}

static void start_balancer(int port)
{
    struct request_text text = { 0 };
    char path[512];
    request_text_add(&text,
                     "global\n    maxconn 500\ndefaults\n    mode http\n    timeout connect 5s\n"
                     "    timeout client 60s\n    timeout server 60s\n    retries 3\n"
                     "frontend front\n    bind 127.0.0.1:%d\n    default_backend back\n"
                     "backend back\n    option httpchk GET /readyz\n    option redispatch\n",
                     port);
    for (int i = 0; i < REPLICAS; i++)
        request_text_add(&text,
                         "    server replica%d 127.0.0.1:%d check inter 100ms fall 1 rise 1\n", i,
                         replicas[i].port);
    daemon_directory_write(directory, "haproxy.cfg", text.data, text.used);
    free(text.data);
    snprintf(path, sizeof(path), "%s/haproxy.cfg", directory);
    balancer = fork();
    assert_true(balancer >= 0);
    if (balancer == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (freopen("/dev/null", "w", stdout) && freopen("/dev/null", "w", stderr))
            execl(HAPROXY, HAPROXY, "-db", "-f", path, (char *)NULL);
        _exit(127);
    }
}

struct load {
    int port;
    _Atomic bool stop;
    _Atomic int answered, failed;
};

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

/* The balancer sends to a replica again once it has seen it ready: it counts the answers of /livez
 * and /readyz as nothing, so its first inference says so. */
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

static void test_behind_a_balancer(void **state)
{
    (void)state;
    skip_without("haproxy", "test -x /usr/sbin/haproxy");
    const int count = (int)problem_count(daemon_slowness() > 1 ? 200 : 2000);
    struct load load = { .port = free_port() };
    pthread_t threads[CLIENTS];
    directory = daemon_directory_create();
    for (int i = 0; i < REPLICAS; i++)
        start_replica(i, free_port());
    start_balancer(load.port);
    wait_for_balancer(load.port);
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, send_requests, &load), 0);
    wait_for_answers(&load, count / 4);
    for (int i = 0; i < REPLICAS; i++) {
        const int port = replicas[i].port;
        kill(replicas[i].pid, SIGTERM);
        assert_int_equal(daemon_wait(&replicas[i], 60 * daemon_slowness()), 0);
        wait_for_answers(&load, count / 8);
        daemon_kill(&replicas[i]);
        start_replica(i, port);
        wait_until_used(i);
        wait_for_answers(&load, count / 4);
    }
    atomic_store(&load.stop, true);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(threads[i], NULL);
    print_message("    %d requests answered, %d failed\n", load.answered, load.failed);
    assert_int_equal(load.failed, 0);
    assert_true(load.answered >= count);
    for (int i = 0; i < REPLICAS; i++)
        daemon_stop(&replicas[i]);
}

/* A client that keeps its connection and goes on: every answer until the last says close, from
 * SIGTERM on, and none is missing. */
static void test_kept_connection_is_told(void **state)
{
    (void)state;
    struct http_client client;
    char value[32];
    start_replica(0, free_port());
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

/* As many jobs as the queue takes, none of which ends in time: the cap holds, each is answered or
 * its connection closed, and the exit is in order. */
static void test_drain_max_under_load(void **state)
{
    (void)state;
    enum { COUNT = 16 };
    struct http_client client;
    struct http_background background[COUNT];
    /* All are taken, whatever is predicted of them. */
    daemon_start_with(&replicas[0], "--workers", "1", "--drain-max", "300ms", "--timeout", "3600s",
                      NULL);
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
    (void)state;
    for (int i = 0; i < REPLICAS; i++)
        daemon_kill(&replicas[i]);
    if (balancer > 0) {
        kill(balancer, SIGKILL);
        waitpid(balancer, NULL, 0);
    }
    balancer = 0;
    daemon_directory_remove(directory);
    directory = NULL;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_behind_a_balancer, clear),
        cmocka_unit_test_teardown(test_kept_connection_is_told, clear),
        cmocka_unit_test_teardown(test_drain_max_under_load, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
