/* SPDX-License-Identifier: Apache-2.0 */
/* load_trace.c - what a trace costs: beside the matrix products of its pass alone, beside torch,
 * and in memory.
 *
 *     load_trace [f16] [ROUNDS] [WORD]     7 rounds without a number
 *
 * The model has BERT-base's shape with random parameters, as F32 or F16. Each round of "speed" asks
 * for a trace of 512 tokens with maps pooled to 64 x 64 in three ways, then lets OpenBLAS compute
 * the products of such a pass with as many threads as the daemon has workers, and torch compute the
 * whole pass with all maps, in an order that turns. A trace is compared with the products of the
 * same round, and the medians of these ratios count. One thread is compared by CPU time of the
 * whole process, which a busy machine hardly changes, two by the clock.
 *
 * A trace that answers maps alone computes no context in the last layer, nor what follows it, so
 * its products are those of the rest, by their operations. The trace that answers predictions
 * too computes everything.
 *
 * "memory" is the most anonymous memory of the daemon during a trace of 4096 tokens, and "spans"
 * the answer about the last row of 32 768 tokens. A word as argument picks one of the three. */
#include "own.h"
#include "peers.h"
#include "traffic_call.h"
#include "traffic_checkpoint.h"
#include "traffic_report.h"

#include <libgen.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS_MAX = 101, TOKENS = 512, LONG_TOKENS = 4096, SPAN_TOKENS = 32768, SPANS = 50 };

static const struct traffic_checkpoint ENCODER = {
    .layers = 12, .width = 768, .inner = 3072, .heads = 12, .vocabulary = 30522, .positions = 4096
};
static const struct traffic_checkpoint DECODER = {
    .layers = 4, .width = 256, .inner = 1024, .heads = 8, .vocabulary = 32000
};

#define POOLED "\"weight_map\":{\"pool\":[64,64]}"
static const double PRODUCTS_GOAL = 1.25, TORCH_GOAL = 2, MEMORY_GOAL_MB = 400, SPANS_GOAL_KB = 100;

/* ----------------------------------------------------------------------------- speed -- */

static const struct form {
    const char *name, *fields, *header;
    bool is_whole; /* the pass computes all of its last layer */
} FORMS[] = {
    { "maps as JSON", POOLED, "", false },
    { "maps as safetensors", POOLED, "Accept: application/x-safetensors", false },
    { "and a prediction, JSON",
      POOLED ",\"outputs\":[\"weights\",\"predictions\"],\"positions\":[-1]", "", true },
};
enum { FORM_COUNT = sizeof FORMS / sizeof FORMS[0] };

/* OpenBLAS and torch take AVX-512 where it is, told by hand: Debian's OpenBLAS knows no newer CPU.
 * The last peer is torch as it comes. */
static struct peer peers[] = {
    { .name = "products, OpenBLAS/SkylakeX",
      .setting = "OPENBLAS_CORETYPE=SkylakeX",
      .program = "peer_products" },
    { .name = "products, OpenBLAS/Haswell",
      .setting = "OPENBLAS_CORETYPE=Haswell",
      .program = "peer_products" },
    { .name = "torch, OpenBLAS/SkylakeX",
      .setting = "OPENBLAS_CORETYPE=SkylakeX",
      .interpreter = "/usr/bin/python3",
      .program = "peer_torch_bert.py" },
    { .name = "torch as it comes",
      .interpreter = "/usr/bin/python3",
      .program = "peer_torch_bert.py" },
};
enum { PRODUCT_PEERS = 2, PEER_COUNT = sizeof peers / sizeof peers[0] };
enum { CONTENDERS = FORM_COUNT + PEER_COUNT };

/* Of each round. */
struct times {
    int rounds;
    double clock_s[CONTENDERS][ROUNDS_MAX];
    double cpu_s[FORM_COUNT][ROUNDS_MAX];
    double compared_s[CONTENDERS][ROUNDS_MAX];
    bool has[CONTENDERS];
};

/* The part of a whole pass's operations that a trace of maps alone computes: of the last layer
 * query, key and scores. */
