/* SPDX-License-Identifier: Apache-2.0 */
/* test_spread_faults.c - peers that are dead, silent, full or refuse, and a front that dies: who
 * fails is named, in time; nothing hangs; what is there stays right; no session is left at a peer.
 */
#include "answer.h"
#include "key_file.h"
#include "sandbox_state.h"
#include "session_client.h"
#include "spread_daemons.h"
#include "test.h"
#include "tls_daemon.h"

#include <signal.h>

#define ROWS "\"key\":[[1],[2],[3],[4]],\"value\":[[1],[2],[3],[4]]"
#define ASK  "{\"query\":[[1]],\"outputs\":[\"context\",\"lse\"]}"

static void begin(const char *const *a, const char *const *b, const char *const *front)
{
    directory = daemon_directory_create();
    spread_start_peers(a, b);
    spread_write_peers(NULL, NULL);
    spread_start_front(front);
}

/* A session of four rows, two at each peer. On a machine that is busy a peer may be too late to say
 * how much memory it has, and gets none; then it is made anew. */
static void make(void)
{
    enum { TRIES = 20 };
    for (int i = 0; i < TRIES; i++) {
        session_make(&client, JSON({"model":"sdpa","id":"x","spread":true,"spread_rows":2}));
        cJSON_Delete(session_post(&client, "x", "attention", "{" ROWS "}", 200));
        if (spread_count(0) > 0 && spread_count(1) > 0)
            return;
        session_delete(&client, "x", 204);
        spread_wait_until_empty();
    }
    fail_msg("in %d tries no session had rows at both peers", TRIES);
}

static struct http_response ask_within(const char *timeout_ms)
{
    char header[64];
    snprintf(header, sizeof header, "X-Timeout-Ms: %s", timeout_ms);
    const char *const headers[] = { "Content-Type: application/json", header, NULL };
    return http_client_send(&client, &(struct http_request){ .path = "/v1/sessions/x/attention",
                                                             .body = ASK,
                                                             .headers = headers });
}

static int stop_all(void **state)
{
    for (int i = 0; i < SPREAD_PEERS; i++)
        if (peers[i].pid)
            kill(peers[i].pid, SIGCONT);
    return spread_stop(state);
}

static void kill_peer(int peer)
{
    http_client_free(&peer_clients[peer]);
    daemon_kill(&peers[peer]);
}

TEST(a_dead_peer_is_named)
{
    begin(NULL, NULL, NULL);
    make();
    kill_peer(1);
    for (int i = 0; i < 3; i++) {
        struct http_response response = ask_within("20000");
        spread_expect_lost(&response, "peer 'b' (http://127.0.0.1:");
        assert_non_null(strstr(response.body, "2 of the 4 positions of session 'x' lie there"));
        http_response_free(&response);
    }
    /* What the window leaves lies at the other one. */
    cJSON *shown = answer_get(&client, "/v1/sessions/x");
    const cJSON *last = cJSON_GetArrayItem(cJSON_GetObjectItem(shown, "ranges"), 0);
    const bool is_first = strcmp(cJSON_GetObjectItem(last, "peer")->valuestring, "a") == 0;
    cJSON_Delete(shown);
    cJSON_Delete(session_post(&client, "x", "attention",
                              is_first ? "{\"query\":[[1]],\"causal\":true,\"past_len\":0,"
                                         "\"outputs\":[\"context\"]}"
                                       : "{\"query\":[[1]],\"window_left\":0,"
                                         "\"past_len\":3,\"outputs\":[\"context\"]}",
                              200));
    session_delete(&client, "x", 204);
}

/* The peer is stopped when the call comes, and killed while it waits: the fault comes long before
 * the deadline. */
TEST(a_peer_that_is_killed_in_the_middle)
{
    struct http_background background;
    begin(NULL, NULL, NULL);
    make();
    daemon_freeze(&peers[0]);
    http_background_start(
        &background, server.port,
        &(struct http_request){ .path = "/v1/sessions/x/attention", .body = ASK });
    answer_wait_for_active(&client, 1);
    daemon_pause(0.1);
    kill_peer(0);
    struct http_response response = http_background_join(&background);
    spread_expect_lost(&response, "peer 'a'");
    http_response_free(&response);
}

TEST(a_silent_peer_is_named_before_the_deadline)
{
    begin(NULL, NULL, NULL);
    make();
    daemon_freeze(&peers[1]);
    struct http_response response = ask_within("8000");
    spread_expect_lost(&response, "peer 'b'");
    http_response_free(&response);
    kill(peers[1].pid, SIGCONT);
    cJSON_Delete(session_post(&client, "x", "attention", ASK, 200));
}

