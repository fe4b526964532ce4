/* SPDX-License-Identifier: Apache-2.0 */
/* test_sessions_sticky.c - sessions at two daemons behind nginx and behind haproxy, as deploy/ sets
 * them up: each request about a session gets to the replica that has it, by Attnd-Replica or by the
 * id, and to no other. Where that replica is gone the answer is 503, and nobody says 404; when it
 * is there again, by its name and with what --session-save wrote, its sessions are there.
 *
 * Some clients step a dozen sessions and their forks while things happen. Each answer must have the
 * bits of POST /v1/attention with all keys and values of the session. */
#include "answer.h"
#include "balancer.h"
#include "daemon.h"
#include "session_load.h"
#include "test.h"

#include <signal.h>

enum { REPLICAS = BALANCER_REPLICAS, SESSIONS = 2 * LOAD_SESSIONS };

static struct daemon replicas[REPLICAS];
static char *saves[REPLICAS]; /* directories of --session-save */
static struct balancer balancer;
static struct session_load load;

static void start_replica(int i, int port)
{
    char address[32], name[24];
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    snprintf(name, sizeof name, "replica%d", i + 1);
    if (!saves[i])
        saves[i] = daemon_directory_create();
    const char *const arguments[] = { "--listen", address,          "--replica", name, "--workers",
                                      "1",        "--session-save", saves[i],    NULL };
    daemon_start(&replicas[i],
                 &(struct daemon_options){ .arguments = arguments, .listen_count = 1 });
}

/* --------------------------------------------------------------------- the tests -- */

/* Both replicas are used: haproxy sends requests to one when it has seen that it is ready. */
static void wait_for_both(struct http_client *client)
{
    char name[64];
    bool seen[REPLICAS] = { false };
    for (double until = daemon_now() + 20 * daemon_slowness(); !seen[0] || !seen[1];) {
        struct http_response response = http_client_get(client, "/v1/models/sdpa");
        if (http_response_header(&response, "Attnd-Replica", name, sizeof name))
            seen[strcmp(name, "replica2") == 0] = true;
        http_response_free(&response);
        assert_true(daemon_now() < until);
        daemon_pause(0.005);
    }
}

static void start_behind(enum balancer_kind kind, struct http_client *client)
{
    balancer_need(kind);
    for (int i = 0; i < REPLICAS; i++)
        start_replica(i, daemon_free_port());
    balancer_prepare(&balancer, kind, (const int[REPLICAS]){ replicas[0].port, replicas[1].port });
    balancer_start(&balancer, kind);
    http_client_init(client, balancer.port);
    wait_for_both(client);
}

/* A request that names a replica, or none: NULL. */
static struct http_response send_to(struct http_client *client, const char *replica,
                                    struct http_request request, const char *type)
{
    char header[64], content[64];
    snprintf(header, sizeof header, "Attnd-Replica: %s", replica ? replica : "");
    snprintf(content, sizeof content, "Content-Type: application/%s", type);
    const char *const headers[] = { content, replica ? header : NULL, NULL };
    request.headers = headers;
    return http_client_send(client, &request);
}

static long status_of(struct http_client *client, const char *method, const char *path,
                      const char *body, const char *replica)
{
    struct http_response response =
        send_to(client, replica,
                (struct http_request){ .method = method, .path = path, .body = body }, "json");
    const long status = response.status;
    http_response_free(&response);
    return status;
}

/* The header leads any request to its replica: a sequence of the Open Inference Protocol too. */
static void expect_led(struct http_client *client, const char *path, const char *body)
{
    static const char *const NAMES[] = { "replica1", "replica2" };
    for (int i = 0; i < 6; i++) {
        char name[64] = "";
        const char *wanted = NAMES[i % REPLICAS];
        struct http_response response =
            send_to(client, wanted, (struct http_request){ .path = path, .body = body }, "json");
        http_response_header(&response, "Attnd-Replica", name, sizeof name);
        if (response.status != 200 || strcmp(name, wanted) != 0)
            fail_msg("%s to %s: %ld by '%s'", path, wanted, response.status, name);
        http_response_free(&response);
    }
}

/* The next step of a session that both replicas have, up to where the answers must be equal. */
static char *step_of_moved(struct http_client *client, const char *replica)
{
    struct http_response response =
        send_to(client, replica,
                (struct http_request){ .path = "/v1/sessions/moved/attention",
                                       .body = "{\"at\":2,\"query\":[[0.3,1]],\"key\":[[0.7,2]],"
                                               "\"value\":[[3,0.1]]}" },
                "json");
    assert_int_equal(response.status, 200);
    char *outputs = strstr(response.body, "\"context\":");
    assert_non_null(outputs);
    outputs = strdup(outputs);
    http_response_free(&response);
    return outputs;
}

