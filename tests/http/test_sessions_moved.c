/* SPDX-License-Identifier: Apache-2.0 */
/* test_sessions_moved.c - --move-to URL: the sessions of a daemon that ends go on at another one,
 * with equal bits, and no append is lost or doubled. What is not taken:
 * test_sessions_moved_faults.c.
 */
#include "answer.h"
#include "fixture.h"
#include "key_file.h"
#include "move_daemons.h"
#include "session_client.h"
#include "test.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

static void expect_moved(const char *path, const char *body)
{
    char location[300], wanted[300], replica[64];
    struct http_response response =
        body ? http_client_post(&client, path, body) : http_client_get(&client, path);
    assert_int_equal(response.status, 307);
    assert_non_null(http_response_header(&response, "Location", location, sizeof location));
    snprintf(wanted, sizeof wanted, "%s%s", next_url, path);
    assert_string_equal(location, wanted);
    assert_non_null(http_response_header(&response, "Attnd-Moved-To", replica, sizeof replica));
    assert_string_equal(replica, "next");
    assert_non_null(strstr(response.body, "\"code\":\"moved\""));
    http_response_free(&response);
}

/* -------------------------------------------------------------------- at the end -- */

static const char *const IDS[] = { "a", "b", "c", "q", "w", "fork", "empty" };
enum { ID_COUNT = sizeof IDS / sizeof IDS[0] };

static void make_all(void)
{
    move_make("a", ",\"ttl\":\"1h\"", 300);
    move_make("b", ",\"dtype\":\"f16\",\"kv_len_max\":5000,\"evictable\":true", 2600);
    move_make("c", ",\"dtype\":\"bf16\"", 3);
    move_make("q", ",\"dtype\":\"int8\"", 300);
    move_make("w", ",\"window\":64,\"first_keys\":4", 1000);
    cJSON_Delete(session_post(&client, "a", "fork", JSON({"id":"fork"}), 201));
    cJSON_Delete(move_post_rows(&client, "fork", 70, 5, true));
    move_make("empty", "", 0);
}

TEST(at_the_end)
{
    cJSON *before[ID_COUNT];
    move_start_next(NULL);
    fixture_serve("--models", "examples/models", "--move-to", next_url, "--drain-delay", "60s");
    make_all();
    for (int i = 0; i < ID_COUNT; i++)
        before[i] = move_look(&client, IDS[i]);
    kill(server.pid, SIGTERM);
    move_wait(ID_COUNT, 0);
    for (int i = 0; i < ID_COUNT; i++) {
        char path[64];
        snprintf(path, sizeof path, "/v1/sessions/%s/attention", IDS[i]);
        expect_moved(path, "{}");
        cJSON *after = move_look(&second, IDS[i]);
        session_expect_same(after, before[i]);
        cJSON_Delete(after);
        cJSON_Delete(before[i]);
    }
    expect_moved("/v1/sessions/a", NULL);
    expect_moved("/v1/sessions/a?format=safetensors", NULL);
    assert_true(move_count(&client) == 0);
    cJSON *shown = answer_get(&second, "/v1/sessions/b");
    answer_expect(shown, "dtype", "\"f16\"", 0);
    answer_expect(shown, "kv_len_max", "5000", 0);
    answer_expect(shown, "evictable", "true", 0);
    cJSON_Delete(shown);

    /* What is made while the daemon drains moves too, and an id that has moved may be made anew. */
    move_make("late", "", 0);
    move_make("a", "", 0);
    free(daemon_log_with(&server, "409 conflict: "));
    free(daemon_log_with(&server, "sessions moved count=1 stay="));
    assert_true(session_number(&second, "late", "kv_len") == 0);
    assert_true(session_number(&second, "a", "kv_len") == 300);
    assert_true(session_number(&client, "a", "kv_len") == 0);
    kill(server.pid, SIGKILL);
    http_client_free(&client);
    daemon_wait(&server, 10);
    move_stop_next();
}

