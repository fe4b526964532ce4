/* SPDX-License-Identifier: Apache-2.0 */
/* test_sandbox.c - a daemon with --sandbox serves everything: health, metrics, inference, changes
 * of the models by clients and on the disk, keys that are replaced, more workers at SIGHUP, the
 * log, and the drain. What it refuses is in test_sandbox_attempts.c. */
#include "fixture.h"
#include "host/resources.h"
#include "key_file.h"
#include "model_client.h"
#include "sandbox_state.h"
#include "tensor_body.h"
#include "test.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

static void expect_logged(const char *text)
{
    char *log = daemon_log_with(&server, text);
    free(log);
}

static void expect_status(struct http_response response, long status)
{
    if (response.status != status)
        fail_msg("%ld, and not %ld: %s", response.status, status, response.body);
    http_response_free(&response);
}

static void check_metrics(void)
{
    static const char *const NAMES[] = { "\nprocess_cpu_seconds_total ",
                                         "\nprocess_start_time_seconds ", "\nprocess_open_fds ",
                                         "\nprocess_max_fds ", "\nattnd_ready 1\n" };
    struct http_response response = http_client_get(&client, "/metrics");
    assert_int_equal(response.status, 200);
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        assert_non_null(strstr(response.body, NAMES[i]));
    http_response_free(&response);
}

static void check_bytes(void)
{
    static const char BODY[] = "{\"model\":\"demo\",\"query\":" MODEL_BYTES_WORDS "}";
    const double expected[] = MODEL_BYTES_CONTEXT;
    struct http_response response = tensor_body_post_json(&client, "/v1/attention", BODY);
    cJSON *header = tensor_body_header(&response);
    const float *context = tensor_body_find(&response, header, "context", "F32", "[4,3]");
    for (int i = 0; i < 3; i++)
        assert_true(fabs(context[i] - expected[i]) < 1e-5);
    cJSON_Delete(header);
    http_response_free(&response);
}

/* OpenBLAS computes those of parameters where it may. */
static void check_gradients(void)
{
    expect_status(http_client_post(
        &client, "/v1/attention/gradients",
        JSON({"model":"demo","query":[1,0,2],"context_gradient":[1,10,100]})), 200);
}

static void check_changes(void)
{
    model_put_demo(&client, "put", 3, 201);
    assert_true(fabs(model_factor(&client, "put") - 3) < 1e-5);
    model_put_demo(&client, "put", 4, 200);
    assert_true(fabs(model_factor(&client, "put") - 4) < 1e-5);
    expect_status(http_client_post(&client, "/v2/repository/models/put/unload", "{}"), 200);
    expect_status(http_client_post(&client, "/v2/repository/models/put/load", "{}"), 200);
    model_delete_well(&client, "put");
    expect_status(http_client_get(&client, "/v1/models/put"), 404);
}

/* A file that is renamed into its place, and a model in a new folder. */
static void check_rescan(void)
{
    struct model_bytes file = model_bytes_demo(5, "");
    char from[600];
    daemon_directory_write(directory, ".new", file.data, file.size);
    snprintf(from, sizeof from, "%s", fixture_path(".new"));
    assert_int_equal(rename(from, fixture_path("there.safetensors")), 0);
    daemon_directory_write(directory, "folder/model.safetensors", file.data, file.size);
    free(file.data);
    assert_int_equal(kill(server.pid, SIGHUP), 0);
    expect_logged("models read again");
    assert_true(fabs(model_factor(&client, "there") - 5) < 1e-5);
    assert_true(fabs(model_factor(&client, "folder") - 5) < 1e-5);
}

/* How many threads of the daemon give way to its others. */
static int count_nice_threads(void)
{
    char path[300], line[1024];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)server.pid);
    DIR *tasks = opendir(path);
    assert_non_null(tasks);
    for (const struct dirent *task; (task = readdir(tasks));) {
        long nice = 0;
        snprintf(path, sizeof path, "/proc/%d/task/%s/stat", (int)server.pid, task->d_name);
        FILE *file = task->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (file && fgets(line, sizeof line, file))
            sscanf(strrchr(line, ')'),
                   ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d"
                   " %*d %*d %ld",
                   &nice);
        if (file)
            fclose(file);
        count += nice > 0;
    }
    closedir(tasks);
    return count;
}

