/* SPDX-License-Identifier: Apache-2.0 */
/* test_open_files.c - a limit of open files that is too low for --connections-max.
 *
 * The limit holds for this process too, which is why these tests are a program of their own. */
#include "answer.h"
#include "fixture.h"
#include "shared_region.h"
#include "test.h"

#include <sys/resource.h>
#include <sys/stat.h>

enum { FILES_MAX = 256 };

static const char TYPED[] = "{\"config\":{\"attention\":\"dot\"},\"parameters\":"
                            "{\"q_proj.weight\":[[1]],\"k_proj.weight\":[[2]]}}";

static void start(const char *connections_max)
{
    directory = daemon_directory_create();
    fixture_serve("--workers", "2", "--connections-max", connections_max, "--models", directory,
                  "--model-control", "explicit");
}

static void stop(void)
{
    http_client_free(&client);
    daemon_stop(&server);
}

/* The daemon has as many connections as it may have, and more connections wait. It still has files
 * for its own work. */
TEST(connections_are_held_to_the_limit)
{
    static struct http_raw raw[FILES_MAX];
    start("10000");
    const int most = (int)answer_metric(&client, "attnd_connections_max");
    assert_in_range(most, FILES_MAX / 4, FILES_MAX - 64);
    char *log = daemon_log_with(&server, "fewer connections than --connections-max");
    assert_null(strstr(strstr(log, "fewer connections") + 1, "fewer connections"));
    free(log);
    const int count = most + 20;
    for (int i = 0; i < count; i++)
        http_raw_connect(&raw[i], server.port);
    answer_wait_for_metric(&client, "attnd_connections", most, most);
    struct http_response response = http_client_send(
        &client,
        &(struct http_request){ .method = "PUT", .path = "/v1/models/new", .body = TYPED });
    assert_int_equal(response.status, 201);
    http_response_free(&response);
    assert_true(daemon_descriptor_count(&server) < FILES_MAX);
    for (int i = 0; i < count; i++)
        http_raw_close(&raw[i]);
    log = daemon_log(&server);
    assert_null(strstr(log, "no connection can be taken"));
    free(log);
    stop();
}

TEST(what_fits_is_as_asked_for)
{
    start("50");
    assert_true(answer_metric(&client, "attnd_connections_max") == 50);
    char *log = daemon_log(&server);
    assert_null(strstr(log, "fewer connections"));
    free(log);
    stop();
}

static struct http_response put_named(const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/v1/models/%s", name);
    return http_client_send(&client,
                            &(struct http_request){ .method = "PUT", .path = path, .body = TYPED });
}

static struct http_response put(void)
{
    return put_named("new");
}

/* Opens as many connections as the daemon may have, the client's own among them; each is answered.
 */
static void expect_all_connections(void)
{
    static struct http_raw raw[FILES_MAX];
    const int count = (int)answer_metric(&client, "attnd_connections_max") - 1;
    assert_in_range(count, FILES_MAX / 4, FILES_MAX);
    for (int i = 0; i < count; i++) {
        http_raw_connect(&raw[i], server.port);
        http_raw_send_text(&raw[i], "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n");
        struct http_response response = http_raw_receive(&raw[i], 20);
        assert_int_equal(response.status, 200);
        http_response_free(&response);
    }
    for (int i = 0; i < count; i++)
        http_raw_close(&raw[i]);
}

/* Regions take descriptors until there are none: what then needs a file is 503, and names no path
 * of the daemon's. */
TEST(no_descriptor_is_left)
{
    struct shared_region region;
    struct http_response response;
    char name[16], path[4200];
    struct stat status;
    int count = 0;
    directory = daemon_directory_create();
    fixture_serve("--workers", "2", "--connections-max", "20", "--models", directory,
                  "--model-control", "explicit", "--shared-memory-prefix", SHARED_PREFIX);
    shared_region_make(&region, "files", 64);
    for (long answered = 200; answered == 200; count++) {
        snprintf(name, sizeof name, "r%d", count);
        response = shared_region_send(&client, name, region.key, 0, 8);
        answered = response.status;
        if (answered != 200)
            answer_expect_fault(&response, 503, "memory", NULL);
        http_response_free(&response);
    }
    for (int left = 0; left < 2; left++) { /* none for the file that is saved, one for that alone */
        response = put();
        answer_expect_fault(&response, 503, "memory", "");
        assert_non_null(strstr(response.body, "as many files open as it may"));
        assert_null(strstr(response.body, "attnd-saving"));
        http_response_free(&response);
        snprintf(name, sizeof name, "r%d", left);
        shared_region_unregister(&client, name);
    }
    shared_region_unregister(&client, NULL);
    response = put();
    assert_int_equal(response.status, 201);
    http_response_free(&response);
    snprintf(path, sizeof path, "%s/new.safetensors", directory);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777 & ~0640u, 0);
    shared_region_remove(&region);
    stop();
}

/* More models than descriptors, made by requests and found at a start, take none of those that are
 * kept for connections. */
TEST(models_hold_no_descriptor)
{
    start("10000");
    for (int i = 0; i < FILES_MAX + 20; i++) {
        char name[16];
        snprintf(name, sizeof name, "m%d", i);
        struct http_response response = put_named(name);
        assert_int_equal(response.status, 201);
        http_response_free(&response);
    }
    expect_all_connections();
    stop();
    fixture_serve("--workers", "2", "--connections-max", "10000", "--models", directory);
    expect_all_connections();
    char *log = daemon_log(&server);
    assert_null(strstr(log, "no connection can be taken"));
    free(log);
    stop();
}

EACH_TEST(NULL, fixture_clear);

int main(void)
{
    const struct rlimit limit = { FILES_MAX, FILES_MAX };
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 1;
    return test_run(NULL);
}