/* A sequence of the Open Inference Protocol goes on where it moved to. */
TEST(sequence)
{
    static const char BODY[] =
        "{\"parameters\":{\"sequence_id\":7%s},\"inputs\":["
        "{\"name\":\"Q\",\"shape\":[1,1,1,2],\"datatype\":\"FP32\",\"data\":[1,0]},"
        "{\"name\":\"K\",\"shape\":[1,1,1,2],\"datatype\":\"FP32\",\"data\":[1,0]},"
        "{\"name\":\"V\",\"shape\":[1,1,1,2],\"datatype\":\"FP32\",\"data\":[1,0]}]}";
    char body[sizeof BODY + 40];
    move_start_next(NULL);
    fixture_serve("--models", "examples/models", "--move-to", next_url, "--drain-delay", "60s");
    snprintf(body, sizeof body, BODY, ",\"sequence_start\":true");
    cJSON_Delete(answer_post(&client, "/v2/models/sdpa/infer", body));
    kill(server.pid, SIGTERM);
    move_wait(1, 0);
    snprintf(body, sizeof body, BODY, "");
    expect_moved("/v2/models/sdpa/infer", body);
    cJSON_Delete(answer_post(&second, "/v2/models/sdpa/infer", body));
    assert_true(session_number(&second, "sdpa:7", "kv_len") == 2);
    daemon_kill(&server);
    http_client_free(&client);
    move_stop_next();
}

/* ------------------------------------------------------------- while clients append -- */

enum { APPENDERS = 4, APPENDS = 400 };

struct appender {
    char id[16];
    int number, done;
    _Atomic int *ready;
};

/* Sends a row again with the same `at` until it is answered, at the place that it is told. */
static void append_row(struct http_client *at, struct appender *appender)
{
    char path[64], *text = move_rows_text(1000 + (uint64_t)appender->done, 1, true, appender->done);
    snprintf(path, sizeof path, "/v1/sessions/%s/attention", appender->id);
    for (;;) {
        struct http_response response = http_client_post(at, path, text);
        const long status = response.status;
        const bool is_moved = status == 307 || (status == 0 && at->port != next.port);
        if (!is_moved && status != 200)
            fail_msg("%s at %d: %ld %s", appender->id, appender->done, status, response.body);
        http_response_free(&response);
        if (status == 200)
            break;
        http_client_free(at);
        http_client_init(at, next.port);
    }
    free(text);
    appender->done++;
}

static void *append_rows(void *argument)
{
    struct appender *appender = argument;
    struct http_client at;
    http_client_init(&at, server.port);
    while (appender->done < APPENDS) {
        append_row(&at, appender);
        if (appender->done == 50)
            atomic_fetch_add(appender->ready, 1);
    }
    http_client_free(&at);
    return NULL;
}

TEST(no_append_is_lost_or_doubled)
{
    pthread_t threads[APPENDERS];
    struct appender appenders[APPENDERS];
    _Atomic int ready = 0;
    move_start_next(NULL);
    fixture_serve("--models", "examples/models", "--move-to", next_url, "--drain-delay", "2s");
    for (int i = 0; i < 60; i++) { /* so that the move takes a while */
        char id[16];
        snprintf(id, sizeof id, "other%d", i);
        move_make(id, "", 200);
    }
    for (int i = 0; i < APPENDERS; i++) {
        appenders[i] = (struct appender){ .number = i, .ready = &ready };
        snprintf(appenders[i].id, sizeof appenders[i].id, "s%d", i);
        move_make(appenders[i].id, "", 0);
        assert_int_equal(pthread_create(&threads[i], NULL, append_rows, &appenders[i]), 0);
    }
    while (atomic_load(&ready) < APPENDERS)
        daemon_pause(0.01);
    http_client_free(&client);
    daemon_stop(&server); /* with 0 */
    for (int i = 0; i < APPENDERS; i++)
        pthread_join(threads[i], NULL);
    assert_true(move_count(&second) == 60 + APPENDERS);

    /* The same rows in a session that never moved. */
    session_make(&second, JSON({"model":"sdpa","id":"still"}));
    for (int i = 0; i < APPENDS; i++)
        cJSON_Delete(move_post_rows(&second, "still", 1000 + (uint64_t)i, 1, true));
    cJSON *still = move_look(&second, "still");
    for (int i = 0; i < APPENDERS; i++) {
        assert_true(session_number(&second, appenders[i].id, "kv_len") == APPENDS);
        cJSON *moved = move_look(&second, appenders[i].id);
        session_expect_same(moved, still);
        cJSON_Delete(moved);
    }
    cJSON_Delete(still);
    move_stop_next();
}

