/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_lifecycle.c - versions over HTTP, SIGHUP, many swaps under load, and a daemon that is
 * killed in the middle of a save.
 *
 * The models are demo with its context multiplied, so that an answer tells which version it came
 * from. ATTND_TEST_PROBLEMS (make check-long) is the number of requests that run during the
 * swaps. */
#include "answer.h"
#include "fixture.h"
#include "model_client.h"
#include "problem_count.h"
#include "test.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

/* ---------------------------------------------------------------- helpers -- */

/* Writes a new file and renames it into its place. */
static void write_file(const char *name, const void *bytes, size_t size)
{
    char from[300], to[300];
    daemon_directory_write(directory, ".new", bytes, size);
    snprintf(from, sizeof(from), "%s/.new", directory);
    snprintf(to, sizeof(to), "%s/%s", directory, name);
    assert_int_equal(rename(from, to), 0);
}

static void write_demo(const char *name, float factor)
{
    struct model_bytes file = model_bytes_demo(factor, "");
    write_file(name, file.data, file.size);
    free(file.data);
}

static void write_version(const char *name, const void *bytes, size_t size)
{
    daemon_directory_write(directory, name, bytes, size);
}

static void write_demo_version(const char *name, float factor)
{
    struct model_bytes file = model_bytes_demo(factor, "");
    write_version(name, file.data, file.size);
    free(file.data);
}

/* How often the daemon has logged that it read the models again. */
static int count_readings(void)
{
    int count = 0;
    char *log = daemon_log(&server);
    for (const char *p = log; (p = strstr(p, "models read again")); p++)
        count++;
    free(log);
    return count;
}

static void read_again(void)
{
    const int before = count_readings();
    const double until = daemon_now() + 20 * daemon_slowness();
    assert_int_equal(kill(server.pid, SIGHUP), 0);
    while (count_readings() == before) {
        assert_true(daemon_now() < until);
        daemon_pause(0.002);
    }
}

/* The index's row of a version. If state is NULL, the version has no row. */
static void expect_state(const char *name, const char *version, const char *state,
                         const char *reason)
{
    struct http_response response = http_client_post(&client, "/v2/repository/index", "{}");
    cJSON *index = cJSON_Parse(response.body);
    const cJSON *row;
    bool found = false;
    cJSON_ArrayForEach(row, index) {
        if (strcmp(cJSON_GetObjectItem(row, "name")->valuestring, name) != 0
            || strcmp(cJSON_GetObjectItem(row, "version")->valuestring, version) != 0)
            continue;
        const char *given = cJSON_GetObjectItem(row, "reason")->valuestring;
        found = true;
        assert_non_null(state);
        assert_string_equal(cJSON_GetObjectItem(row, "state")->valuestring, state);
        if (reason[0] ? !strstr(given, reason) : given[0] != '\0')
            fail_msg("the reason is: %s", given);
    }
    assert_true(found == (state != NULL));
    cJSON_Delete(index);
    http_response_free(&response);
}

/* Asks at this path and checks which version answers, and which version the answer names. */
static void expect_answer(const char *path, double factor, const char *version)
{
    static const double first[] = MODEL_BYTES_CONTEXT;
    char whole[200], quoted[40];
    snprintf(whole, sizeof(whole), "/v2/models/%s/infer", path);
    snprintf(quoted, sizeof(quoted), "\"%s\"", version);
    cJSON *answer = answer_post(&client, whole,
                                "{\"inputs\":[{\"name\":\"query\",\"datatype\":\"FP32\",\"shape\":["
                                "4,3],\"data\":[1,0,0,0,1,0,1,1,0,0,0,1]}],"
                                "\"outputs\":[{\"name\":\"context\"}]}");
    answer_expect(answer, "model_version", quoted, 0);
    const cJSON *output = cJSON_GetObjectItem(answer, "outputs")->child;
    const cJSON *number = cJSON_GetObjectItem(output, "data")->child;
    for (int i = 0; i < 3; i++, number = number->next)
        assert_true(fabs(number->valuedouble - factor * first[i]) < 1e-5 * factor);
    cJSON_Delete(answer);
}

/* --------------------------------------------------------------- versions -- */

