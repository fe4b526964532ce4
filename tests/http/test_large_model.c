/* SPDX-License-Identifier: Apache-2.0 */
/* test_large_model.c - the daemon serves a file of 16 GB, most of it holes, at once and from little
 * memory. It maps the file and reads only the layers that requests ask for.
 *
 * A layer is 16 MiB of F64 matrices, which the daemon converts. Between two layers lies a tensor
 * that no layer uses. The test is skipped if the file system has no holes or no such
 * large files. */
#include "answer.h"
#include "fixture.h"
#include "request_text.h"
#include "test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LAYERS = 6,
    WIDTH = 1024, /* rows and columns of each matrix */
    ROUNDS = 2,
};

static const long long MATRIX_BYTES = 8LL * WIDTH * WIDTH, BETWEEN_BYTES = (16LL << 30) / LAYERS;
static const size_t MIB = 1 << 20;

/* Writes only the header. A layer is two matrices, and the tensor between the layers follows it. */
static void write_header(struct request_text *text)
{
    long long at = 0;
    request_text_add(text,
                     "{\"__metadata__\":{\"attnd\":\"{\\\"attention\\\":\\\"dot\\\","
                     "\\\"layers\\\":%d}\"}",
                     LAYERS);
    for (int layer = 0; layer < LAYERS; layer++) {
        for (int p = 0; p < 2; p++, at += MATRIX_BYTES)
            request_text_add(text,
                             ",\"layers.%d.%c_proj.weight\":{\"dtype\":\"F64\",\"shape\":[%d,%d],"
                             "\"data_offsets\":[%lld,%lld]}",
                             layer, "qk"[p], WIDTH, WIDTH, at, at + MATRIX_BYTES);
        request_text_add(text,
                         ",\"between.%d\":{\"dtype\":\"U8\",\"shape\":[%lld],"
                         "\"data_offsets\":[%lld,%lld]}",
                         layer, BETWEEN_BYTES, at, at + BETWEEN_BYTES);
        at += BETWEEN_BYTES;
    }
    request_text_add(text, "}");
}

/* Returns false if the file system cannot make the file, or if the holes take space. */
static bool make_file(void)
{
    char path[300];
    struct request_text text = { 0 };
    struct stat status = { .st_blocks = 0 };
    write_header(&text);
    const uint64_t length = strlen(text.data);
    const long long size = 8 + (long long)length + LAYERS * (2 * MATRIX_BYTES + BETWEEN_BYTES);
    snprintf(path, sizeof(path), "%s/large.safetensors", directory);
    const int file = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(file >= 0);
    assert_int_equal(write(file, &length, 8), 8);
    assert_int_equal(write(file, text.data, length), (ssize_t)length);
    const bool made = ftruncate(file, size) == 0 && fstat(file, &status) == 0
                      && status.st_blocks < 2048 && status.st_size == size;
    close(file);
    free(text.data);
    return made;
}

/* All parameters are zero, so all weights of a row are equal. */
static void ask(int layer)
{
    enum { ROWS = 4 };
    const int64_t shape[] = { 1, ROWS, ROWS };
    struct request_text text = { 0 };
    request_text_add(
        &text, "{\"model\":\"large\",\"layer\":%d,\"outputs\":[\"weights\"],\"query\":", layer);
    request_text_random(&text, 1, ROWS, WIDTH);
    request_text_add(&text, "}");
    cJSON *answer = answer_post(&client, "/v1/attention", text.data);
    double *weights = answer_numbers(answer, "weights", 3, shape);
    for (int i = 0; i < ROWS * ROWS; i++)
        assert_true(weights[i] == 1.0 / ROWS);
    free(weights);
    cJSON_Delete(answer);
    free(text.data);
}

static void start_daemon(const char *models)
{
    const double begin = daemon_now();
    daemon_start_with(&server, "--models", models, "--model-memory-max", "16MiB", NULL);
    print_message("ready in %.3f s with %zu MiB resident\n", daemon_now() - begin,
                  daemon_memory_bytes(&server) / MIB);
    http_client_init(&client, server.port);
}

static void stop_daemon(void)
{
    http_client_free(&client);
    daemon_stop(&server);
}

TEST(little_memory)
{
    if (!make_file()) {
        print_message("no holes in files of %s\n", directory);
        skip();
    }
    char *none = daemon_directory_create();
    start_daemon(none);
    const size_t without = daemon_memory_bytes(&server);
    stop_daemon();
    daemon_directory_remove(none);

    start_daemon(directory);
    const size_t with = daemon_memory_bytes(&server);
    assert_true(with < without + 10 * MIB);
    if (daemon_slowness() <= 1) /* a sanitizer takes memory of its own */
        assert_true(with < 50 * MIB);
    for (int round = 0; round < ROUNDS; round++)
        for (int layer = 0; layer < LAYERS; layer++)
            ask(layer);
    /* The memory holds the floats of two layers at a time, and the parts of the file that were
     * read. */
    print_message("after %d requests: %zu MiB\n", ROUNDS * LAYERS,
                  daemon_memory_bytes(&server) / MIB);
    stop_daemon();
}

ALL_TESTS(fixture_make_directory, fixture_clear);
