/* SPDX-License-Identifier: Apache-2.0 */
/* test_storage.c - the models' directory as a client sees it. The daemon tells a client where in
 * this directory a file is and why it could not read or write it. It never tells where the
 * directory is on the machine. */
#include "answer.h"
#include "fixture.h"
#include "model_client.h"
#include "request_text.h"
#include "test.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const char SMALL[] = "{\"config\":{\"head_dim\":8},\"parameters\":{}}";

static void start(void)
{
    fixture_serve("--workers", "1", "--models", directory, "--model-control", "explicit");
}

static void stop(void)
{
    http_client_free(&client);
    daemon_stop(&server);
}

static struct http_response send_to(const char *method, const char *path, const char *body)
{
    return http_client_send(&client,
                            &(struct http_request){ .method = method, .path = path, .body = body });
}

static void put_small(const char *name)
{
    struct http_response response = model_put_json(&client, name, SMALL);
    assert_true(response.status == 200 || response.status == 201);
    http_response_free(&response);
}

/* Checks that the answer, whatever it is, does not have the directory in it, and that it has words
 * if words is not NULL. */
static void expect_no_path(const char *method, const char *path, const char *body,
                           const char *words)
{
    struct http_response response = send_to(method, path, body);
    if (strstr(response.body, directory) || (words && !strstr(response.body, words)))
        fail_msg("%s %s: %s", method, path, response.body);
    http_response_free(&response);
}

static void write_text(const char *name, const char *text)
{
    daemon_directory_write(directory, name, text, strlen(text));
}

static void link_to(const char *target, const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_int_equal(symlink(target, path), 0);
}

TEST(no_path_of_the_machine)
{
    static const char index[] = JSON({"weight_map":{"q_proj.weight":"model-2.safetensors"}});
    directory = daemon_directory_create();
    write_text("broken.safetensors", "no tensors");
    write_text("empty.safetensors", "");
    write_text("other-00001-of-00002.gguf", "GGUF");
    write_text("config-alone/config.json", "{");
    write_text("config-alone/model.safetensors", "x");
    write_text("sharded/config.json", "{}");
    write_text("sharded/model.safetensors.index.json", index);
    write_text("unlisted/config.json", "{}");
    write_text("unlisted/model.safetensors.index.json", "{}");
    link_to("/etc/hostname", "outside.safetensors");
    link_to("/nowhere/else", "dangling.safetensors");
    start();
    put_small("mine");
    static const char *const names[] = { "broken",  "empty",    "other",   "config-alone",
                                         "sharded", "unlisted", "outside", "dangling",
                                         "mine",    "demo" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[256];
        snprintf(path, sizeof path, "/v1/models/%s", names[i]);
        expect_no_path("GET", path, NULL, NULL);
        snprintf(path, sizeof path, "/v2/models/%s/config", names[i]);
        expect_no_path("GET", path, NULL, NULL);
        snprintf(path, sizeof path, "/v2/models/%s/ready", names[i]);
        expect_no_path("GET", path, NULL, NULL);
        snprintf(path, sizeof path, "/v2/repository/models/%s/load", names[i]);
        expect_no_path("POST", path, "{}", NULL);
    }
    expect_no_path("GET", "/v1/models", NULL, JSON("source":"sharded"));
    expect_no_path("GET", "/v1/models/mine", NULL, JSON("source":"mine.safetensors"));
    expect_no_path("GET", "/v1/models/broken", NULL, JSON("source":"broken.safetensors"));
    expect_no_path("GET", "/v1/models/sharded", NULL, "'sharded/model-2.safetensors'");
    expect_no_path("GET", "/v1/models/outside", NULL, "'outside.safetensors' leads out");
    expect_no_path("DELETE", "/v1/models/other", NULL, "'other-00001-of-00002.gguf'");
    expect_no_path("POST", "/v2/repository/index", "{}", "'empty.safetensors' is empty");
    stop();
}

/* The daemon's files may have at most 64 KiB, which acts like a full disk. */
TEST(no_space)
{
    struct rlimit before, limit;
    directory = daemon_directory_create();
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 65536;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    start();
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    struct request_text text = { 0 };
    request_text_add(&text, "{\"config\":{},\"parameters\":{\"q_proj.weight\":");
    request_text_random(&text, 1, 200, 200);
    request_text_add(&text, ",\"k_proj.weight\":");
    request_text_random(&text, 2, 200, 200);
    request_text_add(&text, "}}");
    for (int i = 0; i < 2; i++) {
        struct http_response response = model_put_json(&client, "large", text.data);
        answer_expect_fault(&response, 507, "storage", "");
        assert_null(strstr(response.body, directory));
        http_response_free(&response);
        assert_int_equal(daemon_directory_count(directory), i);
        put_small("small");
    }
    free(text.data);
    stop();
}

TEST(directory_that_is_gone)
{
    directory = daemon_directory_create();
    start();
    assert_int_equal(rmdir(directory), 0);
    struct http_response response = model_put_json(&client, "mine", SMALL);
    answer_expect_fault(&response, 507, "storage", "");
    assert_null(strstr(response.body, directory));
    assert_non_null(strstr(response.body, "the models' directory: No such file"));
    http_response_free(&response);
    stop();
}

EACH_TEST(NULL, fixture_clear);
