/* test_sessions_sticky.c - sessions at two daemons behind nginx and behind haproxy, as deploy/ sets
 * them up: each request about a session gets to the replica that has it, by Attnd-Replica or by the
 * id, and to no other. Where that replica is gone the answer is 503, and nobody says 404.
 *
 * Some clients step a dozen sessions and their forks while things happen. Each answer must have the
 * bits of POST /v1/attention with all keys and values of the session. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "answer.h"
#include "balancer.h"
#include "daemon.h"
#include "request_text.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPLICAS = BALANCER_REPLICAS, CLIENTS = 4, SESSIONS = 12, COLUMNS = 4, FORKED_AT = 4 };

static const char OUTPUTS[] = "\"outputs\":[\"context\",\"lse\"]";

static struct daemon replicas[REPLICAS];
static struct balancer balancer;

static void start_replica(int i, int port)
{
    char address[32], name[16];
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    snprintf(name, sizeof name, "replica%d", i + 1);
    const char *const arguments[] = {
        "--listen", address, "--replica", name, "--workers", "1", NULL
    };
    daemon_start(&replicas[i],
                 &(struct daemon_options){ .arguments = arguments, .listen_count = 1 });
}

/* ------------------------------------------------------------------ the sessions -- */

/* A session, and what is in it: rows of its own, and of a fork's parent before them. */
struct kept {
    pthread_mutex_t mutex; /* one step at a time */
    char id[65];
    char header[64]; /* "Attnd-Replica: replica1"; "": the id says it */
    int replica;
    int seed, parent_seed;
    int shared_len; /* rows that are the parent's */
    int length;
};

static struct kept kept[2 * SESSIONS]; /* each behind SESSIONS is the fork of one before it */

/* What one client, and all of them, saw. */
struct load {
    int port;
    _Atomic bool stop;
    _Atomic int steps, retries, failed;
};

static void add_row(struct request_text *text, const struct kept *session, int row, int what)
{
    const int seed = row < session->shared_len ? session->parent_seed : session->seed;
    for (int c = 0; c < COLUMNS; c++)
        request_text_add(text, "%s%d.%d", c > 0 ? "," : "[", (seed * 5 + row * 3 + c + what) % 3,
                         (seed + row * 7 + c * 3 + what * 5) % 10);
    request_text_add(text, "]");
}

static void add_rows(struct request_text *text, const struct kept *session, int from, int to,
                     const char *name, int what)
{
    request_text_add(text, ",\"%s\":[", name);
    for (int row = from; row < to; row++) {
        request_text_add(text, row > from ? "," : "");
        add_row(text, session, row, what);
    }
    request_text_add(text, "]");
}

/* The body of the step that appends the next row; with whole, that of attention over all rows. */
static char *body_of(const struct kept *session, bool whole)
{
    struct request_text text = { 0 };
    const int row = session->length;
    request_text_add(&text, "{%s", OUTPUTS);
    if (whole)
        request_text_add(&text, ",\"model\":\"sdpa\"");
    else
        request_text_add(&text, ",\"at\":%d", row);
    add_rows(&text, session, row, row + 1, "query", 0);
    add_rows(&text, session, whole ? 0 : row, row + 1, "key", 1);
    add_rows(&text, session, whole ? 0 : row, row + 1, "value", 2);
    request_text_add(&text, "}");
    return text.data;
}

static struct http_response send_to(struct http_client *client, const struct kept *session,
                                    const char *method, const char *verb, const char *body)
{
    char path[128];
    const char *const headers[] = { "Content-Type: application/json",
                                    session->header[0] ? session->header : NULL, NULL };
    snprintf(path, sizeof path, "/v1/sessions/%s%s%s", session->id, verb[0] ? "/" : "", verb);
    return http_client_send(
        client,
        &(struct http_request){ .method = method, .path = path, .body = body, .headers = headers });
}

/* Sends until the replica is there. */
static struct http_response send_and_wait(struct http_client *client, struct load *load,
                                          const struct kept *session, const char *verb,
                                          const char *body)
{
    for (;;) {
        struct http_response response = send_to(client, session, "POST", verb, body);
        if ((response.status != 503 && response.status != 0) || atomic_load(&load->stop))
            return response;
        atomic_fetch_add(&load->retries, 1);
        http_response_free(&response);
        daemon_pause(0.02);
    }
}

/* Both answers end with the outputs. */
static bool has_same_outputs(const struct http_response *one, const struct http_response *other)
{
    const char *a = one->body ? strstr(one->body, "\"context\":") : NULL;
    const char *b = other->body ? strstr(other->body, "\"context\":") : NULL;
    return one->status == 200 && other->status == 200 && a && b && strcmp(a, b) == 0;
}