TEST(versions)
{
    expect_answer("numbered", 20, "20");
    expect_answer("numbered/versions/3", 3, "3");
    expect_answer("numbered/versions/20", 20, "20");
    expect_answer("demo/versions/1", 1, "1");
    expect_state("numbered", "3", "READY", "");
    expect_state("numbered", "20", "READY", "");
    expect_state("numbered", "100", "UNAVAILABLE", "a safetensors file");
    static const char *const paths[] = { "/v2/models/numbered", "/v2/models/numbered/versions/3" };
    for (int i = 0; i < 2; i++) {
        cJSON *model = answer_get(&client, paths[i]);
        answer_expect(model, "versions", JSON(["3","20"]), 0);
        cJSON_Delete(model);
    }
    cJSON *statistics = answer_get(&client, "/v2/models/numbered/versions/3/stats");
    const cJSON *row = cJSON_GetObjectItem(statistics, "model_stats")->child;
    answer_expect(row, "version", "\"3\"", 0);
    answer_expect(row, "inference_count", "1", 0);
    cJSON_Delete(statistics);
    cJSON *names = answer_get(&client, "/v2/models");
    int count = 0;
    for (const cJSON *name = cJSON_GetObjectItem(names, "models")->child; name; name = name->next)
        count += strcmp(name->valuestring, "numbered") == 0;
    assert_int_equal(count, 1);
    cJSON_Delete(names);
    struct http_response response =
        http_client_get(&client, "/v2/models/numbered/versions/100/ready");
    cJSON_Delete(answer_json(&response, 503));
    http_response_free(&response);
    response = http_client_get(&client, "/v2/models/numbered/versions/4");
    answer_expect_fault(&response, 404, "not_found", "");
    http_response_free(&response);
    response = model_put(&client, "numbered", model_bytes_demo(1, ""));
    answer_expect_fault(&response, 409, "conflict", "");
    http_response_free(&response);
}

/* --------------------------------------------------------------- SIGHUP -- */

TEST(read_again)
{
    write_demo("changing.safetensors", 2);
    assert_false(model_is_listed(&client, "changing"));
    read_again();
    assert_true(model_factor(&client, "changing") == 2);

    write_demo("changing.safetensors", 3);
    write_demo_version("numbered/21/model.safetensors", 21);
    write_version("numbered/22/model.safetensors", "broken", 6);
    read_again();
    assert_true(model_factor(&client, "changing") == 3);
    expect_answer("numbered", 21, "21");
    expect_answer("numbered/versions/20", 20, "20");
    expect_state("numbered", "22", "UNAVAILABLE", "6 in all");

    write_file("changing.safetensors", "broken", 6);
    read_again();
    assert_true(model_factor(&client, "changing") == 3);
    expect_state("changing", "1", "READY", "6 in all");
    char path[300];
    snprintf(path, sizeof(path), "%s/changing.safetensors", directory);
    assert_int_equal(remove(path), 0);
    read_again();
    answer_refused(&client, "/v1/attention", "{\"model\":\"changing\",\"query\":[[1,0,0]]}", 404,
                   "not_found", NULL);
    expect_state("changing", "1", NULL, "");
}

/* ----------------------------------------------------------------- swaps -- */

enum { USERS = 3, REQUESTS_PER_SWAP = 100 };

struct users {
    int port;
    int total;
    char *answers[2]; /* the only two allowed answers */
    _Atomic int count, wrong, swaps;
    _Atomic int seen[2];
};

static struct http_response ask_swapped(struct http_client *own)
{
    return http_client_post(own, "/v1/attention",
                            "{\"model\":\"swapped\",\"query\":" MODEL_BYTES_WORDS "}");
}

static void *use(void *context)
{
    struct users *users = context;
    struct http_client own;
    http_client_init(&own, users->port);
    for (int i; (i = atomic_fetch_add(&users->count, 1)) < users->total;) {
        while (i >= (atomic_load(&users->swaps) + 1) * REQUESTS_PER_SWAP) /* the swap is slower */
            daemon_pause(0.0005);
        struct http_response response = ask_swapped(&own);
        int which = 0;
        while (which < 2
               && (response.status != 200 || strcmp(response.body, users->answers[which]) != 0))
            which++;
        atomic_fetch_add(which < 2 ? &users->seen[which] : &users->wrong, 1);
        http_response_free(&response);
    }
    http_client_free(&own);
    return NULL;
}

/* Swaps in turn over HTTP, and by a file and SIGHUP. */
static void swap(int round)
{
    const float factor = (float)(1 + round / 2 % 2);
    if (round % 2 == 0) {
        model_put_demo(&client, "swapped", 3 - factor, 200);
    } else {
        write_demo("swapped.safetensors", factor);
        read_again();
        assert_true(model_factor(&client, "swapped") == (double)factor);
    }
}

