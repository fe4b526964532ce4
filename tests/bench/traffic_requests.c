/* SPDX-License-Identifier: Apache-2.0 */
/* traffic_requests.c - see traffic_requests.h. */
#include "traffic_requests.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const INPUTS[] = { "Q", "K", "V" };
static const char *const FIELDS[] = { "query", "key", "value" };

/* A text that grows. */
struct text {
    FILE *stream;
    char *bytes;
    size_t size;
};

static void text_open(struct text *text)
{
    *text = (struct text){ .bytes = NULL };
    text->stream = open_memstream(&text->bytes, &text->size);
    if (!text->stream)
        abort();
}

/* The caller owns the bytes. */
static void text_close(struct text *text)
{
    if (fclose(text->stream) != 0)
        abort();
}

/* A number between -1 and 1, the same in each run. */
static double number(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-52 - 1;
}

static void write_floats(FILE *stream, int64_t count, uint64_t *state)
{
    for (int64_t i = 0; i < count; i++) {
        const float one = (float)number(state);
        fwrite(&one, sizeof one, 1, stream);
    }
}

struct traffic_request traffic_any(const char *method, const char *path, const char *headers,
                                   const void *body, size_t size)
{
    struct text whole;
    text_open(&whole);
    fprintf(whole.stream, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%sContent-Length: %zu\r\n\r\n",
            method, path, headers, size);
    fwrite(body, 1, size, whole.stream);
    text_close(&whole);
    return (struct traffic_request){ whole.bytes, whole.size, 1 };
}

/* Frees the body's bytes. */
static struct traffic_request post(const char *path, const char *headers, struct text *body,
                                   int timeout_ms)
{
    char lines[256];
    snprintf(lines, sizeof lines, "%s", headers);
    if (timeout_ms > 0)
        snprintf(lines, sizeof lines, "%sX-Timeout-Ms: %d\r\n", headers, timeout_ms);
    const struct traffic_request request =
        traffic_any("POST", path, lines, body->bytes, body->size);
    free(body->bytes);
    return request;
}

void traffic_add_header(struct traffic_request *request, const char *header)
{
    const size_t first =
        (size_t)((char *)memchr(request->bytes, '\n', request->size) + 1 - request->bytes);
    struct text whole;
    text_open(&whole);
    fwrite(request->bytes, 1, first, whole.stream);
    fprintf(whole.stream, "%s\r\n", header);
    fwrite(request->bytes + first, 1, request->size - first, whole.stream);
    text_close(&whole);
    free(request->bytes);
    request->bytes = whole.bytes;
    request->size = whole.size;
}