/* The daemon finds itself in the list, and the targets behind it come first. */
TEST(own_entry)
{
    char own[64];
    const int port = daemon_free_port();
    move_start_next(NULL);
    snprintf(own, sizeof own, "127.0.0.1:%d", port);
    char url[80], dead[80];
    snprintf(url, sizeof url, "http://%s", own);
    snprintf(dead, sizeof dead, "http://127.0.0.1:%d", daemon_free_port());
    const char *const arguments[] = { "--listen",  own,      "--replica",     "self",
                                      "--move-to", dead,     "--move-to",     url,
                                      "--move-to", next_url, "--drain-delay", "60s",
                                      NULL };
    daemon_start(&server, &(struct daemon_options){ .arguments = arguments, .listen_count = 1 });
    http_client_init(&client, server.port);
    move_make("one", "", 3);
    kill(server.pid, SIGTERM);
    move_wait(1, 0);
    assert_true(session_number(&second, "one", "kv_len") == 3);
    daemon_kill(&server);
    http_client_free(&client);
    move_stop_next();
}

/* ------------------------------------------------------------------------------ keys -- */

static struct http_response send_as(struct http_client *at, const char *key, const char *method,
                                    const char *path, const char *body)
{
    return key_send(at, key, &(struct http_request){ .method = method, .path = path, .body = body },
                    NULL);
}

static long status_as(struct http_client *at, const char *key, const char *path, const char *body)
{
    struct http_response response = send_as(at, key, body ? "POST" : "GET", path, body);
    const long status = response.status;
    http_response_free(&response);
    return status;
}

TEST_WITH(owners, fixture_make_directory, move_clear)
{
    static const struct key_line KEYS[] = { { "team-a", "infer,sessions" },
                                            { "team-b", "infer,sessions" },
                                            { "gone", "infer,sessions" },
                                            { "operator", "admin" },
                                            { NULL, NULL } };
    static const struct key_line THERE[] = { { "team-a", "infer,sessions" },
                                             { "team-b", "infer,sessions" },
                                             { "mover", "infer,sessions,sessions:all" },
                                             { NULL, NULL } };
    static const char MAKE[] = JSON({"model":"sdpa","id":"one"});
    char keys[200], there[200], secret[200];
    snprintf(keys, sizeof keys, "%s", fixture_path("keys"));
    snprintf(there, sizeof there, "%s", fixture_path("there"));
    snprintf(secret, sizeof secret, "%s", fixture_path("secret"));
    key_file_write(keys, KEYS);
    key_file_write(there, THERE);
    daemon_directory_write(directory, "secret", key_secret("mover"), strlen(key_secret("mover")));
    move_start_next((const char *const[]){ "--keys", there, NULL });
    fixture_serve("--keys", keys, "--move-to", next_url, "--move-key", secret);
    assert_int_equal(status_as(&client, "team-a", "/v1/sessions", MAKE), 201);
    assert_int_equal(status_as(&client, "team-b", "/v1/sessions", MAKE), 201);
    assert_int_equal(status_as(&client, "gone", "/v1/sessions", MAKE), 201);
    assert_int_equal(status_as(&client, "team-a", "/v1/sessions:drain", ""), 403);
    struct http_response response =
        send_as(&client, "operator", "POST", "/v1/sessions:drain", JSON({}));
    assert_int_equal(response.status, 200);
    assert_non_null(strstr(response.body, "\"moved\":2,\"stay\":1"));
    assert_non_null(strstr(response.body, "owner is 'gone'; no key has this name here"));
    http_response_free(&response);
    assert_int_equal(status_as(&second, "team-a", "/v1/sessions/one", NULL), 200);
    assert_int_equal(status_as(&second, "team-b", "/v1/sessions/one", NULL), 200);
    assert_int_equal(status_as(&client, "team-a", "/v1/sessions/one", NULL), 307);
    assert_int_equal(status_as(&client, "gone", "/v1/sessions/one", NULL), 200);
    http_client_free(&client);
    daemon_stop(&server);
    move_stop_next();
}

