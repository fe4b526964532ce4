/* SPDX-License-Identifier: Apache-2.0 */
/* test_tritonclient.c - NVIDIA's Python client as it is: its requests byte for byte, and how it
 * reads the answers.
 *
 * The requests are in tests/http/tritonclient/, recorded from its synchronous client and from its
 * asyncio client. This test reads an answer as these clients do. The answer to an inference is
 * unpacked if it has Content-Encoding, and is cut behind as many bytes as
 * Inference-Header-Content-Length says. Any other answer, and every fault, is plain JSON, whatever
 * the request's Accept-Encoding. If the Python module can be imported, the test runs it too. */
#include "answer.h"
#include "base/dtype.h"
#include "fixture.h"
#include "model_bytes.h"
#include "skip.h"
#include "test.h"

#include <dirent.h>
#include <zlib.h>

#define FOLDER        "tests/http/tritonclient"
#define SHARED_PREFIX "attnd-test-tritonclient-"

enum reading {
    STATUS, /* the client looks at nothing else */
    JSON,   /* the answer has the member */
    LIST,   /* it is an array, and some object in it has "name": member */
    FAULT,  /* "error" begins with member */
    INFER,  /* it has the output member, in FP32 or FP16 */
    CONTEXT /* the same, and the output is the context of the four words */
};

/* In the order of the recording: load before unload. */
static const struct request {
    const char *name;
    long status;
    enum reading reading;
    const char *member;
} REQUESTS[] = {
    { "live", 200, STATUS, NULL },
    { "ready", 200, STATUS, NULL },
    { "model-ready", 200, STATUS, NULL },
    { "model-ready-version", 200, STATUS, NULL },
    { "model-ready-unknown", 404, STATUS, NULL },
    { "server-metadata", 200, JSON, "extensions" },
    { "model-metadata", 200, JSON, "inputs" },
    { "model-metadata-query", 200, JSON, "inputs" },
    { "model-metadata-unknown", 404, FAULT, "Request for unknown model" },
    { "model-config", 200, JSON, "max_batch_size" },
    { "index", 200, LIST, "kept" },
    { "statistics", 200, JSON, "model_stats" },
    { "statistics-of-one", 200, JSON, "model_stats" },
    { "log-settings", 200, JSON, "log_verbose_level" },
    { "update-log-settings", 200, JSON, "log_verbose_level" },
    { "trace-settings", 404, FAULT, "there is nothing at /v2/trace" },
    { "load", 200, STATUS, NULL },
    { "load-config", 400, FAULT, "failed to load" },
    { "load-unknown", 404, FAULT, "failed to load" },
    { "unload", 200, STATUS, NULL },
    { "infer", 200, CONTEXT, "context" },
    { "infer-version", 200, CONTEXT, "context" },
    { "infer-outputs", 200, CONTEXT, "context" },
    { "infer-json-in", 200, CONTEXT, "context" },
    { "infer-json-out", 200, CONTEXT, "context" },
    { "infer-json", 200, CONTEXT, "context" },
    { "infer-mixed", 200, CONTEXT, "context" },
    { "infer-fp16", 200, CONTEXT, "context" },
    { "infer-gzip", 200, CONTEXT, "context" },
    { "infer-deflate", 200, CONTEXT, "context" },
    { "infer-parameters", 200, INFER, "context" },
    { "infer-classes", 200, INFER, "weights" },
    { "infer-mask", 200, INFER, "context" },
    { "infer-null", 200, INFER, "masked" },
    { "infer-bool", 200, INFER, "weights" },
    { "infer-sdpa", 200, INFER, "Y" },
    { "infer-json-gzip", 200, INFER, "Y" },
    { "infer-mask-json", 400, FAULT, "malformed JSON: NaN and Infinity are not JSON: in a mask" },
    { "infer-unknown", 404, FAULT, "Request for unknown model" },
    { "infer-bad-shape", 400, FAULT, "unexpected shape" },
};
enum { REQUEST_COUNT = sizeof REQUESTS / sizeof REQUESTS[0] };

/* ------------------------------------------------------------------ the client -- */

/* Unpacks as Python's gzip.decompress() and zlib.decompress() do: deflate means a zlib frame
 * only. */
static void unpack(struct http_response *response, int window_bits)
{
    enum { SIZE = 1 << 20 };
    z_stream stream = { .next_in = (unsigned char *)response->body,
                        .avail_in = (uInt)response->body_size };
    char *plain = malloc(SIZE);
    assert_non_null(plain);
    stream.next_out = (unsigned char *)plain;
    stream.avail_out = SIZE - 1;
    assert_int_equal(inflateInit2(&stream, window_bits), Z_OK);
    assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
    free(response->body);
    response->body = plain;
    response->body_size = stream.total_out;
    inflateEnd(&stream);
}