/* More workers at SIGHUP: threads that are started in the sandbox. */
static void check_workers(void)
{
    cpu_set_t all, first;
    int cpu = 0;
    const int nice_before = count_nice_threads();
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&first);
    CPU_SET(cpu, &first);
    if (resources_cpu_count() < 2)
        return;
    assert_int_equal(sched_setaffinity(server.pid, sizeof first, &first), 0);
    assert_int_equal(kill(server.pid, SIGHUP), 0);
    expect_logged("now=1");
    assert_int_equal(sched_setaffinity(server.pid, sizeof all, &all), 0);
    assert_int_equal(kill(server.pid, SIGHUP), 0);
    expect_logged("workers before=1");
    assert_true(fabs(model_factor(&client, "demo") - 1) < 1e-5);
    assert_int_equal(count_nice_threads(), nice_before);
}

TEST(serves_everything)
{
    struct model_bytes file = model_bytes_demo(2, "");
    sandbox_skip_unless(false);
    daemon_directory_write(directory, "there.safetensors", file.data, file.size);
    free(file.data);
    fixture_serve("--sandbox", "--models", directory, "--model-control", "explicit",
                  "--drain-delay", "100ms", "--pin-workers");
    expect_logged(sandbox_landlock_text());
    expect_status(http_client_get(&client, "/livez"), 200);
    expect_status(http_client_get(&client, "/v2/health/ready"), 200);
    check_metrics();
    assert_true(fabs(model_factor(&client, "demo") - 1) < 1e-5);
    check_bytes();
    check_changes();
    check_rescan();
    check_gradients();
    check_workers();
    check_gradients();
    check_metrics();
    expect_status(http_client_post(&client, "/v2/logging", JSON({"log_verbose_level":1})), 200);
    expect_status(http_client_get(&client, "/livez"), 200);
    expect_logged("debug request method=GET path=/livez");
    assert_int_equal(kill(server.pid, SIGTERM), 0);
    expect_logged("draining");
    char *log = daemon_log(&server);
    assert_null(strstr(log, "worker not pinned"));
    free(log);
    fixture_stop(state);
}

/* A models' directory that is given by its path from where the daemon was started: the C library
 * asks the kernel where that is. */
TEST(reads_a_relative_path_again)
{
    char path[1000] = "", cwd[400];
    sandbox_skip_unless(false);
    assert_non_null(getcwd(cwd, sizeof cwd));
    for (const char *slash = strchr(cwd, '/'); slash; slash = strchr(slash + 1, '/'))
        strcat(path, slash == cwd ? ".." : "/..");
    assert_int_equal(directory[0], '/');
    strcat(path, directory);
    fixture_serve("--sandbox", "--models", path);
    check_rescan();
    fixture_stop(state);
}

/* ---------------------------------------------------------------- the keys -- */

static char keys_folder[256];

/* A link in the folder of the keys, in place of another one of its name. */
static void set_link(const char *name, const char *target)
{
    char new_path[300], path[300];
    snprintf(new_path, sizeof new_path, "%s/new", keys_folder);
    snprintf(path, sizeof path, "%s/%s", keys_folder, name);
    assert_int_equal(symlink(target, new_path), 0);
    assert_int_equal(rename(new_path, path), 0);
}

static void write_keys(const char *folder, const char *name)
{
    char path[300];
    const struct key_line lines[] = { { name, "infer" }, { NULL, NULL } };
    snprintf(path, sizeof path, "%s/%s", keys_folder, folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/%s/keys", keys_folder, folder);
    key_file_write(path, lines);
}

/* The links are as Kubernetes makes them in the folder of a Secret: keys -> ..data/keys, and ..data
 * leads to another folder when the Secret has changed. */
TEST(reads_replaced_keys)
{
    static const struct http_request LIST = { .path = "/v1/models" };
    char path[300], *folder = daemon_directory_create();
    sandbox_skip_unless(false);
    snprintf(keys_folder, sizeof keys_folder, "%s", folder);
    snprintf(path, sizeof path, "%s/keys", folder);
    write_keys("..1", "first");
    set_link("..data", "..1");
    set_link("keys", "..data/keys");
    fixture_serve("--sandbox", "--keys", path);
    expect_logged(sandbox_landlock_text());
    expect_status(key_send(&client, "first", &LIST, NULL), 200);
    write_keys("..2", "second");
    set_link("..data", "..2");
    assert_int_equal(kill(server.pid, SIGHUP), 0);
    expect_logged("keys read again");
    expect_status(key_send(&client, "first", &LIST, NULL), 401);
    expect_status(key_send(&client, "second", &LIST, NULL), 200);
    fixture_stop(state);
    daemon_directory_remove(folder);
}

ALL_TESTS(fixture_make_directory, fixture_clear);
