/* SPDX-License-Identifier: Apache-2.0 */
/* load_vectors.c - vectors of texts: the daemon beside onnxruntime, on the same parameters, with
 * as many threads.
 *
 *     [ONNXRUNTIME=LIBRARY] [LLAMA_CPP=FOLDER] load_vectors [quick] [ROUNDS] [WORD...]
 *
 * LIBRARY is the path of libonnxruntime.so, FOLDER has the libraries of llama.cpp, each of which
 * has rows of its own; without both the daemon is alone. The models have the shapes of
 * all-MiniLM-L6-v2 and BERT-base, random parameters as F32, the mean of the last rows and its
 * length 1. The daemon gets lists of tokens by POST /v1/embeddings; onnxruntime runs a graph of
 * fused operators (traffic_onnx.h) in a process of its own, without a server. llama.cpp gets a file
 * of the same shape, and 512 tokens at a time, its default. traffic_pass.h describes the table;
 * behind it stand the times from exec to the first vector, and memory. Words pick the rows whose
 * names have all of them, such as "minilm" and "512"; "quick" is a choice of rows for some minutes.
 */
#include "fill.h"
#include "http_client.h"
#include "llama_cpp.h"
#include "machine.h"
#include "own.h"
#include "peers.h"
#include "traffic_call.h"
#include "traffic_checkpoint.h"
#include "traffic_onnx.h"
#include "traffic_pass.h"
#include "traffic_report.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <libgen.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CALLS_MAX = 64, TOKENS_BELOW = 1000, COLUMNS = 8, AT_ONCE = 512 };

static const struct model {
    const char *name;
    struct traffic_checkpoint shape;
} MODELS[] = {
    { "minilm", { 6, 384, 1536, 12, 30522, 512, false } },
    { "bert", { 12, 768, 3072, 12, 30522, 512, false } },
};
static const int LENGTHS[] = { 128, 512 }, BATCHES[] = { 1, 32 };
static const char GGUF_PATH[] = "build/load_vectors.gguf";
static const double ROUND_S = 0.5; /* of calls in a row */

/* ------------------------------------------------------------------------------ files -- */

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

/* A model that makes vectors as sentence-transformers does. */
static void write_model(const char *folder, const struct traffic_checkpoint *shape)
{
    char path[1100], pooling[160];
    traffic_checkpoint_encoder(folder, shape);
    traffic_onnx_encoder(folder, shape);
    snprintf(path, sizeof path, "%s/1_Pooling", folder);
    mkdir(path, 0755);
    snprintf(pooling, sizeof pooling,
             "{\"word_embedding_dimension\":%d,\"pooling_mode_mean_tokens\":true,"
             "\"pooling_mode_cls_token\":false}",
             shape->width);
    write_file(folder, "1_Pooling/config.json", pooling);
    write_file(folder, "modules.json",
               "[{\"idx\":0,\"name\":\"0\",\"path\":\"\",\"type\":\"sentence_transformers.models."
               "Transformer\"},{\"idx\":1,\"name\":\"1\",\"path\":\"1_Pooling\",\"type\":"
               "\"sentence_transformers.models.Pooling\"},{\"idx\":2,\"name\":\"2\",\"path\":"
               "\"2_Normalize\",\"type\":\"sentence_transformers.models.Normalize\"}]");
}

/* ----------------------------------------------------------------------------- a call -- */

static struct traffic_request request_of(const char *model, int batch, int length,
                                         const char *encoding)
{
    struct fill fill = { 1 };
    char *body;
    size_t size;
    FILE *stream = open_memstream(&body, &size);
    if (!stream)
        abort();
    fprintf(stream, "{\"model\":\"%s\",\"encoding_format\":\"%s\",\"input\":[", model, encoding);
    for (int b = 0; b < batch; b++)
        for (int i = 0; i < length; i++)
            fprintf(stream, "%s%" PRId64 "%s",
                    i > 0   ? ","
                    : b > 0 ? ",["
                            : "[",
                    fill_below(&fill, TOKENS_BELOW), i + 1 == length ? "]" : "");
    fputs("]}", stream);
    if (fclose(stream) != 0)
        abort();
    struct traffic_request request = traffic_json("/v1/embeddings", body, 0);
    free(body);
    return request;
}

