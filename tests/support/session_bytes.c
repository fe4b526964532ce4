/* SPDX-License-Identifier: Apache-2.0 */
/* session_bytes.c - see session_bytes.h. */
#include "session_bytes.h"
#include "answer.h"
#include "test.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

#define TYPE "application/x-safetensors"

enum { LENGTH_BYTES = 8, PATH_BYTES = 160, LINE_BYTES = 400, HEX_BYTES = 65 };

static const char *path_of(char path[PATH_BYTES], const char *id)
{
    snprintf(path, PATH_BYTES, "/v1/sessions/%s", id);
    return path;
}

struct session_bytes session_bytes_get(struct http_client *client, const char *id)
{
    static const char *const HEADERS[] = { "Accept: " TYPE, NULL };
    char path[PATH_BYTES], type[64];
    struct http_response response = http_client_send(
        client, &(struct http_request){ .path = path_of(path, id), .headers = HEADERS });
    if (response.status != 200)
        fail_msg("%s: %ld %s", path, response.status, response.body);
    assert_string_equal(http_response_header(&response, "Content-Type", type, sizeof type), TYPE);
    const struct session_bytes file = { response.body, response.body_size };
    response.body = NULL;
    http_response_free(&response);
    return file;
}

struct http_response session_bytes_send(struct http_client *client, const char *id,
                                        struct session_bytes file)
{
    static const char *const HEADERS[] = { "Content-Type: " TYPE, NULL };
    char path[PATH_BYTES];
    return http_client_send(client, &(struct http_request){ .method = "PUT",
                                                            .path = path_of(path, id),
                                                            .body = file.bytes,
                                                            .body_size = file.size,
                                                            .headers = HEADERS });
}

void session_bytes_put(struct http_client *client, const char *id, struct session_bytes file,
                       long status)
{
    struct http_response response = session_bytes_send(client, id, file);
    cJSON_Delete(answer_json(&response, status));
    http_response_free(&response);
}

void session_bytes_refused(struct http_client *client, const char *id, struct session_bytes file,
                           long status, const char *code, const char *says)
{
    struct http_response response = session_bytes_send(client, id, file);
    if (!strstr(response.body, says))
        fail_msg("%s does not say '%s'", response.body, says);
    answer_expect_fault(&response, status, code, NULL);
    http_response_free(&response);
}

void session_bytes_free(struct session_bytes *file)
{
    free(file->bytes);
    *file = (struct session_bytes){ NULL, 0 };
}

cJSON *session_bytes_header(struct session_bytes file, const char **numbers)
{
    uint64_t length;
    assert_true(file.size > LENGTH_BYTES);
    memcpy(&length, file.bytes, sizeof length);
    assert_true(length <= file.size - LENGTH_BYTES);
    cJSON *header = cJSON_ParseWithLength(file.bytes + LENGTH_BYTES, length);
    assert_non_null(header);
    *numbers = file.bytes + LENGTH_BYTES + length;
    return header;
}

/* ----------------------------------------------------------------------- checksums -- */

static void sum(const void *bytes, size_t size, char hex[HEX_BYTES])
{
    unsigned char digest[32];
    assert_int_equal(gnutls_hash_fast(GNUTLS_DIG_SHA256, bytes, size, digest), 0);
    for (int i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

static void set(cJSON *object, const char *key, const char *value)
{
    cJSON_DeleteItemFromObjectCaseSensitive(object, key);
    assert_non_null(cJSON_AddStringToObject(object, key, value));
}

static void sum_tensors(const cJSON *header, cJSON *metadata, const char *numbers,
                        size_t number_bytes)
{
    const cJSON *tensor;
    char key[LINE_BYTES], hex[HEX_BYTES];
    cJSON_ArrayForEach(tensor, header) {
        const cJSON *offsets = cJSON_GetObjectItem(tensor, "data_offsets");
        if (!offsets)
            continue;
        const size_t begin = (size_t)cJSON_GetArrayItem(offsets, 0)->valuedouble;
        const size_t end = (size_t)cJSON_GetArrayItem(offsets, 1)->valuedouble;
        if (begin > end || end > number_bytes)
            continue;
        snprintf(key, sizeof key, "sha256.%s", tensor->string);
        sum(numbers + begin, end - begin, hex);
        set(metadata, key, hex);
    }
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void write_line(char line[LINE_BYTES], const cJSON *tensor)
{
    const cJSON *size;
    int used = snprintf(line, LINE_BYTES, "%s %s", tensor->string,
                        cJSON_GetObjectItem(tensor, "dtype")->valuestring);
    char between = ' ';
    cJSON_ArrayForEach(size, cJSON_GetObjectItem(tensor, "shape")) {
        used +=
            snprintf(line + used, LINE_BYTES - (size_t)used, "%c%.0f", between, size->valuedouble);
        between = ',';
    }
}

/* As API_SESSIONS.md says. */
static void sum_all(const cJSON *header, cJSON *metadata)
{
    enum { LINES_MAX = 200 };
    static char lines[LINES_MAX][LINE_BYTES];
    static char all[LINES_MAX * LINE_BYTES];
    char hex[HEX_BYTES];
    const cJSON *item;
    int count = 0;
    size_t used = 0;
    cJSON_ArrayForEach(item, metadata) {
        if (strcmp(item->string, "sha256") != 0 && strcmp(item->string, "format") != 0)
            snprintf(lines[count++], LINE_BYTES, "%s=%s", item->string, item->valuestring);
        assert_true(count < LINES_MAX);
    }
    cJSON_ArrayForEach(item, header) {
        if (strcmp(item->string, "__metadata__") != 0)
            write_line(lines[count++], item);
        assert_true(count < LINES_MAX);
    }
    qsort(lines, (size_t)count, LINE_BYTES, compare_lines);
    for (int i = 0; i < count; i++)
        used += (size_t)snprintf(all + used, sizeof all - used, "%s\n", lines[i]);
    sum(all, used, hex);
    set(metadata, "sha256", hex);
}

struct session_bytes session_bytes_make(cJSON *header, const char *numbers, size_t number_bytes,
                                        bool seals)
{
    cJSON *metadata = cJSON_GetObjectItem(header, "__metadata__");
    if (seals && metadata) {
        sum_tensors(header, metadata, numbers, number_bytes);
        sum_all(header, metadata);
    }
    char *text = cJSON_PrintUnformatted(header);
    const uint64_t length = strlen(text);
    struct session_bytes file = { malloc(LENGTH_BYTES + length + number_bytes),
                                  LENGTH_BYTES + length + number_bytes };
    assert_non_null(file.bytes);
    memcpy(file.bytes, &length, sizeof length);
    memcpy(file.bytes + LENGTH_BYTES, text, length);
    memcpy(file.bytes + LENGTH_BYTES + length, numbers, number_bytes);
    cJSON_free(text);
    return file;
}
