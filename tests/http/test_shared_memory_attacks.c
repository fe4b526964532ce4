/* SPDX-License-Identifier: Apache-2.0 */
/* test_shared_memory_attacks.c - what clients should not do with shared memory: keys and files that
 * are none, sizes that overflow, outputs that do not fit, memory that is cut, changed and taken out
 * in the middle of requests. The daemon refuses it in words or answers, and goes on.
 *
 * Among the attacks are those that ended other servers: Triton's issue 3207, a region that is
 * unregistered while a request uses it, and what its own test of shared memory
 * (qa/L0_shared_memory/shared_memory_test.py) has asked for since. */
#include "fixture.h"
#include "oip_client.h"
#include "shared_region.h"
#include "test.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

static void expect_register(const char *key, unsigned long long offset, unsigned long long size,
                            long status, const char *code, const char *pointer)
{
    struct http_response response = shared_region_send(&client, "attack", key, offset, size);
    if (response.status != status)
        fail_msg("'%s' %llu %llu: %ld %s", key, offset, size, response.status, response.body);
    answer_expect_fault(&response, status, code, pointer);
    http_response_free(&response);
    assert_int_equal(shared_region_count(&client), 0);
}

/* ------------------------------------------------------------------- which file -- */

TEST(keys)
{
    static const char *const NONE[] = { "",
                                        "/",
                                        "///",
                                        "/" SHARED_PREFIX "a",
                                        "//" SHARED_PREFIX "a",
                                        "/.",
                                        "/..",
                                        "..",
                                        SHARED_PREFIX "a/b",
                                        SHARED_PREFIX "../a",
                                        "/../etc/passwd",
                                        SHARED_PREFIX "\\u0001",
                                        SHARED_PREFIX "\\n" };
    static const char *const OTHERS[] = { "/x", "/attnd-tes", "/Attnd-test-a", "/attnd-test_",
                                          "/sem.attnd-test-a" };
    char path[300], long_key[300];
    for (size_t i = 0; i < sizeof NONE / sizeof NONE[0]; i++)
        expect_register(NONE[i], 0, 1, 400, "option", "/key");
    snprintf(long_key, sizeof long_key, SHARED_PREFIX "%0*d", 256 - (int)strlen(SHARED_PREFIX) + 1,
             0);
    expect_register(long_key, 0, 1, 400, "option", "/key");
    for (size_t i = 0; i < sizeof OTHERS / sizeof OTHERS[0]; i++)
        expect_register(OTHERS[i], 0, 1, 403, "forbidden", "/key");
    expect_register(SHARED_PREFIX "nobody", 0, 1, 404, "not_found", "/key");
    snprintf(path, sizeof path, "/v2/systemsharedmemory/region/%0200d/register", 0);
    answer_refused(&client, path, "{\"key\":\"" SHARED_PREFIX "a\",\"byte_size\":1}", 400, "option",
                   "");
}

/* Makes something at the key that is no shared memory, which the daemon must refuse. */
static void expect_no_memory(const char *path, const char *key)
{
    expect_register(key, 0, 1, 403, "forbidden", "/key");
    assert_int_equal(remove(path), 0);
}

TEST(files_that_are_none)
{
    struct shared_region memory;
    char path[300], key[SHARED_KEY_BYTES], target[300];
    shared_region_make(&memory, "good", 64);
    snprintf(key, sizeof key, SHARED_PREFIX "%d-bad", (int)getpid());
    snprintf(path, sizeof path, "/dev/shm%s", key);
    snprintf(target, sizeof target, "/dev/shm%s", memory.key);
    assert_int_equal(symlink(target, path), 0);
    expect_no_memory(path, key);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    expect_no_memory(path, key);
    assert_int_equal(symlink("/dev/zero", path), 0);
    expect_no_memory(path, key);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_no_memory(path, key);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_no_memory(path, key);
    assert_int_equal(link(target, path), 0);
    expect_register(memory.key, 0, 1, 403, "forbidden", "/key");
    expect_no_memory(path, key);
    if (geteuid() == 0) {
        assert_int_equal(fchown(memory.file, 12345, 12345), 0);
        expect_register(memory.key, 0, 1, 403, "forbidden", "/key");
        assert_int_equal(fchown(memory.file, 0, 0), 0);
    }
    shared_region_register(&client, "good", &memory);
    shared_region_unregister(&client, NULL);
    shared_region_remove(&memory);
}