struct traffic_request traffic_get(const char *path)
{
    struct text whole;
    text_open(&whole);
    fprintf(whole.stream, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", path);
    text_close(&whole);
    return (struct traffic_request){ whole.bytes, whole.size, 1 };
}

struct traffic_request traffic_json(const char *path, const char *body, int timeout_ms)
{
    struct text text;
    text_open(&text);
    fputs(body, text.stream);
    text_close(&text);
    return post(path, "Content-Type: application/json\r\n", &text, timeout_ms);
}

static void write_rows(FILE *stream, const char *field, struct traffic_shape shape, uint64_t *state)
{
    fprintf(stream, ",\"%s\":[", field);
    for (int i = 0; i < shape.length; i++) {
        for (int k = 0; k < shape.head_dim; k++)
            fprintf(stream, "%c%.17g", k ? ',' : '[', number(state));
        fputs(i < shape.length - 1 ? "]," : "]]", stream);
    }
}

static struct traffic_request sdpa_json(struct traffic_shape shape, const char *output,
                                        int timeout_ms)
{
    struct text text;
    uint64_t state = 1;
    text_open(&text);
    fprintf(text.stream, "{\"model\":\"sdpa\",\"outputs\":[\"%s\"]", output);
    for (int i = 0; i < 3; i++)
        write_rows(text.stream, FIELDS[i], shape, &state);
    fputs("}", text.stream);
    text_close(&text);
    return post("/v1/attention", "Content-Type: application/json\r\n", &text, timeout_ms);
}

struct traffic_request traffic_attention_json(struct traffic_shape shape, int timeout_ms)
{
    return sdpa_json(shape, "context", timeout_ms);
}

struct traffic_request traffic_map_json(struct traffic_shape shape)
{
    return sdpa_json(shape, "weights", 0);
}

/* A request with inputs of one shape, which asks for all outputs as bytes. outputs is a member
 * of the JSON, or "". */
static struct traffic_request infer(const char *model, const char *const *names, int name_count,
                                    const int64_t *shape, int rank, const char *outputs,
                                    int timeout_ms)
{
    struct text text;
    char header[80], path[256];
    uint64_t state = 1;
    int64_t count = 1;
    text_open(&text);
    for (int i = 0; i < rank; i++)
        count *= shape[i];
    fputs("{\"inputs\":[", text.stream);
    for (int i = 0; i < name_count; i++) {
        fprintf(text.stream, "%s{\"name\":\"%s\",\"datatype\":\"FP32\",\"shape\":", i ? "," : "",
                names[i]);
        for (int k = 0; k < rank; k++)
            fprintf(text.stream, "%c%lld", k ? ',' : '[', (long long)shape[k]);
        fprintf(text.stream, "],\"parameters\":{\"binary_data_size\":%lld}}",
                (long long)count * (long long)sizeof(float));
    }
    fprintf(text.stream, "]%s,\"parameters\":{\"binary_data_output\":true}}", outputs);
    fflush(text.stream);
    snprintf(header, sizeof header, "Inference-Header-Content-Length: %zu\r\n", text.size);
    write_floats(text.stream, name_count * count, &state);
    text_close(&text);
    snprintf(path, sizeof path, "/v2/models/%s/infer", model);
    return post(path, header, &text, timeout_ms);
}

struct traffic_request traffic_attention_binary(struct traffic_shape shape, int timeout_ms)
{
    const int64_t sizes[] = { 1, shape.heads, shape.length, shape.head_dim };
    return infer("sdpa", INPUTS, 3, sizes, 4, "", timeout_ms);
}

/* A tensor of bytes at a place of a region. */
static void write_place(FILE *stream, const char *region, int64_t place, int64_t bytes)
{
    fprintf(stream,
            "\"parameters\":{\"shared_memory_region\":\"%s\",\"shared_memory_offset\":%lld,"
            "\"shared_memory_byte_size\":%lld}}",
            region, (long long)(place * bytes), (long long)bytes);
}

struct traffic_request traffic_attention_shared(struct traffic_shape shape, const char *region)
{
    const int64_t bytes = (int64_t)shape.heads * shape.length * shape.head_dim * 4;
    struct text text;
    text_open(&text);
    fputs("{\"inputs\":[", text.stream);
    for (int i = 0; i < 3; i++) {
        fprintf(text.stream, "%s{\"name\":\"%s\",\"datatype\":\"FP32\",\"shape\":[1,%d,%d,%d],",
                i ? "," : "", INPUTS[i], shape.heads, shape.length, shape.head_dim);
        write_place(text.stream, region, i, bytes);
    }
    fputs("],\"outputs\":[{\"name\":\"Y\",", text.stream);
    write_place(text.stream, region, 3, bytes);
    fputs("]}", text.stream);
    text_close(&text);
    return post("/v2/models/sdpa/infer", "", &text, 0);
}

struct traffic_request traffic_model_binary(const char *model, int rows, int columns)
{
    const int64_t sizes[] = { rows, columns };
    return infer(model, FIELDS, 1, sizes, 2, ",\"outputs\":[{\"name\":\"context\"}]", 0);
}

struct traffic_request traffic_raw(const char *model, int count, int timeout_ms)
{
    struct text text;
    char path[256];
    uint64_t state = 1;
    text_open(&text);
    write_floats(text.stream, count, &state);
    text_close(&text);
    snprintf(path, sizeof path, "/v2/models/%s/infer", model);
    return post(path, "Inference-Header-Content-Length: 0\r\n", &text, timeout_ms);
}

void traffic_requests_free(struct traffic_request *requests, int count)
{
    for (int i = 0; i < count; i++)
        free(requests[i].bytes);
}
