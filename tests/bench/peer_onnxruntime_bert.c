/* SPDX-License-Identifier: Apache-2.0 */
/* peer_onnxruntime_bert.c - vectors of an encoder by onnxruntime, as a child of load_vectors.
 *
 * ONNXRUNTIME names its shared library, ONNX_MODEL a graph of traffic_onnx.h. In the words of
 * peer_main.h a shape is so many texts (BATCH) of so many tokens (Q_LEN); the sums are those of
 * the first numbers of the vectors, as many as arrays have.
 *
 * The declarations are those of onnxruntime_c_api.h (microsoft/onnxruntime, MIT), whose table of
 * functions only grows at its end. */
#include "peer_main.h"

#include "fill.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { API_VERSION = 8, ALL_OPTIMIZATIONS = 99, WARNINGS = 2, FLOAT = 1, INT32 = 6, TOKENS = 1000 };
enum { DEVICE_ALLOCATOR = 0, MEMORY_DEFAULT = 0 };

struct api_base {
    const void *(*get_api)(uint32_t version);
    const char *(*get_version)(void);
};

/* Their places in the table. */
enum {
    GET_ERROR_MESSAGE = 2,
    CREATE_ENV = 3,
    CREATE_SESSION = 7,
    RUN = 9,
    CREATE_OPTIONS = 10,
    SET_OPTIMIZATION = 23,
    SET_THREADS = 24,
    CREATE_TENSOR = 49,
    GET_DATA = 51,
    CREATE_MEMORY = 69,
    RELEASE_SESSION = 95,
    RELEASE_VALUE = 96
};

static void *const *functions;
static void *environment, *session, *input, *output;
static int32_t *ids;
static float *result;
static size_t result_count;
static int threads_now;

#define CALL(PLACE, arguments, ...)                                                                \
    check(((void *(*)arguments)(uintptr_t)functions[PLACE])(__VA_ARGS__))

/* Ends the program on a status. */
static void check(void *status)
{
    if (!status)
        return;
    fprintf(stderr, "%s\n",
            ((const char *(*)(const void *))(uintptr_t)functions[GET_ERROR_MESSAGE])(status));
    exit(1);
}

static void release(int place, void **object)
{
    if (*object)
        ((void (*)(void *))(uintptr_t)functions[place])(*object);
    *object = NULL;
}

static const char *open_library(void)
{
    const char *path = getenv("ONNXRUNTIME");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library || !getenv("ONNX_MODEL"))
        return "no library";
    const struct api_base *(*get_base)(void) =
        (const struct api_base *(*)(void))(uintptr_t)dlsym(library, "OrtGetApiBase");
    functions = get_base ? get_base()->get_api(API_VERSION) : NULL;
    if (!functions)
        return "no table of functions";
    CALL(CREATE_ENV, (int, const char *, void **), WARNINGS, "bench", &environment);
    return NULL;
}

static void open_session(int threads)
{
    void *options;
    release(RELEASE_SESSION, &session);
    CALL(CREATE_OPTIONS, (void **), &options);
    CALL(SET_OPTIMIZATION, (void *, int), options, ALL_OPTIMIZATIONS);
    CALL(SET_THREADS, (void *, int), options, threads);
    CALL(CREATE_SESSION, (void *, const char *, void *, void **), environment, getenv("ONNX_MODEL"),
         options, &session);
    threads_now = threads;
}

const char *peer_setup(const struct bench_shape *shape, const float *query, const float *key,
                       const float *value, float *context)
{
    const int64_t sizes[] = { shape->batch, shape->q_len };
    const size_t count = (size_t)(sizes[0] * sizes[1]);
    struct fill fill = { 1 };
    void *memory;
    (void)query;
    (void)key;
    (void)value;
    const char *reason = functions ? NULL : open_library();
    if (reason)
        return reason;
    if (threads_now != shape->threads)
        open_session(shape->threads);
    result = context;
    result_count = (size_t)shape->batch * (size_t)shape->kv_len;
    free(ids);
    ids = malloc(count * sizeof *ids);
    if (!ids)
        abort();
    for (size_t i = 0; i < count; i++)
        ids[i] = (int32_t)fill_below(&fill, TOKENS);
    CALL(CREATE_MEMORY, (int, int, void **), DEVICE_ALLOCATOR, MEMORY_DEFAULT, &memory);
    CALL(CREATE_TENSOR, (const void *, void *, size_t, const int64_t *, size_t, int, void **),
         memory, ids, count * sizeof *ids, sizes, 2, INT32, &input);
    return NULL;
}

void peer_run(void)
{
    static const char *const INPUTS[] = { "ids" }, *const OUTPUTS[] = { "vectors" };
    const void *inputs[] = { input };
    float *vectors;
    release(RELEASE_VALUE, &output);
    CALL(RUN,
         (void *, const void *, const char *const *, const void *const *, size_t,
          const char *const *, size_t, void **),
         session, NULL, INPUTS, inputs, 1, OUTPUTS, 1, &output);
    CALL(GET_DATA, (void *, void **), output, (void **)&vectors);
    memcpy(result, vectors, result_count * sizeof *result);
}

void peer_release(void)
{
    release(RELEASE_VALUE, &output);
    release(RELEASE_VALUE, &input);
}