/* --------------------------------------------------------------------- how long -- */

TEST(sizes_of_regions)
{
    static const unsigned long long MOST = 9007199254740991; /* below 2^53 */
    static const char *const BODIES[] = {
        "\"byte_size\":-1",
        "\"byte_size\":0.5",
        "\"byte_size\":1e30",
        "\"byte_size\":9223372036854775807",
        "\"byte_size\":18446744073709551615",
        "\"byte_size\":18446744073709551617",
        "\"byte_size\":1,\"offset\":-1",
        "\"byte_size\":1,\"offset\":18446744073709551615",
    };
    struct shared_region memory;
    char body[300];
    shared_region_make(&memory, "sizes", 4096);
    expect_register(memory.key, 0, 0, 400, "option", "/byte_size");
    expect_register(memory.key, 0, 4097, 400, "option", "/byte_size");
    expect_register(memory.key, 1, 4096, 400, "option", "/byte_size");
    expect_register(memory.key, 4096, 1, 400, "option", "/offset");
    expect_register(memory.key, MOST, 1, 400, "option", "/offset");
    expect_register(memory.key, 1, MOST, 400, "option", "/byte_size");
    expect_register(memory.key, MOST, MOST, 400, "option", "/offset");
    for (size_t i = 0; i < sizeof BODIES / sizeof BODIES[0]; i++) {
        snprintf(body, sizeof body, JSON({"key":"%s",%s}), memory.key, BODIES[i]);
        answer_refused(&client, "/v2/systemsharedmemory/region/attack/register", body, 400,
                       "option", "/*");
    }
    shared_region_remove(&memory);
}

