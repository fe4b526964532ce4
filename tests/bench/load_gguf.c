/* load_gguf.c - the whole pass of a GGUF file: the daemon beside llama.cpp, on one file, with as
 * many threads.
 *
 *     LLAMA_CPP=FOLDER load_gguf [ROUNDS] [WORD...]     3 rounds without a number
 *
 * FOLDER has the shared libraries of llama.cpp, as in tests/support/llama_cpp.h. The models have
 * the shapes of Qwen3-0.6B and Llama-3.2-1B, random parameters of F16, Q8_0 and Q4_K, and go to
 * build/gguf/. "prefill" is a trace of so many tokens that answers the prediction of the last;
 * "decode" the mean of some single tokens behind so many, over a session with keys and values in
 * F16. Both take turns, and the ratio of a round is llama.cpp's time by ours: above 1 we are
 * faster. The daemon's time includes HTTP and JSON. "maps" is the daemon alone: a trace that
 * answers the weights of all heads and layers as safetensors beside one that answers a prediction,
 * and the ratio is the first's time by the second's. llama.cpp quantises activations to 8 bits
 * beside quantised weights; the daemon keeps 24. Words pick the rows whose names have all of them,
 * such as "Q8_0" and "decode". */
#include "fill.h"
#include "gguf_quantize.h"
#include "gguf_write.h"
#include "llama_cpp.h"
#include "own.h"
#include "traffic_call.h"
#include "traffic_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROUNDS_MAX = 31, THREADS = 2, STEPS = 16, PIECE = 1 << 20, LENGTH_MAX = 8192 };

static const struct shape {
    const char *name, *architecture;
    int layers, width, inner, heads, kv_heads, head_dim, vocabulary;
} SHAPES[] = {
    { "qwen3-0.6b", "qwen3", 28, 1024, 3072, 16, 8, 128, 151936 },
    { "llama-1b", "llama", 16, 2048, 8192, 32, 8, 64, 128256 },
};

static const char *const TYPES[] = { "F16", "Q8_0", "Q4_K" };

static const struct task {
    const char *name;
    int length;
    enum { PREFILL, DECODE, MAPS } kind;
} TASKS[] = {
    { "prefill of 512", 512, PREFILL },   { "prefill of 2048", 2048, PREFILL },
    { "decode at 128", 128, DECODE },     { "decode at 4096", 4096, DECODE },
    { "prefill of 8192", 8192, PREFILL }, { "maps of 512", 512, MAPS },
};

static const char PREDICTION[] = "\"layers\":[],\"outputs\":[\"predictions\"],\"top_k_tokens\":1,";
static const char ALL_MAPS[] = "\"outputs\":[\"weights\"],";

/* ----------------------------------------------------------------------------- files -- */

struct made {
    struct gguf_write *file;
    const struct gguf_block *type;
    const void *piece; /* PIECE numbers of the type, which every matrix repeats */
};

static void add_matrix(const struct made *made, const char *name, int64_t rows, int64_t columns)
{
    const size_t piece = (size_t)PIECE / (size_t)made->type->count * (size_t)made->type->bytes;
    const size_t size =
        (size_t)(rows * columns) / (size_t)made->type->count * (size_t)made->type->bytes;
    char *bytes = malloc(size);
    if (!bytes)
        abort();
    for (size_t at = 0; at < size; at += piece)
        memcpy(bytes + at, made->piece, size - at < piece ? size - at : piece);
    gguf_write_blocks(made->file, name, made->type->name, 2, (int64_t[]){ rows, columns }, bytes);
    free(bytes);
}

static void add_norm(const struct made *made, const char *name, int64_t columns)
{
    float *ones = malloc((size_t)columns * sizeof *ones);
    if (!ones)
        abort();
    for (int64_t i = 0; i < columns; i++)
        ones[i] = 1;
    gguf_write_tensor(made->file, name, "F32", 1, &columns, ones);
    free(ones);
}

static void add_block(const struct made *made, const struct shape *shape, int block)
{
    const int64_t q = (int64_t)shape->heads * shape->head_dim;
    const int64_t kv = (int64_t)shape->kv_heads * shape->head_dim;
    const struct {
        const char *name;
        int64_t rows, columns; /* rows 0: a norm */
    } tensors[] = {
        { "attn_norm", 0, shape->width },
        { "attn_q", q, shape->width },
        { "attn_k", kv, shape->width },
        { "attn_v", kv, shape->width },
        { "attn_output", shape->width, q },
        { "ffn_norm", 0, shape->width },
        { "ffn_gate", shape->inner, shape->width },
        { "ffn_up", shape->inner, shape->width },
        { "ffn_down", shape->width, shape->inner },
        { "attn_q_norm", 0, shape->head_dim },
        { "attn_k_norm", 0, shape->head_dim },
    };
    const int count = strcmp(shape->architecture, "qwen3") == 0 ? 11 : 9;
    for (int i = 0; i < count; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.%s.weight", block, tensors[i].name);
        if (tensors[i].rows > 0)
            add_matrix(made, name, tensors[i].rows, tensors[i].columns);
        else
            add_norm(made, name, tensors[i].columns);
    }
}

