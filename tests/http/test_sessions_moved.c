/* test_sessions_moved.c - --move-to URL: the sessions of a daemon that ends go on at another one,
 * with equal bits, and no append is lost or doubled; what is not taken stays, is said and is saved.
 */
#include "answer.h"
#include "fixture.h"
#include "key_file.h"
#include "request_text.h"
#include "session_client.h"
#include "stub_collector.h"
#include "test.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

/* `server` moves its sessions to `next`; `client` and `second` are clients of them. */
static struct daemon next;
static struct http_client second;
static char next_url[64];

static void start_next(const char *const *more)
{
    const char *arguments[16] = { "--models", "examples/models", "--replica", "next" };
    for (int i = 4; more && (arguments[i] = *more); i++)
        more++;
    daemon_start(&next, &(struct daemon_options){ .arguments = arguments });
    http_client_init(&second, next.port);
    snprintf(next_url, sizeof next_url, "http://127.0.0.1:%d", next.port);
}

static void stop_next(void)
{
    http_client_free(&second);
    daemon_stop(&next);
}

static int clear(void **state)
{
    daemon_kill(&next);
    return fixture_clear(state);
}

static char *rows_text(uint64_t seed, int rows, bool appends, int at)
{
    struct request_text text = { .data = NULL };
    request_text_add(&text, "{\"append\":%s,\"query\":", appends ? "true" : "false");
    request_text_random(&text, seed, 2, 8);
    request_text_add(&text, ",\"key\":");
    request_text_random(&text, seed + 1, rows, 8);
    request_text_add(&text, ",\"value\":");
    request_text_random(&text, seed + 2, rows, 8);
    if (at >= 0)
        request_text_add(&text, ",\"at\":%d", at);
    request_text_add(&text, ",\"outputs\":[\"context\",\"lse\"]}");
    return text.data;
}

static cJSON *post_rows(struct http_client *to, const char *id, uint64_t seed, int rows,
                        bool appends)
{
    char *text = rows_text(seed, rows, appends, -1);
    cJSON *answer = session_post(to, id, "attention", text, 200);
    free(text);
    return answer;
}

/* An answer over all that is there, which changes nothing. */
static cJSON *look(struct http_client *at, const char *id)
{
    return post_rows(at, id, 900, 1, false);
}

static void make(const char *id, const char *settings, int rows)
{
    char body[200];
    snprintf(body, sizeof body, JSON({"model":"sdpa","id":"%s"%s}), id, settings);
    session_make(&client, body);
    if (rows > 0)
        cJSON_Delete(post_rows(&client, id, (uint64_t)rows, rows, true));
}

static double count_at(struct http_client *at)
{
    cJSON *list = answer_get(at, "/v1/sessions");
    const double total = cJSON_GetObjectItem(list, "total")->valuedouble;
    cJSON_Delete(list);
    return total;
}

/* Waits until the daemon has told how many sessions have moved. */
static void wait_for_move(int moved, int stay)
{
    char line[64];
    snprintf(line, sizeof line, "sessions moved count=%d stay=%d", moved, stay);
    free(daemon_log_with(&server, line));
}

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
    make("a", ",\"ttl\":\"1h\"", 300);
    make("b", ",\"dtype\":\"f16\",\"kv_len_max\":5000,\"evictable\":true", 2600);
    make("c", ",\"dtype\":\"bf16\"", 3);
    make("q", ",\"dtype\":\"int8\"", 300);
    make("w", ",\"window\":64,\"first_keys\":4", 1000);
    cJSON_Delete(session_post(&client, "a", "fork", JSON({"id":"fork"}), 201));
    cJSON_Delete(post_rows(&client, "fork", 70, 5, true));
    make("empty", "", 0);
}

