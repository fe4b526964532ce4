/* SPDX-License-Identifier: Apache-2.0 */
/* test_accidents_sizes.c - accidents that other model servers had with sizes: a shape whose product
 * overflows, a length that is longer than what came, a count without bound. Each reader of the
 * daemon gets sizes whose products lie at 2^31, 2^32, 2^63 and 2^64, in bodies and in models.
 * Fresh memory is filled with a pattern, and no refusal has it. SECURITY.md has the list. */
#include "answer.h"
#include "fixture.h"
#include "model_client.h"
#include "request_text.h"
#include "test.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* Single sizes, and what they become where 32 or 64 bits hold them. */
static const char *const SIZES[] = {
    "-1",
    "2147483647",
    "2147483648",
    "2147483649",
    "4294967295",
    "4294967296",
    "4294967299",
    "9223372036854775807",
    "9223372036854775808",
    "9223372036854775811",
    "18446744073709551615",
    "18446744073709551616",
    "18446744073709551619",
    "1e300",
    "1e19",
};

/* Shapes whose number of elements, or of bytes, is past these bounds, or comes back to 3 or to 12
 * where it wraps around. */
static const char *const SHAPES[] = {
    "2147483648,1",
    "1,2147483648",
    "65536,32768",
    "46341,46341",
    "4294967296,1",
    "65536,65536",
    "1431655766,3",
    "1073741825,4",
    "4294967299,1",
    "1,4294967299",
    "9223372036854775807,1",
    "1,9223372036854775807",
    "9223372036854775807,3",
    "4611686018427387905,4",
    "3074457345618258603,3",
    "6148914691236517206,3",
    "3037000500,3037000500",
    "4294967296,4294967296",
    "4294967297,4294967297",
    "2147483648,4294967296,2",
    "4294967296,2147483648,2,3",
    "9223372036854775808,1",
    "18446744073709551615,1",
    "18446744073709551617,3",
    "-1,-3",
    "-9223372036854775808,3",
    "0,9223372036854775807,9223372036854775807",
    "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,3",
};

static const char *const TYPES[] = { "BOOL", "UINT8", "INT32", "INT64", "FP16",
                                     "BF16", "FP32",  "FP64",  "BYTES" };

static const char ZEROS[64];

/* ------------------------------------------------------------------- refusals -- */

/* A pattern of fresh memory and one of freed memory (start()): neither lies in an answer. */
static const unsigned char FRESH[4] = { 0x5a, 0x5a, 0x5a, 0x5a };
static const unsigned char FREED[4] = { 0xa5, 0xa5, 0xa5, 0xa5 };

/* The request was refused, or answered from what came alone, without a fault of the daemon's. */
static void expect_refused(struct http_response *response, const char *request)
{
    if (response->status < 400 || response->status > 499)
        fail_msg("%ld: %.300s\n%.300s", response->status, request, response->body);
    answer_expect_fault(response, response->status,
                        "json|field|duplicate|type|shape|ragged|nonfinite|option|length|dtype|"
                        "binary|http|content_type|not_found|too_large|answer_too_large",
                        NULL);
    assert_null(memmem(response->body, response->body_size, FRESH, sizeof FRESH));
    assert_null(memmem(response->body, response->body_size, FREED, sizeof FREED));
    http_response_free(response);
}

static void expect_served(void)
{
    cJSON *answer = answer_post(&client, "/v1/attention",
                                "{\"model\":\"sdpa\",\"query\":[[1]],\"value\":[[3]]}");
    answer_expect(answer, "context", "[[3]]", 1e-6);
    cJSON_Delete(answer);
}

/* ------------------------------------------------------- the protocol's JSON -- */

static struct http_response post_binary(const char *path, const char *json, const char *length,
                                        const void *tail, size_t tail_size)
{
    static char body[4000];
    char header[100];
    const size_t json_size = strlen(json);
    snprintf(header, sizeof header, "Inference-Header-Content-Length: %s", length);
    memcpy(body, json, json_size);
    memcpy(body + json_size, tail, tail_size);
    const char *const headers[] = { header, NULL };
    return http_client_send(&client, &(struct http_request){ .path = path,
                                                             .body = body,
                                                             .body_size = json_size + tail_size,
                                                             .headers = headers });
}

static void refuse_binary(const char *path, const char *json, const char *length)
{
    char own[24];
    snprintf(own, sizeof own, "%zu", strlen(json));
    struct http_response response = post_binary(path, json, length ? length : own, ZEROS, 12);
    expect_refused(&response, json);
}

