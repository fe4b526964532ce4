/* SPDX-License-Identifier: Apache-2.0 */
/* test_sessions_moved_faults.c - --move-to URL where something is wrong: what is not taken stays,
 * is said and is saved; by TLS, and in the sandbox; and kill -9 of either side in the middle.
 */
#include "answer.h"
#include "fill.h"
#include "fixture.h"
#include "move_daemons.h"
#include "sandbox_state.h"
#include "session_client.h"
#include "stub_collector.h"
#include "test.h"
#include "tls_daemon.h"

#include <signal.h>

/* ------------------------------------------------------------------ what is not taken -- */

/* Two sessions stay, are said to stay for this reason, and the next start has them again. */
static void expect_stay(const char *url, const char *reason, const char *ca)
{
    fixture_serve("--session-save", directory, "--move-to", url, "--drain-max", "3s",
                  ca ? "--move-ca" : NULL, ca);
    move_make("one", "", 100);
    move_make("two", "", 200);
    cJSON *before = move_look(&client, "two");
    kill(server.pid, SIGTERM);
    move_wait(0, 2);
    free(daemon_log_with(&server, url));
    free(daemon_log_with(&server, reason));
    free(daemon_log_with(&server, "session stays session=two"));
    http_client_free(&client);
    daemon_stop(&server);
    fixture_serve("--session-save", directory);
    cJSON *after = move_look(&client, "two");
    session_expect_same(after, before);
    cJSON_Delete(after);
    cJSON_Delete(before);
    session_delete(&client, "one", 204);
    session_delete(&client, "two", 204);
    http_client_free(&client);
    daemon_stop(&server);
}

TEST_WITH(nobody_there, fixture_make_directory, move_clear)
{
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%d", daemon_free_port());
    expect_stay(url, "connect: Connection refused", NULL);
    expect_stay("http://127.0.0.1.invalid:1", "resolve: ", NULL);
}

TEST_WITH(odd_targets, fixture_make_directory, move_clear)
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
        expect_stay(url, TARGETS[i].reason, NULL);
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
        move_make("one", "", 100);
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

TEST_WITH(full_target, fixture_make_directory, move_clear)
{
    move_start_next((const char *const[]){ "--session-memory-max", "1KiB", NULL });
    fixture_serve("--move-to", next_url, "--session-save", directory);
    move_make("one", "", 500);
    kill(server.pid, SIGTERM);
    move_wait(0, 1);
    free(daemon_log_with(&server, "413 too_large"));
    http_client_free(&client);
    daemon_stop(&server);
    assert_int_equal(daemon_directory_count(directory), 1);
    move_stop_next();
}

/* ------------------------------------------------------------------------ TLS, sandbox -- */

/* Sessions move to next from a server with these arguments, with equal bits. */
static void expect_move(const char *const *arguments)
{
    cJSON *before[2];
    static const char *const IDS[] = { "a", "q" };
    daemon_start(&server, &(struct daemon_options){ .arguments = arguments });
    http_client_init(&client, server.port);
    move_make("a", "", 300);
    move_make("q", ",\"dtype\":\"int8\"", 300);
    for (int i = 0; i < 2; i++)
        before[i] = move_look(&client, IDS[i]);
    kill(server.pid, SIGTERM);
    move_wait(2, 0);
    for (int i = 0; i < 2; i++) {
        cJSON *after = move_look(&second, IDS[i]);
        session_expect_same(after, before[i]);
        session_get(&client, IDS[i], 307);
        session_delete(&second, IDS[i], 204);
        cJSON_Delete(after);
        cJSON_Delete(before[i]);
    }
    http_client_free(&client);
    daemon_kill(&server);
}

/* Makes files of two certificates, and starts next with the one that ca is of. */
static void start_next_with_tls(char ca[200], char other[200])
{
    tls_files_make_server(directory, "server", TLS_FILES_EC);
    tls_files_make_server(directory, "other", TLS_FILES_EC);
    snprintf(ca, 200, "%s", fixture_path("server.pem"));
    snprintf(other, 200, "%s", fixture_path("other.pem"));
    tls_daemon_start_at(&next, &second, (const char *const[]){ "--replica", "next", NULL });
}

TEST_WITH(by_tls, fixture_make_directory, move_clear)
{
    char ca[200], other[200], url[64];
    tls_files_need();
    start_next_with_tls(ca, other);
    snprintf(url, sizeof url, "https://127.0.0.1:%d", next.port);
    expect_move(
        (const char *const[]){ "--move-to", url, "--move-ca", ca, "--drain-delay", "60s", NULL });
    expect_stay(url, "TLS: The certificate is NOT trusted", other);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", next.port);
    expect_stay(url, "/readyz answered 400", NULL);
    move_stop_next();
}

TEST_WITH(in_the_sandbox, fixture_make_directory, move_clear)
{
    char ca[200], other[200], url[64];
    sandbox_skip_unless(false);
    tls_files_need();
    move_start_next(NULL);
    expect_move(
        (const char *const[]){ "--sandbox", "--move-to", next_url, "--drain-delay", "60s", NULL });
    move_stop_next();
    start_next_with_tls(ca, other);
    snprintf(url, sizeof url, "https://localhost:%d", next.port);
    expect_move((const char *const[]){ "--sandbox", "--move-to", url, "--move-ca", ca,
                                       "--drain-delay", "60s", NULL });
    move_stop_next();
}

/* ------------------------------------------------------------------------------ kill -9 -- */

enum { KILLED = 24, BASE_ROWS = 2500, SERVER_KILLS = 6, TARGET_KILLS = 5 };