/* A key without sessions:all moves nothing for others, a wrong one nothing at all. */
TEST_WITH(wrong_keys, fixture_make_directory, move_clear)
{
    static const struct key_line KEYS[] = { { "team-a", "infer,sessions,admin" }, { NULL, NULL } };
    static const struct key_line THERE[] = { { "team-a", "infer,sessions" },
                                             { "mover", "infer,sessions" },
                                             { NULL, NULL } };
    char keys[200], there[200], secret[200];
    snprintf(keys, sizeof keys, "%s", fixture_path("keys"));
    snprintf(there, sizeof there, "%s", fixture_path("there"));
    snprintf(secret, sizeof secret, "%s", fixture_path("secret"));
    key_file_write(keys, KEYS);
    key_file_write(there, THERE);
    move_start_next((const char *const[]){ "--keys", there, NULL });
    static const char *const NAMES[] = { "mover", "nobody" };
    static const char *const SAYS[] = { "403 scope: ", "401 key: " };
    for (int i = 0; i < 2; i++) {
        daemon_directory_write(directory, "secret", key_secret(NAMES[i]),
                               strlen(key_secret(NAMES[i])));
        fixture_serve("--keys", keys, "--move-to", next_url, "--move-key", secret);
        assert_int_equal(
            status_as(&client, "team-a", "/v1/sessions", JSON({"model":"sdpa","id":"one"})), 201);
        struct http_response response =
            send_as(&client, "team-a", "POST", "/v1/sessions:drain", JSON({}));
        assert_int_equal(response.status, 200);
        assert_non_null(strstr(response.body, "\"moved\":0,\"stay\":1"));
        assert_non_null(strstr(response.body, SAYS[i]));
        http_response_free(&response);
        assert_int_equal(status_as(&client, "team-a", "/v1/sessions/one", NULL), 200);
        http_client_free(&client);
        daemon_stop(&server);
    }
    move_stop_next();
}

/* ------------------------------------------------------------------------- by request -- */

TEST(drain)
{
    char body[100];
    move_start_next(NULL);
    fixture_serve("--models", "examples/models", "--move-to", next_url);
    move_make("one", "", 3);
    snprintf(body, sizeof body, JSON({"to":"%s"}), next_url);
    cJSON *answer = answer_post(&client, "/v1/sessions:drain", body);
    answer_expect(answer, "moved", "1", 0);
    answer_expect(answer, "stay", "0", 0);
    const cJSON *to = cJSON_GetObjectItem(answer, "to")->child;
    assert_string_equal(cJSON_GetObjectItem(to, "url")->valuestring, next_url);
    answer_expect(to, "replica", "\"next\"", 0);
    answer_expect(to, "moved", "1", 0);
    cJSON_Delete(answer);
    expect_moved("/v1/sessions/one", NULL);
    move_make("one", "", 5); /* the id is free here, and means this session now */
    assert_true(session_number(&client, "one", "kv_len") == 5);
    session_delete(&client, "one", 204);
    session_get(&client, "one", 410);
    answer_refused(&client, "/v1/sessions:drain",
                   JSON({"to":"http://elsewhere"}), 400, "option", "/to");
    answer_refused(&client, "/v1/sessions:drain", JSON({"to":1}), 400, "type", "/to");
    answer_refused(&client, "/v1/sessions:drain", JSON({"from":"a"}), 400, "field", NULL);
    http_client_free(&client);
    daemon_stop(&server);
    fixture_serve("--workers", "1");
    answer_refused(&client, "/v1/sessions:drain", "{}", 403, "forbidden", NULL);
    http_client_free(&client);
    daemon_stop(&server);
    move_stop_next();
}

EACH_TEST(NULL, move_clear);
