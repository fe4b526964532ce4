/* SPDX-License-Identifier: Apache-2.0 */
/* load_gguf.c - the whole pass of a GGUF file: the daemon beside llama.cpp, on one file, with as
 * many threads.
 *
 *     [LLAMA_CPP=FOLDER] load_gguf [quick] [ROUNDS] [WORD...]
 *
 * FOLDER has the shared libraries of llama.cpp, as in tests/support/llama_cpp.h; without it the
 * daemon is alone. The models have the shapes of Qwen3-0.6B and Llama-3.2-1B and random parameters;
 * files go to build/gguf/. "prefill" is a trace of so many tokens that answers the prediction of
 * the last; "decode" the mean of some single tokens behind so many, over a session with keys and
 * values in F16, which goes back to its length after each round. The daemon's time includes HTTP
 * and JSON. "maps" is the daemon alone: a trace that answers the weights of all heads and layers as
 * safetensors, beside one that answers a prediction
 * ("without maps"). llama.cpp quantises activations to 8 bits beside quantised weights; the daemon
 * keeps 24. traffic_pass.h describes the table. Words pick the rows whose names have all of them,
 * such as "Q8_0", "decode" and "2 threads"; "quick" is a choice of rows for some minutes. */
#include "fill.h"
#include "gguf_quantize.h"
#include "gguf_write.h"
#include "llama_cpp.h"
#include "machine.h"
#include "own.h"
#include "peers.h"
#include "traffic_call.h"
#include "traffic_pass.h"
#include "traffic_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STEPS = 16, WARM = 128, PIECE = 1 << 20, LENGTH_MAX = 8192 };

static const struct shape {
    const char *name, *architecture;
    int layers, width, inner, heads, kv_heads, head_dim, vocabulary;
} SHAPES[] = {
    { "qwen3-0.6b", "qwen3", 28, 1024, 3072, 16, 8, 128, 151936 },
    { "llama-1b", "llama", 16, 2048, 8192, 32, 8, 64, 128256 },
};

static const char *const TYPES[] = { "F16", "BF16", "Q8_0", "Q4_K", "F32" };

static const struct task {
    const char *name;
    int length;
    enum { PREFILL, DECODE, MAPS } kind;
} TASKS[] = {
    { "prefill of 128", 128, PREFILL },   { "prefill of 512", 512, PREFILL },
    { "prefill of 2048", 2048, PREFILL }, { "decode at 128", 128, DECODE },
    { "decode at 4096", 4096, DECODE },   { "prefill of 8192", 8192, PREFILL },
    { "maps of 512", 512, MAPS },
};
enum { TASK_COUNT = sizeof TASKS / sizeof *TASKS };

