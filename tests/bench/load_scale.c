/* SPDX-License-Identifier: Apache-2.0 */
/* load_scale.c - what attention over many machines costs here: one rank and two, the exchange by
 * each transport of the loopback, and how far the model of deploy/SCALE.md is from jobs of 1, 2 and
 * 4 ranks.
 *
 *     load_scale       needs build/attn-mpi and mpirun; prints the numbers for scale_model.c
 *
 * Ranks are pinned to cores. Keys and values are F16, a layer of 32 heads of queries and 8 of keys,
 * 128 wide. */
#include "base/dtype.h"
#include "daemon.h"
#include "fill.h"
#include "formats/safetensors.h"
#include "http_client.h"
#include "merge.h"
#include "scale_model.h"
#include "json/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { Q_HEADS = 32, KV_HEADS = 8, DIM = 128 };

/* What the numbers come from, and what they predict. */
enum { KEYS = 65536, MORE_KEYS = 98304, TOKENS = 2048, MORE_TOKENS = 3072 };

static char folder[] = "/tmp/attnd-scale-XXXXXX";

static const struct scale_shape SHAPE = { 1, Q_HEADS, KV_HEADS, DIM, 2 };

/* Options of mpirun for the transports of scale_measured_links. */
static const char *const SHARED = "--mca pml ob1 --mca btl self,vader";
static const char *const TCP = "--mca pml ob1 --mca btl self,tcp --mca btl_tcp_if_include lo";

