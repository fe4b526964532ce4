/* load_vectors.c - vectors of texts: the daemon beside onnxruntime, on the same parameters, with
 * as many threads.
 *
 *     ONNXRUNTIME=LIBRARY load_vectors [ROUNDS] [WORD...]     5 rounds without a number
 *
 * LIBRARY is the path of libonnxruntime.so. The models have the shapes of all-MiniLM-L6-v2 and
 * BERT-base, random parameters as F32, the mean of the last rows and its length 1. The daemon gets
 * lists of tokens by POST /v1/embeddings; onnxruntime runs a graph of fused operators
 * (traffic_onnx.h) in a process of its own, without a server. Both take turns. With one thread both
 * are measured in CPU seconds of the whole process, which a busy machine hardly changes, with two
 * by the clock. A ratio is onnxruntime's time by ours, median of the rounds: above 1 we are faster.
 * "compute" is the daemon's own measure of what its workers did, without HTTP and JSON. Words pick
 * the rows whose names have all of them, such as "minilm" and "512". */
#include "fill.h"
#include "http_client.h"
#include "own.h"
#include "peers.h"
#include "traffic_call.h"
#include "traffic_checkpoint.h"
#include "traffic_onnx.h"
#include "traffic_report.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <libgen.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { ROUNDS_MAX = 31, CALLS_MAX = 64, TOKENS_BELOW = 1000, COLUMNS = 8 };

static const struct model {
    const char *name;
    struct traffic_checkpoint shape;
} MODELS[] = {
    { "minilm", { 6, 384, 1536, 12, 30522, 512, false } },
    { "bert", { 12, 768, 3072, 12, 30522, 512, false } },
};
static const int LENGTHS[] = { 128, 512 }, BATCHES[] = { 1, 32 };
static const double GOAL = 1.2, ROUND_S = 0.5; /* of calls in a row */

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
struct times {
    double own[ROUNDS_MAX], compute[ROUNDS_MAX], peer[ROUNDS_MAX];
    double ratios[ROUNDS_MAX], compute_ratios[ROUNDS_MAX];
};

static void report(const char *name, int batch, int threads, struct times *times, int rounds)
{
    const double ratio = median(times->ratios, rounds);
    const double compute_ratio = median(times->compute_ratios, rounds);
    printf("%-36s %8.1f /s, onnxruntime %8.1f /s: %.2f (%.2f to %.2f)", name,
           batch / median(times->own, rounds), batch / median(times->peer, rounds), ratio,
           times->ratios[0], times->ratios[rounds - 1]);
    if (threads > 1)
        printf("; compute %8.1f /s: %.2f", batch / median(times->compute, rounds), compute_ratio);
    printf("%s\n", ratio < GOAL ? "  below the goal" : "");
    traffic_report_figure(name, ratio, "ratio");
    fflush(stdout);
}

/* So many calls, one after the other: the seconds of one. */
static double call_some(struct traffic_server *server, struct traffic_connection *connection,
                        const struct traffic_request *request, int calls, int threads,
                        double *compute_s)
{
    double clock_s = 0;
    *compute_s = 0;
    traffic_call(connection, request); /* as a peer is: the caches are its own */
    traffic_server_cpu_s(server);
    for (int i = 0; i < calls; i++) {
        clock_s += traffic_call(connection, request);
        *compute_s += traffic_connection_timing(connection, "compute") * 1e-3 / calls;
    }
    return (threads == 1 ? traffic_server_cpu_s(server) : clock_s) / calls;
}

static double run_some(struct peer *peer, int calls)
{
    double seconds[CALLS_MAX], sum = 0;
    peer_time(peer, calls, seconds);
    for (int i = 0; i < calls; i++)
        sum += seconds[i];
    return sum / calls;
}

static void bench_row(struct traffic_server *server, struct peer *peer, const struct model *model,
                      int batch, int length, int threads, int rounds, const char *name)
{
    static struct times times;
    const struct bench_shape shape = {
        batch, 1, 1, length, model->shape.width, COLUMNS, 0, threads
    };
    struct traffic_connection connection;
    struct traffic_request plain = request_of(model->name, batch, length, "float");
    struct traffic_request request = request_of(model->name, batch, length, "base64");
    double own_sums[2], peer_sums[2] = { 0, 0 };
    traffic_call_open(&connection, server->port);
    traffic_call(&connection, &request);
    sum_vectors(server->port, &plain, own_sums);
    if (!peer_shape(peer, &shape, peer_sums)
        || !(fabs(own_sums[0] - peer_sums[0]) <= 1e-4 * own_sums[1])) {
        fprintf(stderr, "%s: sums %g and %g of ours, %g and %g of %s\n", name, own_sums[0],
                own_sums[1], peer_sums[0], peer_sums[1], peer->name);
        exit(1);
    }
    const double first_s = traffic_call(&connection, &request);
    const int calls = (int)fmax(1, fmin(CALLS_MAX, ROUND_S / first_s));
    for (int r = 0; r < rounds; r++) {
        if (r % 2 == 1)
            times.peer[r] = run_some(peer, calls);
        times.own[r] = call_some(server, &connection, &request, calls, threads, &times.compute[r]);
        if (r % 2 == 0)
            times.peer[r] = run_some(peer, calls);
        times.ratios[r] = times.peer[r] / times.own[r];
        times.compute_ratios[r] = times.peer[r] / times.compute[r];
    }
    report(name, batch, threads, &times, rounds);
    traffic_connection_close(&connection);
    traffic_requests_free(&plain, 1);
    traffic_requests_free(&request, 1);
}