/* Of "quick": rows whose names begin and end so. */
static const char *const QUICK[][2] = {
    { "qwen3-0.6b-Q8_0, prefill of 512", "" },
    { "qwen3-0.6b-Q8_0, decode at 128", "" },
    { "qwen3-0.6b-F16, prefill of 512", "2 threads" },
    { "qwen3-0.6b-F16, decode at 128", "2 threads" },
    { "qwen3-0.6b-Q4_K, prefill of 512", "2 threads" },
    { "qwen3-0.6b-Q4_K, decode at 128", "2 threads" },
    { "llama-1b-Q4_K, prefill of 512", "2 threads" },
    { "llama-1b-Q4_K, decode at 128", "2 threads" },
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
    int port, threads;
    struct llama_cpp_run *run; /* NULL: there is no llama.cpp */
    struct peer process;       /* this one, in which it computes */
    const struct shape *shape;
    const struct task *task;
    const char *model;
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

/* On a connection of its own: the daemon closes those that are idle while llama.cpp computes. row:
 * that measures it, or NULL. */
static double call(const struct contest *contest, struct pass_row *row, const char *path,
                   const char *body, const char *header)
{
    struct traffic_connection connection;
    struct traffic_request request = traffic_json(path, body, 0);
    double seconds = 0;
    if (header[0])
        traffic_add_header(&request, header);
    traffic_call_open(&connection, contest->port);
    if (row)
        pass_call(row, &connection, &request);
    else
        seconds = traffic_call(&connection, &request);
    traffic_connection_close(&connection);
    traffic_requests_free(&request, 1);
    return seconds;
}

static double trace(const struct contest *contest, struct pass_row *row, int length,
                    const char *fields, const char *header)
{
    char name[100];
    snprintf(name, sizeof name, "\"model\":\"%s\",", contest->model);
    char *body = tokens_body(contest, 0, length, name, fields);
    const double seconds = call(contest, row, "/v1/trace", body, header);
    free(body);
    return seconds;
}

/* The session of a row: what precedes the tokens that are timed is computed once. */
static void open_session(const struct contest *contest)
{
    const int length = contest->task->length;
    char session[200];
    snprintf(session, sizeof session,
             "{\"model\":\"%s\",\"id\":\"decode\",\"dtype\":\"f16\",\"ttl\":\"3h\"}",
             contest->model);
    call(contest, NULL, "/v1/sessions", session, "");
    char *body = tokens_body(contest, 0, length, "", PREDICTION);
    call(contest, NULL, "/v1/sessions/decode/trace", body, "");
    free(body);
    if (contest->run)
        llama_cpp_prefill(contest->run, contest->tokens, length);
}

static void drop_session(const struct contest *contest)
{
    struct http_client client;
    http_client_init(&client, contest->port);
    struct http_response response = http_client_send(
        &client, &(struct http_request){ .method = "DELETE", .path = "/v1/sessions/decode" });
    http_response_free(&response);
    http_client_free(&client);
}

static void decode(const struct contest *contest, struct pass_row *row)
{
    const int length = contest->task->length;
    char cut[40];
    pass_begin(row);
    for (int i = 0; i < STEPS; i++) {
        char *body = tokens_body(contest, length + i, 1, "", PREDICTION);
        call(contest, row, "/v1/sessions/decode/trace", body, "");
        free(body);
    }
    pass_end(row);
    snprintf(cut, sizeof cut, "{\"kv_len\":%d}", length);
    call(contest, NULL, "/v1/sessions/decode/truncate", cut, "");
}

static void run_own(void *context, struct pass_row *row)
{
    const struct contest *contest = context;
    const struct task *task = contest->task;
    if (task->kind == DECODE) {
        decode(contest, row);
        return;
    }
    const bool has_maps = task->kind == MAPS;
    pass_begin(row);
    trace(contest, row, task->length, has_maps ? ALL_MAPS : PREDICTION,
          has_maps ? "Accept: application/x-safetensors" : "");
    pass_end(row);
}

/* Beside maps: the daemon without them. */
static double run_without(void *context, struct pass_row *row)
{
    const struct contest *contest = context;
    row->busy = (struct ratio_peer){ 1, 1 };
    traffic_server_cpu_s(row->server);
    const double seconds = trace(contest, NULL, contest->task->length, PREDICTION, "");
    return row->threads == 1 ? traffic_server_cpu_s(row->server) : seconds;
}

static double run_peer(void *context, struct pass_row *row)
{
    struct contest *contest = context;
    const struct task *task = contest->task;
    const int steps = task->kind == DECODE ? STEPS : 1;
    struct peer_watch watch;
    peer_watch_start(&watch, &contest->process);
    const double begin_s = now_s(contest->threads);
    if (task->kind == PREFILL)
        llama_cpp_prefill(contest->run, contest->tokens, task->length);
    for (int i = 0; task->kind == DECODE && i < STEPS; i++)
        llama_cpp_step(contest->run, contest->tokens[task->length + i]);
    const double seconds = (now_s(contest->threads) - begin_s) / steps;
    peer_watch_stop(&watch, &contest->process);
    if (task->kind == DECODE)
        llama_cpp_cut(contest->run, task->length);
    row->busy = (struct ratio_peer){ contest->process.cpu_s, peer_could_of(&contest->process) };
    return seconds;
}

/* ------------------------------------------------------------------------------ rows -- */

/* The last block's feed-forward has one row, and so has the head. */
static struct pass_work work_of(const struct shape *shape, const struct task *task,
                                const char *type)
{
    const double width = shape->width, q = (double)shape->heads * shape->head_dim;
    const double kv = (double)shape->kv_heads * shape->head_dim, length = task->length;
    const double attend = 2 * width * (q + kv), feed = 3.0 * width * shape->inner;
    const double head = width * shape->vocabulary, all = shape->layers * (attend + feed) + head;
    const struct gguf_block *block = gguf_block(type);
    const bool is_step = task->kind == DECODE;
    const double keys = 2 * kv * length * shape->layers * (double)sizeof(uint16_t);
    return (struct pass_work){
        .tokens = is_step ? 1 : length,
        .product_flops = 2 * (is_step ? all : length * (all - head - feed) + feed + head),
        .attention_flops = 4 * q * shape->layers * (is_step ? length : length * (length + 1) / 2),
        .bytes = all * block->bytes / block->count + (is_step ? keys : 0),
        .type = type,
        .is_one_row = is_step,
    };
}

static bool is_quick(const char *name)
{
    for (size_t i = 0; i < sizeof QUICK / sizeof *QUICK; i++)
        if (strncmp(name, QUICK[i][0], strlen(QUICK[i][0])) == 0 && strstr(name, QUICK[i][1]))
            return true;
    return false;
}

static bool is_wanted(const struct pass_options *options, const char *name)
{
    return (!options->is_quick || is_quick(name)) && pass_is_wanted(options, name);
}

static void name_row(char *name, size_t size, const char *model, const struct task *task,
                     int threads)
{
    snprintf(name, size, "%s, %s, %d thread%s", model, task->name, threads, threads > 1 ? "s" : "");
}

enum { NAME_BYTES = 120 };

static bool is_any_wanted(const struct pass_options *options, const char *model, int threads)
{
    char name[NAME_BYTES];
    for (int i = 0; i < TASK_COUNT; i++) {
        name_row(name, sizeof name, model, &TASKS[i], threads);
        if (is_wanted(options, name))
            return true;
    }
    return false;
}

static void run_task(struct contest *contest, struct traffic_server *server, const char *type,
                     const struct pass_options *options)
{
    const bool has_maps = contest->task->kind == MAPS;
    char name[NAME_BYTES];
    name_row(name, sizeof name, contest->model, contest->task, contest->threads);
    if (!is_wanted(options, name))
        return;
    struct pass_row row = { .name = name,
                            .peer = has_maps       ? "without maps"
                                    : contest->run ? "llama.cpp"
                                                   : NULL,
                            .threads = contest->threads,
                            .server = server,
                            .work = work_of(contest->shape, contest->task, type) };
    contest->process = (struct peer){ .pid = getpid(), .threads = contest->threads };
    if (contest->task->kind == DECODE)
        open_session(contest);
    pass_measure(&row,
                 &(struct pass_contest){ contest, run_own, has_maps ? run_without : run_peer },
                 options);
    if (contest->task->kind == DECODE)
        drop_session(contest);
}

static void run_threads(struct contest *contest, const char *path, const char *type,
                        const struct pass_options *options)
{
    struct traffic_server server;
    char workers[16];
    snprintf(workers, sizeof workers, "%d", contest->threads);
    machine_confine(contest->threads);
    traffic_server_start(&server, (const char *const[]){ "--models", "build/gguf", "--workers",
                                                         workers, "--timeout", "3600s",
                                                         "--answer-max", "1GiB", NULL });
    contest->port = server.port;
    trace(contest, NULL, WARM, PREDICTION, "");
    contest->run = NULL;
    if (getenv("LLAMA_CPP")) {
        contest->run = llama_cpp_run_open(path, contest->threads, LENGTH_MAX + STEPS + 1);
        llama_cpp_prefill(contest->run, contest->tokens, WARM);
    }
    for (int i = 0; i < TASK_COUNT; i++) {
        contest->task = &TASKS[i];
        run_task(contest, &server, type, options);
    }
    if (contest->run)
        llama_cpp_run_close(contest->run);
    traffic_server_stop(&server);
}

static void run_file(const struct shape *shape, const char *type,
                     const struct pass_options *options)
{
    static struct contest contest;
    struct fill fill = { 7 };
    char model[60], path[100];
    snprintf(model, sizeof model, "%s-%s", shape->name, type);
    snprintf(path, sizeof path, "build/gguf/%s.gguf", model);
    contest.shape = shape;
    contest.model = model;
    for (size_t i = 0; i < sizeof contest.tokens / sizeof *contest.tokens; i++)
        contest.tokens[i] = (int32_t)fill_below(&fill, shape->vocabulary);
    for (contest.threads = 1; contest.threads <= 2; contest.threads++) {
        if (!is_any_wanted(options, model, contest.threads))
            continue;
        if (access(path, F_OK) != 0)
            make_file(path, shape, type);
        run_threads(&contest, path, type, options);
    }
    unlink(path);
}

int main(int argc, char **argv)
{
    const struct pass_options options = pass_options_read(argc, argv);
    char version[LLAMA_CPP_VERSION_BYTES];
    traffic_report_open("gguf");
    machine_print();
    if (getenv("LLAMA_CPP"))
        printf("llama.cpp: %s\n", llama_cpp_version(version));
    else
        printf("without llama.cpp: LLAMA_CPP=FOLDER names its libraries\n");
    mkdir("build/gguf", 0755);
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++)
        for (size_t k = 0; k < sizeof TYPES / sizeof *TYPES; k++)
            if (strcmp(TYPES[k], "F32") != 0 || getenv("LLAMA_CPP"))
                run_file(&SHAPES[i], TYPES[k], &options);
    return 0;
}
