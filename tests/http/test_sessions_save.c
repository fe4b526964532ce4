/* SPDX-License-Identifier: Apache-2.0 */
/* test_sessions_save.c - --session-save DIR: what the end of a daemon writes, the next start has
 * again, to the bit; and nothing comes back as it was before a change. */
#include "answer.h"
#include "fixture.h"
#include "key_file.h"
#include "request_text.h"
#include "session_bytes.h"
#include "session_client.h"
#include "test.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* The directory of the fixture is that of sessions. */
static void serve(void)
{
    fixture_serve("--models", "examples/models", "--session-save", directory);
}

static void end(int signal_number)
{
    http_client_free(&client);
    if (signal_number == SIGTERM) {
        daemon_stop(&server);
        return;
    }
    daemon_kill(&server);
}

static void start_again(int signal_number)
{
    end(signal_number);
    serve();
}

static char *rows_text(int seed, int rows, bool appends)
{
    struct request_text text = { .data = NULL };
    request_text_add(&text, "{\"append\":%s,\"query\":", appends ? "true" : "false");
    request_text_random(&text, (uint64_t)seed, 2, 8);
    request_text_add(&text, ",\"key\":");
    request_text_random(&text, (uint64_t)seed + 1, rows, 8);
    request_text_add(&text, ",\"value\":");
    request_text_random(&text, (uint64_t)seed + 2, rows, 8);
    request_text_add(&text, ",\"outputs\":[\"context\",\"lse\",\"weights\"]}");
    return text.data;
}

/* An answer over all that is there, which changes nothing. */
static cJSON *look(const char *id)
{
    char *text = rows_text(900, 1, false);
    cJSON *answer = session_post(&client, id, "attention", text, 200);
    free(text);
    return answer;
}

static void append(const char *id, int seed, int rows)
{
    char *text = rows_text(seed, rows, true);
    cJSON_Delete(session_post(&client, id, "attention", text, 200));
    free(text);
}

static void make(const char *id, const char *settings, int rows)
{
    char body[200];
    snprintf(body, sizeof body, JSON({"model":"sdpa","id":"%s"%s}), id, settings);
    session_make(&client, body);
    if (rows > 0)
        append(id, rows, rows);
}

static void delete_all(const char *const *ids)
{
    for (; *ids; ids++)
        session_delete(&client, *ids, 204);
    session_wait_until_empty(&client);
    assert_int_equal(daemon_directory_count(directory), 0);
}

/* ---------------------------------------------------------------------- a restart -- */

TEST(restart)
{
    static const char *const IDS[] = { "a", "b", "c", "fork", "empty", "q", NULL };
    cJSON *before[6], *shown;
    make("a", ",\"dtype\":\"f32\",\"ttl\":\"1h\"", 300);
    make("b", ",\"dtype\":\"f16\",\"kv_len_max\":5000,\"evictable\":true", 2600);
    make("c", ",\"dtype\":\"bf16\"", 3);
    cJSON_Delete(session_post(&client, "a", "fork", JSON({"id":"fork"}), 201));
    append("fork", 70, 5);
    append("a", 80, 6);
    make("empty", "", 0);
    make("q", ",\"dtype\":\"int8\"", 300);
    daemon_pause(0.05);
    for (int i = 0; i < 6; i++)
        before[i] = look(IDS[i]);
    shown = answer_get(&client, "/v1/sessions/b");
    const double age = cJSON_GetObjectItem(shown, "age_ms")->valuedouble;
    cJSON_Delete(shown);
    start_again(SIGTERM);
    for (int i = 0; i < 6; i++) {
        cJSON *after = look(IDS[i]);
        session_expect_same(after, before[i]);
        cJSON_Delete(after);
        cJSON_Delete(before[i]);
    }
    shown = answer_get(&client, "/v1/sessions/b");
    assert_true(cJSON_GetObjectItem(shown, "age_ms")->valuedouble >= age);
    answer_expect(shown, "ttl_ms", "600000", 0);
    answer_expect(shown, "kv_len_max", "5000", 0);
    answer_expect(shown, "evictable", "true", 0);
    cJSON_Delete(shown);
    shown = answer_get(&client, "/v1/sessions");
    const cJSON *session = cJSON_GetObjectItem(shown, "sessions")->child;
    for (int i = 0; i < 6; i++, session = session->next)
        assert_string_equal(cJSON_GetObjectItem(session, "session")->valuestring, IDS[i]);
    cJSON_Delete(shown);
    delete_all(IDS);
}

