/* SPDX-License-Identifier: Apache-2.0 */
/* session_load.c - see session_load.h. */
#include "session_load.h"
#include "test.h"

#include "daemon.h"
#include "request_text.h"

#include <cjson/cJSON.h>

enum { COLUMNS = 4 };

static const char OUTPUTS[] = JSON("outputs":["context","lse"]);

static void add_row(struct request_text *text, const struct load_session *session, int row,
                    int what)
{
    const int seed = row < session->shared_len ? session->parent_seed : session->seed;
    for (int c = 0; c < COLUMNS; c++)
        request_text_add(text, "%s%d.%d", c > 0 ? "," : "[", (seed * 5 + row * 3 + c + what) % 3,
                         (seed + row * 7 + c * 3 + what * 5) % 10);
    request_text_add(text, "]");
}

static void add_rows(struct request_text *text, const struct load_session *session, int from,
                     int to, const char *name, int what)
{
    request_text_add(text, ",\"%s\":[", name);
    for (int row = from; row < to; row++) {
        request_text_add(text, row > from ? "," : "");
        add_row(text, session, row, what);
    }
    request_text_add(text, "]");
}

/* The body of the step that appends the next row; with whole, that of attention over all rows. */
static char *body_of(const struct load_session *session, bool whole)
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

struct http_response session_load_send(struct http_client *client,
                                       const struct load_session *session, const char *method,
                                       const char *verb, const char *body)
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
static struct http_response send_and_wait(struct http_client *client, struct session_load *load,
                                          const struct load_session *session, const char *verb,
                                          const char *body)
{
    for (;;) {
        struct http_response response = session_load_send(client, session, "POST", verb, body);
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
    const char *a = one->body ? strstr(one->body, JSON("context":)) : NULL;
    const char *b = other->body ? strstr(other->body, JSON("context":)) : NULL;
    return one->status == 200 && other->status == 200 && a && b && strcmp(a, b) == 0;
}

static void note(struct session_load *load, const char *what, const struct load_session *session,
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
static void step(struct http_client *client, struct session_load *load,
                 struct load_session *session)
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
static bool take_made(struct load_session *session, const struct http_response *response,
                      bool by_header)
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
static void fork_of(struct http_client *client, struct session_load *load,
                    const struct load_session *parent, struct load_session *fork)
{
    const int number = (int)(fork - load->sessions);
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
static void go_on(struct http_client *client, struct session_load *load, int number)
{
    struct load_session *session = &load->sessions[number],
                        *fork = &load->sessions[LOAD_SESSIONS + number];
    if (pthread_mutex_trylock(&session->mutex) != 0)
        return;
    step(client, load, session);
    if (session->length >= LOAD_FORKED_AT && !fork->id[0])
        fork_of(client, load, session, fork);
    else if (fork->id[0])
        step(client, load, fork);
    pthread_mutex_unlock(&session->mutex);
}

/* All clients step all sessions. */
static void *send_steps(void *argument)
{
    struct session_load *load = argument;
    struct http_client client;
    unsigned number = 5 * atomic_fetch_add(&load->clients, 1);
    http_client_init(&client, load->port);
    for (; !atomic_load(&load->stop) && atomic_load(&load->failed) == 0; number += 7)
        go_on(&client, load, (int)(number % LOAD_SESSIONS));
    http_client_free(&client);
    return NULL;
}

static void make_session(struct http_client *client, struct load_session *session, int number)
{
    char body[80] = JSON({"model":"sdpa"});
    const bool is_named = number % 2 == 0;
    if (is_named)
        snprintf(body, sizeof body, "{\"model\":\"sdpa\",\"id\":\"mine-%d\"}", number);
    struct http_response response = http_client_post(client, "/v1/sessions", body);
    pthread_mutex_init(&session->mutex, NULL);
    session->seed = number;
    if (!take_made(session, &response, is_named))
        fail_msg("not made: %ld %s", response.status, response.body);
    http_response_free(&response);
}

void session_load_begin(struct session_load *load, int port, int replica_count)
{
    struct http_client client;
    int at_replica[LOAD_REPLICAS_MAX] = { 0 };
    *load = (struct session_load){ .port = port };
    http_client_init(&client, port);
    for (int i = 0; i < LOAD_SESSIONS; i++) {
        make_session(&client, &load->sessions[i], i);
        assert_in_range(load->sessions[i].replica, 0, replica_count - 1);
        at_replica[load->sessions[i].replica]++;
    }
    http_client_free(&client);
    for (int i = 0; i < replica_count; i++)
        assert_true(at_replica[i] > 0);
    for (int i = 0; i < LOAD_CLIENTS; i++)
        assert_int_equal(pthread_create(&load->threads[i], NULL, send_steps, load), 0);
}

void session_load_wait_for_steps(struct session_load *load, int count)
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

void session_load_wait_for_retries(struct session_load *load)
{
    const int before = atomic_load(&load->retries);
    for (double until = daemon_now() + 60 * daemon_slowness();
         atomic_load(&load->retries) == before;) {
        assert_true(daemon_now() < until);
        daemon_pause(0.01);
    }
}

void session_load_end(struct session_load *load)
{
    atomic_store(&load->stop, true);
    for (int i = 0; i < LOAD_CLIENTS; i++)
        pthread_join(load->threads[i], NULL);
    print_message("    %d steps, %d answers to send again\n", load->steps, load->retries);
    assert_int_equal(load->failed, 0);
}
