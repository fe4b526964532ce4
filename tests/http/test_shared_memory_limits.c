/* SPDX-License-Identifier: Apache-2.0 */
/* test_shared_memory_limits.c - the resources of the shared memory extension: registered and
 * unregistered, off without the flag, of one key alone, bounded, in the sandbox. */
#include "answer.h"
#include "fixture.h"
#include "key_file.h"
#include "sandbox_state.h"
#include "shared_region.h"
#include "test.h"

#include <signal.h>
#include <sys/socket.h>

/* -------------------------------------------------------------------- resources -- */

static bool has_extension(struct http_client *own)
{
    cJSON *answer = answer_get(own, "/v2");
    char *text = cJSON_PrintUnformatted(answer);
    const bool has = strstr(text, "\"system_shared_memory\"") != NULL;
    assert_null(strstr(text, "cuda"));
    cJSON_free(text);
    cJSON_Delete(answer);
    return has;
}

TEST(off_without_the_flag)
{
    struct daemon other;
    struct http_client own;
    struct shared_region memory;
    assert_true(has_extension(&client));
    daemon_start_with(&other, "--workers", "1", NULL);
    http_client_init(&own, other.port);
    assert_false(has_extension(&own));
    assert_int_equal(shared_region_count(&own), 0);
    shared_region_make(&memory, "off", 64);
    struct http_response response = shared_region_send(&own, "off", memory.key, 0, 64);
    answer_expect_fault(&response, 403, "forbidden", "");
    assert_non_null(strstr(response.body, "Client shared memory is disabled"));
    http_response_free(&response);
    answer_refused(&own, "/v2/systemsharedmemory/region/off/unregister", "", 403, "forbidden", "");
    answer_refused(&own, "/v2/cudasharedmemory/unregister", "", 403, "forbidden", "");
    answer_refused(&own, "/v2/models/demo/infer",
                   "{\"inputs\":[{\"name\":\"query\",\"shape\":[1,3],\"datatype\":\"FP32\","
                   "\"parameters\":{\"shared_memory_region\":\"off\","
                   "\"shared_memory_byte_size\":12}}]}",
                   400, "field", "/inputs/0/parameters/shared_memory_region");
    shared_region_remove(&memory);
    http_client_free(&own);
    daemon_stop(&other);
}

TEST(register_and_unregister)
{
    struct shared_region memory;
    struct http_response response;
    shared_region_make(&memory, "two", 128);
    shared_region_register(&client, "two", &memory);
    response = shared_region_send(&client, "two", memory.key, 0, 64);
    answer_expect_fault(&response, 409, "conflict", "");
    assert_non_null(strstr(response.body, "shared memory region 'two' already in manager"));
    http_response_free(&response);
    /* A second region of the same memory, its key without the slash, its name percent-decoded. */
    response = shared_region_send(&client, "a%20%22b", memory.key + 1, 64, 64);
    cJSON *done = answer_json(&response, 200);
    answer_expect(done, "name", "\"a \\\"b\"", 0);
    cJSON_Delete(done);
    http_response_free(&response);
    assert_int_equal(shared_region_count(&client), 2);
    shared_region_unregister(&client, "nobody");
    shared_region_unregister(&client, "two");
    assert_int_equal(shared_region_count(&client), 1);
    response = http_client_get(&client, "/v2/systemsharedmemory/region/two/status");
    answer_expect_fault(&response, 404, "not_found", "");
    http_response_free(&response);
    shared_region_register(&client, "two", &memory);
    shared_region_unregister(&client, NULL);
    assert_int_equal(shared_region_count(&client), 0);
    shared_region_remove(&memory);
}

/* ------------------------------------------------------------------------- keys -- */

static const struct key_line KEYS[] = {
    { "a", "infer,regions" }, { "b", "infer,regions" }, { "c", "infer" }, { NULL, NULL }
};

static struct http_response send_as(struct http_client *own, const char *key, const char *path,
                                    const char *body)
{
    const struct http_request request = { .path = path, .body = body };
    return key_send(own, key, &request, NULL);
}

static void expect_as(struct http_client *own, const char *key, const char *path, const char *body,
                      long status)
{
    struct http_response response = send_as(own, key, path, body);
    if (response.status != status)
        fail_msg("%s %s: %ld %s", key, path, response.status, response.body);
    http_response_free(&response);
}

static int count_as(struct http_client *own, const char *key)
{
    struct http_response response = send_as(own, key, "/v2/systemsharedmemory/status", NULL);
    cJSON *list = cJSON_Parse(response.body);
    assert_int_equal(response.status, 200);
    const int count = cJSON_GetArraySize(list);
    cJSON_Delete(list);
    http_response_free(&response);
    return count;
}

