/* SPDX-License-Identifier: Apache-2.0 */
/* test_sessions_files_many.c - many sessions, and several steps, as safetensors files.
 *
 * A file has to be answered with the bytes of the JSON answer to the same numbers, its tensors with
 * the bits of a file that has one call alone. What is refused is in
 * test_sessions_files_refused.c. */
#include "answer.h"
#include "fill.h"
#include "fixture.h"
#include "request_text.h"
#include "session_client.h"
#include "tensor_body.h"
#include "test.h"

static const char MANY[] = "/v1/sessions/attention", STORY[] = "/v1/sessions/story/attention",
                  TYPE[] = "application/x-safetensors";

enum { COLUMNS = 4, ROWS_MAX = 3, WIDTH = 64 /* of stories260K */ };

static struct fill numbers = { 1 };

/* ------------------------------------------------------------------- two forms of a call -- */

/* The same arrays as tensors and as text. */
struct forms {
    struct tensor_body body;
    struct request_text text;
};

/* Adds a matrix: as tensor prefix.name, and as member of the object that the text is in. */
static void add(struct forms *forms, const char *prefix, const char *name, int rows, int columns)
{
    float values[ROWS_MAX * WIDTH];
    char whole[64], shape[32];
    fill_floats(&numbers, values, (int64_t)rows * columns, -1, 1);
    snprintf(whole, sizeof whole, "%s.%s", prefix, name);
    snprintf(shape, sizeof shape, "[%d,%d]", rows, columns);
    tensor_body_add(&forms->body, whole, "F32", shape, values,
                    (size_t)(rows * columns) * sizeof values[0]);
    request_text_add(&forms->text, ",\"%s\":", name);
    request_text_matrix(&forms->text, values, rows, columns);
}

/* Neither may append, so that all four answers are about the same keys. */
static void same_in_both_forms(const char *path, const struct forms *forms, const char *metadata)
{
    struct http_response plain = http_client_post(&client, path, forms->text.data);
    struct http_response file_to_json =
        tensor_body_post(&client, path, &forms->body, metadata, 3, "application/json");
    struct http_response json_to_file = tensor_body_post_json(&client, path, forms->text.data);
    struct http_response file_to_file =
        tensor_body_post(&client, path, &forms->body, metadata, 5, NULL);
    cJSON_Delete(answer_json(&plain, 200));
    cJSON_Delete(answer_json(&file_to_json, 200));
    assert_string_equal(file_to_json.body, plain.body);
    cJSON_Delete(tensor_body_header(&json_to_file));
    cJSON_Delete(tensor_body_header(&file_to_file));
    assert_int_equal(file_to_file.body_size, json_to_file.body_size);
    assert_memory_equal(file_to_file.body, json_to_file.body, json_to_file.body_size);
    http_response_free(&plain);
    http_response_free(&file_to_json);
    http_response_free(&json_to_file);
    http_response_free(&file_to_file);
}

/* A list in the metadata of an answer. The caller frees it. */
static cJSON *list_of(const cJSON *header, const char *name)
{
    const cJSON *metadata = cJSON_GetObjectItem(header, "__metadata__");
    cJSON *list = cJSON_Parse(cJSON_GetObjectItem(metadata, name)->valuestring);
    assert_true(cJSON_IsArray(list));
    return list;
}

TEST(many)
{
    struct forms forms = { .body.used = 0 };
    request_text_add(&forms.text,
                     "{\"append\":false,\"outputs\":[\"context\",\"lse\"],\"requests\":["
                     "{\"session\":\"a\"");
    add(&forms, "requests.0", "query", 2, COLUMNS);
    add(&forms, "requests.0", "key", 3, COLUMNS);
    add(&forms, "requests.0", "value", 3, 2);
    request_text_add(&forms.text, ",\"causal\":true},{\"session\":\"nobody\"},{\"session\":\"b\"");
    add(&forms, "requests.2", "query", 1, COLUMNS);
    request_text_add(&forms.text, ",\"outputs\":[\"weights\"],\"weight_map\":{\"top_k\":2}},"
                                  "{\"session\":\"c\",\"select\":{\"epsilon\":0.5}");
    add(&forms, "requests.3", "query", 1, COLUMNS);
    request_text_add(&forms.text, "}]}");
    same_in_both_forms(
        MANY, &forms,
        "{\"append\":\"false\",\"outputs\":\"[\\\"context\\\",\\\"lse\\\"]\",\"requests\":"
        "\"[{\\\"session\\\":\\\"a\\\",\\\"causal\\\":true},{\\\"session\\\":\\\"nobody\\\"},"
        "{\\\"session\\\":\\\"b\\\",\\\"outputs\\\":[\\\"weights\\\"],"
        "\\\"weight_map\\\":{\\\"top_k\\\":2}},{\\\"session\\\":\\\"c\\\","
        "\\\"select\\\":{\\\"epsilon\\\":0.5}}]\"}");
    struct http_response response = tensor_body_post_json(&client, MANY, forms.text.data);
    cJSON *header = tensor_body_header(&response), *results = list_of(header, "results");
    tensor_body_find(&response, header, "results.0.context", "F32", "[2,2]");
    tensor_body_find(&response, header, "results.0.lse", "F32", "[1,2]");
    tensor_body_find(&response, header, "results.2.weights.values", "F32", "[1,1,2]");
    tensor_body_find(&response, header, "results.2.weights.indices", "I64", "[1,1,2]");
    tensor_body_find(&response, header, "results.3.mass_left", "F32", "[1,1]");
    assert_int_equal(cJSON_GetArraySize(results), 4);
    answer_expect_members(cJSON_GetArrayItem(results, 0),
                          "session,kv_len,model,layer,layer_kv_len");
    answer_expect_item_fault(cJSON_GetArrayItem(results, 1), "not_found", "/requests/1/session");
    answer_expect(cJSON_GetArrayItem(results, 3), "keys_read", "3", 0);
    cJSON_Delete(results);
    cJSON_Delete(header);
    http_response_free(&response);
    free(forms.text.data);
}

