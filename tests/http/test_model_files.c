/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_files.c - good and bad model files in a directory, and the commands that look at them.
 *
 * The daemon refuses a bad file when a client puts it, and lists it as UNAVAILABLE when it finds it
 * in the directory. A bad file never takes another model down. */
#include "answer.h"
#include "fixture.h"
#include "model_client.h"
#include "test.h"

#include <unistd.h>

static const char *const SAFETENSORS[] = { "Content-Type: application/x-safetensors", NULL };

static const char CONFIG[] = JSON({"attention":"scaled_dot_product","layout":"in_out"});

static void write_model(const char *name, struct model_bytes file)
{
    daemon_directory_write(directory, name, file.data, file.size);
    free(file.data);
}

static void start_server(void)
{
    fixture_serve("--models", directory, "--model-control", "explicit");
}

static cJSON *describe(const char *name)
{
    char path[300];
    snprintf(path, sizeof(path), "/v1/models/%s", name);
    struct http_response response = http_client_get(&client, path);
    cJSON *model = answer_json(&response, 200);
    http_response_free(&response);
    return model;
}

static void expect_first_context(const char *model, const char *wanted)
{
    char body[256];
    snprintf(body, sizeof(body),
             "{\"model\":\"%s\",\"outputs\":[\"context\"],\"query\":[1,0,0],\"key\":%s}", model,
             MODEL_BYTES_WORDS);
    cJSON *answer = answer_post(&client, "/v1/attention", body);
    answer_expect(answer, "context", wanted, 1e-6);
    cJSON_Delete(answer);
}

/* ------------------------------------------------------------------- bad headers -- */

#define ENTRY(name, dtype, shape, offsets)                                                         \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define META "\"__metadata__\":{\"attnd\":\"{\\\"attention\\\":\\\"scaled_dot_product\\\"}\"}"
#define Q    ENTRY("q_proj.weight", "F32", "[3,3]", "[0,36]")
#define K    ENTRY("k_proj.weight", "F32", "[3,3]", "[36,72]")
#define V    ENTRY("v_proj.weight", "F32", "[3,3]", "[72,108]")

