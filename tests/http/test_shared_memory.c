/* SPDX-License-Identifier: Apache-2.0 */
/* test_shared_memory.c - the system shared memory extension: NVIDIA's example of it request by
 * request; every kind of tensor in regions, in place of bytes. Who may register regions, and how
 * many, is in test_shared_memory_limits.c; what nobody should do to them in
 * test_shared_memory_attacks.c. */
#include "fixture.h"
#include "oip_client.h"
#include "shared_region.h"
#include "test.h"

#include <unistd.h>

#define FOLDER "tests/http/tritonclient/shared_memory"

static const float WORDS[12] = { 1, 0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 1 };

/* ----------------------------------------------------------- NVIDIA's example -- */

/* Its keys end with simple; other processes may run this test, so they get a number in its place.
 */
static void write_key(char key[SHARED_KEY_BYTES], const char *name)
{
    snprintf(key, SHARED_KEY_BYTES, "/%s_%06d", name, (int)getpid() % 1000000);
}

static struct http_response replay(struct http_raw *raw, const char *kind, const char *name)
{
    char path[128], bytes[4096], number[8];
    snprintf(path, sizeof path, FOLDER "/%s-%s.http", kind, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t size = fread(bytes, 1, sizeof bytes - 1, file);
    fclose(file);
    bytes[size] = '\0';
    snprintf(number, sizeof number, "%06d", (int)getpid() % 1000000);
    for (char *key; (key = strstr(bytes, "_simple\""));)
        memcpy(key + 1, number, 6);
    assert_true(http_raw_send(raw, bytes, size));
    return http_raw_receive(raw, 10 * daemon_slowness());
}

static void expect_well(struct http_response response)
{
    if (response.status != 200)
        fail_msg("%ld %s", response.status, response.body);
    http_response_free(&response);
}

static void expect_status(struct http_raw *raw, const char *kind)
{
    static const char *const NAMES[] = { "output_data", "input_data" };
    static const double SIZES[] = { 112, 96 };
    struct http_response response = replay(raw, kind, "status");
    cJSON *list = cJSON_Parse(response.body);
    char key[SHARED_KEY_BYTES];
    assert_int_equal(response.status, 200);
    assert_int_equal(cJSON_GetArraySize(list), 2);
    for (int i = 0; i < 2; i++) {
        const cJSON *row = cJSON_GetArrayItem(list, i);
        write_key(key, i == 0 ? "output" : "input");
        answer_expect_members(row, "name,key,offset,byte_size");
        assert_string_equal(cJSON_GetObjectItem(row, "name")->valuestring, NAMES[i]);
        assert_string_equal(cJSON_GetObjectItem(row, "key")->valuestring, key);
        assert_true(cJSON_GetObjectItem(row, "offset")->valuedouble == 0);
        assert_true(cJSON_GetObjectItem(row, "byte_size")->valuedouble == SIZES[i]);
    }
    cJSON_Delete(list);
    http_response_free(&response);
}

/* The answer has a head of each output, and get_output() of the client gives it; no data. */
static void expect_heads(struct http_response response)
{
    assert_int_equal(response.status, 200);
    cJSON *json = answer_json(&response, 200);
    answer_expect(json, "outputs",
                  "[{\"name\":\"context\",\"datatype\":\"FP32\",\"shape\":[4,3]},"
                  "{\"name\":\"weights\",\"datatype\":\"FP32\",\"shape\":[1,4,4]}]",
                  0);
    cJSON_Delete(json);
    http_response_free(&response);
}

static void run_example(const char *kind)
{
    static const float CONTEXT[] = { 0.98522025F, 1.74174051F, 0.75652026F };
    struct http_raw raw;
    struct shared_region input, output;
    char key[SHARED_KEY_BYTES];
    http_raw_connect(&raw, server.port);
    expect_well(replay(&raw, kind, "unregister"));
    expect_well(replay(&raw, kind, "unregister-cuda"));
    write_key(key, "output");
    shared_region_make_as(&output, key, 112);
    expect_well(replay(&raw, kind, "register-output"));
    write_key(key, "input");
    shared_region_make_as(&input, key, 96);
    memcpy(input.bytes, WORDS, sizeof WORDS);
    memcpy(input.bytes + sizeof WORDS, WORDS, sizeof WORDS);
    expect_well(replay(&raw, kind, "register-input"));
    expect_heads(replay(&raw, kind, "infer"));
    for (int i = 0; i < 3; i++)
        assert_true(fabsf(((const float *)(void *)output.bytes)[i] - CONTEXT[i]) < 1e-6F);
    float sum = 0;
    for (int i = 0; i < 4; i++)
        sum += ((const float *)(void *)output.bytes)[12 + i];
    assert_true(fabsf(sum - 1) < 1e-6F);
    expect_status(&raw, kind);
    expect_well(replay(&raw, kind, "unregister"));
    assert_int_equal(shared_region_count(&client), 0);
    shared_region_remove(&input);
    shared_region_remove(&output);
    http_raw_close(&raw);
}

TEST(example_of_the_synchronous_client)
{
    run_example("sync");
}

TEST(example_of_the_client_on_asyncio)
{
    run_example("aio");
}

/* --------------------------------------------------------------------- tensors -- */

/* Asks with all inputs as bytes and the outputs as bytes. */
static struct oip_answer ask_by_bytes(const char *model, struct oip_request *request)
{
    struct oip_answer answer = oip_post(&client, model, request);
    oip_request_free(request);
    return answer;
}

/* The bytes of the output in answer are those at bytes. */
static void expect_bytes(const struct oip_answer *answer, const char *name, const void *bytes)
{
    const struct oip_tensor_answer tensor = oip_output_of(answer, name);
    assert_true(tensor.size > 0);
    assert_memory_equal(tensor.bytes, bytes, tensor.size);
}

/* A query as JSON, a key as bytes, a value, a mask of BOOL and lengths of INT64 in one region, and
 * of the outputs one there, one in JSON, one as bytes. */
TEST(all_kinds_mix)
{
    static const int64_t ROWS[] = { 4, 3 }, MASK[] = { 4, 4 }, ONE[] = { 1 };
    static const unsigned char BOOLEANS[16] = { 1, 1, 1, 1, 1, 0, 1, 0, 1, 1, 0, 1, 0, 1, 1, 1 };
    static const int64_t LENGTH = 3;
    char text[3][200];
    struct shared_region memory;
    struct oip_request plain = { 0 }, mixed = { 0 };
    for (int i = 0; i < 3; i++)
        oip_add_binary(&plain,
                       i == 0   ? "query"
                       : i == 1 ? "key"
                                : "value",
                       "FP32", 2, ROWS, WORDS, sizeof WORDS);
    oip_add_binary(&plain, "mask", "BOOL", 2, MASK, BOOLEANS, sizeof BOOLEANS);
    oip_add_binary(&plain, "kv_len", "INT64", 1, ONE, &LENGTH, sizeof LENGTH);
    oip_ask(&plain, "context", JSON("binary_data":true));
    oip_ask(&plain, "weights", JSON("binary_data":true));
    struct oip_answer want = ask_by_bytes("demo", &plain);

    shared_region_make(&memory, "mixed", 8192);
    shared_region_register(&client, "mixed", &memory);
    memcpy(memory.bytes + 1, WORDS, sizeof WORDS); /* at an address that suits no float */
    memcpy(memory.bytes + 4095, BOOLEANS, sizeof BOOLEANS);
    memcpy(memory.bytes + 101, &LENGTH, sizeof LENGTH);
    oip_add_json(&mixed, "query", "FP32", "[4,3]", "[1,0,0, 0,1,0, 1,1,0, 0,0,1]");
    oip_add_binary(&mixed, "key", "FP32", 2, ROWS, WORDS, sizeof WORDS);
    oip_add_placed(&mixed, "value", "FP32", "[4,3]",
                   shared_region_parameters(text[0], "mixed", 1, 48));
    oip_add_placed(&mixed, "mask", "BOOL", "[4,4]",
                   shared_region_parameters(text[1], "mixed", 4095, 16));
    oip_add_placed(&mixed, "kv_len", "INT64", "[1]",
                   shared_region_parameters(text[2], "mixed", 101, 8));
    oip_ask(&mixed, "lse", NULL);
    oip_ask(&mixed, "context", shared_region_parameters(text[0], "mixed", 5003, 100));
    oip_ask(&mixed, "weights", JSON("binary_data":true));
    struct oip_answer got = ask_by_bytes("demo", &mixed);
    expect_bytes(&want, "context", memory.bytes + 5003);
    assert_int_equal(memory.bytes[5003 + 48], 0); /* no more than the tensor is written */
    expect_bytes(&want, "weights", oip_output_of(&got, "weights").bytes);
    assert_non_null(oip_output_of(&got, "lse").data);
    oip_answer_free(&want);
    oip_answer_free(&got);
    shared_region_unregister(&client, "mixed");
    shared_region_remove(&memory);
}

/* Every floating datatype in and out, by ONNX Attention, with what the request says of all outputs
 * as bytes. */
static void expect_datatype(const struct shared_region *memory, const char *datatype, size_t size)
{
    static const int64_t SHAPE[] = { 1, 2, 8, 16 };
    char text[4][200];
    struct oip_request plain = { .parameters = "\"binary_data_output\":true" };
    struct oip_request placed = { .parameters = "\"binary_data_output\":true" };
    const size_t bytes = 256 * size;
    for (int i = 0; i < 3; i++) {
        const char name[] = { "QKV"[i], '\0' };
        oip_add_binary(&plain, name, datatype, 4, SHAPE, memory->bytes, bytes);
        oip_add_placed(&placed, name, datatype, "[1,2,8,16]",
                       shared_region_parameters(text[i], "types", 0, bytes));
    }
    oip_ask(&placed, "Y", shared_region_parameters(text[3], "types", 4096, bytes));
    oip_ask(&placed, "present_key", NULL);
    struct oip_answer want = ask_by_bytes("sdpa", &plain), got = ask_by_bytes("sdpa", &placed);
    expect_bytes(&want, "Y", memory->bytes + 4096);
    assert_string_equal(
        cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(got.json, "outputs"), 0),
                            "datatype")
            ->valuestring,
        datatype);
    expect_bytes(&got, "present_key", memory->bytes);
    oip_answer_free(&want);
    oip_answer_free(&got);
}