TEST(bodies)
{
    static const char PATH[] = "/v2/systemsharedmemory/region/attack/register";
    static const struct {
        const char *body, *code, *pointer;
    } CASES[] = {
        { "", "field", "/key" },
        { "{}", "field", "/key" },
        { "[]", "type", "" },
        { "{", "json", NULL },
        { "{\"key\":\"" SHARED_PREFIX "a\"}", "field", "/byte_size" },
        { "{\"byte_size\":1}", "field", "/key" },
        { "{\"key\":1,\"byte_size\":1}", "type", "/key" },
        { "{\"key\":null,\"byte_size\":1}", "type", "/key" },
        { "{\"key\":\"" SHARED_PREFIX "a\",\"byte_size\":\"1\"}", "type", "/byte_size" },
        { "{\"key\":\"" SHARED_PREFIX "a\",\"byte_size\":[1]}", "type", "/byte_size" },
        { "{\"key\":\"" SHARED_PREFIX "a\",\"byte_size\":1,\"offset\":null}", "type", "/offset" },
        { "{\"key\":\"" SHARED_PREFIX "a\",\"key\":\"/b\",\"byte_size\":1}", "json|duplicate",
          NULL },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        answer_refused(&client, PATH, CASES[i].body, 400, CASES[i].code, CASES[i].pointer);
    answer_refused(&client, "/v2/systemsharedmemory/unregister", "{", 400, "json", NULL);
}

/* ------------------------------------------------------------------- inferences -- */

#define INPUT "\"name\":\"query\",\"shape\":[1,3],\"datatype\":\"FP32\""

static void expect_input(const char *more, const char *code, const char *member)
{
    char body[600], pointer[100];
    snprintf(body, sizeof body, "{\"inputs\":[{" INPUT ",%s}]}", more);
    snprintf(pointer, sizeof pointer, "/inputs/0/%s", member);
    answer_refused(&client, "/v2/models/demo/infer", body,
                   strcmp(code, "not_found") == 0 ? 404 : 400, code, pointer);
}

static void expect_output(const char *parameters, const char *code, const char *member)
{
    char body[600], pointer[100];
    snprintf(body, sizeof body,
             "{\"inputs\":[{" INPUT ",\"data\":[1,0,0]}],\"outputs\":[{\"name\":\"lse\"},"
             "{\"name\":\"context\",\"parameters\":{%s}}]}",
             parameters);
    snprintf(pointer, sizeof pointer, "/outputs/1/parameters/%s", member);
    answer_refused(&client, "/v2/models/demo/infer", body,
                   strcmp(code, "not_found") == 0 ? 404 : 400, code, pointer);
}

#define REGION "\"shared_memory_region\":\"r\""
#define SIZE   "\"shared_memory_byte_size\":"
#define OFFSET "\"shared_memory_offset\":"

TEST(places_of_tensors)
{
    static const struct {
        const char *parameters, *code, *member;
    } BOTH[] = {
        { "\"shared_memory_region\":\"nobody\"," SIZE "12", "not_found", "shared_memory_region" },
        { "\"shared_memory_region\":\"\"," SIZE "12", "not_found", "shared_memory_region" },
        { "\"shared_memory_region\":7," SIZE "12", "type", "shared_memory_region" },
        { SIZE "12", "field", "shared_memory_region" },
        { OFFSET "12", "field", "shared_memory_region" },
        { REGION, "field", "shared_memory_byte_size" },
        { REGION "," SIZE "\"12\"", "type", "shared_memory_byte_size" },
        { REGION "," SIZE "-12", "type", "shared_memory_byte_size" },
        { REGION "," SIZE "1e300", "type", "shared_memory_byte_size" },
        { REGION "," SIZE "18446744073709551615", "type", "shared_memory_byte_size" },
        { REGION "," SIZE "12," OFFSET "-1", "type", "shared_memory_offset" },
        { REGION "," SIZE "12," OFFSET "18446744073709551604", "type", "shared_memory_offset" },
        { REGION "," SIZE "12," OFFSET "65", "binary", "shared_memory_offset" },
        { REGION "," SIZE "12," OFFSET "53", "binary", "shared_memory_byte_size" },
        { REGION "," SIZE "12," OFFSET "9007199254740991", "binary", "shared_memory_offset" },
        { REGION "," SIZE "9007199254740991," OFFSET "64", "binary", "shared_memory_byte_size" },
        { REGION "," SIZE "65", "binary", "shared_memory_byte_size" },
        { REGION "," SIZE "11", "binary", "shared_memory_byte_size" },
    };
    struct shared_region memory;
    char text[300], member[100];
    shared_region_make(&memory, "places", 4160);
    memset(memory.bytes, 7, memory.size);
    struct http_response response = shared_region_send(&client, "r", memory.key, 4096, 64);
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    for (size_t i = 0; i < sizeof BOTH / sizeof BOTH[0]; i++) {
        snprintf(text, sizeof text, JSON("parameters":{%s}), BOTH[i].parameters);
        snprintf(member, sizeof member, "parameters/%s", BOTH[i].member);
        expect_input(text, BOTH[i].code, member);
        expect_output(BOTH[i].parameters, BOTH[i].code, BOTH[i].member);
    }
    expect_input("\"parameters\":{" REGION "," SIZE "13}", "binary",
                 "parameters/shared_memory_byte_size");
    expect_input("\"data\":[1,0,0],\"parameters\":{" REGION "," SIZE "12}", "binary", "data");
    expect_input("\"parameters\":{" REGION "," SIZE "12,\"binary_data_size\":12}", "binary",
                 "parameters/binary_data_size");
    expect_output(REGION "," SIZE "12,\"binary_data\":true", "option", "shared_memory_region");
    expect_output(REGION "," SIZE "12,\"classification\":1", "option", "shared_memory_region");
    for (size_t i = 0; i < memory.size; i++)
        assert_int_equal(memory.bytes[i], 7); /* nothing was written by any of them */
    shared_region_unregister(&client, NULL);
    shared_region_remove(&memory);
}

/* An output that does not fit keeps all others from being written. */
TEST(all_outputs_fit_or_none)
{
    struct shared_region memory;
    shared_region_make(&memory, "fit", 64);
    shared_region_register(&client, "r", &memory);
    answer_refused(&client, "/v2/models/demo/infer",
                   "{\"inputs\":[{" INPUT ",\"data\":[1,0,0]}],\"outputs\":["
                   "{\"name\":\"context\",\"parameters\":{" REGION "," SIZE "12}},"
                   "{\"name\":\"weights\",\"parameters\":{" REGION "," SIZE "3," OFFSET "32}}]}",
                   400, "binary", "/outputs/1/parameters/shared_memory_byte_size");
    for (size_t i = 0; i < memory.size; i++)
        assert_int_equal(memory.bytes[i], 0);
    shared_region_unregister(&client, NULL);
    shared_region_remove(&memory);
}

/* A byte in a BOOL that is none, and a length that is negative: as if they came in a body. */
TEST(values)
{
    static const char MASK[] =
        "{\"inputs\":[{" INPUT ",\"data\":[1,0,0]},{\"name\":\"mask\","
        "\"shape\":[1,1],\"datatype\":\"BOOL\",\"parameters\":{" REGION "," SIZE "1}}]}";
    static const char LENGTH[] =
        "{\"inputs\":[{" INPUT ",\"data\":[1,0,0]},{\"name\":\"kv_len\","
        "\"shape\":[1],\"datatype\":\"INT64\",\"parameters\":{" REGION "," SIZE "8}}]}";
    struct shared_region memory;
    shared_region_make(&memory, "values", 8);
    shared_region_register(&client, "r", &memory);
    memset(memory.bytes, 255, 8);
    answer_refused(&client, "/v2/models/demo/infer", MASK, 400, "binary", "/inputs/1");
    answer_refused(&client, "/v2/models/demo/infer", LENGTH, 400, "length", "/inputs/1");
    shared_region_unregister(&client, NULL);
    shared_region_remove(&memory);
}

/* ------------------------------------------------------------------ memory that changes -- */

static const char COPY[] =
    "{\"inputs\":[{\"name\":\"query\",\"shape\":[256,3],\"datatype\":\"FP32\",\"parameters\":"
    "{" REGION "," SIZE "3072}}],\"outputs\":[{\"name\":\"context\",\"parameters\":{" REGION
    "," SIZE "3072," OFFSET "4096}}]}";

TEST(cut_memory)
{
    struct shared_region memory;
    struct stat status;
    shared_region_make(&memory, "cut", 8192);
    shared_region_register(&client, "r", &memory);
    cJSON_Delete(answer_post(&client, "/v2/models/demo/infer", COPY));
    assert_int_equal(ftruncate(memory.file, 3071), 0);
    answer_refused(&client, "/v2/models/demo/infer", COPY, 400, "binary",
                   "/inputs/0/parameters/shared_memory_region");
    assert_int_equal(ftruncate(memory.file, 4096 + 3071), 0);
    answer_refused(&client, "/v2/models/demo/infer", COPY, 400, "binary",
                   "/outputs/0/parameters/shared_memory_region");
    assert_int_equal(fstat(memory.file, &status), 0);
    assert_int_equal(status.st_size, 4096 + 3071); /* the daemon made nothing longer */
    assert_int_equal(ftruncate(memory.file, 8192), 0);
    cJSON_Delete(answer_post(&client, "/v2/models/demo/infer", COPY));
    /* Memory without a name is still the region's; other memory of that name is not. */
    struct shared_region other;
    char key[SHARED_KEY_BYTES];
    snprintf(key, sizeof key, "%s", memory.key);
    ((float *)(void *)memory.bytes)[0] = 1;
    shared_region_remove(&memory);
    shared_region_make_as(&other, key, 16);
    cJSON_Delete(answer_post(&client, "/v2/models/demo/infer", COPY));
    for (size_t i = 0; i < other.size; i++)
        assert_int_equal(other.bytes[i], 0);
    shared_region_unregister(&client, NULL);
    shared_region_remove(&other);
}

/* What one thread does to the memory and its region while others ask. */
struct storm {
    struct shared_region memory;
    _Atomic bool ends;
    _Atomic int answered, refused; /* well, and not */
};

static void *cut_and_write(void *context)
{
    struct storm *storm = context;
    static const off_t LENGTHS[] = { 0, 1, 3071, 3072, 4096, 5000, 7167, 8192 };
    for (unsigned i = 0; !atomic_load(&storm->ends); i++) {
        const float number = (float)(i % 100);
        if (ftruncate(storm->memory.file, LENGTHS[i % 8]) != 0)
            abort();
        if (pwrite(storm->memory.file, &number, sizeof number, (off_t)(i * 4 % 3072)) < 0)
            abort();
    }
    return NULL;
}

static void *unregister_and_register(void *context)
{
    struct storm *storm = context;
    struct http_client own;
    http_client_init(&own, server.port);
    while (!atomic_load(&storm->ends)) {
        struct http_response response =
            http_client_post(&own, "/v2/systemsharedmemory/region/r/unregister", "");
        http_response_free(&response);
        response = shared_region_send(&own, "r", storm->memory.key, 0, 8192);
        http_response_free(&response);
    }
    http_client_free(&own);
    return NULL;
}

/* Each answer is good or a refusal in words: 400 where the memory is short, 404 where the region is
 * gone. */
static void *ask(void *context)
{
    struct storm *storm = context;
    struct http_client own;
    http_client_init(&own, server.port);
    while (!atomic_load(&storm->ends)) {
        struct http_response response = http_client_post(&own, "/v2/models/demo/infer", COPY);
        const bool is_good = response.status == 200
                             || (response.status == 400 && strstr(response.body, "\"binary\""))
                             || (response.status == 404 && strstr(response.body, "\"not_found\""));
        if (!is_good) {
            fprintf(stderr, "%ld %s\n", response.status, response.body);
            abort();
        }
        atomic_fetch_add(response.status == 200 ? &storm->answered : &storm->refused, 1);
        http_response_free(&response);
    }
    http_client_free(&own);
    return NULL;
}

static bool has_seen_both(struct storm *storm)
{
    return atomic_load(&storm->answered) >= 200 && atomic_load(&storm->refused) >= 20;
}

/* Two threads ask while a third does harm. */
static void run_storm(void *(*harm)(void *context))
{
    struct storm storm = { .ends = false };
    pthread_t threads[3];
    shared_region_make(&storm.memory, "storm", 8192);
    shared_region_register(&client, "r", &storm.memory);
    const double end = daemon_now() + 60 * daemon_slowness();
    assert_int_equal(pthread_create(&threads[0], NULL, harm, &storm), 0);
    for (int i = 1; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &storm), 0);
    while (!has_seen_both(&storm) && daemon_now() < end)
        daemon_pause(0.01);
    atomic_store(&storm.ends, true);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_true(has_seen_both(&storm));
    shared_region_unregister(&client, NULL);
    shared_region_remove(&storm.memory);
}

TEST(cut_in_use)
{
    run_storm(cut_and_write);
}

TEST(unregistered_in_use)
{
    const int descriptors = daemon_descriptor_count(&server);
    run_storm(unregister_and_register);
    const double end = daemon_now() + 10 * daemon_slowness();
    /* The connections of the threads end too. */
    while (daemon_descriptor_count(&server) > descriptors && daemon_now() < end)
        daemon_pause(0.01);
    assert_true(daemon_descriptor_count(&server) <= descriptors);
}

static int start(void **state)
{
    fixture_serve("--shared-memory-prefix", SHARED_PREFIX);
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