TEST(shapes)
{
    static const char PATH[] = "/v2/models/demo/infer";
    static const char *const NAMES[] = { "query", "kv_len", "mask" };
    char json[1000];
    for (size_t i = 0; i < COUNT(SHAPES); i++)
        for (size_t j = 0; j < COUNT(TYPES); j++)
            for (size_t k = 0; k < COUNT(NAMES); k++) {
                snprintf(json, sizeof json,
                         "{\"inputs\":[{\"name\":\"%s\",\"shape\":[%s],\"datatype\":\"%s\","
                         "\"data\":[1,2,3]}]}",
                         NAMES[k], SHAPES[i], TYPES[j]);
                struct http_response response = http_client_post(&client, PATH, json);
                expect_refused(&response, json);
                snprintf(json, sizeof json,
                         "{\"inputs\":[{\"name\":\"%s\",\"shape\":[%s],\"datatype\":\"%s\","
                         "\"parameters\":{\"binary_data_size\":12}}]}",
                         NAMES[k], SHAPES[i], TYPES[j]);
                refuse_binary(PATH, json, NULL);
            }
    expect_served();
}

/* The size of a tensor behind the JSON, and the length of the JSON itself. */
TEST(binary_sizes)
{
    static const char *const PATHS[] = { "/v2/models/demo/infer", "/v2/models/sdpa/infer",
                                         "/v2/models/demo/versions/1/infer" };
    char json[600];
    for (size_t i = 0; i < COUNT(SIZES); i++)
        for (size_t j = 0; j < COUNT(PATHS); j++) {
            snprintf(json, sizeof json,
                     "{\"inputs\":[{\"name\":\"query\",\"shape\":[1,3],\"datatype\":\"FP32\","
                     "\"parameters\":{\"binary_data_size\":%s}}]}",
                     SIZES[i]);
            refuse_binary(PATHS[j], json, NULL);
            snprintf(json, sizeof json,
                     "{\"inputs\":[{\"name\":\"query\",\"shape\":[1,3],\"datatype\":\"FP32\","
                     "\"parameters\":{\"binary_data_size\":12}},{\"name\":\"key\",\"shape\":[1,3],"
                     "\"datatype\":\"FP32\",\"parameters\":{\"binary_data_size\":%s}}]}",
                     SIZES[i]);
            refuse_binary(PATHS[j], json, NULL);
            refuse_binary(PATHS[j],
                          "{\"inputs\":[{\"name\":\"query\",\"shape\":[1,3],\"datatype\":\"FP32\","
                          "\"parameters\":{\"binary_data_size\":12}}]}",
                          SIZES[i]);
        }
    expect_served();
}

/* ---------------------------------------------------------------- safetensors -- */

/* A file whose header has this text and says this length, with 12 bytes behind. */
static size_t write_file(char *file, const char *header, uint64_t said)
{
    const size_t size = strlen(header);
    for (int i = 0; i < 8; i++)
        file[i] = (char)(said >> 8 * i);
    memcpy(file + 8, header, size);
    memcpy(file + 8 + size, ZEROS, 12);
    return 8 + size + 12;
}

static void refuse_file(const char *header, uint64_t said)
{
    static const char *const headers[] = { "Content-Type: application/x-safetensors", NULL };
    static const char *const TARGETS[][2] = { { "POST", "/v1/attention" },
                                              { "POST", "/v1/attention/gradients" },
                                              { "POST", "/v1/attention/merge" },
                                              { "POST", "/v1/softmax" },
                                              { "PUT", "/v1/models/lying" } };
    char file[4000];
    const size_t size = write_file(file, header, said);
    for (size_t i = 0; i < COUNT(TARGETS); i++) {
        struct http_response response =
            http_client_send(&client, &(struct http_request){ .method = TARGETS[i][0],
                                                              .path = TARGETS[i][1],
                                                              .body = file,
                                                              .body_size = size,
                                                              .headers = headers });
        expect_refused(&response, header);
    }
}

#define META                                                                                       \
    "\"__metadata__\":{\"model\":\"sdpa\",\"attnd\":\"{\\\"attention\\\":"                         \
    "\\\"scaled_dot_product\\\"}\"}"