TEST(datatypes)
{
    struct shared_region memory;
    float numbers[256];
    shared_region_make(&memory, "types", 8192);
    shared_region_register(&client, "types", &memory);
    for (int i = 0; i < 256; i++)
        numbers[i] = (float)(i % 17) / 16;
    memcpy(memory.bytes, numbers, sizeof numbers);
    expect_datatype(&memory, "FP32", 4);
    for (int i = 0; i < 256; i++)
        ((double *)(void *)memory.bytes)[i] = (double)numbers[i] / 3;
    expect_datatype(&memory, "FP64", 8);
    for (int i = 0; i < 256; i++)
        ((uint16_t *)(void *)memory.bytes)[i] = (uint16_t)(0x3000 + i);
    expect_datatype(&memory, "FP16", 2);
    expect_datatype(&memory, "BF16", 2);
    shared_region_unregister(&client, NULL);
    shared_region_remove(&memory);
}

/* Longer than a body may be, and than what a connection thread copies itself. */
TEST(long_tensors)
{
    enum { ROWS = 4096, WIDTH = 256 };
    static const size_t BYTES = sizeof(float) * ROWS * WIDTH;
    char text[4][200], shape[40];
    struct shared_region memory;
    struct oip_request request = { .parameters = "\"is_causal\":1,\"left_window_size\":0" };
    shared_region_make(&memory, "long", 2 * BYTES);
    shared_region_register(&client, "long", &memory);
    for (size_t i = 0; i < BYTES / sizeof(float); i++)
        ((float *)(void *)memory.bytes)[i] = (float)(i % 1001) / 1000;
    snprintf(shape, sizeof shape, "[1,1,%d,%d]", ROWS, WIDTH);
    for (int i = 0; i < 3; i++) {
        const char name[] = { "QKV"[i], '\0' };
        oip_add_placed(&request, name, "FP32", shape,
                       shared_region_parameters(text[i], "long", 0, BYTES));
    }
    oip_ask(&request, "Y", shared_region_parameters(text[3], "long", BYTES, BYTES));
    struct oip_answer answer = ask_by_bytes("sdpa", &request);
    /* Each row sees its own key alone, so its context is its own value; on tiles to two units in
     * the last place, as the one weight there is between a half and 1 and is divided by itself. */
    const float *values = (const void *)memory.bytes;
    for (size_t i = 0; i < (size_t)ROWS * WIDTH; i++)
        if (!(fabsf(values[(size_t)ROWS * WIDTH + i] - values[i]) <= 0x1p-22f * values[i]))
            fail_msg("[%zu]: %.9g, want %.9g", i, (double)values[(size_t)ROWS * WIDTH + i],
                     (double)values[i]);
    oip_answer_free(&answer);
    assert_true(answer_metric(&client, "attnd_shared_memory_regions") == 1);
    assert_true(answer_metric(&client, "attnd_shared_memory_bytes") == 2.0 * (double)BYTES);
    shared_region_unregister(&client, NULL);
    shared_region_remove(&memory);
    assert_true(answer_metric(&client, "attnd_shared_memory_regions") == 0);
    assert_true(answer_metric(&client, "attnd_shared_memory_bytes") == 0);
}