/* The sums of all numbers of all vectors, and of their magnitudes, by a client of one call. */
static void sum_vectors(int port, const struct traffic_request *request, double sums[2])
{
    struct http_client client;
    const char *body = strstr(request->bytes, "\r\n\r\n");
    char *text = strndup(body + 4, request->size - (size_t)(body + 4 - request->bytes));
    http_client_init(&client, port);
    struct http_response response = http_client_post(&client, "/v1/embeddings", text);
    cJSON *answer = cJSON_Parse(response.body);
    const cJSON *item, *number;
    sums[0] = sums[1] = 0;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(answer, "data"))
        cJSON_ArrayForEach(number, cJSON_GetObjectItemCaseSensitive(item, "embedding")) {
            sums[0] += number->valuedouble;
            sums[1] += fabs(number->valuedouble);
        }
    cJSON_Delete(answer);
    http_response_free(&response);
    free(text);
}

/* ------------------------------------------------------------------------------- rows -- */

/* Of one row. */
struct contest {
    struct traffic_connection *connection;
    const struct traffic_request *request;
    struct peer *peer; /* of llama.cpp: this process, in which it computes */
    struct llama_cpp_run *run;
    int batch, length;
    int calls; /* of a round */
};

static void run_own(void *context, struct pass_row *row)
{
    const struct contest *contest = context;
    traffic_call(contest->connection, contest->request); /* as a peer is: the caches are its own */
    pass_begin(row);
    for (int i = 0; i < contest->calls; i++)
        pass_call(row, contest->connection, contest->request);
    pass_end(row);
}

static double run_peer(void *context, struct pass_row *row)
{
    const struct contest *contest = context;
    double seconds[CALLS_MAX], sum = 0;
    if (!peer_time(contest->peer, contest->calls, seconds)) {
        fprintf(stderr, "%s ended\n", contest->peer->name);
        exit(1);
    }
    for (int i = 0; i < contest->calls; i++)
        sum += seconds[i];
    row->busy = (struct ratio_peer){ contest->peer->cpu_s, peer_could_of(contest->peer) };
    return sum / contest->calls;
}

/* Texts that llama.cpp computes together. */
static int together(int batch, int length)
{
    const int most = AT_ONCE / length;
    return batch < most ? batch : most;
}

static double run_llama(void *context, struct pass_row *row)
{
    static int32_t tokens[AT_ONCE];
    const struct contest *contest = context;
    const int some = together(contest->batch, contest->length);
    struct fill fill = { 1 };
    struct peer_watch watch;
    for (int i = 0; i < AT_ONCE; i++)
        tokens[i] = (int32_t)fill_below(&fill, TOKENS_BELOW);
    llama_cpp_encode(contest->run, tokens, some, contest->length);
    peer_watch_start(&watch, contest->peer);
    const double begin_s = now_s(row->threads);
    for (int i = 0; i < contest->calls * contest->batch; i += some)
        llama_cpp_encode(contest->run, tokens, some, contest->length);
    const double seconds = (now_s(row->threads) - begin_s) / contest->calls;
    peer_watch_stop(&watch, contest->peer);
    row->busy = (struct ratio_peer){ contest->peer->cpu_s, peer_could_of(contest->peer) };
    return seconds;
}

static struct pass_work work_of(const struct traffic_checkpoint *shape, int batch, int length)
{
    const double width = shape->width, rows = (double)batch * length;
    const double layer = 4 * width * width + 2 * width * shape->inner;
    return (struct pass_work){ .tokens = rows,
                               .product_flops = 2 * layer * shape->layers * rows,
                               .attention_flops = 4 * width * shape->layers * rows * length,
                               .bytes = layer * shape->layers * sizeof(float),
                               .type = "F32" };
}