static void add_pairs(struct gguf_write *file, const struct shape *shape)
{
    const struct {
        const char *key;
        int value;
    } sizes[] = {
        { "block_count", shape->layers },
        { "context_length", 32768 },
        { "embedding_length", shape->width },
        { "feed_forward_length", shape->inner },
        { "attention.head_count", shape->heads },
        { "attention.head_count_kv", shape->kv_heads },
        { "attention.key_length", shape->head_dim },
        { "attention.value_length", shape->head_dim },
        { "rope.dimension_count", shape->head_dim },
        { "vocab_size", shape->vocabulary },
    };
    char key[96];
    gguf_write_text(file, "general.architecture", shape->architecture);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        snprintf(key, sizeof key, "%s.%s", shape->architecture, sizes[i].key);
        gguf_write_integer(file, key, 'I', sizes[i].value);
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", shape->architecture);
    gguf_write_number(file, key, 'f', 1e-6);
    snprintf(key, sizeof key, "%s.rope.freq_base", shape->architecture);
    gguf_write_number(file, key, 'f', 500000);
    gguf_write_text(file, "tokenizer.ggml.model", "no_vocab");
}

/* Numbers as small as those of trained matrices. */
static void *make_piece(const struct gguf_block *type)
{
    struct fill fill = { 1 };
    float *values = malloc(PIECE * sizeof *values);
    void *piece = malloc((size_t)PIECE / (size_t)type->count * (size_t)type->bytes);
    if (!values || !piece)
        abort();
    for (int i = 0; i < PIECE; i++)
        values[i] = (float)(fill_below(&fill, 20001) - 10000) * 4e-6f;
    gguf_quantize(type, values, PIECE, piece);
    free(values);
    return piece;
}

static void make_file(const char *path, const struct shape *shape, const char *type)
{
    struct made made = { gguf_write_create(3), gguf_block(type), NULL };
    void *piece = make_piece(made.type);
    made.piece = piece;
    add_pairs(made.file, shape);
    add_matrix(&made, "token_embd.weight", shape->vocabulary, shape->width);
    add_norm(&made, "output_norm.weight", shape->width);
    for (int i = 0; i < shape->layers; i++)
        add_block(&made, shape, i);
    gguf_write_file(made.file, path);
    gguf_write_free(made.file);
    free(piece);
}

/* ------------------------------------------------------------------------ contenders -- */

struct contest {
    int port;
    struct llama_cpp_run *peer;
    const struct shape *shape;
    int32_t tokens[LENGTH_MAX + STEPS + 1];
};

static char *tokens_body(const struct contest *contest, int first, int count, const char *model,
                         const char *fields)
{
    char *body;
    size_t size;
    FILE *stream = open_memstream(&body, &size);
    if (!stream)
        abort();
    fprintf(stream, "{%s%s\"tokens\":", model, fields);
    for (int i = 0; i < count; i++)
        fprintf(stream, "%c%" PRId32, i > 0 ? ',' : '[', contest->tokens[first + i]);
    fputs("]}", stream);
    if (fclose(stream) != 0)
        abort();
    return body;
}

/* On a connection of its own: the daemon closes those that are idle while llama.cpp computes. */
static double call(const struct contest *contest, const char *path, const char *body,
                   const char *header)
{
    struct traffic_connection connection;
    struct traffic_request request = traffic_json(path, body, 0);
    if (header[0])
        traffic_add_header(&request, header);
    traffic_call_open(&connection, contest->port);
    const double seconds = traffic_call(&connection, &request);
    traffic_connection_close(&connection);
    traffic_requests_free(&request, 1);
    return seconds;
}

static double trace_seconds(const struct contest *contest, int length, const char *model,
                            const char *fields, const char *header)
{
    char name[100];
    snprintf(name, sizeof name, "\"model\":\"%s\",", model);
    char *body = tokens_body(contest, 0, length, name, fields);
    const double seconds = call(contest, "/v1/trace", body, header);
    free(body);
    return seconds;
}

static double own_seconds(const struct contest *contest, const struct task *task, const char *model)
{
    char session[200], path[60];
    double seconds = 0;
    if (task->kind == PREFILL)
        return trace_seconds(contest, task->length, model, PREDICTION, "");
    static int number;
    snprintf(session, sizeof session, "{\"model\":\"%s\",\"id\":\"s%d\",\"dtype\":\"f16\"}", model,
             ++number);
    snprintf(path, sizeof path, "/v1/sessions/s%d/trace", number);
    call(contest, "/v1/sessions", session, "");
    for (int i = 0; i <= STEPS; i++) {
        char *body = tokens_body(contest, i == 0 ? 0 : task->length + i, i == 0 ? task->length : 1,
                                 "", PREDICTION);
        const double step = call(contest, path, body, "");
        seconds += i > 0 ? step / STEPS : 0;
        free(body);
    }
    return seconds;
}