/* The JSON of an inference's answer; the tensors behind it begin at *tail. */
static cJSON *read_inference(struct http_response *response, size_t *tail)
{
    char value[64];
    if (http_response_header(response, "Content-Encoding", value, sizeof value))
        unpack(response, strcmp(value, "gzip") == 0 ? 31 : 15);
    *tail = response->body_size;
    if (http_response_header(response, "Inference-Header-Content-Length", value, sizeof value))
        *tail = strtoul(value, NULL, 10);
    assert_true(*tail <= response->body_size);
    cJSON *json = cJSON_ParseWithLength(response->body, *tail);
    assert_non_null(json);
    return json;
}

/* The output called name. *bytes is where its bytes are, or NULL if its numbers are in the JSON. */
static const cJSON *find_output(const cJSON *json, const struct http_response *response,
                                size_t tail, const char *name, const char **bytes)
{
    const cJSON *output, *found = NULL;
    *bytes = NULL;
    cJSON_ArrayForEach(output, cJSON_GetObjectItem(json, "outputs")) {
        const cJSON *size =
            cJSON_GetObjectItem(cJSON_GetObjectItem(output, "parameters"), "binary_data_size");
        if (strcmp(cJSON_GetObjectItem(output, "name")->valuestring, name) == 0) {
            found = output;
            *bytes = size ? response->body + tail : NULL;
        }
        tail += size ? (size_t)size->valuedouble : 0;
    }
    assert_int_equal(tail, response->body_size); /* the sizes add up to all bytes that came */
    assert_non_null(found);
    return found;
}

static void expect_context(const cJSON *output, const char *bytes)
{
    static const double wanted[] = { 0.98522025, 1.74174051, 0.75652026, 0.90965265,
                                     1.40965265, 0.5,        0.99851226, 1.75849334,
                                     0.75998108, 0.99560386, 1.90407309, 0.90846923 };
    const bool is_half = strcmp(cJSON_GetObjectItem(output, "datatype")->valuestring, "FP16") == 0;
    const cJSON *data = cJSON_GetObjectItem(output, "data");
    float numbers[12];
    if (bytes)
        dtype_read(numbers, bytes, is_half ? ATTN_F16 : ATTN_F32, 12);
    for (int i = 0; i < 12; i++) {
        const double got = bytes ? (double)numbers[i] : cJSON_GetArrayItem(data, i)->valuedouble;
        assert_true(fabs(got - wanted[i]) < (is_half ? 1e-3 : 1e-6));
    }
}

static void expect_inference(const struct request *request, struct http_response *response)
{
    size_t tail;
    const char *bytes;
    cJSON *json = read_inference(response, &tail);
    const cJSON *output = find_output(json, response, tail, request->member, &bytes);
    assert_true(bytes || cJSON_IsArray(cJSON_GetObjectItem(output, "data")));
    if (request->reading == CONTEXT)
        expect_context(output, bytes);
    cJSON_Delete(json);
}

static bool has_row(const cJSON *list, const char *name)
{
    const cJSON *row;
    cJSON_ArrayForEach(row, list) {
        if (strcmp(cJSON_GetObjectItem(row, "name")->valuestring, name) == 0)
            return true;
    }
    return false;
}

static void expect_json(const struct request *request, const struct http_response *response)
{
    char value[64];
    assert_null(http_response_header(response, "Content-Encoding", value, sizeof value));
    cJSON *json = cJSON_ParseWithLength(response->body, response->body_size);
    if (request->reading == LIST) {
        assert_true(has_row(json, request->member));
    } else if (request->reading == FAULT) {
        const char *error = cJSON_GetObjectItem(json, "error")->valuestring;
        assert_true(strncmp(error, request->member, strlen(request->member)) == 0);
    } else {
        assert_non_null(cJSON_GetObjectItem(json, request->member));
    }
    cJSON_Delete(json);
}

/* -------------------------------------------------------------------- the tests -- */

static char *read_recording(const char *path, size_t *size)
{
    enum { SIZE_MAX_HERE = 64 << 10 };
    FILE *file = fopen(path, "rb");
    char *bytes = malloc(SIZE_MAX_HERE);
    assert_non_null(bytes);
    if (!file)
        fail_msg("there is no %s", path);
    *size = fread(bytes, 1, SIZE_MAX_HERE, file);
    assert_true(*size > 0 && *size < SIZE_MAX_HERE);
    fclose(file);
    return bytes;
}

static void replay(struct http_raw *raw, const char *kind, const struct request *request)
{
    char path[128];
    size_t size;
    snprintf(path, sizeof path, FOLDER "/%s-%s.http", kind, request->name);
    char *bytes = read_recording(path, &size);
    assert_true(http_raw_send(raw, bytes, size));
    struct http_response response = http_raw_receive(raw, 10 * daemon_slowness());
    if (response.status != request->status)
        fail_msg("%s: %ld %s", path, response.status, response.body);
    if (request->reading == INFER || request->reading == CONTEXT)
        expect_inference(request, &response);
    else if (request->reading != STATUS)
        expect_json(request, &response);
    http_response_free(&response);
    free(bytes);
}