/* Each header stands before 27 floats and is wrong in one way. */
static const char *const HEADERS[] = {
    "",
    "{}",
    "[]",
    "null",
    "words",
    "{" META "," Q "," K "," V "}x",
    "{" META "," Q "," K "," V ",}",
    "{" META "," Q "," K "," V,
    "\xEF\xBB\xBF{" META "," Q "," K "," V "}",
    "{" META "," Q "," K "," V ",\"x\":\xFF}",
    /* a tensor, a member, a metadata key twice */
    "{" META "," Q "," Q "," K "," V "}",
    "{" META "," META "," Q "," K "," V "}",
    "{" META "," Q "," K ",\"v_proj.weight\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[3,3],"
    "\"data_offsets\":[72,108]}}",
    "{\"__metadata__\":{\"attnd\":\"{}\",\"attnd\":\"{}\"}," Q "," K "," V "}",
    /* metadata */
    "{" Q "," K "," V "}",
    "{\"__metadata__\":null," Q "," K "," V "}",
    "{\"__metadata__\":{}," Q "," K "," V "}",
    "{\"__metadata__\":{\"attnd\":1}," Q "," K "," V "}",
    "{\"__metadata__\":{\"attnd\":{}}," Q "," K "," V "}",
    "{\"__metadata__\":{\"attnd\":\"\"}," Q "," K "," V "}",
    "{\"__metadata__\":{\"attnd\":\"[]\"}," Q "," K "," V "}",
    "{\"__metadata__\":{\"attnd\":\"{\\\"attention\\\":\\\"none\\\"}\"}," Q "," K "," V "}",
    "{\"__metadata__\":{\"attnd\":\"{\\\"q_heeds\\\":1}\"}," Q "," K "," V "}",
    /* an entry's members */
    "{" META "," Q "," K ",\"v_proj.weight\":[]}",
    "{" META "," Q "," K ",\"v_proj.weight\":{}}",
    "{" META "," Q "," K ",\"v_proj.weight\":{\"shape\":[3,3],\"data_offsets\":[72,108]}}",
    "{" META "," Q "," K ",\"v_proj.weight\":{\"dtype\":\"F32\",\"data_offsets\":[72,108]}}",
    "{" META "," Q "," K ",\"v_proj.weight\":{\"dtype\":\"F32\",\"shape\":[3,3]}}",
    "{" META "," Q "," K "," ENTRY("v_proj.weight", "f32", "[3,3]", "[72,108]") "}",
    "{" META "," Q "," K "," ENTRY("v_proj.weight", "F33", "[3,3]", "[72,108]") "}",
    "{" META "," Q "," K "," ENTRY("v_proj.weight", "F32", "[3,3.0]", "[72,108]") "}",
    "{" META "," Q "," K "," ENTRY("v_proj.weight", "F32", "[-3,-3]", "[72,108]") "}",
    "{" META "," Q "," K "," ENTRY("v_proj.weight", "F32", "9", "[72,108]") "}",
    "{" META "," Q "," K "," ENTRY("v_proj.weight", "F32", "[3,\"3\"]", "[72,108]") "}",
    "{" META "," Q "," K "," ENTRY("v_proj.weight", "F32", "[3,3]", "[72]") "}",
    "{" META "," Q "," K "," ENTRY("v_proj.weight", "F32", "[3,3]", "[72,108,108]") "}",
    "{" META "," Q "," K "," ENTRY("v_proj.weight", "F32", "[3,3]", "[72,1.08e2]") "}",
    /* holes, overlaps, sizes */
    "{" META "," Q "," K "," ENTRY("v_proj.weight", "F32", "[3,3]", "[68,104]") "}",
    "{" META "," Q "," K "," ENTRY("v_proj.weight", "F32", "[2,3]", "[84,108]") "}",
    "{" META "," Q "," K "," ENTRY("v_proj.weight", "F32", "[2,3]", "[72,96]") "}",
    "{" META "," Q "," K "," ENTRY("v_proj.weight", "F32", "[3,4]", "[72,120]") "}",
    "{" META "," Q "," K "," ENTRY("v_proj.weight", "F32", "[3,4]", "[72,108]") "}",
    "{" META "," Q "," K "," ENTRY("v_proj.weight", "F32", "[3,3]", "[108,72]") "}",
    "{" META "," Q "," K
    "," ENTRY("v_proj.weight", "F32", "[4294967296,4294967296]", "[72,108]") "}",
    "{" META "," Q "," K
    "," ENTRY("v_proj.weight", "F32", "[3,3]", "[72,18446744073709551615]") "}",
    "{" META "," Q "," K
    "," ENTRY("v_proj.weight", "F32", "[3,3]", "[72,99999999999999999999999]") "}",
    /* well-formed files that hold no layer */
    "{" META "," Q "," ENTRY("k_proj.weight", "F32", "[6,3]", "[36,108]") "}",
    "{" META "," Q "," K "," ENTRY("v_proj.weight", "I32", "[3,3]", "[72,108]") "}",
    "{" META "," Q "," K "," ENTRY("v_proj.weight", "F32", "[9]", "[72,108]") "}",
    "{" META "," Q "," K "," ENTRY("v_proj.weight", "F32", "[1,3,3]", "[72,108]") "}",
    "{" META "," Q "," ENTRY("k_proj.weight", "F32", "[2,3]",
                             "[36,60]") "," ENTRY("v_proj.weight", "F32", "[4,3]", "[60,108]") "}",
};

static void put_refused(const char *data, size_t size)
{
    struct http_response response =
        http_client_send(&client, &(struct http_request){ .method = "PUT",
                                                          .path = "/v1/models/good",
                                                          .body = size > 0 ? data : "",
                                                          .body_size = size,
                                                          .headers = SAFETENSORS });
    if (response.status != 400)
        fprintf(stderr, "file: %.*s\n", size > 8 ? (int)size - 8 : 0, data + 8);
    answer_expect_fault(&response, 400,
                        "binary|json|duplicate|field|type|shape|option|dtype|length|nonfinite",
                        NULL);
    http_response_free(&response);
}

