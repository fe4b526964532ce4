/* SPDX-License-Identifier: Apache-2.0 */
/* test_sessions_aside.c - files of --session-save DIR of which no session can be made: they stay,
 * the log says why, and the daemon starts. */
#include "answer.h"
#include "fixture.h"
#include "key_file.h"
#include "session_bytes.h"
#include "session_client.h"
#include "test.h"

static void serve(void)
{
    fixture_serve("--models", "examples/models", "--session-save", directory);
}

static void stop(void)
{
    http_client_free(&client);
    daemon_stop(&server);
}

static void log_says(const char *what)
{
    char *log = daemon_log_with(&server, "sessions restored");
    if (!strstr(log, what))
        fail_msg("the log does not say '%s': %s", what, log);
    free(log);
}

/* A file of a session with this key of metadata changed; value NULL: as it is. */
static void write_file(const char *name, const char *id, const char *key, const char *value,
                       bool seals)
{
    const char *numbers;
    struct session_bytes file = session_bytes_get(&client, id);
    cJSON *header = session_bytes_header(file, &numbers);
    if (value)
        cJSON_ReplaceItemInObjectCaseSensitive(cJSON_GetObjectItem(header, "__metadata__"), key,
                                               cJSON_CreateString(value));
    struct session_bytes other =
        session_bytes_make(header, numbers, (size_t)(file.bytes + file.size - numbers), seals);
    daemon_directory_write(directory, name, other.bytes, other.size);
    session_bytes_free(&other);
    session_bytes_free(&file);
    cJSON_Delete(header);
}

TEST(kept_aside)
{
    session_make(&client, JSON({"model":"sdpa","id":"one"}));
    cJSON_Delete(
        session_post(&client, "one", "attention", "{\"query\":[[1]],\"key\":[[1],[2]]}", 200));
    write_file("session-newer.safetensors", "one", "attnd_session", "2", true);
    cJSON_Delete(session_post(&client, "one", "fork", JSON({"id":"two"}), 201));
    write_file("session-model.safetensors", "two", "model", "nobody", true);
    write_file("session-other.safetensors", "two", "model_sha256", "00", true);
    session_delete(&client, "two", 204);
    write_file("session-id.safetensors", "one", "session", "a/b", true);
    write_file("session-damaged.safetensors", "one", "ttl_ms", "600001", false);
    write_file("session-good.safetensors", "one", NULL, NULL, true);
    daemon_directory_write(directory, "session-empty.safetensors", "", 0);
    daemon_directory_write(directory, "notes.txt", "mine", 4);
    stop(); /* which writes session one again, later than session-good */
    serve();
    log_says("count=1 aside=7");
    log_says("this build reads version 1");
    log_says("nobody");
    log_says("1 to 64");
    log_says("belongs to another model 'sdpa'");
    log_says("the file is damaged");
    log_says("there is a session 'one' already");
    assert_int_equal(session_number(&client, "one", "kv_len"), 2);
    assert_int_equal(daemon_directory_count(directory), 9);
    session_delete(&client, "one", 204); /* with the other file of that id */
    assert_int_equal(daemon_directory_count(directory), 7);
    stop();
    serve();
    log_says("count=0 aside=6");
    session_make(&client, JSON({"model":"sdpa","id":"two"})); /* in place of both files */
    assert_int_equal(daemon_directory_count(directory), 5);
    session_delete(&client, "two", 204);
    stop();
    serve();
    log_says("count=0 aside=4");
    stop();
    daemon_directory_remove(directory);
    directory = daemon_directory_create();
    serve();
}

/* Owners are names of keys: of a name that is not there no session is made. */
TEST(owners)
{
    static const struct key_line BOTH[] = { { "anna", "infer,sessions" },
                                            { "bert", "infer,sessions" },
                                            { NULL, NULL } };
    static const struct key_line ONE[] = { { "anna", "infer,sessions" }, { NULL, NULL } };
    static const struct http_request MAKE = { .path = "/v1/sessions",
                                              .body = "{\"model\":\"sdpa\",\"id\":\"s\"}" };
    static const struct http_request LOOK = { .path = "/v1/sessions/s" };
    char *folder = daemon_directory_create();
    struct daemon own;
    struct http_client to;
    struct http_response response;
    for (int round = 0; round < 3; round++) {
        key_file_write(fixture_path("keys"), round == 1 ? ONE : BOTH);
        daemon_start_with(&own, "--keys", fixture_path("keys"), "--session-save", folder, NULL);
        http_client_init(&to, own.port);
        response = key_expect(&to, "anna", round == 0 ? &MAKE : &LOOK, round == 0 ? 201 : 200);
        http_response_free(&response);
        if (round != 1) {
            response = key_expect(&to, "bert", round == 0 ? &MAKE : &LOOK, round == 0 ? 201 : 200);
            http_response_free(&response);
        } else {
            char *log = daemon_log_with(&own, "session kept aside");
            assert_non_null(strstr(log, "it belongs to 'bert', and no key has this name"));
            free(log);
        }
        assert_int_equal(daemon_directory_count(folder), round == 0 ? 0 : 2);
        http_client_free(&to);
        daemon_stop(&own);
    }
    daemon_directory_remove(folder);
}

static int start(void **state)
{
    directory = daemon_directory_create();
    serve();
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