/* Names are of one key alone, and so is their use; the end of a key is the end of its regions. */
TEST(regions_are_their_keys)
{
    static const char INFER[] = "{\"inputs\":[{\"name\":\"query\",\"shape\":[1,3],\"datatype\":"
                                "\"FP32\",\"parameters\":{\"shared_memory_region\":\"mine\","
                                "\"shared_memory_byte_size\":12}}]}";
    static const struct key_line WITHOUT_A[] = { { "b", "infer,regions" }, { NULL, NULL } };
    static const char PATH[] = "/v2/systemsharedmemory/region/mine/register";
    struct daemon other;
    struct http_client own;
    struct shared_region memory;
    char body[200];
    key_file_write(fixture_path("keys"), KEYS);
    daemon_start_with(&other, "--keys", fixture_path("keys"), "--shared-memory-prefix",
                      SHARED_PREFIX, NULL);
    http_client_init(&own, other.port);
    shared_region_make(&memory, "owned", 12);
    snprintf(body, sizeof body, JSON({"key":"%s","byte_size":12}), memory.key);
    expect_as(&own, "c", PATH, body, 403);
    expect_as(&own, "a", PATH, body, 200);
    expect_as(&own, "a", "/v2/models/demo/infer", INFER, 200);
    expect_as(&own, "b", "/v2/models/demo/infer", INFER, 404);
    expect_as(&own, "c", "/v2/models/demo/infer", INFER, 403);
    expect_as(&own, "b", "/v2/systemsharedmemory/unregister", "", 200);
    expect_as(&own, "b", "/v2/systemsharedmemory/region/mine/unregister", "", 200);
    expect_as(&own, "b", PATH, body, 200);
    assert_int_equal(count_as(&own, "a"), 1);
    assert_int_equal(count_as(&own, "b"), 1);
    key_file_write(fixture_path("keys"), WITHOUT_A);
    kill(other.pid, SIGHUP);
    free(daemon_log_with(&other, "keys read again"));
    key_file_write(fixture_path("keys"), KEYS);
    kill(other.pid, SIGHUP);
    free(daemon_log_with(&other, "added=2"));
    assert_int_equal(count_as(&own, "a"), 0);
    assert_int_equal(count_as(&own, "b"), 1);
    shared_region_remove(&memory);
    http_client_free(&own);
    daemon_stop(&other);
}

/* ----------------------------------------------------------------------- bounds -- */

TEST(bounds_of_all_regions)
{
    enum { MIB = 1 << 20 };
    struct daemon other;
    struct http_client own;
    struct shared_region memory;
    struct http_response response;
    char name[20];
    daemon_start_with(&other, "--memory-max", "64MiB", "--shared-memory-prefix", SHARED_PREFIX,
                      NULL);
    http_client_init(&own, other.port);
    shared_region_make(&memory, "bounds", (size_t)65 * MIB);
    response = shared_region_send(&own, "all", memory.key, 0, 65 * MIB);
    answer_expect_fault(&response, 413, "too_large", "/byte_size");
    http_response_free(&response);
    response = shared_region_send(&own, "most", memory.key, MIB, 63 * MIB);
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    response = shared_region_send(&own, "rest", memory.key, 0, MIB + 1);
    answer_expect_fault(&response, 503, "memory", "/byte_size");
    http_response_free(&response);
    const int descriptors = daemon_descriptor_count(&other);
    for (int i = 1; i <= 256; i++) {
        snprintf(name, sizeof name, "r%d", i);
        response = shared_region_send(&own, name, memory.key, 0, 1);
        if (i < 256)
            assert_int_equal(response.status, 200);
        else
            answer_expect_fault(&response, 503, "memory", "");
        http_response_free(&response);
    }
    assert_int_equal(daemon_descriptor_count(&other), descriptors + 255);
    shared_region_unregister(&own, NULL);
    assert_int_equal(daemon_descriptor_count(&other), descriptors - 1);
    shared_region_remove(&memory);
    http_client_free(&own);
    daemon_stop(&other);
}

/* Asks for the scores of rows that lie in two regions, and reads a byte of the long answer. */
static void ask_and_read_little(struct http_raw *raw, const struct daemon *other, int rows)
{
    char body[1024], head[256], q[200], k[200];
    http_raw_connect(raw, other->port);
    shared_region_parameters(q, "q", 0, (unsigned long long)rows * sizeof(float));
    shared_region_parameters(k, "k", 0, (unsigned long long)rows * sizeof(float));
    const int size =
        snprintf(body, sizeof body,
                 "{\"inputs\":[{\"name\":\"Q\",\"datatype\":\"FP32\",\"shape\":[1,1,%d,1],"
                 "\"parameters\":{%s}},"
                 "{\"name\":\"K\",\"datatype\":\"FP32\",\"shape\":[1,1,%d,1],\"parameters\":{%s}},"
                 "{\"name\":\"V\",\"datatype\":\"FP32\",\"shape\":[1,1,%d,1],\"parameters\":{%s}}],"
                 "\"outputs\":[{\"name\":\"qk_matmul_output\"}]}",
                 rows, q, rows, k, rows, k);
    snprintf(head, sizeof head,
             "POST /v2/models/sdpa/infer HTTP/1.1\r\nHost: x\r\n"
             "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n",
             size);
    assert_true(http_raw_send_text(raw, head));
    assert_true(http_raw_send_text(raw, body));
    assert_int_equal(recv(raw->socket, head, 1, 0), 1);
}