/* Rows that came to a part of the peers do not count, whether they are sent again or others are. */
TEST(an_append_that_failed_is_none)
{
    begin(NULL, NULL, NULL);
    session_make(&client, JSON({"model":"sdpa","id":"whole"}));
    cJSON_Delete(session_post(&client, "whole", "attention", "{" ROWS "}", 200));
    make();
    for (int i = 0; i < SPREAD_PEERS; i++) {
        daemon_freeze(&peers[i]);
        struct http_response response = http_client_send(
            &client,
            &(struct http_request){
                .path = "/v1/sessions/x/attention",
                .body = JSON({"key":[[8],[8],[8]],"value":[[8],[8],[8]],"query":[[1]]}),
                                                            .headers = (const char *const[]){
                                                                "Content-Type: application/json",
                                                                "X-Timeout-Ms: 700", NULL } });
        assert_true(response.status == 503 || response.status == 504);
        http_response_free(&response);
        kill(peers[i].pid, SIGCONT);
    }
    const char *call = JSON({"key":[[5],[6],[7]],"value":[[5],[6],[7]],"query":[[0.5]],"at":4,
                             "outputs":["context"]});
    cJSON *whole = session_post(&client, "whole", "attention", call, 200);
    for (int i = 0; i < 2; i++) { /* the second is a retry */
        cJSON *spread = session_post(&client, "x", "attention", call, 200);
        char *want = cJSON_PrintUnformatted(cJSON_GetObjectItem(whole, "context"));
        answer_expect(spread, "context", want, 1e-5);
        assert_int_equal(cJSON_GetObjectItem(spread, "kv_len")->valueint, 7);
        free(want);
        cJSON_Delete(spread);
    }
    cJSON_Delete(whole);
}

/* One worker, and a call that waits for a silent peer: other calls are computed meanwhile. A client
 * that leaves ends its call. */
TEST(waiting_holds_no_worker)
{
    struct http_background background;
    begin(NULL, NULL, (const char *const[]){ "--workers", "1", NULL });
    make();
    daemon_freeze(&peers[1]);
    http_background_start(&background, server.port,
                          &(struct http_request){ .path = "/v1/sessions/x/attention",
                                                  .body = ASK,
                                                  .timeout_seconds = 1 });
    answer_wait_for_active(&client, 1);
    for (int i = 0; i < 20; i++)
        cJSON_Delete(
            answer_post(&client, "/v1/attention", JSON({"model":"demo","query":[[1,0,0]]})));
    struct http_response response = http_background_join(&background);
    assert_int_equal(response.status, 0);
    http_response_free(&response);
    answer_wait_for_active(&client, 0);
    kill(peers[1].pid, SIGCONT);
    cJSON_Delete(session_post(&client, "x", "attention", ASK, 200));
}

/* Renewals of its parts keep all lines to the silent peer: rows go to the other one all the same.
 */
TEST(a_silent_peer_does_not_keep_rows_from_the_other)
{
    begin(NULL, NULL, (const char *const[]){ "--peer-ttl", "4s", NULL });
    session_make(&client, JSON({"model":"sdpa","id":"x","spread":true,"spread_rows":1}));
    for (int i = 0; i < 8; i++)
        cJSON_Delete(session_post(&client, "x", "attention", "{" ROWS "}", 200));
    daemon_freeze(&peers[1]);
    daemon_pause(2.5); /* they are renewed each second */
    session_make(&client, JSON({"model":"sdpa","id":"y","spread":true}));
    struct http_response response = http_client_send(
        &client,
        &(struct http_request){ .path = "/v1/sessions/y/attention",
                                .body = "{" ROWS "}",
                                .headers = (const char *const[]){ "Content-Type: application/json",
                                                                  "X-Timeout-Ms: 5000", NULL } });
    assert_int_equal(response.status, 200);
    assert_non_null(strstr(response.body, "\"peer\":\"a\""));
    http_response_free(&response);
    response = ask_within("1500");
    spread_expect_lost(&response, "peer 'b'");
    http_response_free(&response);
}

TEST(a_full_peer_leaves_rows_to_the_other)
{
    begin((const char *const[]){ "--session-memory-max", "40KiB", NULL }, NULL, NULL);
    session_make(&client, JSON({"model":"sdpa","id":"x","spread":true,"spread_rows":64}));
    char body[8192];
    for (int call = 0; call < 12; call++) {
        size_t used = 0;
        for (int side = 0; side < 2; side++) {
            used += (size_t)snprintf(body + used, sizeof body - used, "%s\"%s\":[",
                                     side ? "," : "{", side ? "value" : "key");
            for (int i = 0; i < 64; i++)
                used += (size_t)snprintf(body + used, sizeof body - used, "%s[1,2,3,4,5,6,7,8]",
                                         i > 0 ? "," : "");
            used += (size_t)snprintf(body + used, sizeof body - used, "]");
        }
        snprintf(body + used, sizeof body - used, "}");
        cJSON_Delete(session_post(&client, "x", "attention", body, 200));
    }
    assert_int_equal(session_number(&client, "x", "kv_len"), 12 * 64);
    cJSON *answer = session_post(&client, "x", "attention",
                                 JSON({"query":[[0,0,0,0,0,0,0,0]],"outputs":["context"]}), 200);
    answer_expect(answer, "context", "[[1,2,3,4,5,6,7,8]]", 1e-6);
    cJSON_Delete(answer);
}

