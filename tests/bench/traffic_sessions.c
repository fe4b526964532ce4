/* SPDX-License-Identifier: Apache-2.0 */
/* traffic_sessions.c - see traffic_sessions.h. */
#include "traffic_sessions.h"

#include "bench_shape.h"
#include "http_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8, FILL_ROWS = 2048, PATH_BYTES = 128, TIMEOUT_S = 120 };

/* ------------------------------------------------------------------------- control -- */

static struct http_response send_once(int port, const struct http_request *request)
{
    struct http_client client;
    struct http_request timed = *request;
    timed.timeout_seconds = TIMEOUT_S;
    http_client_init(&client, port);
    struct http_response response = http_client_send(&client, &timed);
    http_client_free(&client);
    return response;
}

static void must(int port, const struct http_request *request, long status)
{
    struct http_response response = send_once(port, request);
    if (response.status != status) {
        fprintf(stderr, "%s: status %ld: %.300s\n", request->path, response.status, response.body);
        exit(1);
    }
    http_response_free(&response);
}

bool traffic_session_make(int port, const char *model, const char *id, const char *dtype)
{
    char body[160];
    snprintf(body, sizeof body, "{\"model\":\"%s\",\"id\":\"%s\",\"dtype\":\"%s\",\"ttl\":\"1h\"}",
             model, id, dtype);
    struct http_response response =
        send_once(port, &(struct http_request){ .path = "/v1/sessions", .body = body });
    const long status = response.status;
    if (status != 201 && status != 400) {
        fprintf(stderr, "no session: %ld %.300s\n", status, response.body);
        exit(1);
    }
    http_response_free(&response);
    return status == 201;
}

void traffic_session_fork(int port, const char *id, const char *copy)
{
    char path[PATH_BYTES], body[PATH_BYTES];
    snprintf(path, sizeof path, "/v1/sessions/%s/fork", id);
    snprintf(body, sizeof body, "{\"id\":\"%s\"}", copy);
    must(port, &(struct http_request){ .path = path, .body = body }, 201);
}

void traffic_session_delete(int port, const char *id)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/v1/sessions/%s", id);
    must(port, &(struct http_request){ .method = "DELETE", .path = path }, 204);
}

double traffic_session_bytes(int port)
{
    static const char NAME[] = "\nattnd_session_bytes ";
    struct http_response response = send_once(port, &(struct http_request){ .path = "/metrics" });
    const char *found = strstr(response.body, NAME);
    const double bytes = found ? strtod(found + sizeof NAME - 1, NULL) : -1;
    http_response_free(&response);
    return bytes;
}

/* --------------------------------------------------------------------------- files -- */

/* A safetensors file. */
struct file {
    char *bytes;
    size_t size;
};

static size_t query_bytes(struct session_shape shape)
{
    return sizeof(float) * (size_t)(shape.q_heads * shape.head_dim);
}

static size_t rows_bytes(struct session_shape shape, int rows)
{
    return sizeof(float) * (size_t)shape.kv_heads * (size_t)rows * (size_t)shape.head_dim;
}

/* Query, key and value as members of the header, their names behind prefix, at *offset. */
static void write_entries(FILE *header, const char *prefix, struct session_shape shape, int rows,
                          size_t *offset)
{
    static const char *const NAMES[] = { "query", "key", "value" };
    for (int i = 0; i < 3; i++) {
        const size_t end = *offset + (i == 0 ? query_bytes(shape) : rows_bytes(shape, rows));
        fprintf(header,
                ",\"%s%s\":{\"dtype\":\"F32\",\"shape\":[%d,%d,%d],\"data_offsets\":[%zu,%zu]}",
                prefix, NAMES[i], i == 0 ? shape.q_heads : shape.kv_heads, i == 0 ? 1 : rows,
                shape.head_dim, *offset, end);
        *offset = end;
    }
}

/* count items of query, key and value; list is the name of what they are in, NULL for one alone. */
static struct file file_of(const char *metadata, const char *list, int count,
                           struct session_shape shape, int rows)
{
    const size_t q = query_bytes(shape), kv = rows_bytes(shape, rows);
    size_t length, offset = 0;
    char *header, prefix[32] = "";
    FILE *stream = open_memstream(&header, &length);
    if (!stream)
        abort();
    fprintf(stream, "{\"__metadata__\":{\"outputs\":\"[\\\"context\\\"]\"%s}", metadata);
    for (int i = 0; i < count; i++) {
        if (list)
            snprintf(prefix, sizeof prefix, "%s.%d.", list, i);
        write_entries(stream, prefix, shape, rows, &offset);
    }
    fputs("}", stream);
    if (fclose(stream) != 0)
        abort();
    const size_t padded = (length + 7) / 8 * 8, head = LENGTH_BYTES + padded;
    struct file file = { malloc(head + offset), head + offset };
    if (!file.bytes)
        abort();
    for (int i = 0; i < LENGTH_BYTES; i++)
        file.bytes[i] = (char)(padded >> (8 * i));
    memset(file.bytes + LENGTH_BYTES, ' ', padded);
    memcpy(file.bytes + LENGTH_BYTES, header, length);
    free(header);
    for (char *item = file.bytes + head; item < file.bytes + file.size; item += q + 2 * kv) {
        bench_fill((float *)(void *)item, q / sizeof(float), BENCH_QUERY);
        bench_fill((float *)(void *)(item + q), kv / sizeof(float), BENCH_KEY);
        bench_fill((float *)(void *)(item + q + kv), kv / sizeof(float), BENCH_VALUE);
    }
    return file;
}