struct killed {
    struct fill random;
    char saved[200], run[200]; /* folders of --session-save: as it was, and in use */
    cJSON *whole[KILLED];      /* answers of the sessions before any of them moved */
};

static void copy_saved(const struct killed *killed)
{
    char command[700];
    snprintf(command, sizeof command, "rm -rf '%s' && cp -r '%s' '%s'", killed->run, killed->saved,
             killed->run);
    assert_int_equal(system(command), 0);
}

/* Saves sessions of half a megabyte, each with a row of its own. */
static void begin_kills(struct killed *killed, uint64_t seed)
{
    char body[40];
    killed->random = (struct fill){ seed };
    daemon_directory_write(directory, "saved/.keep", "", 0);
    snprintf(killed->saved, sizeof killed->saved, "%s", fixture_path("saved"));
    snprintf(killed->run, sizeof killed->run, "%s", fixture_path("run"));
    fixture_serve("--session-save", killed->saved);
    move_make("base", "", BASE_ROWS);
    for (int i = 1; i < 4; i++)
        cJSON_Delete(move_post_rows(&client, "base", 10 + (uint64_t)i, BASE_ROWS, true));
    for (int i = 0; i < KILLED; i++) {
        char id[16];
        snprintf(id, sizeof id, "s%d", i);
        snprintf(body, sizeof body, JSON({"id":"%s"}), id);
        cJSON_Delete(session_post(&client, "base", "fork", body, 201));
        cJSON_Delete(move_post_rows(&client, id, 100 + (uint64_t)i, 1, true));
        killed->whole[i] = move_look(&client, id);
    }
    session_delete(&client, "base", 204);
    http_client_free(&client);
    daemon_stop(&server);
}

/* Begins a drain of all of them to next, and kills one of both as soon as next has some. */
static void kill_in_the_middle(struct killed *killed, struct daemon *victim)
{
    const int some = (int)fill_below(&killed->random, KILLED);
    const double moment = 0.001 * (double)fill_below(&killed->random, 4);
    const double until = daemon_now() + 20 * daemon_slowness();
    copy_saved(killed);
    fixture_serve("--session-save", killed->run, "--move-to", next_url, "--drain-delay", "60s");
    kill(server.pid, SIGTERM);
    while (move_count(&second) < some)
        if (daemon_now() > until)
            fail_msg("%d of %d sessions did not move", some, KILLED);
    daemon_pause(moment);
    daemon_kill(victim);
}

/* Whether the session is there; then it is whole. */
static bool is_whole(struct killed *killed, struct http_client *at, int number, long else_status)
{
    char path[32];
    snprintf(path, sizeof path, "/v1/sessions/s%d", number);
    struct http_response response = http_client_get(at, path);
    const long status = response.status;
    http_response_free(&response);
    if (status == else_status)
        return false;
    assert_int_equal(status, 200);
    cJSON *answer = move_look(at, path + strlen("/v1/sessions/"));
    session_expect_same(answer, killed->whole[number]);
    cJSON_Delete(answer);
    return true;
}

static void end_kills(struct killed *killed)
{
    for (int i = 0; i < KILLED; i++)
        cJSON_Delete(killed->whole[i]);
}

/* What was saved is whole here after the next start, or there, or at both; and a second drain
 * brings the rest there. */
TEST_WITH(the_server_is_killed, fixture_make_directory, move_clear)
{
    struct killed killed;
    begin_kills(&killed, 1);
    for (int round = 0; round < SERVER_KILLS; round++) {
        int here = 0;
        move_start_next(NULL);
        kill_in_the_middle(&killed, &server);
        http_client_free(&client);
        fixture_serve("--session-save", killed.run, "--move-to", next_url, "--drain-delay", "60s");
        for (int i = 0; i < KILLED; i++) {
            const bool is_here = is_whole(&killed, &client, i, 404);
            if (!is_here && !is_whole(&killed, &second, i, 404))
                fail_msg("s%d is lost", i);
            here += is_here;
        }
        cJSON *answer = answer_post(&client, "/v1/sessions:drain", "{}");
        assert_int_equal(cJSON_GetObjectItem(answer, "moved")->valueint, here);
        cJSON_Delete(answer);
        for (int i = 0; i < KILLED; i++)
            assert_true(is_whole(&killed, &second, i, 404));
        http_client_free(&client);
        daemon_kill(&server);
        move_stop_next();
    }
    end_kills(&killed);
}

/* What next had not taken stays whole, and is so still after a kill -9 of this daemon, too. */
TEST_WITH(the_target_is_killed, fixture_make_directory, move_clear)
{
    struct killed killed;
    begin_kills(&killed, 2);
    for (int round = 0; round < TARGET_KILLS; round++) {
        bool stays[KILLED];
        int moved = 0;
        move_start_next(NULL);
        kill_in_the_middle(&killed, &next);
        http_client_free(&second);
        free(daemon_log_with(&server, "sessions moved count="));
        for (int i = 0; i < KILLED; i++) {
            stays[i] = is_whole(&killed, &client, i, 307);
            moved += !stays[i];
        }
        move_wait(moved, KILLED - moved);
        http_client_free(&client);
        daemon_kill(&server);
        fixture_serve("--session-save", killed.run);
        for (int i = 0; i < KILLED; i++)
            assert_int_equal(is_whole(&killed, &client, i, 404), stays[i]);
        http_client_free(&client);
        daemon_kill(&server);
    }
    end_kills(&killed);
}

EACH_TEST(NULL, move_clear);