static void note(struct load *load, const char *what, const struct kept *session,
                 const struct http_response *response)
{
    if (atomic_load(&load->stop) && (response->status == 503 || response->status == 0))
        return;
    atomic_fetch_add(&load->failed, 1);
    print_message("    %s of '%s' at replica%d, length %d: %ld %s\n", what, session->id,
                  session->replica + 1, session->length, response->status,
                  response->body ? response->body : "");
}

/* One more row of a session, against attention that knows no session. */
static void step(struct http_client *client, struct load *load, struct kept *session)
{
    char *body = body_of(session, false), *whole = body_of(session, true);
    struct http_response response = send_and_wait(client, load, session, "attention", body);
    struct http_response other = http_client_post(client, "/v1/attention", whole);
    if (has_same_outputs(&response, &other)) {
        session->length++;
        atomic_fetch_add(&load->steps, 1);
    } else {
        note(load, "a step", session, response.status == 200 ? &other : &response);
    }
    http_response_free(&response);
    http_response_free(&other);
    free(body);
    free(whole);
}

/* Takes the id and the replica from the answer that made the session. False: it made none. */
static bool take_made(struct kept *session, const struct http_response *response, bool by_header)
{
    char name[64];
    cJSON *made = response->body ? cJSON_Parse(response->body) : NULL;
    const char *id = cJSON_GetStringValue(cJSON_GetObjectItem(made, "session"));
    const bool good = response->status == 201 && id
                      && http_response_header(response, "Attnd-Replica", name, sizeof name) != NULL
                      && sscanf(name, "replica%d", &session->replica) == 1;
    if (good) {
        snprintf(session->id, sizeof session->id, "%s", id);
        snprintf(session->header, sizeof session->header, by_header ? "Attnd-Replica: %s" : "%.0s",
                 name);
        session->replica--;
    }
    cJSON_Delete(made);
    return good;
}

/* A fork goes on with rows of its own. */
static void fork_of(struct http_client *client, struct load *load, const struct kept *parent,
                    struct kept *fork)
{
    const int number = (int)(fork - kept);
    const bool is_named = number % 2 == 0;
    char body[64] = "";
    if (is_named)
        snprintf(body, sizeof body, "{\"id\":\"fork-%d\"}", number);
    struct http_response response = send_and_wait(client, load, parent, "fork", body);
    if (take_made(fork, &response, is_named) && fork->replica == parent->replica) {
        fork->seed = number;
        fork->parent_seed = parent->seed;
        fork->shared_len = fork->length = parent->length;
    } else {
        note(load, "a fork", parent, &response);
    }
    http_response_free(&response);
}

/* One step of a session, and of its fork; the fork is made on the way. */
static void go_on(struct http_client *client, struct load *load, int number)
{
    struct kept *session = &kept[number], *fork = &kept[SESSIONS + number];
    if (pthread_mutex_trylock(&session->mutex) != 0)
        return;
    step(client, load, session);
    if (session->length >= FORKED_AT && !fork->id[0])
        fork_of(client, load, session, fork);
    else if (fork->id[0])
        step(client, load, fork);
    pthread_mutex_unlock(&session->mutex);
}

/* All clients step all sessions. */
static void *send_steps(void *argument)
{
    struct load *load = argument;
    struct http_client client;
    static _Atomic unsigned clients;
    unsigned number = 5 * atomic_fetch_add(&clients, 1);
    http_client_init(&client, load->port);
    for (; !atomic_load(&load->stop) && atomic_load(&load->failed) == 0; number += 7)
        go_on(&client, load, (int)(number % SESSIONS));
    http_client_free(&client);
    return NULL;
}

static void make_sessions(struct http_client *client)
{
    int at_replica[REPLICAS] = { 0 };
    for (int i = 0; i < SESSIONS; i++) {
        char body[80] = "{\"model\":\"sdpa\"}";
        const bool is_named = i % 2 == 0;
        if (is_named)
            snprintf(body, sizeof body, "{\"model\":\"sdpa\",\"id\":\"mine-%d\"}", i);
        struct http_response response = http_client_post(client, "/v1/sessions", body);
        pthread_mutex_init(&kept[i].mutex, NULL);
        kept[i].seed = i;
        if (!take_made(&kept[i], &response, is_named))
            fail_msg("not made: %ld %s", response.status, response.body);
        at_replica[kept[i].replica]++;
        http_response_free(&response);
    }
    for (int i = 0; i < REPLICAS; i++)
        assert_true(at_replica[i] > 0);
}

static void wait_for_steps(struct load *load, int count)
{
    const int wanted = atomic_load(&load->steps) + count;
    for (double until = daemon_now() + 60 * daemon_slowness();
         atomic_load(&load->steps) < wanted && atomic_load(&load->failed) == 0;) {
        if (daemon_now() >= until)
            fail_msg("%d of %d steps, %d retries", load->steps, wanted, load->retries);
        daemon_pause(0.01);
    }
    assert_int_equal(load->failed, 0);
}