/* A sequence of the Open Inference Protocol goes on over a restart. */
TEST(sequence)
{
    static const char BODY[] =
        "{\"parameters\":{\"sequence_id\":7%s},\"inputs\":["
        "{\"name\":\"Q\",\"shape\":[1,1,1,2],\"datatype\":\"FP32\",\"data\":[1,0]},"
        "{\"name\":\"K\",\"shape\":[1,1,1,2],\"datatype\":\"FP32\",\"data\":[1,0]},"
        "{\"name\":\"V\",\"shape\":[1,1,1,2],\"datatype\":\"FP32\",\"data\":[1,0]}]}";
    static const char *const FLAGS[] = { ",\"sequence_start\":true", "", ",\"sequence_end\":true" };
    char body[sizeof BODY + 40];
    for (int i = 0; i < 3; i++) {
        snprintf(body, sizeof body, BODY, FLAGS[i]);
        cJSON_Delete(answer_post(&client, "/v2/models/sdpa/infer", body));
        if (i < 2)
            assert_int_equal(session_number(&client, "sdpa:7", "kv_len"), i + 1);
        start_again(SIGTERM);
    }
    session_get(&client, "sdpa:7", 404);
    assert_int_equal(daemon_directory_count(directory), 0);
}

/* Of int8, cut within groups twice: what is appended afterwards finds the same groups and rest. */
TEST(restart_of_int8)
{
    static const char *const IDS[] = { "q", "fork", NULL };
    make("q", ",\"dtype\":\"int8\"", 300);
    cJSON_Delete(session_post(&client, "q", "truncate", JSON({"kv_len":200}), 200));
    append("q", 90, 150);
    cJSON_Delete(session_post(&client, "q", "truncate", JSON({"kv_len":250}), 200));
    append("q", 95, 130);
    cJSON_Delete(session_post(&client, "q", "fork", JSON({"id":"fork"}), 201));
    cJSON *before = look("q");
    append("fork", 96, 170);
    cJSON_Delete(session_post(&client, "fork", "truncate", JSON({"kv_len":500}), 200));
    cJSON *then = look("fork");
    start_again(SIGTERM);
    cJSON *after = look("q");
    session_expect_same(after, before);
    cJSON_Delete(after);
    append("q", 96, 170);
    cJSON_Delete(session_post(&client, "q", "truncate", JSON({"kv_len":500}), 200));
    after = look("q");
    session_expect_same(after, then);
    cJSON_Delete(after);
    after = look("fork");
    session_expect_same(after, then);
    cJSON_Delete(after);
    cJSON_Delete(before);
    cJSON_Delete(then);
    delete_all(IDS);
}

/* The remaining time goes on. */
TEST(time)
{
    make("t", ",\"ttl\":\"3s\"", 1);
    daemon_pause(1);
    start_again(SIGTERM);
    const double left = session_number(&client, "t", "expires_in_ms");
    assert_true(left > 0 && left <= 2000);
    for (int i = 0; i < 200 && daemon_directory_count(directory) > 0; i++)
        daemon_pause(0.05 * daemon_slowness());
    assert_int_equal(daemon_directory_count(directory), 0);
    session_get(&client, "t", 410);
    start_again(SIGKILL);
    session_get(&client, "t", 404);
}

/* A daemon that is killed loses no session that is as it was saved, and brings back none as it was
 * before a change. */
TEST(killed_after_start)
{
    static const char *const IDS[] = { "same", "looked", NULL };
    make("same", "", 10);
    make("looked", "", 10);
    make("more", "", 10);
    make("cut", "", 10);
    make("gone", "", 10);
    cJSON *before = look("looked");
    start_again(SIGTERM);
    start_again(SIGKILL);
    assert_int_equal(daemon_directory_count(directory), 5);
    cJSON *after = look("looked");
    session_expect_same(after, before);
    cJSON_Delete(
        session_post(&client, "same", "truncate", JSON({"kv_len":10}), 200)); /* no change */
    append("more", 5, 1);
    cJSON_Delete(session_post(&client, "cut", "truncate", JSON({"kv_len":3}), 200));
    session_delete(&client, "gone", 204);
    assert_int_equal(daemon_directory_count(directory), 2);
    start_again(SIGKILL);
    session_get(&client, "more", 404);
    session_get(&client, "cut", 404);
    session_get(&client, "gone", 404);
    assert_int_equal(session_number(&client, "same", "kv_len"), 10);
    assert_int_equal(session_number(&client, "looked", "kv_len"), 10);
    /* What changes after a start is saved at the next end. */
    append("same", 77, 4);
    start_again(SIGTERM);
    assert_int_equal(session_number(&client, "same", "kv_len"), 14);
    delete_all(IDS);
    cJSON_Delete(before);
    cJSON_Delete(after);
}

/* ---------------------------------------------------------------- at random moments -- */

enum { SESSIONS = 24, ROWS = 700, ROUNDS = 8 };

static const char *name_of(int number)
{
    static char name[16];
    snprintf(name, sizeof name, "s%d", number);
    return name;
}

/* Ends the daemon with SIGTERM, and with SIGKILL after so long. */
static void end_and_kill(double seconds)
{
    http_client_free(&client);
    assert_int_equal(kill(server.pid, SIGTERM), 0);
    daemon_pause(seconds);
    daemon_kill(&server);
}

/* Each session is there as it was, or not at all; makes those again that are not. */
static int expect_whole(cJSON *const *before)
{
    int there = 0;
    for (int i = 0; i < SESSIONS; i++) {
        char path[40];
        snprintf(path, sizeof path, "/v1/sessions/%s", name_of(i));
        struct http_response response = http_client_get(&client, path);
        const long status = response.status;
        http_response_free(&response);
        if (status != 200) {
            assert_int_equal(status, 404);
            make(name_of(i), "", ROWS + i);
            continue;
        }
        cJSON *after = look(name_of(i));
        session_expect_same(after, before[i]);
        cJSON_Delete(after);
        there++;
    }
    return there;
}