TEST(at_the_end)
{
    cJSON *before[ID_COUNT];
    start_next(NULL);
    fixture_serve("--models", "examples/models", "--move-to", next_url, "--drain-delay", "60s");
    make_all();
    for (int i = 0; i < ID_COUNT; i++)
        before[i] = look(&client, IDS[i]);
    kill(server.pid, SIGTERM);
    wait_for_move(ID_COUNT, 0);
    for (int i = 0; i < ID_COUNT; i++) {
        char path[64];
        snprintf(path, sizeof path, "/v1/sessions/%s/attention", IDS[i]);
        expect_moved(path, "{}");
        cJSON *after = look(&second, IDS[i]);
        session_expect_same(after, before[i]);
        cJSON_Delete(after);
        cJSON_Delete(before[i]);
    }
    expect_moved("/v1/sessions/a", NULL);
    expect_moved("/v1/sessions/a?format=safetensors", NULL);
    assert_true(count_at(&client) == 0);
    cJSON *shown = answer_get(&second, "/v1/sessions/b");
    answer_expect(shown, "dtype", "\"f16\"", 0);
    answer_expect(shown, "kv_len_max", "5000", 0);
    answer_expect(shown, "evictable", "true", 0);
    cJSON_Delete(shown);

    /* What is made while the daemon drains moves too, and an id that has moved may be made anew. */
    make("late", "", 0);
    make("a", "", 0);
    free(daemon_log_with(&server, "409 conflict: "));
    free(daemon_log_with(&server, "sessions moved count=1 stay="));
    assert_true(session_number(&second, "late", "kv_len") == 0);
    assert_true(session_number(&second, "a", "kv_len") == 300);
    assert_true(session_number(&client, "a", "kv_len") == 0);
    kill(server.pid, SIGKILL);
    http_client_free(&client);
    daemon_wait(&server, 10);
    stop_next();
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
    start_next(NULL);
    fixture_serve("--models", "examples/models", "--move-to", next_url, "--drain-delay", "60s");
    snprintf(body, sizeof body, BODY, ",\"sequence_start\":true");
    cJSON_Delete(answer_post(&client, "/v2/models/sdpa/infer", body));
    kill(server.pid, SIGTERM);
    wait_for_move(1, 0);
    snprintf(body, sizeof body, BODY, "");
    expect_moved("/v2/models/sdpa/infer", body);
    cJSON_Delete(answer_post(&second, "/v2/models/sdpa/infer", body));
    assert_true(session_number(&second, "sdpa:7", "kv_len") == 2);
    daemon_kill(&server);
    http_client_free(&client);
    stop_next();
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
    char path[64], *text = rows_text(1000 + (uint64_t)appender->done, 1, true, appender->done);
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
    start_next(NULL);
    fixture_serve("--models", "examples/models", "--move-to", next_url, "--drain-delay", "2s");
    for (int i = 0; i < 60; i++) { /* so that the move takes a while */
        char id[16];
        snprintf(id, sizeof id, "other%d", i);
        make(id, "", 200);
    }
    for (int i = 0; i < APPENDERS; i++) {
        appenders[i] = (struct appender){ .number = i, .ready = &ready };
        snprintf(appenders[i].id, sizeof appenders[i].id, "s%d", i);
        make(appenders[i].id, "", 0);
        assert_int_equal(pthread_create(&threads[i], NULL, append_rows, &appenders[i]), 0);
    }
    while (atomic_load(&ready) < APPENDERS)
        daemon_pause(0.01);
    http_client_free(&client);
    daemon_stop(&server); /* with 0 */
    for (int i = 0; i < APPENDERS; i++)
        pthread_join(threads[i], NULL);
    assert_true(count_at(&second) == 60 + APPENDERS);

    /* The same rows in a session that never moved. */
    session_make(&second, JSON({"model":"sdpa","id":"still"}));
    for (int i = 0; i < APPENDS; i++)
        cJSON_Delete(post_rows(&second, "still", 1000 + (uint64_t)i, 1, true));
    cJSON *still = look(&second, "still");
    for (int i = 0; i < APPENDERS; i++) {
        assert_true(session_number(&second, appenders[i].id, "kv_len") == APPENDS);
        cJSON *moved = look(&second, appenders[i].id);
        session_expect_same(moved, still);
        cJSON_Delete(moved);
    }
    cJSON_Delete(still);
    stop_next();
}

/* ------------------------------------------------------------------ what is not taken -- */

/* Two sessions stay, are said to stay for this reason, and the next start has them again. */
static void expect_stay(const char *url, const char *reason)
{
    fixture_serve("--session-save", directory, "--move-to", url, "--drain-max", "3s");
    make("one", "", 100);
    make("two", "", 200);
    cJSON *before = look(&client, "two");
    kill(server.pid, SIGTERM);
    wait_for_move(0, 2);
    free(daemon_log_with(&server, url));
    free(daemon_log_with(&server, reason));
    free(daemon_log_with(&server, "session stays session=two"));
    http_client_free(&client);
    daemon_stop(&server);
    fixture_serve("--session-save", directory);
    cJSON *after = look(&client, "two");
    session_expect_same(after, before);
    cJSON_Delete(after);
    cJSON_Delete(before);
    session_delete(&client, "one", 204);
    session_delete(&client, "two", 204);
    http_client_free(&client);
    daemon_stop(&server);
}

TEST_WITH(nobody_there, fixture_make_directory, clear)
{
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%d", daemon_free_port());
    expect_stay(url, "connect: Connection refused");
    expect_stay("http://127.0.0.1.invalid:1", "resolve: ");
}