/* The daemon and a peer have to make the same vectors. */
static void expect_same(const struct pass_row *row, struct peer *peer, const struct model *model,
                        int batch, int length)
{
    const struct bench_shape shape = { batch,   1, 1,           length, model->shape.width,
                                       COLUMNS, 0, row->threads };
    struct traffic_request plain = request_of(model->name, batch, length, "float");
    double own_sums[2], peer_sums[2] = { 0, 0 };
    sum_vectors(row->server->port, &plain, own_sums);
    if (!peer_shape(peer, &shape, peer_sums)
        || !(fabs(own_sums[0] - peer_sums[0]) <= 1e-4 * own_sums[1])) {
        fprintf(stderr, "%s: sums %g and %g of ours, %g and %g of %s\n", row->name, own_sums[0],
                own_sums[1], peer_sums[0], peer_sums[1], peer->name);
        exit(1);
    }
    traffic_requests_free(&plain, 1);
}

/* Beside onnxruntime, then beside llama.cpp; alone where neither is there. peer NULL: none. */
static void bench_row(struct pass_row *row, struct peer *peer, const struct model *model, int batch,
                      int length, const struct pass_options *options)
{
    struct traffic_connection connection;
    struct traffic_request request = request_of(model->name, batch, length, "base64");
    struct contest contest = { &connection, &request, peer, NULL, batch, length, 1 };
    const struct pass_row asked = *row;
    traffic_call_open(&connection, row->server->port);
    traffic_call(&connection, &request);
    if (peer)
        expect_same(row, peer, model, batch, length);
    const double first_s = traffic_call(&connection, &request);
    contest.calls = (int)fmax(1, fmin(CALLS_MAX, ROUND_S / first_s));
    if (peer || !getenv("LLAMA_CPP"))
        pass_measure(row, &(struct pass_contest){ &contest, run_own, run_peer }, options);
    if (getenv("LLAMA_CPP")) {
        struct peer process = { .pid = getpid(), .threads = row->threads };
        contest.peer = &process;
        contest.run =
            llama_cpp_encoder_open(GGUF_PATH, row->threads, together(batch, length), length);
        *row = asked;
        row->peer = "llama.cpp";
        pass_measure(row, &(struct pass_contest){ &contest, run_own, run_llama }, options);
        llama_cpp_run_close(contest.run);
    }
    traffic_connection_close(&connection);
    traffic_requests_free(&request, 1);
}

/* ------------------------------------------------------------------- start and memory -- */

static double peak_mib(pid_t pid)
{
    const struct peer process = { .pid = pid };
    return peer_peak_mib(&process);
}

struct asked {
    const char *directory, *folder;
    struct pass_options options;
    FILE *starts; /* what is printed behind the table */
};

/* Of both programs. */
struct pair {
    struct traffic_server server;
    struct peer peer; /* not there: pid 0 */
};

/* A row for each length and batch; of "quick" not the long texts by the batch, nor such a batch of
 * the larger model. */
static bool is_row_wanted(const struct asked *asked, const struct model *model, int row,
                          int threads, char *name, size_t size)
{
    const int length = LENGTHS[row / 2], batch = BATCHES[row % 2];
    const bool is_long = batch > 1 && (length > LENGTHS[0] || model != MODELS);
    snprintf(name, size, "%s, %d x %d tokens, %d thread%s", model->name, batch, length, threads,
             threads > 1 ? "s" : "");
    return !(asked->options.is_quick && is_long) && pass_is_wanted(&asked->options, name);
}

enum { ROW_COUNT = 4, NAME_BYTES = 80 };

static bool is_any_wanted(const struct asked *asked, const struct model *model, int threads)
{
    char name[NAME_BYTES];
    for (int row = 0; row < ROW_COUNT; row++)
        if (is_row_wanted(asked, model, row, threads, name, sizeof name))
            return true;
    return false;
}