/* Each is put over a good model, which stays. */
TEST(bad_files_are_refused)
{
    static const float values[27] = { 0 };
    write_model("good.safetensors", model_bytes_demo(2, ""));
    start_server();
    for (size_t i = 0; i < sizeof(HEADERS) / sizeof(HEADERS[0]); i++) {
        struct model_bytes file = model_bytes_of(HEADERS[i], values, 27);
        put_refused(file.data, file.size);
        free(file.data);
    }
    struct model_bytes file = model_bytes_demo(3, "");
    for (size_t size = 0; size < file.size; size += size < 16 || size > file.size - 16 ? 1 : 7)
        put_refused(file.data, size);
    file.data[file.size] = 0; /* one byte more than the tensors; the builder left room */
    put_refused(file.data, file.size + 1);
    static const char lengths[] = { 0x7f, -1, 1, -128 };
    for (size_t i = 0; i < sizeof(lengths); i++)
        for (int byte = 0; byte < 8; byte++) {
            char kept = file.data[byte];
            file.data[byte] = lengths[i];
            if (file.data[byte] != kept)
                put_refused(file.data, file.size);
            file.data[byte] = kept;
        }
    free(file.data);
    expect_first_context("good", "[[1.9704405,3.48348102,1.51304052]]");
    assert_int_equal(daemon_directory_count(directory), 1);
    fixture_stop(NULL);
}

/* ------------------------------------------------------------------ what is found -- */

TEST(directory_forms)
{
    write_model("file.safetensors", model_bytes_demo(1, ""));
    write_model("folder/model.safetensors", model_bytes_demo(2, ""));
    daemon_directory_write(directory, "folder/config.json", CONFIG, sizeof(CONFIG) - 1);
    daemon_directory_write(directory, "README.txt", "not a model", 11);
    daemon_directory_write(directory, ".hidden.safetensors", "not a model", 11);
    start_server();
    expect_first_context("file", "[[0.98522025,1.74174051,0.75652026]]");
    expect_first_context("folder", "[[1.9704405,3.48348102,1.51304052]]");
    struct http_response response = http_client_get(&client, "/v1/models");
    cJSON *models = answer_json(&response, 200);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(models, "models")), 4);
    cJSON_Delete(models);
    http_response_free(&response);
    fixture_stop(NULL);
}

TEST(directory_is_the_model)
{
    write_model("model.safetensors", model_bytes_demo(1, ""));
    daemon_directory_write(directory, "config.json", CONFIG, sizeof(CONFIG) - 1);
    fixture_serve("--models", directory, "--model-name", "mounted");
    expect_first_context("mounted", "[[0.98522025,1.74174051,0.75652026]]");
    /* A request that names no model gets this one. */
    cJSON *answer = answer_post(&client, "/v1/attention", JSON({"query":[1,0,0]}));
    answer_expect(answer, "model", "\"mounted\"", 0);
    cJSON_Delete(answer);
    fixture_stop(NULL);
}

TEST(default_model)
{
    write_model("one.safetensors", model_bytes_demo(1, ""));
    start_server();
    cJSON *answer = answer_post(&client, "/v1/attention", JSON({"query":[1,0,0]}));
    answer_expect(answer, "model", "\"one\"", 0);
    cJSON_Delete(answer);
    fixture_stop(NULL);
    write_model("two.safetensors", model_bytes_demo(1, ""));
    start_server();
    answer_refused(&client, "/v1/attention", JSON({"query":[1,0,0]}), 400, "field", NULL);
    fixture_stop(NULL);
}