TEST(no_room_anywhere)
{
    static const char *const LITTLE[] = { "--session-memory-max", "8KiB", NULL };
    begin(LITTLE, LITTLE, NULL);
    session_make(&client, JSON({"model":"sdpa","id":"x","spread":true,"spread_rows":4}));
    long status = 200;
    for (int i = 0; i < 200 && status == 200; i++) {
        struct http_response response =
            http_client_post(&client, "/v1/sessions/x/attention", "{" ROWS "}");
        status = response.status;
        if (status != 200)
            spread_expect_lost(&response, "no peer has room for ");
        http_response_free(&response);
    }
    assert_int_equal(status, 503);
    cJSON_Delete(session_post(&client, "x", "attention", ASK, 200));
}

TEST(a_key_that_a_peer_refuses)
{
    directory = daemon_directory_create();
    const struct key_line lines[] = { { "front", "infer,sessions" }, { NULL } };
    key_file_write(fixture_path("keys"), lines);
    char keys[256];
    snprintf(keys, sizeof keys, "%s", fixture_path("keys"));
    const char *const with_keys[] = { "--keys", keys, NULL };
    spread_start_peers(with_keys, with_keys);
    spread_write_peers(key_secret("front"), "not-a-key");
    spread_start_front(NULL);
    session_make(&client, JSON({"model":"sdpa","id":"x","spread":true}));
    struct http_response response =
        http_client_post(&client, "/v1/sessions/x/attention", "{" ROWS "}");
    spread_expect_lost(&response, "peer 'b' refuses the key that --peers has for it");
    assert_null(strstr(response.body, "not-a-key"));
    http_response_free(&response);
    http_client_free(&client);
    daemon_stop(&server);
    char secret[128];
    snprintf(secret, sizeof secret, "%s", key_secret("front"));
    spread_write_peers(secret, secret);
    spread_start_front(NULL);
    session_make(&client, JSON({"model":"sdpa","id":"x","spread":true}));
    cJSON_Delete(session_post(&client, "x", "attention", "{" ROWS "}", 200));
}

TEST(parts_outlive_the_front_for_their_ttl_alone)
{
    begin(NULL, NULL, (const char *const[]){ "--peer-ttl", "3s", NULL });
    make();
    daemon_pause(4.5);
    cJSON_Delete(session_post(&client, "x", "attention", ASK, 200)); /* they were renewed */
    http_client_free(&client);
    daemon_kill(&server);
    spread_wait_until_empty();
}

TEST(parts_end_with_the_session_and_with_the_front)
{
    begin(NULL, NULL, NULL);
    make();
    session_delete(&client, "x", 204);
    spread_wait_until_empty();
    make();
    http_client_free(&client);
    daemon_stop(&server);
    assert_int_equal(spread_count(0) + spread_count(1), 0);
}

TEST(a_peer_that_has_lost_its_part)
{
    begin(NULL, NULL, NULL);
    make();
    cJSON *list = answer_get(&peer_clients[0], "/v1/sessions");
    const cJSON *session;
    cJSON_ArrayForEach(session, cJSON_GetObjectItem(list, "sessions"))
        session_delete(&peer_clients[0], cJSON_GetObjectItem(session, "session")->valuestring, 204);
    cJSON_Delete(list);
    struct http_response response = http_client_post(&client, "/v1/sessions/x/attention", ASK);
    spread_expect_lost(&response, "peer 'a' says gone");
    assert_non_null(strstr(response.body, "positions "));
    http_response_free(&response);
}

/* Both spread over each other: each part is a session that is not spread. One that names itself is
 * refused. */
TEST(no_loops)
{
    directory = daemon_directory_create();
    char port[16], file[256], text[256];
    const int number = daemon_free_port();
    snprintf(port, sizeof port, "127.0.0.1:%d", number);
    const int size = snprintf(text, sizeof text,
                              "{\"peers\":[{\"name\":\"self\",\"url\":\"http://%s\"}]}", port);
    daemon_directory_write(directory, "peers", text, (size_t)size);
    snprintf(file, sizeof file, "%s", fixture_path("peers"));
    daemon_start(&server,
                 &(struct daemon_options){
                     .arguments = (const char *const[]){ "--listen", port, "--peers", file, NULL },
                     .listen_count = 1 });
    http_client_init(&client, server.port);
    session_make(&client, JSON({"model":"sdpa","id":"x","spread":true}));
    struct http_response response =
        http_client_post(&client, "/v1/sessions/x/attention", "{" ROWS "}");
    spread_expect_lost(&response, "it cannot be its own peer");
    http_response_free(&response);
}