/* From exec to the first vector of both. */
static void start(const struct asked *asked, const struct model *model, int threads,
                  struct pair *pair)
{
    char workers[16];
    struct traffic_connection connection;
    struct traffic_request first = request_of(model->name, 1, 16, "base64");
    snprintf(workers, sizeof workers, "%d", threads);
    double begin = daemon_now();
    traffic_server_start(&pair->server,
                         (const char *const[]){ "--models", asked->directory, "--workers", workers,
                                                "--timeout", "600s", NULL });
    traffic_call_open(&connection, pair->server.port);
    traffic_call(&connection, &first);
    fprintf(asked->starts, "%s, %d threads: from exec to the first vector %.3f s, memory %.0f MiB",
            model->name, threads, daemon_now() - begin, peak_mib(pair->server.pid));
    traffic_connection_close(&connection);
    traffic_requests_free(&first, 1);
    if (!getenv("ONNXRUNTIME"))
        return;
    begin = daemon_now();
    if (!peer_start(&pair->peer, asked->folder, threads))
        exit(1);
    fprintf(asked->starts, "; onnxruntime %.3f s, %.0f MiB", daemon_now() - begin,
            peer_peak_mib(&pair->peer));
}

static void bench_model(const struct asked *asked, const struct model *model, int threads)
{
    char setting[1100], name[NAME_BYTES];
    struct pair pair = {
        .peer = { .name = "onnxruntime", .setting = setting, .program = "peer_onnxruntime_bert" }
    };
    snprintf(setting, sizeof setting, "ONNX_MODEL=%s/%s/model.onnx", asked->directory, model->name);
    machine_confine(threads);
    start(asked, model, threads, &pair);
    const bool has_peer = pair.peer.is_there;
    for (int i = 0; i < ROW_COUNT; i++) {
        const int length = LENGTHS[i / 2], batch = BATCHES[i % 2];
        if (!is_row_wanted(asked, model, i, threads, name, sizeof name))
            continue;
        struct pass_row row = { .name = name,
                                .peer = has_peer ? pair.peer.name : NULL,
                                .threads = threads,
                                .server = &pair.server,
                                .work = work_of(&model->shape, batch, length) };
        bench_row(&row, has_peer ? &pair.peer : NULL, model, batch, length, &asked->options);
    }
    fprintf(asked->starts, "; in the end %.0f MiB", peak_mib(pair.server.pid));
    if (has_peer)
        fprintf(asked->starts, ", onnxruntime %.0f MiB", peer_peak_mib(&pair.peer));
    fputc('\n', asked->starts);
    peer_stop(&pair.peer);
    traffic_server_stop(&pair.server);
}

static void print_peers(void)
{
    char version[LLAMA_CPP_VERSION_BYTES];
    if (getenv("ONNXRUNTIME"))
        printf("onnxruntime: %s\n", traffic_onnx_version(getenv("ONNXRUNTIME")));
    else
        printf("without onnxruntime: ONNXRUNTIME=LIBRARY names libonnxruntime.so\n");
    if (getenv("LLAMA_CPP"))
        printf("llama.cpp: %s\n", llama_cpp_version(version));
    else
        printf("without llama.cpp: LLAMA_CPP=FOLDER names its libraries\n");
}

int main(int argc, char **argv)
{
    char *directory = daemon_directory_create(), path[1024], *starts;
    size_t size;
    struct asked asked = { .directory = directory,
                           .folder = dirname(argv[0]),
                           .options = pass_options_read(argc, argv),
                           .starts = open_memstream(&starts, &size) };
    traffic_report_open("vectors");
    machine_print();
    print_peers();
    for (size_t i = 0; i < sizeof MODELS / sizeof MODELS[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, MODELS[i].name);
        bool is_written = false;
        for (int threads = 1; threads <= 2; threads++) {
            if (!is_any_wanted(&asked, &MODELS[i], threads))
                continue;
            if (!is_written)
                write_model(path, &MODELS[i].shape);
            if (!is_written && getenv("LLAMA_CPP"))
                traffic_checkpoint_gguf(GGUF_PATH, &MODELS[i].shape);
            is_written = true;
            bench_model(&asked, &MODELS[i], threads);
        }
    }
    fclose(asked.starts);
    printf("\n%s", starts);
    free(starts);
    unlink(GGUF_PATH);
    daemon_directory_remove(directory);
    return 0;
}