/* One file for each way to store numbers; these numbers are exact in all of them. */
TEST(dtypes)
{
    static const unsigned short f16[] = { 0x3c00, 0, 0, 0x3c00, 0x3c00, 0xc000 };
    static const unsigned short bf16[] = { 0x3f80, 0, 0, 0x3f80, 0x3f80, 0xc000 };
    static const double f64[] = { 1, 0, 0, 1, 1, -2 };
    static const struct {
        const char *name;
        const void *values;
        int size;
    } dtypes[] = { { "F16", f16, 2 }, { "BF16", bf16, 2 }, { "F64", f64, 8 } };
    for (int i = 0; i < 3; i++) {
        char header[1024], name[64];
        int s = dtypes[i].size;
        snprintf(header, sizeof(header),
                 "{\"__metadata__\":{\"attnd\":\"{\\\"attention\\\":\\\"dot\\\"}\"},"
                 "\"q_proj.weight\":{\"dtype\":\"%s\",\"shape\":[1,2],\"data_offsets\":[0,%d]},"
                 "\"k_proj.weight\":{\"dtype\":\"%s\",\"shape\":[1,2],\"data_offsets\":[%d,%d]},"
                 "\"v_proj.weight\":{\"dtype\":\"%s\",\"shape\":[1,2],\"data_offsets\":[%d,%d]}}",
                 dtypes[i].name, 2 * s, dtypes[i].name, 2 * s, 4 * s, dtypes[i].name, 4 * s, 6 * s);
        float words[12];
        memcpy(words, dtypes[i].values, (size_t)(6 * s));
        snprintf(name, sizeof(name), "%s.safetensors", dtypes[i].name);
        write_model(name, model_bytes_of(header, words, (size_t)(6 * s) / 4));
    }
    start_server();
    for (int i = 0; i < 3; i++) {
        char body[128];
        snprintf(body, sizeof(body),
                 "{\"model\":\"%s\",\"query\":[[3,9]],\"outputs\":[\"scores\",\"context\"]}",
                 dtypes[i].name);
        cJSON *answer = answer_post(&client, "/v1/attention", body);
        answer_expect(answer, "scores", "[[[27]]]", 1e-6);
        answer_expect(answer, "context", "[[-15]]", 1e-6);
        cJSON_Delete(answer);
    }
    fixture_stop(NULL);
}

TEST(bad_file_is_listed)
{
    write_model("good.safetensors", model_bytes_demo(1, ""));
    daemon_directory_write(directory, "broken.safetensors", "broken", 6);
    write_model("typo.safetensors", model_bytes_demo(1, ",\"q_heeds\":1"));
    start_server();
    static const char *const names[] = { "broken", "typo" };
    for (int i = 0; i < 2; i++) {
        cJSON *model = describe(names[i]);
        answer_expect(model, "state", "\"UNAVAILABLE\"", 0);
        const char *reason = cJSON_GetStringValue(cJSON_GetObjectItem(model, "reason"));
        assert_true(reason && strlen(reason) > 10);
        answer_expect(model, "trace", "false", 0);
        assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(model, "trace_reason")),
                            reason);
        if (i == 1 && (!strstr(reason, "q_heeds") || !strstr(reason, "q_heads")))
            fail_msg("the reason is: %s", reason);
        cJSON_Delete(model);
    }
    answer_refused(&client, "/v1/attention", "{\"model\":\"broken\",\"query\":[[1]]}", 503,
                   "loading", NULL);
    expect_first_context("good", "[[0.98522025,1.74174051,0.75652026]]");
    struct http_response response = http_client_get(&client, "/readyz");
    assert_int_equal(response.status, 200);
    http_response_free(&response);

    /* After a new put the model is well. */
    response = model_put(&client, "broken", model_bytes_demo(2, ""));
    assert_true(response.status == 200 || response.status == 201);
    http_response_free(&response);
    expect_first_context("broken", "[[1.9704405,3.48348102,1.51304052]]");
    fixture_stop(NULL);
}

/* A model's name is that of its folder or file, percent-encoded in a path and as it is in all else.
 * A file whose name no model can have is said in the log. */
