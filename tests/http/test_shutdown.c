/* SPDX-License-Identifier: Apache-2.0 */
/* test_shutdown.c - SIGTERM: the daemon says at once that it is not ready, still serves for the
 * drain delay, answers every accepted request, and exits with 0. */
#include "answer.h"
#include "daemon.h"
#include "endless.h"
#include "request_text.h"
#include "test.h"

#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

static const char PATH[] = "/v1/attention";
static const char GOOD[] = JSON({"model":"sdpa","query":[[1]]});

static struct daemon server;

static bool is_refusing(int port)
{
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bool refused = connect(descriptor, (struct sockaddr *)&address, sizeof(address)) != 0;
    close(descriptor);
    return refused;
}

TEST(drain_delay)
{
    daemon_start_with(&server, "--drain-delay", "3s", NULL);
    struct http_client kept, fresh;
    http_client_init(&kept, server.port);
    char *slow = request_text_slow(&kept, 0.5, "");
    struct http_background long_one;
    http_background_start(&long_one, server.port,
                          &(struct http_request){ .path = PATH, .body = slow });
    answer_wait_for_active(&kept, 1);
    double start = daemon_now();
    kill(server.pid, SIGTERM);
    daemon_pause(0.2);

    http_client_init(&fresh, server.port);
    for (int i = 0; i < 2; i++) {
        struct http_client *client = i ? &kept : &fresh;
        struct http_response response = http_client_get(client, "/readyz");
        cJSON *ready = answer_json(&response, 503);
        answer_expect_members(ready, "ready,reason");
        answer_expect(ready, "ready", "false", 0);
        answer_expect(ready, "reason", "\"draining\"", 0);
        cJSON_Delete(ready);
        http_response_free(&response);
        response = http_client_get(client, "/v2/health/ready");
        cJSON_Delete(answer_json(&response, 503));
        http_response_free(&response);
        response = http_client_get(client, "/v2/models/demo/ready");
        ready = answer_json(&response, 503);
        answer_expect_members(ready, "name,ready,reason");
        answer_expect(ready, "reason", "\"draining\"", 0);
        cJSON_Delete(ready);
        http_response_free(&response);
        response = http_client_get(client, "/livez");
        assert_int_equal(response.status, 200);
        http_response_free(&response);
        cJSON_Delete(answer_post(client, PATH, GOOD));
    }
    struct http_response response = http_background_join(&long_one);
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    assert_int_equal(daemon_wait(&server, 15 * daemon_slowness()), 0);
    assert_true(daemon_now() - start > 2.9);
    assert_true(is_refusing(server.port));
    http_client_free(&kept);
    http_client_free(&fresh);
    free(slow);
}

/* Without a delay: the daemon answers every accepted request, computing or still in the queue, and
 * takes no new connection. */
TEST(accepted_requests_are_answered)
{
    enum { COUNT = 6 };
    daemon_start_with(&server, "--workers", "1", NULL);
    struct http_client client;
    http_client_init(&client, server.port);
    char *slow = request_text_slow(&client, 0.4, "");
    struct http_background accepted[COUNT];
    for (int i = 0; i < COUNT; i++)
        http_background_start(&accepted[i], server.port,
                              &(struct http_request){ .path = PATH, .body = slow });
    answer_wait_for_active(&client, COUNT);
    kill(server.pid, SIGTERM);
    for (double until = daemon_now() + 5 * daemon_slowness(); !is_refusing(server.port);) {
        assert_true(daemon_now() < until);
        daemon_pause(0.02);
    }
    /* A request on an old connection gets a last answer, or the connection is gone. */
    struct http_response response = http_client_post(&client, PATH, GOOD);
    if (response.status != 0) {
        char value[64];
        assert_int_equal(response.status, 200);
        assert_non_null(http_response_header(&response, "Connection", value, sizeof(value)));
        assert_string_equal(value, "close");
    }
    http_response_free(&response);
    for (int i = 0; i < COUNT; i++) {
        response = http_background_join(&accepted[i]);
        assert_int_equal(response.status, 200);
        http_response_free(&response);
    }
    assert_int_equal(daemon_wait(&server, 15 * daemon_slowness()), 0);
    http_client_free(&client);
    free(slow);
}

