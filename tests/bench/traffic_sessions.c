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

/* A safetensors file of query, key and value. */
struct file {
    char *bytes;
    size_t size;
};

static struct file file_of(const char *metadata, struct session_shape shape, int rows)
{
    const size_t q = sizeof(float) * (size_t)(shape.q_heads * shape.head_dim);
    const size_t kv =
        sizeof(float) * (size_t)shape.kv_heads * (size_t)rows * (size_t)shape.head_dim;
    char header[1024];
    const int length =
        snprintf(header, sizeof header,
                 "{\"__metadata__\":{\"outputs\":\"[\\\"context\\\"]\"%s},"
                 "\"query\":{\"dtype\":\"F32\",\"shape\":[%d,1,%d],\"data_offsets\":[0,%zu]},"
                 "\"key\":{\"dtype\":\"F32\",\"shape\":[%d,%d,%d],\"data_offsets\":[%zu,%zu]},"
                 "\"value\":{\"dtype\":\"F32\",\"shape\":[%d,%d,%d],\"data_offsets\":[%zu,%zu]}}",
                 metadata, shape.q_heads, shape.head_dim, q, shape.kv_heads, rows, shape.head_dim,
                 q, q + kv, shape.kv_heads, rows, shape.head_dim, q + kv, q + 2 * kv);
    const size_t padded = (size_t)(length + 7) / 8 * 8, head = LENGTH_BYTES + padded;
    struct file file = { malloc(head + q + 2 * kv), head + q + 2 * kv };
    if (!file.bytes)
        abort();
    for (int i = 0; i < LENGTH_BYTES; i++)
        file.bytes[i] = (char)(padded >> (8 * i));
    memset(file.bytes + LENGTH_BYTES, ' ', padded);
    memcpy(file.bytes + LENGTH_BYTES, header, (size_t)length);
    bench_fill((float *)(void *)(file.bytes + head), q / sizeof(float), BENCH_QUERY);
    bench_fill((float *)(void *)(file.bytes + head + q), kv / sizeof(float), BENCH_KEY);
    bench_fill((float *)(void *)(file.bytes + head + q + kv), kv / sizeof(float), BENCH_VALUE);
    return file;
}

void traffic_session_fill(int port, const char *id, struct session_shape shape, int rows)
{
    static const char *const HEADERS[] = { "Content-Type: application/x-safetensors", NULL };
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/v1/sessions/%s/attention", id);
    for (int i = 0; i < rows; i += FILL_ROWS) {
        const struct file file = file_of("", shape, rows - i < FILL_ROWS ? rows - i : FILL_ROWS);
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

static struct traffic_request binary(const char *path, const char *metadata,
                                     struct session_shape shape, int rows)
{
    const struct file file = file_of(metadata, shape, rows);
    const struct traffic_request request =
        request_of(path, "application/x-safetensors", file.bytes, file.size);
    free(file.bytes);
    return request;
}

struct traffic_request traffic_step_binary(const char *id, struct session_shape shape)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/v1/sessions/%s/attention", id);
    return binary(path, "", shape, 1);
}

struct traffic_request traffic_step_with_past(struct session_shape shape, int keys)
{
    return binary("/v1/attention", ",\"model\":\"sdpa\"", shape, keys);
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