TEST(files)
{
    static const char *const DTYPES[] = { "BOOL", "U8", "I32", "I64", "F16", "F32", "F64", "F4" };
    static const char *const NAMES[] = { "query", "q_proj.weight", "kv_len" };
    char header[1000];
    for (size_t i = 0; i < COUNT(SHAPES); i++)
        for (size_t j = 0; j < COUNT(DTYPES); j++) {
            snprintf(header, sizeof header,
                     "{" META ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[0,12]}}",
                     NAMES[i % COUNT(NAMES)], DTYPES[j], SHAPES[i]);
            refuse_file(header, strlen(header));
        }
    for (size_t i = 0; i < COUNT(SIZES); i++) {
        static const char *const OFFSETS[] = { "[0,%s]", "[%s,12]", "[%s,%s]" };
        for (size_t j = 0; j < COUNT(OFFSETS); j++) {
            char offsets[100];
            snprintf(offsets, sizeof offsets, OFFSETS[j], SIZES[i], SIZES[i]);
            snprintf(header, sizeof header,
                     "{" META ",\"query\":{\"dtype\":\"F32\",\"shape\":[1,3],"
                     "\"data_offsets\":%s}}",
                     offsets);
            refuse_file(header, strlen(header));
        }
    }
    static const uint64_t LENGTHS[] = {
        0,
        1,
        0x7fffffff,
        0x80000000,
        0xffffffff,
        0x100000000,
        INT64_MAX - 8,
        INT64_MAX,
        (uint64_t)INT64_MAX + 1,
        UINT64_MAX - 8,
        UINT64_MAX - 7,
        UINT64_MAX,
    };
    for (size_t i = 0; i < COUNT(LENGTHS); i++)
        refuse_file("{\"query\":{\"dtype\":\"F32\",\"shape\":[1,3],\"data_offsets\":[0,12]}}",
                    LENGTHS[i]);
    assert_false(model_is_listed(&client, "lying"));
    expect_served();
}

/* ------------------------------------------------------------------ JSON fields -- */

/* Every field of a request that is a count, at these sizes: refused, or answered as if it were
 * small. */
TEST(fields)
{
    static const char *const FIELDS[] = {
        "layer",
        "q_heads",
        "kv_heads",
        "past_len",
        "kv_len",
        "window_left",
        "window_right",
        "kv_offset",
        "seed",
        "scale",
        "softcap",
        "deadline_ms",
        "weight_map\":{\"top_k",
        "output_rank",
    };
    char body[500];
    for (size_t i = 0; i < COUNT(FIELDS); i++)
        for (size_t j = 0; j < COUNT(SIZES); j++) {
            snprintf(body, sizeof body, "{\"model\":\"sdpa\",\"query\":[[1,2],[3,4]],\"%s\":%s%s}",
                     FIELDS[i], SIZES[j], strchr(FIELDS[i], '{') ? "}" : "");
            struct http_response response = http_client_post(&client, "/v1/attention", body);
            if (response.status == 200)
                assert_in_range(response.body_size, 1, 4000);
            else
                assert_in_range(response.status, 400, 499);
            http_response_free(&response);
        }
    expect_served();
}

/* ----------------------------------------------------------------------- models -- */

/* Counts in the configuration of a model that is put, and of a checkpoint on the disk. */
TEST(models)
{
    static const char *const FIELDS[] = { "q_heads", "kv_heads", "head_dim",    "v_head_dim",
                                          "layers",  "d_model",  "window_left", "hidden" };
    char text[700];
    for (size_t i = 0; i < COUNT(FIELDS); i++)
        for (size_t j = 0; j < COUNT(SIZES); j++) {
            snprintf(text, sizeof text,
                     "{\"config\":{\"attention\":\"scaled_dot_product\",\"%s\":%s},"
                     "\"parameters\":{\"q_proj.weight\":[[1]],\"k_proj.weight\":[[1]],"
                     "\"v_proj.weight\":[[1]]}}",
                     FIELDS[i], SIZES[j]);
            struct http_response response = model_put_json(&client, "put", text);
            if (response.status != 200 && response.status != 201)
                assert_in_range(response.status, 400, 499);
            http_response_free(&response);
        }
    expect_served();
    fixture_stop(NULL);
    for (size_t j = 0; j < COUNT(SIZES); j++) {
        char name[50];
        static const char FILE_HEADER[] =
            "{\"q\":{\"dtype\":\"F32\",\"shape\":[1,3],\"data_offsets\":[0,12]}}";
        snprintf(name, sizeof name, "c%zu/config.json", j);
        snprintf(text, sizeof text,
                 "{\"model_type\":\"llama\",\"hidden_size\":%s,\"num_attention_heads\":%s,"
                 "\"num_key_value_heads\":%s,\"num_hidden_layers\":%s,\"head_dim\":%s}",
                 SIZES[j], SIZES[(j + 1) % COUNT(SIZES)], SIZES[(j + 2) % COUNT(SIZES)], SIZES[j],
                 SIZES[j]);
        daemon_directory_write(directory, name, text, strlen(text));
        snprintf(name, sizeof name, "c%zu/model.safetensors", j);
        const size_t size = write_file(text, FILE_HEADER, strlen(FILE_HEADER));
        daemon_directory_write(directory, name, text, size);
    }
    fixture_serve("--models", directory, "--model-control", "explicit");
    for (size_t j = 0; j < COUNT(SIZES); j++) {
        snprintf(text, sizeof text, "/v1/models/c%zu", j);
        cJSON *model = answer_get(&client, text);
        answer_expect(model, "state", "\"UNAVAILABLE\"", 0);
        cJSON_Delete(model);
    }
    expect_served();
}