/* Every answer comes wholly from one version or the other. */
TEST(swaps_under_load)
{
    pthread_t threads[USERS];
    struct users users = { .port = server.port, .total = (int)problem_count(1000) };
    for (int i = 0; i < 2; i++) {
        model_put_demo(&client, "swapped", (float)(1 + i), i ? 200 : 201);
        struct http_response response = ask_swapped(&client);
        assert_int_equal(response.status, 200);
        users.answers[i] = strdup(response.body);
        http_response_free(&response);
    }
    assert_string_not_equal(users.answers[0], users.answers[1]);
    for (int i = 0; i < USERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use, &users), 0);
    for (int swaps = 0; swaps < users.total / REQUESTS_PER_SWAP; daemon_pause(0.0005))
        if (atomic_load(&users.count) >= swaps * REQUESTS_PER_SWAP) {
            swap(swaps++);
            atomic_store(&users.swaps, swaps);
        }
    for (int i = 0; i < USERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(users.wrong, 0);
    assert_int_equal(users.seen[0] + users.seen[1], users.total);
    assert_true(users.seen[0] > 0 && users.seen[1] > 0);
    print_message("%d requests under %d swaps: %d of one, %d of the other\n", users.total,
                  users.swaps, users.seen[0], users.seen[1]);
    for (int i = 0; i < 2; i++)
        free(users.answers[i]);
}

/* ---------------------------------------------------------------- a crash -- */

enum { SAVED_NUMBERS = 40000 };

/* A model whose numbers all have this value, so that the file on disk tells which save it is
 * from. */
static struct model_bytes saved_model(float value)
{
    float *values = malloc(SAVED_NUMBERS * sizeof(*values));
    assert_non_null(values);
    for (int i = 0; i < SAVED_NUMBERS; i++)
        values[i] = value;
    struct model_bytes file = model_bytes_of(
        "{\"__metadata__\":{\"attnd\":\"{\\\"attention\\\":\\\"dot\\\"}\"},"
        "\"q_proj.weight\":{\"dtype\":\"F32\",\"shape\":[200,200],\"data_offsets\":[0,160000]}}",
        values, SAVED_NUMBERS);
    free(values);
    return file;
}

struct saver {
    int port;
    int first;
    _Atomic int answered; /* the last value that got an answer */
};

/* Puts one value after another until the daemon is gone. */
static void *save(void *context)
{
    struct saver *saver = context;
    struct http_client own;
    long status = 200;
    http_client_init(&own, saver->port);
    for (int value = saver->first; status == 200 || status == 201; value++) {
        struct http_response response = model_put(&own, "saved", saved_model((float)value));
        status = response.status;
        if (status == 200 || status == 201)
            atomic_store(&saver->answered, value);
        http_response_free(&response);
    }
    http_client_free(&own);
    return NULL;
}

/* The value of the file on disk; checks that the file is whole. */
static int saved_value(void)
{
    char path[300];
    float value;
    snprintf(path, sizeof(path), "%s/saved.safetensors", directory);
    struct model_bytes expected = saved_model(0);
    char *bytes = malloc(expected.size + 1);
    FILE *file = fopen(path, "r");
    assert_non_null(bytes);
    assert_non_null(file);
    assert_int_equal(fread(bytes, 1, expected.size + 1, file), expected.size);
    fclose(file);
    memcpy(&value, bytes + expected.size - sizeof(value), sizeof(value));
    free(expected.data);
    expected = saved_model(value);
    assert_memory_equal(bytes, expected.data, expected.size);
    free(expected.data);
    free(bytes);
    return (int)value;
}

static void start_daemon(void)
{
    fixture_serve("--models", directory, "--model-control", "explicit");
}

/* The daemon is killed at some point of a save. Then the file on disk is the last one that was
 * answered, or the next one, and it is whole. A new daemon serves it, and no other file is left. */
TEST(killed_while_it_saves)
{
    struct saver saver = { .first = 1 };
    const int rounds = (int)(problem_count(500) / 100);
    for (int i = 0; i < rounds; i++) {
        pthread_t thread;
        saver.port = server.port;
        assert_int_equal(pthread_create(&thread, NULL, save, &saver), 0);
        while (atomic_load(&saver.answered) < saver.first)
            daemon_pause(0.001);
        daemon_pause(0.0137 * (i % 7) / 7); /* at another point of a save each time */
        http_client_free(&client);
        daemon_kill(&server);
        pthread_join(thread, NULL);
        const int value = saved_value();
        assert_true(value == saver.answered || value == saver.answered + 1);
        start_daemon();
        cJSON *model = answer_get(&client, "/v1/models/saved");
        answer_expect(model, "state", "\"READY\"", 0);
        cJSON_Delete(model);
        assert_int_equal(saved_value(), value);
        saver.first = value + 1;
    }
    assert_int_equal(daemon_directory_count(directory), 3); /* numbered, swapped, saved */
}

static int start(void **state)
{
    directory = daemon_directory_create();
    write_demo_version("numbered/3/model.safetensors", 3);
    write_demo_version("numbered/20/model.safetensors", 20);
    write_version("numbered/100/model.safetensors", "x", 1);
    start_daemon();
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