/* All requests go over one connection. */
static void replay_all(const char *kind)
{
    struct http_raw raw;
    http_raw_connect(&raw, server.port);
    for (int i = 0; i < REQUEST_COUNT; i++)
        replay(&raw, kind, &REQUESTS[i]);
    http_raw_close(&raw);
}

TEST(requests_of_the_synchronous_client)
{
    replay_all("sync");
}

TEST(requests_of_the_client_on_asyncio)
{
    replay_all("aio");
}

/* Sends what the client sent for the first request of a sequence, with other flags. The weights
 * have as many columns as the sequence has keys. */
static void send_of_sequence(struct http_raw *raw, const char *kind, const char *flags, int keys)
{
    static const char RECORDED[] = JSON("sequence_start":true,"sequence_end":false);
    static const char ASKED[] = JSON("name":"context"), WEIGHTS[] = JSON("name":"weights");
    char path[128];
    size_t size, tail;
    const char *bytes;
    snprintf(path, sizeof path, FOLDER "/%s-infer-parameters.http", kind);
    char *request = read_recording(path, &size);
    char *place = memmem(request, size, RECORDED, strlen(RECORDED));
    char *output = memmem(request, size, ASKED, strlen(ASKED));
    assert_true(place && output && strlen(flags) == strlen(RECORDED));
    memcpy(place, flags, strlen(flags));
    memcpy(output, WEIGHTS, strlen(WEIGHTS));
    assert_true(http_raw_send(raw, request, size));
    struct http_response response = http_raw_receive(raw, 10 * daemon_slowness());
    if (response.status != 200)
        fail_msg("%s: %ld %s", path, response.status, response.body);
    cJSON *json = read_inference(&response, &tail);
    const cJSON *weights = find_output(json, &response, tail, "weights", &bytes);
    assert_int_equal(cJSON_GetArrayItem(cJSON_GetObjectItem(weights, "shape"), 2)->valueint, keys);
    cJSON_Delete(json);
    http_response_free(&response);
    free(request);
}

/* Four rows a request. tritonclient sends both flags with each request of a sequence. */
static void run_sequence(const char *kind)
{
    struct http_raw raw;
    http_raw_connect(&raw, server.port);
    send_of_sequence(&raw, kind, JSON("sequence_start":true,"sequence_end":false), 4);
    send_of_sequence(&raw, kind, JSON("sequence_start":false,"sequence_end":true), 8);
    send_of_sequence(&raw, kind, JSON("sequence_start":true,"sequence_end":false), 4);
    send_of_sequence(&raw, kind, JSON("sequence_start":true,"sequence_end":false), 4);
    send_of_sequence(&raw, kind, JSON("sequence_start":false,"sequence_end":true), 8);
    http_raw_close(&raw);
}

TEST(sequences)
{
    run_sequence("sync");
    run_sequence("aio");
}

TEST(no_recording_is_left_out)
{
    DIR *folder = opendir(FOLDER);
    int count = 0;
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder));)
        count += strstr(entry->d_name, ".http") != NULL;
    closedir(folder);
    assert_int_equal(count, 2 * REQUEST_COUNT);
}

static void run_the_client(const char *kind)
{
    char command[200];
    skip_without("tritonclient[http]", "/usr/bin/python3 -c 'import tritonclient.http.aio'");
    snprintf(command, sizeof command, "/usr/bin/python3 %s/calls.py %s 127.0.0.1:%d", FOLDER, kind,
             server.port);
    assert_int_equal(system(command), 0);
}

TEST(the_synchronous_client)
{
    run_the_client("sync");
}

TEST(the_client_on_asyncio)
{
    run_the_client("aio");
}

/* NVIDIA's utils.shared_memory makes the regions. */
TEST(shared_memory_of_the_client)
{
    char command[200];
    skip_without("tritonclient[http]",
                 "/usr/bin/python3 -c 'import tritonclient.utils.shared_memory'");
    snprintf(command, sizeof command, "/usr/bin/python3 %s/shared_memory/calls.py 127.0.0.1:%d /%s",
             FOLDER, server.port, SHARED_PREFIX);
    assert_int_equal(system(command), 0);
}

static int start(void **state)
{
    struct model_bytes file = model_bytes_demo(1, "");
    directory = daemon_directory_create();
    daemon_directory_write(directory, "kept.safetensors", file.data, file.size);
    free(file.data);
    fixture_serve("--models", directory, "--model-control", "explicit", "--shared-memory-prefix",
                  SHARED_PREFIX);
    return 0;
}

TEST_ALSO(test_stops_cleanly);
ALL_TESTS(start, fixture_clear);