/* ----------------------------------------------------------------------- counts -- */

/* Lists without bound: the item again and again up to 8 MB of text. Refused or answered, and the
 * daemon never holds more than the budget of its requests. */
TEST(counts)
{
    enum { TEXT_BYTES = 8 << 20, BUDGET = 256 << 20 };
    static const struct {
        const char *path, *begin, *item, *end;
    } LISTS[] = {
        { "/v1/attention/batch", "{\"model\":\"sdpa\",\"requests\":[", "{}", "]}" },
        { "/v1/attention/batch", "{\"model\":\"sdpa\",\"requests\":[", "{\"query\":[[1]]}", "]}" },
        { "/v1/attention", "{\"model\":\"sdpa\",\"query\":[[1]],\"outputs\":[", "\"context\"",
          "]}" },
        { "/v1/attention", "{\"model\":\"sdpa\",\"query\":[[1]],\"sinks\":[", "1", "]}" },
        { "/v1/attention", "{\"model\":\"sdpa\",\"query\":[", "[]", "]}" },
        { "/v1/attention/merge", "{\"model\":\"sdpa\",\"parts\":[", "{}", "]}" },
        { "/v1/attention/merge", "{\"model\":\"sdpa\",\"parts\":[",
          "{\"context\":[[[1]]],\"lse\":[[0]]}", "]}" },
        { "/v2/models/demo/infer", "{\"inputs\":[", "{}", "]}" },
        { "/v2/models/demo/infer", "{\"inputs\":[", "{\"name\":\"query\"}", "]}" },
        { "/v2/models/demo/infer", "{\"inputs\":[],\"outputs\":[", "{\"name\":\"lse\"}", "]}" },
        { "/v2/models/demo/infer", "{\"inputs\":[{\"name\":\"query\",\"shape\":[", "1",
          "],\"datatype\":\"FP32\",\"data\":[1]}]}" },
        { "/v1/softmax", "{\"input\":[", "[[1]]", "]}" },
    };
    fixture_stop(NULL);
    fixture_serve("--memory-max", "256MiB");
    const size_t before = daemon_memory_bytes(&server);
    for (size_t i = 0; i < COUNT(LISTS); i++) {
        char *body = malloc(TEXT_BYTES + 1000);
        assert_non_null(body);
        size_t used = (size_t)sprintf(body, "%s", LISTS[i].begin);
        while (used < TEXT_BYTES)
            used += (size_t)sprintf(body + used, "%s,", LISTS[i].item);
        sprintf(body + used - 1, "%s", LISTS[i].end);
        struct http_response response = http_client_post(&client, LISTS[i].path, body);
        if (response.status != 200 && (response.status < 400 || response.status > 499)
            && response.status != 503 && response.status != 504)
            fail_msg("%s %s: %ld %.300s", LISTS[i].path, LISTS[i].item, response.status,
                     response.body);
        http_response_free(&response);
        free(body);
    }
    if (daemon_slowness() <= 1)
        assert_in_range(daemon_memory_peak_bytes(&server), 0, before + BUDGET);
    expect_served();
}

/* Fresh and freed memory get a pattern each, so that a byte that nobody wrote shows. */
static int start(void **state)
{
    static const char *arguments[] = { "--models", NULL, "--model-control", "explicit", NULL };
    static const char *const environment[] = { "MALLOC_PERTURB_=165", NULL };
    if (fixture_make_directory(state) != 0)
        return -1;
    arguments[1] = directory;
    daemon_start(&server,
                 &(struct daemon_options){ .arguments = arguments, .environment = environment });
    http_client_init(&client, server.port);
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