static void wait_for_retries(struct load *load)
{
    for (double until = daemon_now() + 60 * daemon_slowness(); atomic_load(&load->retries) == 0;) {
        assert_true(daemon_now() < until);
        daemon_pause(0.01);
    }
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
    memset(kept, 0, sizeof kept);
    for (int i = 0; i < REPLICAS; i++)
        start_replica(i, balancer_free_port());
    balancer_prepare(&balancer, kind, (const int[REPLICAS]){ replicas[0].port, replicas[1].port });
    balancer_start(&balancer, kind);
    http_client_init(client, balancer.port);
    wait_for_both(client);
}

/* The status of a request about no session that was made; with the name of a replica, or NULL. */
static long status_of(struct http_client *client, const char *method, const char *path,
                      const char *body, const char *replica)
{
    char header[64];
    snprintf(header, sizeof header, "Attnd-Replica: %s", replica ? replica : "");
    const char *const headers[] = { "Content-Type: application/json", replica ? header : NULL,
                                    NULL };
    struct http_response response = http_client_send(
        client,
        &(struct http_request){ .method = method, .path = path, .body = body, .headers = headers });
    const long status = response.status;
    http_response_free(&response);
    return status;
}

/* The header leads any request to its replica: a sequence of the Open Inference Protocol too. */
static void expect_led(struct http_client *client, const char *path, const char *body)
{
    for (int i = 0; i < 6; i++) {
        char header[32], name[64] = "";
        snprintf(header, sizeof header, "Attnd-Replica: replica%d", i % REPLICAS + 1);
        const char *const headers[] = { "Content-Type: application/json", header, NULL };
        struct http_response response = http_client_send(
            client, &(struct http_request){ .path = path, .body = body, .headers = headers });
        http_response_header(&response, "Attnd-Replica", name, sizeof name);
        if (response.status != 200 || strcmp(name, header + 15) != 0)
            fail_msg("%s with %s: %ld by '%s'", path, header, response.status, name);
        http_response_free(&response);
    }
}

/* Two sessions of one id, each at its own replica; what names no replica goes to none. */
static void route_behind(enum balancer_kind kind)
{
    static const char MAKE[] = "{\"model\":\"sdpa\",\"id\":\"same\"}", ROW[] = "[[1,2]]";
    static const char PATH[] = "/v1/sessions/same";
    struct http_client client;
    char step_of[200], batch[300];
    start_behind(kind, &client);
    snprintf(step_of, sizeof step_of, "{\"query\":%s,\"key\":%s,\"value\":%s}", ROW, ROW, ROW);
    snprintf(batch, sizeof batch, "{\"requests\":[{\"session\":\"same\",\"query\":%s}]}", ROW);
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
    struct load load = { 0 };
    pthread_t threads[CLIENTS];
    int gone = 0;
    start_behind(kind, &client);
    make_sessions(&client);
    load.port = balancer.port;
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, send_steps, &load), 0);
    wait_for_steps(&load, 3 * FORKED_AT * SESSIONS);
    kill(replicas[0].pid, SIGTERM);
    assert_int_equal(daemon_wait(&replicas[0], 60 * daemon_slowness()), 0);
    wait_for_retries(&load);
    atomic_store(&load.stop, true);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 2 * SESSIONS; i++) {
        if (!kept[i].id[0])
            continue;
        struct http_response response = send_to(&client, &kept[i], "GET", "", NULL);
        if (response.status != (kept[i].replica == 0 ? 503 : 200))
            fail_msg("'%s' of replica%d: %ld %s", kept[i].id, kept[i].replica + 1, response.status,
                     response.body);
        gone += response.status == 503;
        http_response_free(&response);
    }
    assert_in_range(gone, 1, 2 * SESSIONS - 1);
    print_message("    %d steps, %d answers that the replica is gone\n", load.steps, load.retries);
    assert_int_equal(load.failed, 0);
    http_client_free(&client);
    daemon_stop(&replicas[1]);
}

static void test_routes_of_nginx(void **state)
{
    (void)state;
    route_behind(BALANCER_NGINX);
}

static void test_routes_of_haproxy(void **state)
{
    (void)state;
    route_behind(BALANCER_HAPROXY);
}

static void test_one_is_gone_behind_nginx(void **state)
{
    (void)state;
    lose_one_behind(BALANCER_NGINX);
}

static void test_one_is_gone_behind_haproxy(void **state)
{
    (void)state;
    lose_one_behind(BALANCER_HAPROXY);
}

static int clear(void **state)
{
    (void)state;
    for (int i = 0; i < REPLICAS; i++)
        daemon_kill(&replicas[i]);
    balancer_stop(&balancer);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_routes_of_nginx, clear),
        cmocka_unit_test_teardown(test_routes_of_haproxy, clear),
        cmocka_unit_test_teardown(test_one_is_gone_behind_nginx, clear),
        cmocka_unit_test_teardown(test_one_is_gone_behind_haproxy, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