static double part_of_pass(bool is_whole)
{
    const double width = ENCODER.width, pairs = 1.0 * TOKENS * width;
    const double layer = TOKENS * width * (4 * width + 2 * ENCODER.inner) + 2 * TOKENS * pairs;
    const double last = TOKENS * width * 2 * width + TOKENS * pairs;
    return is_whole ? 1 : ((ENCODER.layers - 1) * layer + last) / (ENCODER.layers * layer);
}

static void start_peers(const char *folder, int threads, bool has[CONTENDERS])
{
    const struct bench_shape shape = { ENCODER.layers,
                                       ENCODER.heads,
                                       ENCODER.heads,
                                       TOKENS,
                                       TOKENS,
                                       ENCODER.width / ENCODER.heads,
                                       0,
                                       threads };
    double sums[2];
    for (int i = 0; i < PEER_COUNT; i++)
        has[FORM_COUNT + i] =
            peer_start(&peers[i], folder, threads) && peer_shape(&peers[i], &shape, sums);
    for (int i = 0; i < FORM_COUNT; i++)
        has[i] = true;
}

/* One round of one contender. */
static void measure(struct traffic_server *server, struct traffic_connection *connection,
                    const struct traffic_request *requests, int threads, int contender,
                    struct times *times)
{
    const int round = times->rounds;
    double *clock_s = &times->clock_s[contender][round];
    if (contender < FORM_COUNT) {
        double *cpu_s = &times->cpu_s[contender][round];
        traffic_server_cpu_s(server);
        *clock_s = traffic_call(connection, &requests[contender]);
        *cpu_s = traffic_server_cpu_s(server);
        times->compared_s[contender][round] = threads == 1 ? *cpu_s : *clock_s;
    } else if (times->has[contender]) {
        times->has[contender] = peer_time(&peers[contender - FORM_COUNT], 1, clock_s);
        times->compared_s[contender][round] = *clock_s;
    }
}

/* The fastest of the peers first to end - 1 in a round that were busy; 0: there is none. */
static double best_s(const struct times *times, int round, int first, int end)
{
    double best = 0;
    for (int i = FORM_COUNT + first; i < FORM_COUNT + end; i++)
        if (times->has[i] && peer_was_busy(&peers[i - FORM_COUNT])
            && (best <= 0 || times->compared_s[i][round] < best))
            best = times->compared_s[i][round];
    return best;
}

static void report_ratio(const char *name, const char *of, int threads, double *ratios, int rounds,
                         double goal)
{
    char figure[160];
    const double ratio = median(ratios, rounds);
    snprintf(figure, sizeof figure, "%s, %s, %d threads", name, of, threads);
    traffic_report_figure(figure, ratio, "ratio");
    printf("  %.2f (%.2f to %.2f; goal %.2f) %s", ratio, ratios[0], ratios[rounds - 1], goal, of);
}

static void report_peer(const struct peer *peer, double seconds)
{
    char idle[PEER_IDLE_BYTES] = "";
    if (!peer_was_busy(peer))
        peer_describe_idle(idle, peer->cpu_s, peer_could_of(peer));
    printf("%-32s %8.1f ms %s\n", peer->name, seconds * 1e3, idle);
}