TEST_WITH(odd_targets, fixture_make_directory, clear)
{
    static const struct {
        const char *answers[4], *reason;
    } TARGETS[] = {
        { { STUB_SILENT }, "timed out" },
        { { STUB_TAKES, STUB_SILENT }, "timed out" },
        { { STUB_TAKES, STUB_CLOSES }, "session perhaps there too" },
        { { STUB_ENDLESS }, "it is no HTTP/1.1" },
        { { STUB_ANSWER("503 Service Unavailable", "", "0", "") }, "/readyz answered 503" },
        { { STUB_TAKES,
            STUB_ANSWER("401 Unauthorized", "", "27", JSON({"error":"no","code":"key"} )) },
            "401 key: no" },
          { { STUB_TAKES, STUB_ANSWER("429 Too Many Requests", "Retry-After: 3600\r\n", "0", "") },
            "429 " },
          { { STUB_TAKES, STUB_ANSWER("503 Service Unavailable", "", "0", "") }, "503 " },
          { { STUB_TAKES, STUB_TAKES }, "200 : this is not what attnd answers" },
        };
    for (size_t i = 0; i < sizeof TARGETS / sizeof TARGETS[0]; i++) {
        struct stub_collector stub;
        char url[64];
        stub_collector_start(&stub, TARGETS[i].answers);
        snprintf(url, sizeof url, "http://127.0.0.1:%d", stub.port);
        expect_stay(url, TARGETS[i].reason);
        stub_collector_stop(&stub);
    }
}

/* An answer is believed where it says the id, and the length that the session has. */
TEST(what_says_another_length)
{
    static const struct {
        const char *status, *session, *kv_len;
        bool moves;
    } ANSWERS[] = {
        { "201 Created", "one", "null", false }, { "201 Created", "one", "99", false },
        { "201 Created", "one", "101", false },  { "201 Created", "one", "\"100\"", false },
        { "201 Created", "two", "100", false },  { "201 Created", "one", "100", true },
        { "200 OK", "one", "99", false },        { "200 OK", "one", "101", true },
    };
    for (size_t i = 0; i < sizeof ANSWERS / sizeof ANSWERS[0]; i++) {
        struct stub_collector stub;
        char body[64], text[200], url[64];
        snprintf(body, sizeof body,
                 JSON({"session":"%s","kv_len":%s}), ANSWERS[i].session, ANSWERS[i].kv_len);
        snprintf(text, sizeof text, "HTTP/1.1 %s\r\nContent-Length: %zu\r\n\r\n%s",
                 ANSWERS[i].status, strlen(body), body);
        const char *const answers[] = { STUB_TAKES, text, NULL };
        stub_collector_start(&stub, answers);
        snprintf(url, sizeof url, "http://127.0.0.1:%d", stub.port);
        fixture_serve("--move-to", url);
        make("one", "", 100);
        cJSON *answer = answer_post(&client, "/v1/sessions:drain", "{}");
        answer_expect(answer, "moved", ANSWERS[i].moves ? "1" : "0", 0);
        answer_expect(answer, "stay", ANSWERS[i].moves ? "0" : "1", 0);
        cJSON_Delete(answer);
        if (!ANSWERS[i].moves)
            free(daemon_log_with(&server, "this is not what attnd answers"));
        session_get(&client, "one", ANSWERS[i].moves ? 307 : 200);
        http_client_free(&client);
        daemon_kill(&server);
        stub_collector_stop(&stub);
    }
}

TEST_WITH(full_target, fixture_make_directory, clear)
{
    start_next((const char *const[]){ "--session-memory-max", "1KiB", NULL });
    fixture_serve("--move-to", next_url, "--session-save", directory);
    make("one", "", 500);
    kill(server.pid, SIGTERM);
    wait_for_move(0, 1);
    free(daemon_log_with(&server, "413 too_large"));
    http_client_free(&client);
    daemon_stop(&server);
    assert_int_equal(daemon_directory_count(directory), 1);
    stop_next();
}

/* The daemon finds itself in the list, and the targets behind it come first. */
TEST(own_entry)
{
    char own[64];
    const int port = daemon_free_port();
    start_next(NULL);
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
    make("one", "", 3);
    kill(server.pid, SIGTERM);
    wait_for_move(1, 0);
    assert_true(session_number(&second, "one", "kv_len") == 3);
    daemon_kill(&server);
    http_client_free(&client);
    stop_next();
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

TEST_WITH(owners, fixture_make_directory, clear)
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
    start_next((const char *const[]){ "--keys", there, NULL });
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
    stop_next();
}

/* A key without sessions:all moves nothing for others, a wrong one nothing at all. */
TEST_WITH(wrong_keys, fixture_make_directory, clear)
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
    start_next((const char *const[]){ "--keys", there, NULL });
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
    stop_next();
}

/* ------------------------------------------------------------------------- by request -- */

TEST(drain)
{
    char body[100];
    start_next(NULL);
    fixture_serve("--models", "examples/models", "--move-to", next_url);
    make("one", "", 3);
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
    make("one", "", 5); /* the id is free here, and means this session now */
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
    stop_next();
}

EACH_TEST(NULL, clear);