/* Rows of 64 numbers of one digit each, for the model in examples/models; the request asks for lse
 * alone. */
static char *stories_body(int rows)
{
    struct request_text text = { 0 };
    request_text_add(&text, "{\"model\":\"stories260K\",\"outputs\":[\"lse\"],\"query\":");
    for (int i = 0; i < rows; i++) {
        request_text_add(&text, "%c[%d", i ? ',' : '[', i % 3);
        for (int j = 1; j < 64; j++)
            request_text_add(&text, ",%d", (i * j) % 7);
        request_text_add(&text, "]");
    }
    request_text_add(&text, "]}");
    return text.data;
}

/* Whether a running daemon has mapped the file into its memory. */
static bool has_mapped(const struct daemon *daemon, const char *file)
{
    char path[64], line[1024];
    bool found = false;
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)daemon->pid);
    FILE *maps = fopen(path, "r");
    while (maps && !found && fgets(line, sizeof(line), maps))
        found = strstr(line, file) != NULL;
    if (maps)
        fclose(maps);
    return found;
}

/* The daemon unloads models last: their parameters are there while any accepted request needs them,
 * and the answers are the same as without the shutdown. */
TEST(models_are_unloaded_last)
{
    enum { COUNT = 6 };
    static const char FILE_NAME[] = "stories260K/model.safetensors";
    daemon_start_with(&server, "--workers", "1", "--models", "examples/models", NULL);
    struct http_client client;
    http_client_init(&client, server.port);
    char *body = stories_body(daemon_slowness() > 1 ? 1500 : 2500);
    struct http_response expected = http_client_post(&client, PATH, body);
    assert_int_equal(expected.status, 200);
    struct http_background accepted[COUNT];
    for (int i = 0; i < COUNT; i++)
        http_background_start(&accepted[i], server.port,
                              &(struct http_request){ .path = PATH, .body = body });
    answer_wait_for_active(&client, COUNT);
    kill(server.pid, SIGTERM);
    while (!is_refusing(server.port))
        daemon_pause(0.01);
    /* The daemon may have ended meanwhile; then its exit status and the answers prove the same. */
    if (!has_mapped(&server, FILE_NAME))
        assert_int_equal(daemon_wait(&server, 15 * daemon_slowness()), 0);
    for (int i = 0; i < COUNT; i++) {
        struct http_response response = http_background_join(&accepted[i]);
        assert_int_equal(response.status, 200);
        assert_string_equal(response.body, expected.body);
        http_response_free(&response);
    }
    assert_int_equal(daemon_wait(&server, 15 * daemon_slowness()), 0);
    http_response_free(&expected);
    http_client_free(&client);
    free(body);
}

