/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_new.c - attnd model new: the daemon serves the files that it writes, and these depend
 * on the seed alone. */
#include "answer.h"
#include "daemon.h"
#include "http_client.h"
#include "tensor_file.h"
#include "test.h"

static char *directory;

enum { PATH_BYTES = 512, ARGUMENTS_MAX = 20 };

static void path_of(char path[PATH_BYTES], const char *name)
{
    snprintf(path, PATH_BYTES, "%s/%s", directory, name);
}

/* Runs attnd model new with the flags, which are separated by spaces, and with the path of name in
 * the directory, or without a path if name is NULL. Returns the exit status; what it wrote to
 * standard error must have words in it. */
static int run_new(const char *flags, const char *name, const char *words)
{
    char text[PATH_BYTES], path[PATH_BYTES];
    const char *arguments[ARGUMENTS_MAX] = { "model", "new" };
    int count = 2;
    char *rest = NULL;
    snprintf(text, sizeof text, "%s", flags);
    for (char *flag = strtok_r(text, " ", &rest); flag; flag = strtok_r(NULL, " ", &rest))
        arguments[count++] = flag;
    if (name) {
        path_of(path, name);
        arguments[count++] = path;
    }
    struct daemon_result result = daemon_command(arguments, NULL);
    if (!strstr(result.errors, words))
        fail_msg("%s: wrote '%s', expected '%s'", flags, result.errors, words);
    const int exit_code = result.exit_code;
    daemon_result_free(&result);
    return exit_code;
}

static bool same_bytes(const char *one, const char *other)
{
    char path[PATH_BYTES];
    size_t size, other_size;
    path_of(path, one);
    unsigned char *bytes = tensor_read_bytes(path, &size);
    path_of(path, other);
    unsigned char *other_bytes = tensor_read_bytes(path, &other_size);
    const bool same = size == other_size && memcmp(bytes, other_bytes, size) == 0;
    free(bytes);
    free(other_bytes);
    return same;
}

/* Each file as the daemon serves it: parameters, heads and widths. */
static const struct {
    const char *name, *flags;
    double parameter_count;
    const char *layer; /* the last layer */
} MODELS[] = {
    { "plain", "--d-model=12", 4 * 12 * 12,
      "{\"index\":0,\"kind\":\"self\",\"d_query\":12,\"d_key\":12,\"d_value\":12,\"d_out\":12,"
      "\"q_heads\":1,\"kv_heads\":1,\"head_dim\":12,\"v_head_dim\":12}" },
    { "heads", "--attention dot --d-model 12 --q-heads 6 --kv-heads 2 --layers 3 --seed 5",
      3 * (2 * 12 * 12 + 2 * 12 * 4),
      "{\"index\":2,\"kind\":\"self\",\"d_query\":12,\"d_key\":12,\"d_value\":12,\"d_out\":12,"
      "\"q_heads\":6,\"kv_heads\":2,\"head_dim\":2,\"v_head_dim\":2}" },
    { "general", "--attention general --d-model 5", 25,
      "{\"index\":0,\"kind\":\"self\",\"d_query\":5,\"d_key\":5,\"d_value\":null,\"d_out\":null,"
      "\"q_heads\":1,\"kv_heads\":1,\"head_dim\":5,\"v_head_dim\":null}" },
    { "additive", "--attention additive --d-model 5 --hidden 7 --layers 2", 2 * (2 * 35 + 7),
      "{\"index\":1,\"kind\":\"self\",\"d_query\":5,\"d_key\":5,\"d_value\":null,\"d_out\":null,"
      "\"q_heads\":1,\"kv_heads\":1,\"head_dim\":7,\"v_head_dim\":null}" },
    { "concat", "--attention concat --d-model 5 --seed 18446744073709551615", 5 * 10 + 5,
      "{\"index\":0,\"kind\":\"cross\",\"d_query\":null,\"d_key\":null,\"d_value\":null,"
      "\"d_out\":null,\"q_heads\":1,\"kv_heads\":1,\"head_dim\":5,\"v_head_dim\":null}" },
};

enum { MODEL_COUNT = sizeof MODELS / sizeof MODELS[0] };

static void expect_served(struct http_client *client, int index)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/v1/models/%s", MODELS[index].name);
    struct http_response response = http_client_get(client, path);
    cJSON *model = answer_json(&response, 200);
    const cJSON *layers = cJSON_GetObjectItem(model, "layers");
    const cJSON *last = cJSON_GetArrayItem(layers, cJSON_GetArraySize(layers) - 1);
    cJSON *holder = cJSON_CreateObject();
    cJSON_AddItemToObject(holder, "layer", cJSON_Duplicate(last, true));
    cJSON_DeleteItemFromObject(cJSON_GetObjectItem(holder, "layer"), "options");
    answer_expect(holder, "layer", MODELS[index].layer, 0);
    assert_true(cJSON_GetObjectItem(model, "parameter_count")->valuedouble
                == MODELS[index].parameter_count);
    cJSON_Delete(holder);
    cJSON_Delete(model);
    http_response_free(&response);
}