/* Regions that a request held have room for others when it is freed, which is after its client has
 * left. */
static void register_soon(struct http_client *own, const char *name, const char *key)
{
    long status = 0;
    for (int i = 0; i < 400 && status != 200; i++) {
        struct http_response response = shared_region_send(own, name, key, 0, 1);
        status = response.status;
        http_response_free(&response);
        if (status != 200)
            daemon_pause(0.05);
    }
    assert_int_equal(status, 200);
}

/* A region that was taken out counts as long as a request holds its file open: else clients that do
 * not read their answers, and register again, take all descriptors of the daemon. */
TEST(held_regions_count)
{
    enum { READERS = 5, ROWS = 3000 };
    struct daemon other;
    struct http_client own;
    struct http_raw raw[READERS];
    struct shared_region memory;
    char name[20];
    /* The answers wait as long as the registrations take. */
    daemon_start_with(&other, "--shared-memory-prefix", SHARED_PREFIX, "--send-timeout", "10m",
                      "--timeout", "10m", NULL);
    http_client_init(&own, other.port);
    shared_region_make(&memory, "held", ROWS * sizeof(float));
    for (int i = 0; i < READERS; i++) {
        shared_region_register(&own, "q", &memory);
        shared_region_register(&own, "k", &memory);
        ask_and_read_little(&raw[i], &other, ROWS);
        shared_region_unregister(&own, NULL);
    }
    assert_int_equal(shared_region_count(&own), 0);
    for (int i = 0; i < 256; i++) {
        snprintf(name, sizeof name, "r%d", i);
        struct http_response response = shared_region_send(&own, name, memory.key, 0, 1);
        if (i < 256 - 2 * READERS)
            assert_int_equal(response.status, 200);
        else
            answer_expect_fault(&response, 503, "memory", "");
        http_response_free(&response);
    }
    for (int i = 0; i < READERS; i++)
        http_raw_close(&raw[i]);
    answer_wait_for_metric(&own, "attnd_memory_in_flight_bytes", 0, 0);
    for (int i = 256 - 2 * READERS; i < 256; i++) {
        snprintf(name, sizeof name, "r%d", i);
        register_soon(&own, name, memory.key);
    }
    shared_region_remove(&memory);
    http_client_free(&own);
    daemon_stop(&other);
}

/* ------------------------------------------------------------------- the start -- */

static void expect_no_start(const char *const *arguments, const char *says)
{
    struct daemon_result result = daemon_command(arguments, NULL);
    assert_int_equal(result.exit_code, 1);
    if (!strstr(result.errors, says))
        fail_msg("no '%s' in: %s", says, result.errors);
    daemon_result_free(&result);
}

TEST(starts)
{
    expect_no_start((const char *[]){ "--listen", "0.0.0.0:0", "--open", "--shared-memory-prefix",
                                      "/input_", NULL },
                    "give --keys FILE");
    expect_no_start(
        (const char *[]){ "--listen", "127.0.0.1:0", "--shared-memory-prefix", "/a/b", NULL },
        "--shared-memory-prefix: '/a/b' came");
    expect_no_start(
        (const char *[]){ "--listen", "127.0.0.1:0", "--shared-memory-prefix", "../a", NULL },
        "--shared-memory-prefix: '../a' came");
}

/* Also where the daemon has given up all files but these. */
TEST(in_the_sandbox)
{
    static const char ASK[] =
        "{\"inputs\":[{\"name\":\"query\",\"shape\":[1,3],\"datatype\":\"FP32\",\"data\":[1,0,0]}],"
        "\"outputs\":[{\"name\":\"context\",\"parameters\":{\"shared_memory_region\":\"box\","
        "\"shared_memory_byte_size\":12}}]}";
    struct daemon other;
    struct http_client own;
    struct shared_region memory;
    sandbox_skip_unless(false);
    daemon_start_with(&other, "--sandbox", "--shared-memory-prefix", SHARED_PREFIX, NULL);
    http_client_init(&own, other.port);
    shared_region_make(&memory, "sandbox", 12);
    shared_region_register(&own, "box", &memory);
    cJSON_Delete(answer_post(&own, "/v2/models/demo/infer", ASK));
    assert_true(((const float *)(void *)memory.bytes)[0] == 1);
    shared_region_remove(&memory);
    http_client_free(&own);
    daemon_stop(&other);
}

static int start(void **state)
{
    directory = daemon_directory_create();
    fixture_serve("--shared-memory-prefix", SHARED_PREFIX);
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