TEST(idle_connections_do_not_hold_it)
{
    enum { IDLE = 50 };
    struct http_raw idle[IDLE];
    daemon_start(&server, NULL);
    for (int i = 0; i < IDLE; i++) {
        http_raw_connect(&idle[i], server.port);
        if (i % 2) {
            http_raw_send_text(&idle[i], "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
            struct http_response response = http_raw_receive(&idle[i], 5 * daemon_slowness());
            assert_int_equal(response.status, 200);
            http_response_free(&response);
        }
    }
    double start = daemon_now();
    daemon_stop(&server);
    assert_true(daemon_now() - start < 5 * daemon_slowness());
    for (int i = 0; i < IDLE; i++)
        http_raw_close(&idle[i]);
}

/* The daemon waits a second or two for bodies that do not come or hardly come. It answers the body
 * that goes on. */
TEST(unsent_bodies_do_not_hold_it)
{
    enum { LENGTH = 40 * 1024, PIECE = 2048, COUNT = 4 };
    static const char *const ends[COUNT] = {
        "Content-Length: 30\r\n\r\n",
        "Content-Length: 30\r\n\r\n{\"model\":",
        "Content-Length: 4000000\r\n\r\n{\"model\":",
        "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"mod\r\n",
    };
    static char body[LENGTH];
    struct http_raw held[COUNT], goes_on;
    char head[200];
    daemon_start_with(&server, "--body-timeout", "600s", "--drain-max", "600s", NULL);
    for (int i = 0; i < COUNT; i++) {
        snprintf(head, sizeof(head), "POST %s HTTP/1.1\r\nHost: localhost\r\n%s", PATH, ends[i]);
        http_raw_connect(&held[i], server.port);
        assert_true(http_raw_send_text(&held[i], head));
    }
    snprintf(head, sizeof(head),
             "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", PATH, LENGTH);
    memset(body, ' ', LENGTH);
    memcpy(body, GOOD, strlen(GOOD));
    http_raw_connect(&goes_on, server.port);
    assert_true(http_raw_send_text(&goes_on, head));
    daemon_pause(0.2);
    kill(server.pid, SIGTERM);
    for (int sent = 0; sent < LENGTH; sent += PIECE) {
        http_raw_send(&held[2], "1", 1);
        assert_true(http_raw_send(&goes_on, body + sent, PIECE));
        daemon_pause(0.15);
    }
    struct http_response response = http_raw_receive(&goes_on, 10 * daemon_slowness());
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    assert_int_equal(daemon_wait(&server, 15 * daemon_slowness()), 0);
    for (int i = 0; i < COUNT; i++) {
        response = http_raw_receive(&held[i], 1);
        answer_expect_fault(&response, 408, "timeout", NULL);
        http_response_free(&response);
        http_raw_close(&held[i]);
    }
    http_raw_close(&goes_on);
}

/* A request that outlives --drain-max is given up, and the exit is still in order. */
TEST(drain_max)
{
    daemon_start_with(&server, "--workers", "1", "--drain-max", "300ms", DAEMON_PATIENT, NULL);
    struct http_client client;
    struct endless long_one;
    http_client_init(&client, server.port);
    endless_begin_any(&long_one, &client);
    daemon_stop(&server);
    struct http_response response = http_raw_receive(&long_one.raw, 5 * daemon_slowness());
    assert_true(response.status == 0 || response.status == 503);
    http_response_free(&response);
    endless_leave(&long_one);
    http_client_free(&client);
}

TEST(interrupt)
{
    daemon_start(&server, NULL);
    kill(server.pid, SIGINT);
    assert_int_equal(daemon_wait(&server, 10 * daemon_slowness()), 0);
}

/* The signal comes again and again; then a signal before anything is loaded; then signals that are
 * no reason to end. */
TEST(signals_again)
{
    daemon_start_with(&server, "--drain-delay", "300ms", NULL);
    for (int i = 0; i < 5; i++)
        kill(server.pid, i % 2 ? SIGINT : SIGTERM);
    assert_int_equal(daemon_wait(&server, 10 * daemon_slowness()), 0);
    daemon_start(&server, &(struct daemon_options){ .may_not_be_ready = true });
    kill(server.pid, SIGTERM);
    assert_int_equal(daemon_wait(&server, 10 * daemon_slowness()), 0);
    daemon_start(&server, NULL);
    kill(server.pid, SIGPIPE);
    kill(server.pid, SIGHUP);
    struct http_client client;
    http_client_init(&client, server.port);
    cJSON_Delete(answer_post(&client, PATH, GOOD));
    http_client_free(&client);
    daemon_stop(&server);
}

static int clear(void **state)
{
    daemon_kill(&server);
    return 0;
}

EACH_TEST(NULL, clear);