TEST(steps)
{
    struct forms forms = { .body.used = 0 };
    request_text_add(&forms.text, "{\"append\":false,\"steps\":[{\"layer\":4");
    add(&forms, "steps.0", "input", 2, WIDTH);
    request_text_add(&forms.text, "},{\"layer\":0");
    add(&forms, "steps.1", "input", 1, WIDTH);
    request_text_add(&forms.text, "}]}");
    same_in_both_forms(
        STORY, &forms,
        "{\"append\":\"false\",\"steps\":\"[{\\\"layer\\\":4},{\\\"layer\\\":0}]\"}");
    struct http_response response = tensor_body_post_json(&client, STORY, forms.text.data);
    cJSON *header = tensor_body_header(&response), *steps = list_of(header, "steps");
    tensor_body_find(&response, header, "steps.0.context", "F32", "[2,64]");
    answer_expect_members(cJSON_GetArrayItem(steps, 1), "model,layer,layer_kv_len");
    answer_expect(cJSON_GetObjectItem(header, "__metadata__"), "session", "\"story\"", 0);
    answer_expect(cJSON_GetObjectItem(header, "__metadata__"), "kv_len", "\"0\"", 0);
    cJSON_Delete(steps);
    cJSON_Delete(header);
    http_response_free(&response);
    free(forms.text.data);
}

/* --------------------------------------------------------------------------- dtypes -- */

static const uint16_t HALVES[] = { 0x3C00, 0x3800, 0xB400, 0x4000 }; /* 1, 0.5, -0.25, 2 */
static const uint16_t BRAINS[] = { 0x3F80, 0x3F00, 0xBE80, 0x4000 };

static void add_rows(struct tensor_body *body, const char *prefix, const char *dtype,
                     const uint16_t *values)
{
    static const char *const NAMES[] = { "query", "key", "value" };
    char name[64];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s%s", prefix, NAMES[i]);
        tensor_body_add(body, name, dtype, i < 2 ? "[1,4]" : "[1,2]", values + (i == 2),
                        (i < 2 ? 4 : 2) * sizeof *values);
    }
}

/* The outputs of a session in a file of its own must be those in the file of all. */
static void expect_as_alone(const struct http_response *all, const cJSON *header, const char *id,
                            int number, const char *dtype, const uint16_t *values)
{
    struct tensor_body body = { .used = 0 };
    char path[64], name[64];
    add_rows(&body, "", dtype, values);
    snprintf(path, sizeof path, "/v1/sessions/%s/attention", id);
    struct http_response alone =
        tensor_body_post(&client, path, &body, "{\"append\":\"false\"}", 1, NULL);
    cJSON *own = tensor_body_header(&alone);
    snprintf(name, sizeof name, "results.%d.context", number);
    assert_memory_equal(tensor_body_find(all, header, name, dtype, "[1,2]"),
                        tensor_body_find(&alone, own, "context", dtype, "[1,2]"),
                        2 * sizeof *values);
    snprintf(name, sizeof name, "results.%d.weights", number);
    assert_memory_equal(tensor_body_find(all, header, name, dtype, "[1,1,4]"),
                        tensor_body_find(&alone, own, "weights", dtype, "[1,1,4]"),
                        4 * sizeof *values);
    cJSON_Delete(own);
    http_response_free(&alone);
}