static void fail(const char *what)
{
    fprintf(stderr, "load_scale: %s\n", what);
    exit(1);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---------------------------------------------------------------------------------- jobs -- */

/* FOLDER/NAMELENGTH.npy, numbers in [-1, 1). */
static void write_npy(char name, enum attn_dtype dtype, int heads, int length)
{
    static float row[DIM];
    static char bytes[DIM * 4];
    char head[128] = "\x93NUMPY\1\0\x76", path[64];
    struct fill fill = { (uint64_t)name };
    snprintf(path, sizeof path, "%s/%c%d.npy", folder, name, length);
    FILE *file = fopen(path, "wb");
    memset(head + 10, ' ', sizeof head - 10);
    const int used =
        snprintf(head + 10, 100, "{'descr': '%s', 'fortran_order': False, 'shape': (%d, %d, %d), }",
                 dtype == ATTN_F16 ? "<f2" : "<f4", heads, length, DIM);
    head[10 + used] = ' ';
    head[127] = '\n';
    if (!file || fwrite(head, sizeof head, 1, file) != 1)
        fail(path);
    for (int64_t i = 0; i < (int64_t)heads * length; i++) {
        fill_floats(&fill, row, DIM, -1, 1);
        dtype_write(bytes, dtype, row, DIM);
        if (fwrite(bytes, attn_dtype_size(dtype), DIM, file) != DIM)
            fail(path);
    }
    if (fclose(file) != 0)
        fail(path);
}

struct times {
    double send, attend, merge, all;
};

/* A job of so many ranks; the median of its passes. */
static struct times job(const char *transport, int ranks, int rows, int keys, const char *flags)
{
    char command[1000], line[300] = "";
    struct times times = { 0 };
    snprintf(command, sizeof command,
             "mpirun --allow-run-as-root %s %s -n %d build/attn-mpi --query %s/q%d.npy --key "
             "%s/k%d.npy --value %s/v%d.npy %s 2>&1",
             ranks > 2 || strstr(flags, "--threads") ? "--oversubscribe --bind-to none"
                                                     : "--bind-to core",
             transport, ranks, folder, rows, folder, keys, folder, keys, flags);
    FILE *stream = popen(command, "r");
    while (stream && fgets(line, sizeof line, stream)) {
        const char *numbers = strstr(line, "heads: ");
        if (numbers
            && sscanf(numbers, "heads: %lf s send, %lf s attend, %lf s merge, %lf s in all",
                      &times.send, &times.attend, &times.merge, &times.all)
                   == 4)
            break;
    }
    if (!stream || pclose(stream) != 0 || times.all == 0)
        fail(command);
    return times;
}

static struct times decode(int ranks, int threads, int keys)
{
    return job(SHARED, ranks, 1, keys,
               threads == 1 ? "--exchange tree --repeat 15"
                            : "--exchange tree --repeat 15 --threads 2");
}

static struct times prefill(int ranks, int threads, int tokens)
{
    return job(SHARED, ranks, tokens, tokens,
               threads == 1 ? "--causal --exchange ring --repeat 3"
                            : "--causal --exchange ring --repeat 3 --threads 2");
}

/* ------------------------------------------------------------------------------ measuring -- */

/* Seconds for a number of a context, two parts. */
static double merge_s(void)
{
    enum { ROWS = 32, CALLS = 2000 };
    static float context[2][ROWS * DIM], lse[2][ROWS], out[ROWS * DIM], out_lse[ROWS];
    const struct attn_part parts[2] = { { context[0], lse[0] }, { context[1], lse[1] } };
    struct fill fill = { 1 };
    double weights[2];
    fill_floats(&fill, context[0], ROWS * DIM, -1, 1);
    fill_floats(&fill, context[1], ROWS * DIM, -1, 1);
    const double begun = now();
    for (int i = 0; i < CALLS; i++)
        attn_merge(parts, 2, 0, ROWS, DIM, out, DIM, out_lse, weights);
    return (now() - begun) / CALLS / (ROWS * DIM);
}

/* The latency and speed by which exchanges of 1 and 64 rows take as long as they do. */
static struct scale_link fit(const char *name, double one_s, double many_s, double merge)
{
    const double numbers = Q_HEADS * DIM, bytes = 4 * (2 * numbers + Q_HEADS);
    const double one = one_s - numbers * merge, many = many_s - 64 * numbers * merge;
    const double bytes_s = 63 * bytes / (many - one);
    return (struct scale_link){ name, fmax(0, one - bytes / bytes_s) / 2, bytes_s };
}

static struct scale_link measure_mpi(const char *name, const char *transport, double merge)
{
    double took[2];
    for (int i = 0; i < 2; i++) {
        const struct times times =
            job(transport, 2, i ? 64 : 1, 2, "--exchange tree --repeat 1001");
        took[i] = times.all - times.attend;
        printf("exchange of %2d rows by %-14s %8.1f us\n", i ? 64 : 1, name, 1e6 * took[i]);
    }
    return fit(name, took[0], took[1], merge);
}

/* A request for the partial answer of rows over one key, as a file; malloc'd. */
static char *http_body(int rows, size_t *size)
{
    static const struct safetensors_pair METADATA[] = {
        { "model", "sdpa", 5, 4 },
        { "q_heads", "32", 7, 2 },
        { "kv_heads", "8", 8, 1 },
        { "partial", "true", 7, 4 },
        { "outputs", "[\"context\"]", 7, 11 },
    };
    const struct safetensors_tensor tensors[] = {
        { "query", 2, { rows, Q_HEADS * DIM }, NULL, NULL },
        { "key", 2, { 1, KV_HEADS * DIM }, NULL, NULL },
        { "value", 2, { 1, KV_HEADS * DIM }, NULL, NULL },
    };
    const int64_t numbers = (int64_t)rows * Q_HEADS * DIM + 2 * KV_HEADS * DIM;
    float *values = malloc((size_t)numbers * sizeof *values);
    struct fill fill = { 3 };
    struct fault fault;
    struct text text;
    text_init(&text, SIZE_MAX);
    if (!values || !safetensors_write_head(&text, tensors, 3, METADATA, 5, &fault))
        fail("no body");
    fill_floats(&fill, values, numbers, -1, 1);
    text_bytes(&text, (const char *)values, (size_t)numbers * sizeof *values);
    free(values);
    *size = text.used;
    return text.data;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median time of such a request and its answer, over one connection. */
static double http_round_trip(struct http_client *client, int rows)
{
    enum { CALLS = 301 };
    static const char *const HEADERS[] = { "Content-Type: application/x-safetensors",
                                           "Accept: application/x-safetensors", NULL };
    double seconds[CALLS];
    size_t size;
    char *body = http_body(rows, &size);
    for (int i = 0; i < CALLS; i++) {
        const double begun = now();
        struct http_response response = http_client_send(
            client,
            &(struct http_request){
                .path = "/v1/attention", .body = body, .body_size = size, .headers = HEADERS });
        seconds[i] = now() - begun;
        if (response.status != 200)
            fail(response.body);
        http_response_free(&response);
    }
    free(body);
    qsort(seconds, CALLS, sizeof *seconds, by_size);
    return seconds[CALLS / 2];
}

static struct scale_link measure_http(void)
{
    struct daemon daemon;
    struct http_client client;
    double took[2];
    daemon_start(&daemon, NULL);
    http_client_init(&client, daemon.port);
    for (int i = 0; i < 2; i++) {
        took[i] = http_round_trip(&client, i ? 64 : 1);
        printf("exchange of %2d rows by %-14s %8.1f us\n", i ? 64 : 1, "HTTP", 1e6 * took[i]);
    }
    http_client_free(&client);
    daemon_stop(&daemon);
    return fit("HTTP", took[0], took[1], 0);
}

/* What this machine does: one core alone, and two together. */
static struct scale_node measure_node(void)
{
    const double bytes = 2.0 * KV_HEADS * DIM * 2 * KEYS;
    const double flops = 2.0 * Q_HEADS * DIM * TOKENS * (double)TOKENS;
    struct scale_node node = { .name = "measured", .cores = 2 };
    node.read_alone = bytes / decode(1, 1, KEYS).attend;
    node.read_all = bytes / decode(2, 1, KEYS).attend;
    node.flops_alone = flops / prefill(1, 1, TOKENS).attend;
    node.flops_all = flops / prefill(2, 1, TOKENS).attend;
    return node;
}

/* ------------------------------------------------------------------- predictions and jobs -- */

static void print_error(const char *what, int ranks, int threads, double said, double took)
{
    printf("%s, %d ranks of %d threads: predicted %.1f ms, took %.1f ms, error %+.0f %%\n", what,
           ranks, threads, 1e3 * said, 1e3 * took, 100 * (said / took - 1));
}

/* Longer than what the numbers came from, on 1, 2 and 4 ranks, and on 1 of two threads. */
static void compare(struct scale_cluster *cluster)
{
    static const int WAYS[][2] = { { 1, 1 }, { 1, 2 }, { 2, 1 }, { 4, 1 } };
    for (int i = 0; i < 8; i++) {
        const int ranks = WAYS[i % 4][0], threads = WAYS[i % 4][1];
        double attend_s;
        cluster->threads = threads;
        if (i < 4)
            print_error("decode, 98304 keys", ranks, threads,
                        scale_decode(cluster, 1, ranks, MORE_KEYS, 1),
                        decode(ranks, threads, MORE_KEYS).all);
        else
            print_error("prefill, 3072 tokens", ranks, threads,
                        scale_prefill(cluster, 1, ranks, MORE_TOKENS, &attend_s),
                        prefill(ranks, threads, MORE_TOKENS).all);
    }
}

int main(void)
{
    static const int KEY_FILES[] = { 2, KEYS, MORE_KEYS, TOKENS, MORE_TOKENS };
    static const int QUERY_FILES[] = { 1, 64, TOKENS, MORE_TOKENS };
    if (system("test -x build/attn-mpi && command -v mpirun >/dev/null") != 0) {
        puts("left out: it needs build/attn-mpi (make attn-mpi) and mpirun");
        return 0;
    }
    if (!mkdtemp(folder))
        fail(folder);
    for (size_t i = 0; i < sizeof KEY_FILES / sizeof KEY_FILES[0]; i++) {
        write_npy('k', ATTN_F16, KV_HEADS, KEY_FILES[i]);
        write_npy('v', ATTN_F16, KV_HEADS, KEY_FILES[i]);
    }
    for (size_t i = 0; i < sizeof QUERY_FILES / sizeof QUERY_FILES[0]; i++)
        write_npy('q', ATTN_F32, Q_HEADS, QUERY_FILES[i]);

    struct scale_cluster cluster = { .shape = SHAPE, .merge_s = merge_s() };
    cluster.inside = measure_mpi("shared memory", SHARED, cluster.merge_s);
    const struct scale_link links[3] = { cluster.inside, measure_mpi("TCP", TCP, cluster.merge_s),
                                         measure_http() };
    cluster.between = links[1];
    cluster.node = measure_node();
    printf("merge: %.2f ns a number\n", 1e9 * cluster.merge_s);
    for (int i = 0; i < 3; i++)
        printf("%s: latency %.1f us, %.2f GB/s\n", links[i].name, 1e6 * links[i].latency_s,
               1e-9 * links[i].bytes_s);
    printf("decode: one core reads %.1f GB/s, two %.1f; prefill: %.1f and %.1f GFLOP/s\n",
           1e-9 * cluster.node.read_alone, 1e-9 * cluster.node.read_all,
           1e-9 * cluster.node.flops_alone, 1e-9 * cluster.node.flops_all);
    compare(&cluster);
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) != 0;
}
