/* SPDX-License-Identifier: Apache-2.0 */
/* llama_cpp.c - see llama_cpp.h.
 *
 * The declarations are those of include/llama.h at release v0.5.0 (ggml-org/llama.cpp, MIT), which
 * passes parameters by value: so their sizes and places matter, and the defaults are compared with
 * what that release answers before anything is passed. */
#include "llama_cpp.h"
#include "skip.h"
#include "test.h"

#include <dirent.h>
#include <dlfcn.h>

enum {
    PATH_BYTES = 4096,
    CONTEXT_LENGTH = 512,
    TYPE_F32 = 0,
    POOLING_OF_FILE = -1,
    POOLING_NONE,
    FLASH_OFF = 0
};

/* llama_model_params, of which only one field is set: whether weights are rearranged for the CPU.
 */
struct model_params {
    const void *lists[2];
    int32_t gpu_layers, split_mode, numbers[3];
    const void *pointers[4];
    bool vocab_only, check_tensors, use_extra_bufts, no_host, no_alloc, last;
};

struct context_params {
    uint32_t length, batch, ubatch, sequences, rollbacks, outputs, outputs_of_sequence;
    int32_t threads, threads_batch;
    int32_t context_type, rope_scaling, pooling, attention, flash_attention;
    float rope[2], yarn[4];
    uint32_t yarn_length;
    float defragment;
    const void *evaluate[2];
    int32_t key_type, value_type;
    const void *abort[2];
    bool embeddings, offload_kqv, no_perf, op_offload, swa_full, kv_unified;
    const void *samplers;
    size_t sampler_count;
    const void *other;
};

_Static_assert(sizeof(struct model_params) == 0x50, "llama_model_params of v0.5.0");
_Static_assert(sizeof(struct context_params) == 0xA0, "llama_context_params of v0.5.0");

struct batch {
    int32_t count;
    int32_t *tokens;
    float *embeddings;
    int32_t *positions, *sequence_counts, **sequences;
    int8_t *outputs;
};

/* The functions of llama.h that are used; FUNCTION(result, name without llama_, arguments). */
#define FUNCTIONS(FUNCTION)                                                                        \
    FUNCTION(struct model_params, model_default_params, (void))                                    \
    FUNCTION(struct context_params, context_default_params, (void))                                \
    FUNCTION(void *, model_load_from_file, (const char *, struct model_params))                    \
    FUNCTION(void *, init_from_model, (void *, struct context_params))                             \
    FUNCTION(const void *, model_get_vocab, (const void *))                                        \
    FUNCTION(int32_t, vocab_n_tokens, (const void *))                                              \
    FUNCTION(int32_t, model_n_embd, (const void *))                                                \
    FUNCTION(struct batch, batch_init, (int32_t, int32_t, int32_t))                                \
    FUNCTION(void, batch_free, (struct batch))                                                     \
    FUNCTION(int32_t, encode, (void *, struct batch))                                              \
    FUNCTION(int32_t, decode, (void *, struct batch))                                              \
    FUNCTION(float *, get_logits_ith, (void *, int32_t))                                           \
    FUNCTION(float *, get_embeddings_ith, (void *, int32_t))                                       \
    FUNCTION(float *, get_embeddings_seq, (void *, int32_t))                                       \
    FUNCTION(int32_t, tokenize,                                                                    \
             (const void *, const char *, int32_t, int32_t *, int32_t, bool, bool))                \
    FUNCTION(void *, get_memory, (const void *))                                                   \
    FUNCTION(void, memory_clear, (void *, bool))                                                   \
    FUNCTION(bool, memory_seq_rm, (void *, int32_t, int32_t, int32_t))                             \
    FUNCTION(void, log_set, (void (*)(int, const char *, void *), void *))                         \
    FUNCTION(void, free, (void *))                                                                 \
    FUNCTION(void, model_free, (void *))

static struct {
    bool is_open;
#define FIELD(result, name, arguments) result(*name) arguments;
    FUNCTIONS(FIELD)
#undef FIELD
} llama;

void llama_cpp_need(void)
{
    skip_without("llama.cpp", "ls \"$LLAMA_CPP\"/libllama*.so");
}

/* ------------------------------------------------------------------ loading -- */

/* The path of the library whose file's name begins so. */
static void find_library(char path[PATH_BYTES], const char *folder, const char *begin)
{
    path[0] = '\0';
    DIR *files = opendir(folder);
    if (!files)
        fail_msg("LLAMA_CPP is no folder: %s", folder);
    for (const struct dirent *file = readdir(files); file; file = readdir(files))
        if (strncmp(file->d_name, begin, strlen(begin)) == 0)
            snprintf(path, PATH_BYTES, "%s/%s", folder, file->d_name);
    closedir(files);
}