/* A file from one replica makes the session at another, under the same id. */
static void expect_moves(struct http_client *client)
{
    assert_int_equal(status_of(client, "POST", "/v1/sessions",
                               "{\"model\":\"sdpa\",\"id\":\"moved\"}", "replica1"),
                     201);
    assert_int_equal(status_of(client, "POST", "/v1/sessions/moved/attention",
                               "{\"query\":[[1,2]],\"key\":[[1,2],[0.1,3]],"
                               "\"value\":[[4,5],[6,0.7]]}",
                               "replica1"),
                     200);
    struct http_response file =
        send_to(client, "replica1",
                (struct http_request){ .path = "/v1/sessions/moved?format=safetensors" }, "json");
    assert_int_equal(file.status, 200);
    struct http_response put = send_to(client, "replica2",
                                       (struct http_request){ .method = "PUT",
                                                              .path = "/v1/sessions/moved",
                                                              .body = file.body,
                                                              .body_size = file.body_size },
                                       "x-safetensors");
    assert_int_equal(put.status, 201);
    http_response_free(&put);
    http_response_free(&file);
    char *one = step_of_moved(client, "replica1"), *other = step_of_moved(client, "replica2");
    assert_string_equal(one, other);
    free(one);
    free(other);
}

/* Two sessions of one id, each at its own replica; what names no replica goes to none. */
static void route_behind(enum balancer_kind kind)
{
    static const char MAKE[] = JSON({"model":"sdpa","id":"same"}), ROW[] = "[[1,2]]";
    static const char PATH[] = "/v1/sessions/same";
    struct http_client client;
    char step_of[200], batch[300];
    start_behind(kind, &client);
    snprintf(step_of, sizeof step_of, JSON({"query":%s,"key":%s,"value":%s}), ROW, ROW, ROW);
    snprintf(batch, sizeof batch, JSON({"requests":[{"session":"same","query":%s}]}), ROW);
    assert_int_equal(status_of(&client, "POST", "/v1/sessions", MAKE, "replica1"), 201);
    assert_int_equal(status_of(&client, "GET", PATH, NULL, "replica1"), 200);
    assert_int_equal(status_of(&client, "GET", PATH, NULL, "replica2"), 404);
    assert_int_equal(status_of(&client, "POST", "/v1/sessions", MAKE, "replica2"), 201);
    assert_int_equal(status_of(&client, "POST", "/v1/sessions/same/attention", step_of, "replica2"),
                     200);
    assert_int_equal(status_of(&client, "POST", "/v1/sessions/attention", batch, "replica2"), 200);
    assert_int_equal(status_of(&client, "DELETE", PATH, NULL, "replica2"), 204);
    assert_int_equal(status_of(&client, "GET", PATH, NULL, "replica2"), 410);
    assert_int_equal(status_of(&client, "GET", PATH, NULL, "replica1"), 200);
    assert_int_equal(status_of(&client, "GET", PATH, NULL, NULL), 400);
    assert_int_equal(status_of(&client, "PUT", PATH, "{}", NULL), 400);
    assert_int_equal(status_of(&client, "POST", "/v1/sessions/attention", batch, NULL), 400);
    assert_int_equal(status_of(&client, "GET", PATH, NULL, "replica3"), 503);
    assert_int_equal(status_of(&client, "GET", "/v1/sessions/replica1.none", NULL, NULL), 404);
    assert_int_equal(status_of(&client, "GET", "/v1/sessions/replica10.none", NULL, NULL), 400);
    assert_int_equal(status_of(&client, "GET", "/v1/sessions", NULL, NULL), 200);
    assert_int_equal(status_of(&client, "OPTIONS", PATH, NULL, NULL), 405);
    expect_moves(&client);
    expect_led(&client, "/v1/models/sdpa", NULL);
    expect_led(&client, "/v2/models/sdpa/infer",
               "{\"parameters\":{\"sequence_id\":7,\"sequence_start\":true},\"inputs\":["
               "{\"name\":\"Q\",\"shape\":[1,1,1,1],\"datatype\":\"FP32\",\"data\":[1]},"
               "{\"name\":\"K\",\"shape\":[1,1,1,1],\"datatype\":\"FP32\",\"data\":[1]},"
               "{\"name\":\"V\",\"shape\":[1,1,1,1],\"datatype\":\"FP32\",\"data\":[1]}]}");
    http_client_free(&client);
    for (int i = 0; i < REPLICAS; i++)
        daemon_stop(&replicas[i]);
}