/* Results of several dtypes stand in one file, each at a place that its size divides. */
TEST(dtypes)
{
    static const float QUERY[] = { 1, 2, 3, 4 };
    static const double WIDE[] = { 1, 2, 3, 4 };
    for (int pad = 0; pad < 8; pad++) {
        struct tensor_body body = { .used = 0 };
        add_rows(&body, "requests.0.", "F16", HALVES);
        add_rows(&body, "requests.1.", "BF16", BRAINS);
        tensor_body_add(&body, "requests.2.query", "F32", "[1,4]", QUERY, sizeof QUERY);
        tensor_body_add(&body, "requests.3.query", "F64", "[1,4]", WIDE, sizeof WIDE);
        struct http_response response = tensor_body_post(
            &client, MANY, &body,
            "{\"append\":\"false\",\"requests\":\"[{\\\"session\\\":\\\"a\\\"},{\\\"session\\\":"
            "\\\"c\\\"},{\\\"session\\\":\\\"b\\\"},{\\\"session\\\":\\\"d\\\"}]\"}",
            pad, NULL);
        cJSON *header = tensor_body_header(&response);
        expect_as_alone(&response, header, "a", 0, "F16", HALVES);
        expect_as_alone(&response, header, "c", 1, "BF16", BRAINS);
        tensor_body_find(&response, header, "results.2.context", "F32", "[1,2]");
        tensor_body_find(&response, header, "results.3.context", "F64", "[1,2]");
        const cJSON *tensor;
        cJSON_ArrayForEach(tensor, header) {
            const cJSON *dtype = cJSON_GetObjectItem(tensor, "dtype");
            const cJSON *offsets = cJSON_GetObjectItem(tensor, "data_offsets");
            if (dtype)
                assert_int_equal(cJSON_GetArrayItem(offsets, 0)->valueint
                                     % (atoi(strpbrk(dtype->valuestring, "1346")) / 8),
                                 0);
        }
        cJSON_Delete(header);
        http_response_free(&response);
    }
}

/* ------------------------------------------------------------------------- appending -- */

TEST(appends)
{
    static const float ROW[] = { 1, 0, 0, 1 };
    struct tensor_body body = { .used = 0 };
    session_make(&client, JSON({"model":"sdpa","id":"e"}));
    session_make(&client, JSON({"model":"sdpa","id":"f"}));
    for (int i = 0; i < 2; i++) {
        static const char *const NAMES[] = { "requests.0.query", "requests.0.key",
                                             "requests.1.query", "requests.1.key" };
        tensor_body_add(&body, NAMES[2 * i], "F32", "[1,4]", ROW, sizeof ROW);
        tensor_body_add(&body, NAMES[2 * i + 1], "F32", "[1,4]", ROW, sizeof ROW);
    }
    /* Sent again with where it was, it appends nothing. */
    for (int i = 0; i < 2; i++) {
        struct http_response response =
            tensor_body_post(&client, MANY, &body,
                             "{\"at\":\"0\",\"requests\":\"[{\\\"session\\\":\\\"e\\\"},"
                             "{\\\"session\\\":\\\"f\\\"}]\"}",
                             0, NULL);
        cJSON *header = tensor_body_header(&response), *results = list_of(header, "results");
        answer_expect(cJSON_GetArrayItem(results, 1), "layer_kv_len", "1", 0);
        cJSON_Delete(results);
        cJSON_Delete(header);
        http_response_free(&response);
        assert_true(session_number(&client, "e", "kv_len") == 1);
        assert_true(session_number(&client, "f", "kv_len") == 1);
    }
    session_delete(&client, "e", 204);
    session_delete(&client, "f", 204);
}

/* --------------------------------------------------------------------------- no items -- */

TEST(no_items)
{
    const struct tensor_body body = { .used = 0 };
    struct http_response response =
        tensor_body_post(&client, MANY, &body, "{\"requests\":\"[]\"}", 0, TYPE);
    cJSON *header = tensor_body_header(&response), *results = list_of(header, "results");
    assert_int_equal(cJSON_GetArraySize(results), 0);
    assert_int_equal(cJSON_GetArraySize(header), 1);
    cJSON_Delete(results);
    cJSON_Delete(header);
    http_response_free(&response);
}

static int start(void **state)
{
    static const char *const FILLED[] = { "a", "b", "c", "d" };
    fixture_serve("--workers", "2", "--models", "examples/models");
    session_make(&client, JSON({"model":"sdpa","id":"a"}));
    session_make(&client, JSON({"model":"sdpa","id":"b","dtype":"f16"}));
    session_make(&client, JSON({"model":"sdpa","id":"c","dtype":"bf16"}));
    session_make(&client, JSON({"model":"sdpa","id":"d"}));
    session_make(&client, JSON({"model":"stories260K","id":"story"}));
    for (size_t i = 0; i < sizeof FILLED / sizeof FILLED[0]; i++)
        cJSON_Delete(session_post(&client, FILLED[i], "attention",
                                  "{\"query\":[[1,2,3,4]],\"key\":[[1,0,0,1],[0,1,0,0],[1,1,0,2]],"
                                  "\"value\":[[1,2],[3,4],[5,6]]}",
                                  200));
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