static void *open_library(const char *folder, const char *begin)
{
    char path[PATH_BYTES];
    find_library(path, folder, begin);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fail_msg("%s: %s", begin, dlerror());
    return library;
}

/* Sets a pointer to a function, which dlsym() returns as one to an object. */
static void find_function(void *library, const char *name, void *pointer)
{
    void *found = dlsym(library, name);
    if (!found)
        fail_msg("%s: %s", name, dlerror());
    memcpy(pointer, &found, sizeof found);
}

const char *llama_cpp_version(char text[LLAMA_CPP_VERSION_BYTES])
{
    const char *folder = getenv("LLAMA_CPP"), *(*version)(void), *(*commit)(void);
    char path[PATH_BYTES];
    find_library(path, folder, "libllama.");
    void *library = open_library(folder, "libggml-base.");
    find_function(library, "ggml_version", &version);
    find_function(library, "ggml_commit", &commit);
    snprintf(text, LLAMA_CPP_VERSION_BYTES, "%.60s, ggml %.40s (%.40s)", strrchr(path, '/') + 1,
             version(), commit());
    return text;
}

/* Keeps the errors of the library. */
static void log_errors(int level, const char *text, void *context)
{
    enum { LEVEL_ERROR = 4 };
    (void)context;
    if (level == LEVEL_ERROR)
        fputs(text, stderr);
}

static void open_libraries(void)
{
    const char *folder = getenv("LLAMA_CPP");
    if (llama.is_open)
        return;
    void *library = open_library(folder, "libllama.");
    void (*load_backends)(const char *);
    find_function(open_library(folder, "libggml."), "ggml_backend_load_all_from_path",
                  &load_backends);
#define FIELD(result, name, arguments) find_function(library, "llama_" #name, &llama.name);
    FUNCTIONS(FIELD)
#undef FIELD
    llama.log_set(log_errors, NULL);
    load_backends(folder);
    llama.is_open = true;
}

static void *open_model(const char *path, bool is_rearranged)
{
    open_libraries();
    struct model_params params = llama.model_default_params();
    assert_true(params.gpu_layers == -1 && params.split_mode == 1 && params.use_extra_bufts
                && !params.vocab_only && !params.no_alloc);
    params.use_extra_bufts = is_rearranged;
    void *model = llama.model_load_from_file(path, params);
    if (!model)
        fail_msg("llama.cpp does not load %s", path);
    return model;
}

static struct context_params context_params(void)
{
    const struct context_params params = llama.context_default_params();
    assert_true(params.length == 512 && params.sequences == 1 && params.threads == 4
                && params.pooling == -1 && params.flash_attention == -1 && params.key_type == 1
                && params.value_type == 1 && params.no_perf && params.swa_full);
    return params;
}

static void *open_context(void *model, bool embeddings, int pooling)
{
    struct context_params params = context_params();
    params.length = params.batch = params.ubatch = CONTEXT_LENGTH;
    params.threads = params.threads_batch = 1;
    params.pooling = pooling;
    params.flash_attention = FLASH_OFF;
    params.key_type = params.value_type = TYPE_F32;
    params.embeddings = embeddings;
    void *context = llama.init_from_model(model, params);
    assert_non_null(context);
    return context;
}

/* ---------------------------------------------------------------- computing -- */

static struct batch batch_of(const int32_t *tokens, int count)
{
    struct batch batch = llama.batch_init(count, 0, 1);
    batch.count = count;
    for (int i = 0; i < count; i++) {
        batch.tokens[i] = tokens[i];
        batch.positions[i] = i;
        batch.sequence_counts[i] = 1;
        batch.sequences[i][0] = 0;
        batch.outputs[i] = 1;
    }
    return batch;
}

static void compute(void *context, const int32_t *tokens, int count,
                    int32_t (*step)(void *, struct batch))
{
    struct batch batch = batch_of(tokens, count);
    assert_int_equal(step(context, batch), 0);
    llama.batch_free(batch);
}

static struct llama_cpp_rows rows_of(void *context, int64_t count, int64_t columns,
                                     float *(*row)(void *, int32_t))
{
    struct llama_cpp_rows rows = { count, columns,
                                   malloc((size_t)(count * columns) * sizeof *rows.numbers) };
    assert_non_null(rows.numbers);
    for (int64_t i = 0; i < count; i++) {
        const float *numbers = row(context, (int32_t)i);
        assert_non_null(numbers);
        memcpy(rows.numbers + i * columns, numbers, (size_t)columns * sizeof *numbers);
    }
    return rows;
}