static double peer_seconds(const struct contest *contest, const struct task *task)
{
    double begin = now_s(THREADS);
    llama_cpp_prefill(contest->peer, contest->tokens, task->length);
    if (task->kind == PREFILL)
        return now_s(THREADS) - begin;
    begin = now_s(THREADS);
    for (int i = 1; i <= STEPS; i++)
        llama_cpp_step(contest->peer, contest->tokens[task->length + i]);
    return (now_s(THREADS) - begin) / STEPS;
}

static void run_task(const struct contest *contest, const struct task *task, const char *model,
                     int rounds)
{
    double own[ROUNDS_MAX], peer[ROUNDS_MAX], ratios[ROUNDS_MAX];
    char figure[160];
    for (int i = 0; i < rounds; i++) {
        if (i % 2 == 0)
            own[i] = own_seconds(contest, task, model);
        peer[i] = peer_seconds(contest, task);
        if (i % 2 == 1)
            own[i] = own_seconds(contest, task, model);
        ratios[i] = peer[i] / own[i];
    }
    const double ratio = median(ratios, rounds);
    printf("%-20s %-16s %10.1f ms, llama.cpp %10.1f ms: %.2f (%.2f to %.2f)\n", model, task->name,
           median(own, rounds) * 1e3, median(peer, rounds) * 1e3, ratio, ratios[0],
           ratios[rounds - 1]);
    fflush(stdout);
    snprintf(figure, sizeof figure, "%s, %s, llama.cpp by ours", model, task->name);
    traffic_report_figure(figure, ratio, "ratio");
}

static void run_maps(const struct contest *contest, const struct task *task, const char *model,
                     int rounds)
{
    double with[ROUNDS_MAX], without[ROUNDS_MAX], ratios[ROUNDS_MAX];
    char figure[160];
    for (int i = 0; i < rounds; i++) {
        without[i] = trace_seconds(contest, task->length, model, PREDICTION, "");
        with[i] = trace_seconds(contest, task->length, model, ALL_MAPS,
                                "Accept: application/x-safetensors");
        ratios[i] = with[i] / without[i];
    }
    const double ratio = median(ratios, rounds);
    printf("%-20s %-16s %10.1f ms, without   %10.1f ms: %.2f (%.2f to %.2f)\n", model, task->name,
           median(with, rounds) * 1e3, median(without, rounds) * 1e3, ratio, ratios[0],
           ratios[rounds - 1]);
    fflush(stdout);
    snprintf(figure, sizeof figure, "%s, %s, with maps by without", model, task->name);
    traffic_report_figure(figure, ratio, "ratio");
}

/* ------------------------------------------------------------------------------ rows -- */

static bool is_wanted(char *const *words, const char *model, const char *task)
{
    for (; *words; words++)
        if (!strstr(model, *words) && !strstr(task, *words))
            return false;
    return true;
}

static void run_file(const struct shape *shape, const char *type, int rounds, char *const *words)
{
    static struct contest contest;
    struct traffic_server server;
    struct fill fill = { 7 };
    char model[60], path[100];
    bool is_any = false;
    snprintf(model, sizeof model, "%s-%s", shape->name, type);
    for (size_t i = 0; i < sizeof TASKS / sizeof *TASKS; i++)
        is_any = is_any || is_wanted(words, model, TASKS[i].name);
    if (!is_any)
        return;
    snprintf(path, sizeof path, "build/gguf/%s.gguf", model);
    if (access(path, F_OK) != 0)
        make_file(path, shape, type);
    contest.shape = shape;
    for (size_t i = 0; i < sizeof contest.tokens / sizeof *contest.tokens; i++)
        contest.tokens[i] = (int32_t)fill_below(&fill, shape->vocabulary);
    traffic_server_start(&server, (const char *const[]){ "--models", "build/gguf", "--workers", "2",
                                                         "--timeout", "600s", "--answer-max",
                                                         "1GiB", NULL });
    contest.port = server.port;
    contest.peer = llama_cpp_run_open(path, THREADS, LENGTH_MAX + STEPS + 1);
    for (size_t i = 0; i < sizeof TASKS / sizeof *TASKS; i++)
        if (is_wanted(words, model, TASKS[i].name))
            (TASKS[i].kind == MAPS ? run_maps : run_task)(&contest, &TASKS[i], model, rounds);
    llama_cpp_run_close(contest.peer);
    traffic_server_stop(&server);
    unlink(path);
}

int main(int argc, char **argv)
{
    const int given = argc > 1 ? atoi(argv[1]) : 0;
    const int rounds = given > 0 && given <= ROUNDS_MAX ? given : 3;
    char *const *words = argc > 1 ? argv + (given == 0 ? 1 : 2) : argv + argc;
    if (!getenv("LLAMA_CPP")) {
        printf("load_gguf: left out, for LLAMA_CPP names no folder of llama.cpp\n");
        return 0;
    }
    traffic_report_open("gguf");
    mkdir("build/gguf", 0755);
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++)
        for (size_t k = 0; k < sizeof TYPES / sizeof *TYPES; k++)
            run_file(&SHAPES[i], TYPES[k], rounds, words);
    return 0;
}