/* One replica ends while clients step sessions at both. Its sessions get 503, those of the other
 * go on, and their stateless twins too. */
static void lose_one_behind(enum balancer_kind kind)
{
    struct http_client client;
    int gone = 0;
    start_behind(kind, &client);
    session_load_begin(&load, balancer.port, REPLICAS);
    session_load_wait_for_steps(&load, 3 * LOAD_FORKED_AT * LOAD_SESSIONS);
    kill(replicas[0].pid, SIGTERM);
    assert_int_equal(daemon_wait(&replicas[0], 60 * daemon_slowness()), 0);
    session_load_wait_for_retries(&load);
    session_load_end(&load);
    for (int i = 0; i < SESSIONS; i++) {
        const struct load_session *session = &load.sessions[i];
        if (!session->id[0])
            continue;
        struct http_response response = session_load_send(&client, session, "GET", "", NULL);
        if (response.status != (session->replica == 0 ? 503 : 200))
            fail_msg("'%s' of replica%d: %ld %s", session->id, session->replica + 1,
                     response.status, response.body);
        gone += response.status == 503;
        http_response_free(&response);
    }
    assert_in_range(gone, 1, SESSIONS - 1);
    http_client_free(&client);
    daemon_stop(&replicas[1]);
}

/* Ends a replica in order and starts it again, by its name and with what it saved. Clients that
 * meet it meanwhile send again. */
static void restart_replica(int i)
{
    const int port = replicas[i].port;
    kill(replicas[i].pid, SIGTERM);
    assert_int_equal(daemon_wait(&replicas[i], 60 * daemon_slowness()), 0);
    session_load_wait_for_retries(&load);
    daemon_kill(&replicas[i]);
    start_replica(i, port);
    session_load_wait_for_steps(&load, 2 * SESSIONS);
}

/* All sessions are at their replicas, with all that was appended. */
static void expect_all(struct http_client *client)
{
    for (int i = 0; i < SESSIONS; i++) {
        const struct load_session *session = &load.sessions[i];
        char name[64] = "";
        assert_true(session->id[0]);
        struct http_response response = session_load_send(client, session, "GET", "", NULL);
        cJSON *answer = answer_json(&response, 200);
        assert_int_equal(cJSON_GetObjectItem(answer, "kv_len")->valueint, session->length);
        http_response_header(&response, "Attnd-Replica", name, sizeof name);
        assert_int_equal(name[strlen("replica")] - '1', session->replica);
        cJSON_Delete(answer);
        http_response_free(&response);
    }
}

/* Both replicas are restarted one after the other while clients step sessions: none is lost. */
static void restart_behind(enum balancer_kind kind)
{
    struct http_client client;
    start_behind(kind, &client);
    session_load_begin(&load, balancer.port, REPLICAS);
    session_load_wait_for_steps(&load, 3 * LOAD_FORKED_AT * LOAD_SESSIONS);
    for (int i = 0; i < REPLICAS; i++)
        restart_replica(i);
    session_load_end(&load);
    expect_all(&client);
    http_client_free(&client);
    for (int i = 0; i < REPLICAS; i++)
        daemon_stop(&replicas[i]);
}

TEST(routes_of_nginx)
{
    route_behind(BALANCER_NGINX);
}

TEST(routes_of_haproxy)
{
    route_behind(BALANCER_HAPROXY);
}

TEST(one_is_gone_behind_nginx)
{
    lose_one_behind(BALANCER_NGINX);
}

TEST(one_is_gone_behind_haproxy)
{
    lose_one_behind(BALANCER_HAPROXY);
}

TEST(restarts_behind_nginx)
{
    restart_behind(BALANCER_NGINX);
}

TEST(restarts_behind_haproxy)
{
    restart_behind(BALANCER_HAPROXY);
}

static int clear(void **state)
{
    for (int i = 0; i < REPLICAS; i++) {
        daemon_kill(&replicas[i]);
        daemon_directory_remove(saves[i]);
        saves[i] = NULL;
    }
    balancer_stop(&balancer);
    return 0;
}

EACH_TEST(NULL, clear);