static void report(struct times *times, int threads)
{
    double ratios[ROUNDS_MAX], ratios_to_torch[ROUNDS_MAX];
    const int rounds = times->rounds;
    for (int i = 0; i < PEER_COUNT; i++)
        if (times->has[FORM_COUNT + i])
            report_peer(&peers[i], median(times->clock_s[FORM_COUNT + i], rounds));
    for (int i = 0; i < FORM_COUNT; i++) {
        bool has_products = true, has_torch = true;
        for (int r = 0; r < rounds; r++) {
            const double own_s = times->compared_s[i][r];
            const double products_s = best_s(times, r, 0, PRODUCT_PEERS);
            const double torch_s = best_s(times, r, PRODUCT_PEERS, PEER_COUNT);
            ratios[r] = own_s / (products_s * part_of_pass(FORMS[i].is_whole));
            ratios_to_torch[r] = torch_s / own_s;
            has_products = has_products && products_s > 0;
            has_torch = has_torch && torch_s > 0;
        }
        const double clock_s = median(times->clock_s[i], rounds);
        const double cpu_s = median(times->cpu_s[i], rounds);
        printf("%-32s %8.1f ms, CPU %8.1f ms, %3.0f %% of the workers' time:", FORMS[i].name,
               clock_s * 1e3, cpu_s * 1e3, 100 * cpu_s / (clock_s * threads));
        if (has_products)
            report_ratio(FORMS[i].name, "of its products", threads, ratios, rounds, PRODUCTS_GOAL);
        if (has_torch)
            report_ratio(FORMS[i].name, "torch takes", threads, ratios_to_torch, rounds,
                         TORCH_GOAL);
        printf("\n");
    }
}

static void bench_speed(const char *directory, const char *folder, int threads, int rounds)
{
    static struct times times;
    struct traffic_server server;
    struct traffic_connection connection;
    struct traffic_request requests[FORM_COUNT];
    char workers[16];
    times = (struct times){ .rounds = 0 };
    snprintf(workers, sizeof workers, "%d", threads);
    traffic_server_start(
        &server, (const char *const[]){ "--models", directory, "--workers", workers, NULL });
    traffic_call_open(&connection, server.port);
    for (int i = 0; i < FORM_COUNT; i++) {
        requests[i] =
            traffic_trace("encoder", TOKENS, ENCODER.vocabulary, FORMS[i].fields, FORMS[i].header);
        traffic_call(&connection, &requests[i]);
    }
    printf("\n%d tokens, pooled to 64 x 64, %d %s, medians of %d rounds\n", TOKENS, threads,
           threads == 1 ? "worker or thread" : "workers or threads", rounds);
    start_peers(folder, threads, times.has);
    if (!times.has[FORM_COUNT] && !times.has[FORM_COUNT + 1]) {
        fprintf(stderr, "nothing computes the products\n");
        exit(1);
    }
    for (; times.rounds < rounds; times.rounds++)
        for (int i = 0; i < CONTENDERS; i++)
            measure(&server, &connection, requests, threads, (i + times.rounds) % CONTENDERS,
                    &times);
    report(&times, threads);
    for (int i = 0; i < PEER_COUNT; i++)
        if (peers[i].pid > 0)
            peer_stop(&peers[i]);
    traffic_connection_close(&connection);
    traffic_server_stop(&server);
    traffic_requests_free(requests, FORM_COUNT);
}

/* ---------------------------------------------------------------------------- memory -- */

static double status_mb(pid_t pid, const char *form)
{
    char path[64], line[256];
    long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, form, &kib) == 1)
            break;
    if (file)
        fclose(file);
    return (double)kib * 1024e-6;
}

/* Looks again and again how much anonymous memory a process has. */
struct watch {
    pid_t pid;
    atomic_bool is_over;
    double most_mb;
    pthread_t thread;
};

static void *look(void *argument)
{
    struct watch *watch = argument;
    while (!atomic_load(&watch->is_over)) {
        const double mb = status_mb(watch->pid, "RssAnon: %ld");
        watch->most_mb = mb > watch->most_mb ? mb : watch->most_mb;
        daemon_pause(0.0005);
    }
    return NULL;
}