void traffic_session_fill(int port, const char *id, struct session_shape shape, int rows)
{
    static const char *const HEADERS[] = { "Content-Type: application/x-safetensors", NULL };
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/v1/sessions/%s/attention", id);
    for (int i = 0; i < rows; i += FILL_ROWS) {
        const struct file file =
            file_of("", NULL, 1, shape, rows - i < FILL_ROWS ? rows - i : FILL_ROWS);
        must(port,
             &(struct http_request){
                 .path = path, .body = file.bytes, .body_size = file.size, .headers = HEADERS },
             200);
        free(file.bytes);
    }
}

/* ------------------------------------------------------------------------ requests -- */

static struct traffic_request request_of(const char *path, const char *type, const char *body,
                                         size_t body_size)
{
    char *bytes;
    size_t size;
    FILE *stream = open_memstream(&bytes, &size);
    if (!stream)
        abort();
    fprintf(
        stream,
        "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n",
        path, type, body_size);
    fwrite(body, 1, body_size, stream);
    if (fclose(stream) != 0)
        abort();
    return (struct traffic_request){ bytes, size, 1 };
}

static struct traffic_request binary(const char *path, const char *metadata, const char *list,
                                     int count, struct session_shape shape, int rows)
{
    const struct file file = file_of(metadata, list, count, shape, rows);
    const struct traffic_request request =
        request_of(path, "application/x-safetensors", file.bytes, file.size);
    free(file.bytes);
    return request;
}

struct traffic_request traffic_step_binary(const char *id, struct session_shape shape)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/v1/sessions/%s/attention", id);
    return binary(path, "", NULL, 1, shape, 1);
}

struct traffic_request traffic_step_with_past(struct session_shape shape, int keys)
{
    return binary("/v1/attention", ",\"model\":\"sdpa\"", NULL, 1, shape, keys);
}

/* [heads][1][columns] */
static void write_heads(FILE *stream, const char *name, int heads, int columns, uint32_t input)
{
    fprintf(stream, ",\"%s\":[", name);
    for (int i = 0; i < heads * columns; i++)
        fprintf(stream, "%s%.7g%s",
                i % columns ? ","
                : i         ? ",[["
                            : "[[",
                (double)bench_number((uint32_t)i, input), (i + 1) % columns ? "" : "]]");
    fputs("]", stream);
}

static void write_step(FILE *stream, struct session_shape shape)
{
    fputs("\"outputs\":[\"context\"]", stream);
    write_heads(stream, "query", shape.q_heads, shape.head_dim, BENCH_QUERY);
    write_heads(stream, "key", shape.kv_heads, shape.head_dim, BENCH_KEY);
    write_heads(stream, "value", shape.kv_heads, shape.head_dim, BENCH_VALUE);
}

struct traffic_request traffic_step_json(const char *id, struct session_shape shape)
{
    char path[PATH_BYTES], *body;
    size_t size;
    FILE *stream = open_memstream(&body, &size);
    if (!stream)
        abort();
    fputs("{", stream);
    write_step(stream, shape);
    fputs("}", stream);
    fclose(stream);
    snprintf(path, sizeof path, "/v1/sessions/%s/attention", id);
    const struct traffic_request request = traffic_json(path, body, 0);
    free(body);
    return request;
}

struct traffic_request traffic_step_batch(const char *prefix, int count, struct session_shape shape)
{
    char *body;
    size_t size;
    FILE *stream = open_memstream(&body, &size);
    if (!stream)
        abort();
    fputs("{\"requests\":[", stream);
    for (int i = 0; i < count; i++) {
        fprintf(stream, "%s{\"session\":\"%s%d\",", i > 0 ? "," : "", prefix, i);
        write_step(stream, shape);
        fputs("}", stream);
    }
    fputs("]}", stream);
    fclose(stream);
    const struct traffic_request request = traffic_json("/v1/sessions/attention", body, 0);
    free(body);
    return request;
}

struct traffic_request traffic_step_batch_binary(const char *prefix, int count,
                                                 struct session_shape shape)
{
    char *metadata;
    size_t size;
    FILE *stream = open_memstream(&metadata, &size);
    if (!stream)
        abort();
    fputs(",\"requests\":\"[", stream);
    for (int i = 0; i < count; i++)
        fprintf(stream, "%s{\\\"session\\\":\\\"%s%d\\\"}", i > 0 ? "," : "", prefix, i);
    fputs("]\"", stream);
    fclose(stream);
    const struct traffic_request request =
        binary("/v1/sessions/attention", metadata, "requests", count, shape, 1);
    free(metadata);
    return request;
}

struct traffic_request traffic_step_of_layers(const char *id, int layers, int width)
{
    char path[PATH_BYTES], *body;
    size_t size;
    FILE *stream = open_memstream(&body, &size);
    if (!stream)
        abort();
    fputs("{\"outputs\":[\"context\"],\"steps\":[", stream);
    for (int i = 0; i < layers; i++) {
        fprintf(stream, "%s{\"layer\":%d,\"input\":[[", i > 0 ? "," : "", i);
        for (int c = 0; c < width; c++)
            fprintf(stream, "%s%.7g", c ? "," : "",
                    (double)bench_number((uint32_t)(i * width + c), BENCH_QUERY));
        fputs("]]}", stream);
    }
    fputs("]}", stream);
    fclose(stream);
    snprintf(path, sizeof path, "/v1/sessions/%s/attention", id);
    const struct traffic_request request = traffic_json(path, body, 0);
    free(body);
    return request;
}
