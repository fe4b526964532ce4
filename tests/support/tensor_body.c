/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_body.c - see tensor_body.h. */
#include "tensor_body.h"
#include "test.h"

enum { LENGTH_BYTES = 8 };

static const char TYPE[] = "application/x-safetensors";

void tensor_body_add(struct tensor_body *body, const char *name, const char *dtype,
                     const char *shape, const void *data, size_t size)
{
    const size_t used = strlen(body->header);
    assert_true(body->used + size <= sizeof body->data);
    const int length =
        snprintf(body->header + used, sizeof body->header - used,
                 ",\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}", name, dtype,
                 shape, body->used, body->used + size);
    assert_true(length > 0 && (size_t)length < sizeof body->header - used);
    if (size > 0)
        memcpy(body->data + body->used, data, size);
    body->used += size;
}

struct http_response tensor_body_post(struct http_client *client, const char *path,
                                      const struct tensor_body *body, const char *metadata, int pad,
                                      const char *accept)
{
    static char bytes[sizeof(struct tensor_body) + 1024];
    char header[128];
    const int length = snprintf(bytes + LENGTH_BYTES, sizeof bytes - LENGTH_BYTES,
                                "{\"__metadata__\":%s%s}%*s", metadata, body->header, pad, "");
    assert_true(length > 0 && (size_t)length + body->used + LENGTH_BYTES <= sizeof bytes);
    for (int i = 0; i < LENGTH_BYTES; i++)
        bytes[i] = (char)((uint64_t)length >> (8 * i));
    memcpy(bytes + LENGTH_BYTES + length, body->data, body->used);
    snprintf(header, sizeof header, "Accept: %s", accept ? accept : "*/*");
    const char *const headers[] = { "Content-Type: application/x-safetensors", header, NULL };
    return http_client_send(
        client, &(struct http_request){ .path = path,
                                        .body = bytes,
                                        .body_size = LENGTH_BYTES + (size_t)length + body->used,
                                        .headers = headers });
}

struct http_response tensor_body_post_json(struct http_client *client, const char *path,
                                           const char *json)
{
    static const char *const headers[] = { "Content-Type: application/json",
                                           "Accept: application/x-safetensors", NULL };
    return http_client_send(
        client, &(struct http_request){ .path = path, .body = json, .headers = headers });
}

static uint64_t header_length(const struct http_response *response)
{
    uint64_t length = 0;
    assert_true(response->body_size >= LENGTH_BYTES);
    for (int i = LENGTH_BYTES - 1; i >= 0; i--)
        length = length << 8 | (unsigned char)response->body[i];
    assert_true(length <= response->body_size - LENGTH_BYTES);
    return length;
}

cJSON *tensor_body_header(const struct http_response *response)
{
    char type[64];
    if (response->status != 200)
        fail_msg("status %ld: %s", response->status, response->body);
    assert_string_equal(http_response_header(response, "Content-Type", type, sizeof type), TYPE);
    const uint64_t length = header_length(response);
    assert_int_equal(length % 8, 0);
    cJSON *header = cJSON_ParseWithLength(response->body + LENGTH_BYTES, length);
    assert_non_null(header);
    return header;
}

const void *tensor_body_find(const struct http_response *response, const cJSON *header,
                             const char *name, const char *dtype, const char *shape)
{
    const cJSON *tensor = cJSON_GetObjectItemCaseSensitive(header, name);
    if (!tensor)
        fail_msg("there is no tensor %s", name);
    char *got = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(tensor, "shape"));
    assert_string_equal(cJSON_GetObjectItemCaseSensitive(tensor, "dtype")->valuestring, dtype);
    assert_string_equal(got, shape);
    free(got);
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(tensor, "data_offsets");
    const double begin = cJSON_GetArrayItem(offsets, 0)->valuedouble;
    const double end = cJSON_GetArrayItem(offsets, 1)->valuedouble;
    const size_t data = LENGTH_BYTES + header_length(response);
    assert_true(begin <= end && data + (size_t)end <= response->body_size);
    return response->body + data + (size_t)begin;
}

static char *text_of(const cJSON *tensor, const char *member)
{
    char *text = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(tensor, member));
    assert_non_null(text);
    return text;
}

void tensor_body_expect_equal(const struct http_response *one, const cJSON *header,
                              const struct http_response *other, const char *name)
{
    cJSON *header_of_other = tensor_body_header(other);
    const cJSON *tensor = cJSON_GetObjectItemCaseSensitive(header_of_other, name);
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(tensor, "data_offsets");
    const char *dtype = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(tensor, "dtype"));
    if (!dtype)
        fail_msg("there is no tensor %s", name);
    char *shape = text_of(tensor, "shape");
    const size_t size = (size_t)(cJSON_GetArrayItem(offsets, 1)->valuedouble
                                 - cJSON_GetArrayItem(offsets, 0)->valuedouble);
    if (memcmp(tensor_body_find(one, header, name, dtype, shape),
               tensor_body_find(other, header_of_other, name, dtype, shape), size)
        != 0)
        fail_msg("%s of %s has other bits", name, shape);
    free(shape);
    cJSON_Delete(header_of_other);
}