TEST(names)
{
    write_model("my gpt2.safetensors", model_bytes_demo(1, ""));
    write_model("bart-6+6.safetensors", model_bytes_demo(2, ""));
    write_model("a#b.safetensors", model_bytes_demo(2, ""));
    start_server();
    free(daemon_log_with(&server, "rename it; expected 1 to 128 letters"));
    cJSON *model = describe("my%20gpt2");
    answer_expect(model, "name", "\"my gpt2\"", 0);
    answer_expect(model, "source", "\"my gpt2.safetensors\"", 0);
    cJSON_Delete(model);
    cJSON_Delete(describe("bart-6+6"));
    cJSON_Delete(describe("bart-6%2B6"));
    expect_first_context("my gpt2", "[[0.98522,1.74174,0.75652]]");
    struct http_response metrics = http_client_get(&client, "/metrics");
    assert_non_null(strstr(metrics.body, "{model=\"my gpt2\""));
    http_response_free(&metrics);
    fixture_stop(NULL);
}

/* With --models-strict a bad file keeps the daemon from being ready, or from starting. */
TEST(strict)
{
    daemon_directory_write(directory, "broken.safetensors", "broken", 6);
    const char *const arguments[] = { "--listen", "127.0.0.1:0",     "--models",
                                      directory,  "--models-strict", NULL };
    struct daemon_result result = daemon_command(arguments, NULL);
    assert_int_equal(result.exit_code, 1);
    assert_non_null(strstr(result.errors, "broken"));
    daemon_result_free(&result);
    char path[512];
    snprintf(path, sizeof(path), "%s/broken.safetensors", directory);
    assert_int_equal(unlink(path), 0);
    write_model("good.safetensors", model_bytes_demo(1, ""));
    daemon_start_with(&server, "--models", directory, "--models-strict", NULL);
    daemon_stop(&server);
}

/* ------------------------------------------------------------------ the commands -- */

static void expect_command(int exit_code, const char *output, const char *errors, ...)
{
    const char *arguments[16] = { NULL };
    va_list list;
    va_start(list, errors);
    for (int i = 0; i < 15 && (arguments[i] = va_arg(list, const char *)); i++)
        ;
    va_end(list);
    struct daemon_result result = daemon_command(arguments, NULL);
    if (result.exit_code != exit_code || (output && !strstr(result.output, output))
        || (errors && !strstr(result.errors, errors))
        || (exit_code != 0 && strlen(result.errors) == 0))
        fail_msg("%s %s ended with %d:\n%s%s", arguments[0], arguments[1] ? arguments[1] : "",
                 result.exit_code, result.output, result.errors);
    daemon_result_free(&result);
}

TEST(check_config)
{
    expect_command(0, "demo", NULL, "--check-config", NULL);
    write_model("words.safetensors", model_bytes_demo(1, ""));
    expect_command(0, "sdpa", NULL, "--models", directory, "--check-config", NULL);
    expect_command(1, NULL, NULL, "--check-config", "--models", "/nowhere/at/all", NULL);
}

TEST(model_show)
{
    static const float values[2] = { 1, 2 };
    char path[512];
    write_model("words.safetensors", model_bytes_demo(1, ""));
    snprintf(path, sizeof(path), "%s/words.safetensors", directory);
    expect_command(0, "q_proj.weight", NULL, "model", "show", path, NULL);
    write_model("other.safetensors",
                model_bytes_of("{" ENTRY("anything", "I8", "[2,4]", "[0,8]") "}", values, 2));
    snprintf(path, sizeof(path), "%s/other.safetensors", directory);
    expect_command(0, "anything", NULL, "model", "show", path, NULL);
    daemon_directory_write(directory, "broken.safetensors", "broken", 6);
    snprintf(path, sizeof(path), "%s/broken.safetensors", directory);
    expect_command(1, NULL, path, "model", "show", path, NULL);
    expect_command(1, NULL, NULL, "model", "show", "/nowhere/at/all", NULL);
    expect_command(0, "layers.4.attention.wq.weight", NULL, "model", "show",
                   "examples/models/stories260K", NULL);
    expect_command(2, NULL, NULL, "model", "show", NULL);
    expect_command(2, NULL, NULL, "model", NULL);
    expect_command(2, NULL, NULL, "model", "paint", path, NULL);
}

static int make_directory(void **state)
{
    directory = daemon_directory_create();
    return 0;
}

EACH_TEST(make_directory, fixture_clear);