/* ------------------------------------------------------------------- start and memory -- */

static double peak_mib(pid_t pid)
{
    const struct peer process = { .pid = pid };
    return peer_peak_mib(&process);
}

static bool is_wanted(const char *name, int word_count, char **words)
{
    for (int i = 0; i < word_count; i++)
        if (!strstr(name, words[i]))
            return false;
    return true;
}

struct asked {
    const char *directory, *folder;
    int rounds, word_count;
    char **words;
};

static bool is_any_wanted(const struct asked *asked, const struct model *model, int threads)
{
    char name[80];
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%s, %d x %d tokens, %d threads", model->name, BATCHES[i / 2],
                 LENGTHS[i % 2], threads);
        if (is_wanted(name, asked->word_count, asked->words))
            return true;
    }
    return false;
}

/* From exec to the first vector of both, then the rows. */
static void bench_model(const struct asked *asked, const struct model *model, int threads)
{
    char setting[1100], workers[16], path[1024], name[80];
    struct traffic_server server;
    struct traffic_connection connection;
    struct peer peer = { .name = "onnxruntime",
                         .setting = setting,
                         .program = "peer_onnxruntime_bert" };
    snprintf(path, sizeof path, "%s/%s", asked->directory, model->name);
    snprintf(setting, sizeof setting, "ONNX_MODEL=%s/model.onnx", path);
    snprintf(workers, sizeof workers, "%d", threads);
    struct traffic_request first = request_of(model->name, 1, 16, "base64");
    double begin = daemon_now();
    traffic_server_start(&server, (const char *const[]){ "--models", asked->directory, "--workers",
                                                         workers, "--timeout", "600s", NULL });
    traffic_call_open(&connection, server.port);
    traffic_call(&connection, &first);
    const double own_start_s = daemon_now() - begin, own_mib = peak_mib(server.pid);
    begin = daemon_now();
    if (!peer_start(&peer, asked->folder, threads))
        exit(1);
    printf(
        "\n%s, %d threads: from exec to the first vector %.3f s, onnxruntime %.3f s; memory %.0f "
        "MiB, onnxruntime %.0f MiB\n",
        model->name, threads, own_start_s, daemon_now() - begin, own_mib, peer_peak_mib(&peer));
    for (size_t l = 0; l < sizeof LENGTHS / sizeof LENGTHS[0]; l++)
        for (size_t b = 0; b < sizeof BATCHES / sizeof BATCHES[0]; b++) {
            snprintf(name, sizeof name, "%s, %d x %d tokens, %d threads", model->name, BATCHES[b],
                     LENGTHS[l], threads);
            if (is_wanted(name, asked->word_count, asked->words))
                bench_row(&server, &peer, model, BATCHES[b], LENGTHS[l], threads, asked->rounds,
                          name);
        }
    printf("memory in the end %.0f MiB, onnxruntime %.0f MiB\n", peak_mib(server.pid),
           peer_peak_mib(&peer));
    peer_stop(&peer);
    traffic_connection_close(&connection);
    traffic_server_stop(&server);
    traffic_requests_free(&first, 1);
}

int main(int argc, char **argv)
{
    char *directory = daemon_directory_create(), path[1024];
    struct asked asked = { .directory = directory, .folder = dirname(argv[0]), .rounds = 5 };
    int first = 1;
    if (argc > 1 && atoi(argv[1]) > 0) {
        asked.rounds = atoi(argv[1]) < ROUNDS_MAX ? atoi(argv[1]) : ROUNDS_MAX;
        first = 2;
    }
    asked.words = argv + first;
    asked.word_count = argc - first;
    if (!getenv("ONNXRUNTIME")) {
        printf("ONNXRUNTIME does not name libonnxruntime.so: left out\n");
        return 0;
    }
    traffic_report_open("vectors");
    for (size_t i = 0; i < sizeof MODELS / sizeof MODELS[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, MODELS[i].name);
        bool is_written = false;
        for (int threads = 1; threads <= 2; threads++) {
            if (!is_any_wanted(&asked, &MODELS[i], threads))
                continue;
            if (!is_written)
                write_model(path, &MODELS[i].shape);
            is_written = true;
            bench_model(&asked, &MODELS[i], threads);
        }
    }
    daemon_directory_remove(directory);
    return 0;
}