struct llama_cpp_rows llama_cpp_logits(const char *path, const int32_t *tokens, int count,
                                       const int32_t *decoder, int decoder_count)
{
    void *model = open_model(path, false), *context = open_context(model, false, POOLING_NONE);
    const int64_t columns = llama.vocab_n_tokens(llama.model_get_vocab(model));
    if (decoder_count > 0) {
        compute(context, tokens, count, llama.encode);
        compute(context, decoder, decoder_count, llama.decode);
    } else {
        compute(context, tokens, count, llama.decode);
    }
    const struct llama_cpp_rows rows =
        rows_of(context, decoder_count > 0 ? decoder_count : count, columns, llama.get_logits_ith);
    llama.free(context);
    llama.model_free(model);
    return rows;
}

/* Computes an encoder's rows. A decoder that looks both ways has a memory, and decodes. */
static void compute_rows(void *context, const int32_t *tokens, int count)
{
    compute(context, tokens, count, llama.get_memory(context) ? llama.decode : llama.encode);
}

struct llama_cpp_rows llama_cpp_states(const char *path, const int32_t *tokens, int count)
{
    void *model = open_model(path, false), *context = open_context(model, true, POOLING_NONE);
    compute_rows(context, tokens, count);
    const struct llama_cpp_rows rows =
        rows_of(context, count, llama.model_n_embd(model), llama.get_embeddings_ith);
    llama.free(context);
    llama.model_free(model);
    return rows;
}

struct llama_cpp_rows llama_cpp_vector(const char *path, const int32_t *tokens, int count)
{
    void *model = open_model(path, false), *context = open_context(model, true, POOLING_OF_FILE);
    compute_rows(context, tokens, count);
    const struct llama_cpp_rows rows =
        rows_of(context, 1, llama.model_n_embd(model), llama.get_embeddings_seq);
    llama.free(context);
    llama.model_free(model);
    return rows;
}

int llama_cpp_tokens(const char *path, const char *text, int32_t *tokens, int count_max)
{
    void *model = open_model(path, false);
    const int count = llama.tokenize(llama.model_get_vocab(model), text, (int32_t)strlen(text),
                                     tokens, count_max, true, true);
    llama.model_free(model);
    assert_true(count >= 0);
    return count;
}

/* ------------------------------------------------------------------- speed -- */

struct llama_cpp_run {
    void *model, *context;
    int length; /* of the sequence */
};

static struct llama_cpp_run *open_run(const char *path, const struct context_params *params)
{
    struct llama_cpp_run *run = malloc(sizeof *run);
    assert_non_null(run);
    run->model = open_model(path, true);
    run->context = llama.init_from_model(run->model, *params);
    assert_non_null(run->context);
    run->length = 0;
    return run;
}

struct llama_cpp_run *llama_cpp_run_open(const char *path, int threads, int length)
{
    open_libraries();
    struct context_params params = context_params();
    params.length = params.batch = (uint32_t)length;
    params.threads = params.threads_batch = threads;
    return open_run(path, &params);
}

struct llama_cpp_run *llama_cpp_encoder_open(const char *path, int threads, int sequences,
                                             int length)
{
    open_libraries();
    struct context_params params = context_params();
    params.length = params.batch = params.ubatch = (uint32_t)(sequences * length);
    params.sequences = (uint32_t)sequences;
    params.threads = params.threads_batch = threads;
    params.embeddings = true;
    params.pooling = POOLING_OF_FILE;
    return open_run(path, &params);
}

void llama_cpp_encode(struct llama_cpp_run *run, const int32_t *tokens, int sequences, int length)
{
    struct batch batch = batch_of(tokens, sequences * length);
    for (int i = 0; i < sequences * length; i++) {
        batch.positions[i] = i % length;
        batch.sequences[i][0] = i / length;
    }
    assert_int_equal(llama.encode(run->context, batch), 0);
    for (int i = 0; i < sequences; i++)
        assert_non_null(llama.get_embeddings_seq(run->context, i));
    llama.batch_free(batch);
}

void llama_cpp_run_close(struct llama_cpp_run *run)
{
    llama.free(run->context);
    llama.model_free(run->model);
    free(run);
}

static void append(struct llama_cpp_run *run, const int32_t *tokens, int count)
{
    struct batch batch = batch_of(tokens, count);
    for (int i = 0; i < count; i++) {
        batch.positions[i] += run->length;
        batch.outputs[i] = i + 1 == count;
    }
    assert_int_equal(llama.decode(run->context, batch), 0);
    assert_non_null(llama.get_logits_ith(run->context, count - 1));
    llama.batch_free(batch);
    run->length += count;
}

void llama_cpp_prefill(struct llama_cpp_run *run, const int32_t *tokens, int count)
{
    llama.memory_clear(llama.get_memory(run->context), true);
    run->length = 0;
    append(run, tokens, count);
}

void llama_cpp_step(struct llama_cpp_run *run, int32_t token)
{
    append(run, &token, 1);
}

void llama_cpp_cut(struct llama_cpp_run *run, int length)
{
    assert_true(llama.memory_seq_rm(llama.get_memory(run->context), 0, length, -1));
    run->length = length;
}