TEST(served)
{
    struct daemon server;
    struct http_client client;
    char name[64];
    for (int i = 0; i < MODEL_COUNT; i++) {
        snprintf(name, sizeof name, "%s.safetensors", MODELS[i].name);
        assert_int_equal(run_new(MODELS[i].flags, name, ""), 0);
    }
    assert_int_equal(daemon_directory_count(directory), MODEL_COUNT);
    daemon_start_with(&server, "--models", directory, "--models-strict", NULL);
    http_client_init(&client, server.port);
    for (int i = 0; i < MODEL_COUNT; i++)
        expect_served(&client, i);
    cJSON *answer = answer_post(&client, "/v1/attention",
                                "{\"model\":\"additive\",\"layer\":1,\"query\":[[1,2,3,4,5]],"
                                "\"key\":[[1,0,0,0,0],[1,0,0,0,0]],\"value\":[[2],[4]]}");
    answer_expect(answer, "context", "[[3]]", 1e-6);
    cJSON_Delete(answer);
    http_client_free(&client);
    daemon_stop(&server);
}

TEST(seed)
{
    static const char flags[] = "--d-model 8 --q-heads 2 --seed ";
    char with[64];
    static const char *const seeds[] = { "1", "1", "2" };
    static const char *const names[] = { "a.safetensors", "b.safetensors", "c.safetensors" };
    for (int i = 0; i < 3; i++) {
        snprintf(with, sizeof with, "%s%s", flags, seeds[i]);
        assert_int_equal(run_new(with, names[i], ""), 0);
    }
    assert_true(same_bytes(names[0], names[1]));
    assert_false(same_bytes(names[0], names[2]));
    /* The command writes over an old file only with --force. */
    assert_int_equal(run_new("--d-model 8 --q-heads 2 --seed 1", names[2], "--force"), 1);
    assert_false(same_bytes(names[0], names[2]));
    assert_int_equal(run_new("--d-model 8 --force --q-heads 2 --seed 1", names[2], ""), 0);
    assert_true(same_bytes(names[0], names[2]));
}

TEST(refused)
{
    static const struct {
        const char *flags, *name;
        int exit_code;
        const char *words;
    } cases[] = {
        { "", "x", 2, "--d-model is missing" },
        { "--d-model 4", NULL, 2, "the file is missing" },
        { "--d-model", NULL, 2, "--d-model has no value" },
        { "--d-model 0", "x", 2, "--d-model is '0'; expected an integer from 1" },
        { "--d-model 4x", "x", 2, "--d-model is '4x'" },
        { "--d-model -4", "x", 2, "--d-model is '-4'" },
        { "--d-model 99999999999999999999", "x", 2, "expected an integer from 1 to" },
        { "--d-modle 4", "x", 2, "did you mean '--d-model'" },
        { "--d-model 4 --attention cosine", "x", 2,
          "--attention is 'cosine'; expected scaled_dot" },
        { "--d-model 4 --seed -1", "x", 2, "--seed is '-1'" },
        { "--d-model 4 --seed 18446744073709551616", "x", 2, "--seed is '18446744073709551616'" },
        { "--d-model 6 --q-heads 4", "x", 2, "expected a multiple of --q-heads, which is 4" },
        { "--d-model 6 --q-heads 3 --kv-heads 2", "x", 2, "a multiple of --kv-heads" },
        { "--d-model 6 --hidden 3", "x", 2, "scaled_dot_product attention has no hidden columns" },
        { "--d-model 6 --hidden 3 --attention general", "x", 2, "has no hidden columns" },
        { "--d-model 6 --q-heads 3 --attention additive", "x", 2,
          "additive attention has one head" },
        { "--d-model 6 --layers 1001", "x", 2, "--layers is '1001'" },
        { "--d-model 6 a b", NULL, 2, "two files are named, 'a' and 'b'" },
        { "--d-model 1048576", "x", 1, "expected at most 4294967296" },
        { "--d-model 6", "nowhere/at/all", 1, "nowhere/at/all: cannot be written: No such file" },
        { "--d-model=6x", "x", 2, "--d-model is '6x'" },
        { "--d-model=", "x", 2, "--d-model has no value" },
        { "--d-modle=4", "x", 2, "did you mean '--d-model'" },
        { "--d-model 4 --force=1", "x", 2, "--force takes no value" },
    };
    const int files = daemon_directory_count(directory);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int got = run_new(cases[i].flags, cases[i].name, cases[i].words);
        if (got != cases[i].exit_code)
            fail_msg("%s: exit status %d", cases[i].flags, got);
    }
    assert_int_equal(daemon_directory_count(directory), files);
}

static int start(void **state)
{
    directory = daemon_directory_create();
    return 0;
}

static int clear(void **state)
{
    daemon_directory_remove(directory);
    return 0;
}

ALL_TESTS(start, clear);