TEST(files_of_peers_that_are_wrong)
{
    static const char *const TEXTS[][2] = {
        { "{", "expected" },
        { "{\"peers\":[]}", "expected 1 to 16" },
        { "{\"peers\":[{\"name\":\"a\"}]}", "url" },
        { "{\"peers\":[{\"name\":\"a\",\"url\":\"ftp://x\"}]}", "url" },
        { "{\"peers\":[{\"name\":\"a\",\"url\":\"http://x\",\"ca\":\"y\"}]}", "https" },
        { "{\"peers\":[{\"name\":\"a\",\"url\":\"https://x\",\"ca\":\"/nowhere\"}]}", "/nowhere" },
    };
    directory = daemon_directory_create();
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        daemon_directory_write(directory, "peers", TEXTS[i][0], strlen(TEXTS[i][0]));
        struct daemon_result result = daemon_command(
            (const char *const[]){ "--peers", fixture_path("peers"), "--check-config", NULL },
            NULL);
        if (result.exit_code != 1 || !strstr(result.errors, TEXTS[i][1]))
            fail_msg("%d, no '%s' in: %s", result.exit_code, TEXTS[i][1], result.errors);
        daemon_result_free(&result);
    }
}

/* ------------------------------------------------------------------------- TLS, sandbox -- */

/* Rows at both peers are seen, as in one session, and go with the session. */
static void expect_spread(void)
{
    session_make(&client, JSON({"model":"sdpa","id":"whole"}));
    cJSON_Delete(session_post(&client, "whole", "attention", "{" ROWS "}", 200));
    cJSON *whole = session_post(&client, "whole", "attention", ASK, 200);
    char *want = cJSON_PrintUnformatted(cJSON_GetObjectItem(whole, "context"));
    make();
    cJSON *spread = session_post(&client, "x", "attention", ASK, 200);
    answer_expect(spread, "context", want, 1e-5);
    session_delete(&client, "x", 204);
    spread_wait_until_empty();
    cJSON_Delete(spread);
    cJSON_Delete(whole);
    free(want);
}

static void start_tls_peers(void)
{
    directory = daemon_directory_create();
    tls_files_make_server(directory, "server", TLS_FILES_EC);
    tls_files_make_server(directory, "other", TLS_FILES_EC);
    for (int i = 0; i < SPREAD_PEERS; i++)
        tls_daemon_start_at(&peers[i], &peer_clients[i], (const char *const[]){ NULL });
}

/* The certificates of the peers must come from that file of directory. */
static void write_tls_peers(const char *host, const char *ca)
{
    char text[1024];
    const int size =
        snprintf(text, sizeof text,
                 "{\"peers\":[{\"name\":\"a\",\"url\":\"https://%s:%d\",\"ca\":\"%s/%s\"},"
                 "{\"name\":\"b\",\"url\":\"https://%s:%d\",\"ca\":\"%s/%s\"}]}",
                 host, peers[0].port, directory, ca, host, peers[1].port, directory, ca);
    assert_true(size < (int)sizeof text);
    daemon_directory_write(directory, "peers", text, (size_t)size);
}

TEST(peers_by_tls)
{
    tls_files_need();
    start_tls_peers();
    write_tls_peers("127.0.0.1", "server.pem");
    spread_start_front(NULL);
    expect_spread();
    http_client_free(&client);
    daemon_stop(&server);
    write_tls_peers("127.0.0.1", "other.pem");
    spread_start_front(NULL);
    session_make(&client, JSON({"model":"sdpa","id":"x","spread":true}));
    struct http_response response =
        http_client_post(&client, "/v1/sessions/x/attention", "{" ROWS "}");
    spread_expect_lost(&response, "TLS: The certificate is NOT trusted");
    http_response_free(&response);
    assert_int_equal(spread_count(0) + spread_count(1), 0);
}

TEST(in_the_sandbox)
{
    sandbox_skip_unless(false);
    begin(NULL, NULL, (const char *const[]){ "--sandbox", NULL });
    expect_spread();
}

TEST(in_the_sandbox_by_tls_and_name)
{
    sandbox_skip_unless(false);
    tls_files_need();
    start_tls_peers();
    write_tls_peers("localhost", "server.pem");
    spread_start_front((const char *const[]){ "--sandbox", NULL });
    expect_spread();
}

EACH_TEST(NULL, stop_all);