static void bench_memory(const char *directory)
{
    struct traffic_server server;
    struct traffic_connection connection;
    struct traffic_request request =
        traffic_trace("encoder", LONG_TOKENS, ENCODER.vocabulary, POOLED, "");
    traffic_server_start(&server, (const char *const[]){ "--models", directory, "--timeout", "600s",
                                                         "--workers", "2", NULL });
    traffic_call_open(&connection, server.port);
    struct watch watch = { .pid = server.pid };
    const double before_mb = status_mb(server.pid, "RssAnon: %ld");
    if (pthread_create(&watch.thread, NULL, look, &watch) != 0)
        abort();
    const double seconds = traffic_call(&connection, &request);
    atomic_store(&watch.is_over, true);
    pthread_join(watch.thread, NULL);
    const double peak_mb = status_mb(server.pid, "VmHWM: %ld");
    printf("\n%d tokens, pooled to 64 x 64, 2 workers: %.2f s, anonymous memory at most %.0f MB "
           "(%.0f before; goal %.0f), with the mapped file %.0f MB; whole maps are %.0f MB\n",
           LONG_TOKENS, seconds, watch.most_mb, before_mb, MEMORY_GOAL_MB, peak_mb,
           4e-6 * ENCODER.layers * ENCODER.heads * LONG_TOKENS * LONG_TOKENS);
    traffic_report_figure("4096 tokens", seconds, "s");
    traffic_report_figure("4096 tokens, anonymous memory", watch.most_mb, "MB");
    traffic_connection_close(&connection);
    traffic_server_stop(&server);
    traffic_requests_free(&request, 1);
}

/* ----------------------------------------------------------------------------- spans -- */

static void bench_spans(const char *directory)
{
    struct traffic_server server;
    struct traffic_connection connection;
    char fields[4096];
    size_t used = (size_t)snprintf(fields, sizeof fields, "\"rows\":[-1],\"spans\":");
    for (int i = 0; i < SPANS; i++)
        used += (size_t)snprintf(fields + used, sizeof fields - used, "%c[%d,%d]", i ? ',' : '[',
                                 SPAN_TOKENS * i / SPANS, SPAN_TOKENS * (i + 1) / SPANS);
    snprintf(fields + used, sizeof fields - used, "]");
    struct traffic_request request =
        traffic_trace("decoder", SPAN_TOKENS, DECODER.vocabulary, fields, "");
    traffic_server_start(&server, (const char *const[]){ "--models", directory, "--timeout", "600s",
                                                         "--workers", "2", NULL });
    traffic_call_open(&connection, server.port);
    const double seconds = traffic_call(&connection, &request);
    const char *length = strstr(connection.head, "Content-Length:");
    const double bytes = length ? strtod(length + strlen("Content-Length:"), NULL) : 0;
    printf("\n%d tokens of a decoder of %d layers, %d spans of the last row, 2 workers: %.2f s, "
           "answer %.1f KB (goal %.0f)\n",
           SPAN_TOKENS, DECODER.layers, SPANS, seconds, bytes / 1e3, SPANS_GOAL_KB);
    traffic_report_figure("spans of 32768 tokens", seconds, "s");
    traffic_report_figure("spans of 32768 tokens, answer", bytes, "bytes");
    traffic_connection_close(&connection);
    traffic_server_stop(&server);
    traffic_requests_free(&request, 1);
}

static bool wants(const char *word, const char *section)
{
    return !word || strstr(section, word);
}

int main(int argc, char **argv)
{
    struct traffic_checkpoint encoder = ENCODER;
    const char *word = NULL, *folder = dirname(argv[0]);
    char path[1024];
    int rounds = 7;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "f16") == 0)
            encoder.is_f16 = true;
        else if (atoi(argv[i]) > 0)
            rounds = atoi(argv[i]) < ROUNDS_MAX ? atoi(argv[i]) : ROUNDS_MAX;
        else
            word = argv[i];
    }
    char *directory = daemon_directory_create();
    traffic_report_open("trace");
    snprintf(path, sizeof path, "%s/encoder", directory);
    traffic_checkpoint_encoder(path, &encoder);
    snprintf(path, sizeof path, "%s/decoder", directory);
    traffic_checkpoint_decoder(path, &DECODER);
    printf("parameters as %s\n", encoder.is_f16 ? "F16" : "F32");
    for (int threads = 1; threads <= 2; threads++)
        if (wants(word, "speed"))
            bench_speed(directory, folder, threads, rounds);
    if (wants(word, "memory"))
        bench_memory(directory);
    if (wants(word, "spans"))
        bench_spans(directory);
    daemon_directory_remove(directory);
    return 0;
}