TEST(killed_while_saving)
{
    cJSON *before[SESSIONS];
    for (int i = 0; i < SESSIONS; i++) {
        make(name_of(i), "", ROWS + i);
        before[i] = look(name_of(i));
    }
    for (int round = 0; round < ROUNDS; round++) {
        end_and_kill(0.004 * round * daemon_slowness());
        serve();
        expect_whole(before);
    }
    start_again(SIGTERM);
    assert_int_equal(expect_whole(before), SESSIONS);
    for (int round = 0; round < ROUNDS; round++) { /* while it reads them */
        const char *const arguments[] = { "--models", "examples/models", "--session-save",
                                          directory, NULL };
        end(SIGKILL);
        daemon_start(&server,
                     &(struct daemon_options){ .arguments = arguments, .may_not_be_ready = true });
        daemon_pause(0.003 * round * daemon_slowness());
        daemon_kill(&server);
        serve();
        assert_int_equal(expect_whole(before), SESSIONS);
    }
    for (int i = 0; i < SESSIONS; i++) {
        cJSON_Delete(before[i]);
        session_delete(&client, name_of(i), 204);
    }
    assert_int_equal(daemon_directory_count(directory), 0);
}

/* -------------------------------------------------------------------------- failures -- */

/* A file too large for the limit is as a full disk: the log says what is lost, the status too. */
TEST(no_room)
{
    struct rlimit before;
    end(SIGTERM);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 64 << 10, before.rlim_max }), 0);
    serve();
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    make("small", "", 10);
    make("large", "", 3000);
    http_client_free(&client);
    assert_int_equal(kill(server.pid, SIGTERM), 0);
    char *log = daemon_log_with(&server, "sessions saved");
    assert_non_null(strstr(log, "session lost session=large"));
    assert_non_null(strstr(log, "count=1 lost=1"));
    assert_null(strstr(log, "session=small owner"));
    free(log);
    assert_int_equal(daemon_wait(&server, 30 * daemon_slowness()), 1);
    assert_int_equal(daemon_directory_count(directory), 1);
    daemon_kill(&server);
    serve();
    session_get(&client, "large", 404);
    session_delete(&client, "small", 204);
}

/* A session that has not changed is lost too where its file has vanished. */
TEST(directory_is_gone)
{
    char moved[400];
    make("kept", "", 10);
    start_again(SIGTERM);
    snprintf(moved, sizeof moved, "%s-moved", directory);
    assert_int_equal(rename(directory, moved), 0);
    http_client_free(&client);
    assert_int_equal(kill(server.pid, SIGTERM), 0);
    char *log = daemon_log_with(&server, "sessions saved");
    assert_non_null(strstr(log, "session lost session=kept"));
    assert_non_null(strstr(log, "count=0 lost=1"));
    free(log);
    assert_int_equal(daemon_wait(&server, 30 * daemon_slowness()), 1);
    daemon_kill(&server);
    assert_int_equal(rename(moved, directory), 0);
    serve();
    session_delete(&client, "kept", 204);
}

static void refused_by(const char *check, const char *path, const char *says)
{
    const char *const arguments[] = {
        "--listen", "127.0.0.1:0", "--session-save", path, check, NULL
    };
    struct daemon_result result = daemon_command(arguments, NULL);
    assert_int_equal(result.exit_code, 1);
    if (!strstr(result.errors, says))
        fail_msg("%s does not say '%s'", result.errors, says);
    daemon_result_free(&result);
}

/* The daemon does not start, and --check-config says so. */
static void refused(const char *path, const char *says)
{
    refused_by(NULL, path, says);
    refused_by("--check-config", path, says);
}

/* --check-config is content beside the daemon that has the directory. */
static void accepted_by_check(const char *path)
{
    const char *const arguments[] = { "--listen", "127.0.0.1:0",    "--session-save",
                                      path,       "--check-config", NULL };
    struct daemon_result result = daemon_command(arguments, NULL);
    if (result.exit_code != 0)
        fail_msg("--check-config ends with %d: %s", result.exit_code, result.errors);
    daemon_result_free(&result);
}

TEST(bad_directory)
{
    char path[300];
    refused("/nowhere/at/all", "No such file or directory; expected a directory");
    refused_by(NULL, directory, "another daemon uses the directory");
    accepted_by_check(directory);
    daemon_directory_write(directory, "file", "x", 1);
    snprintf(path, sizeof path, "%s/file", directory);
    refused(path, "Not a directory; expected a directory");
    unlink(path);
    if (geteuid() != 0) {
        snprintf(path, sizeof path, "%s/closed", directory);
        assert_int_equal(mkdir(path, 0500), 0);
        refused(path, "Permission denied; expected a directory");
        rmdir(path);
    }
}

static int start(void **state)
{
    directory = daemon_directory_create();
    serve();
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