/* The whole pass of a model, from tokens in a region to rows in it. */
TEST(whole_pass)
{
    static const int64_t TOKENS[] = { 1, 403, 407, 261 }, SHAPE[] = { 1, 4 };
    char text[2][200];
    struct shared_region memory;
    struct oip_request plain = { 0 }, placed = { 0 };
    shared_region_make(&memory, "pass", 65536);
    shared_region_register(&client, "pass", &memory);
    memcpy(memory.bytes, TOKENS, sizeof TOKENS);
    oip_add_binary(&plain, "input_ids", "INT64", 2, SHAPE, TOKENS, sizeof TOKENS);
    oip_ask(&plain, "last_hidden_state", JSON("binary_data":true));
    oip_add_placed(&placed, "input_ids", "INT64", "[1,4]",
                   shared_region_parameters(text[0], "pass", 0, sizeof TOKENS));
    oip_ask(&placed, "last_hidden_state", shared_region_parameters(text[1], "pass", 4096, 61440));
    struct oip_answer want = ask_by_bytes("stories260K", &plain);
    struct oip_answer got = ask_by_bytes("stories260K", &placed);
    expect_bytes(&want, "last_hidden_state", memory.bytes + 4096);
    oip_answer_free(&want);
    oip_answer_free(&got);
    shared_region_unregister(&client, NULL);
    shared_region_remove(&memory);
}

static int start(void **state)
{
    fixture_serve("--models", "examples/models", "--body-max", "64KiB", "--shared-memory-prefix",
                  SHARED_PREFIX, "--shared-memory-prefix", "input_", "--shared-memory-prefix",
                  "/output_");
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
