/* SPDX-License-Identifier: Apache-2.0 */
/* bench_attention.c - context vectors: our kernels beside the peers of this machine.
 *
 *     bench_attention [--quick] [--json FILE] [--threads N] [--q-len N] [--bf16]
 *
 * All contenders compute every shape in turn, again and again, so that what slows the machine
 * slows all of them. Each number is the median of its rounds. A contender is a process of its
 * own (peers.h), and its context is compared with ours. One thread is timed in CPU seconds, two
 * by the clock. "of peak" is the share of the multiply-adds that this table's vectors could do
 * in the same round. For decoding, "of read" is the share of the speed at which the same keys
 * and values can merely be read, wherever they lie. A peer that was kept
 * waiting has no ratio, but "not busy" (peers.h), and one whose rounds lie too far apart has
 * "spread" (ratio.h). A causal shape counts the pairs that are seen. With --bf16
 * query, key and value are BF16, and our precision is medium; of the peers oneDNN and torch take
 * part. */
#include "base/internal.h"
#include "machine.h"
#include "own.h"
#include "peers.h"
#include "ratio.h"
#include "yardstick.h"

#include <libgen.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS_MAX = 25, ROUNDS_MIN = 3, PEERS = 5, REPEATS_MAX = 64 };

static const struct bench_shape shapes[] = {
    { 1, 12, 12, 512, 512, 64, 0, 0 },   { 1, 12, 12, 512, 512, 64, 1, 0 },
    { 8, 12, 12, 128, 128, 64, 0, 0 },   { 8, 12, 12, 128, 128, 64, 1, 0 },
    { 1, 12, 12, 2048, 2048, 64, 0, 0 }, { 1, 12, 12, 2048, 2048, 64, 1, 0 },
    { 1, 8, 8, 4096, 4096, 128, 0, 0 },  { 1, 8, 8, 4096, 4096, 128, 1, 0 },
    { 1, 12, 12, 1, 4096, 64, 0, 0 },    { 1, 32, 8, 1, 32768, 128, 0, 0 },
    { 64, 12, 12, 1, 512, 64, 0, 0 },    { 1, 12, 12, 4, 4096, 64, 0, 0 },
    { 1, 12, 12, 15, 4096, 64, 0, 0 },
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static struct peer peers[PEERS] = {
    { .name = "OpenBLAS/SkylakeX",
      .setting = "OPENBLAS_CORETYPE=SkylakeX",
      .program = "peer_openblas",
      .version = "pkg-config --modversion openblas" },
    { .name = "OpenBLAS/Haswell",
      .setting = "OPENBLAS_CORETYPE=Haswell",
      .program = "peer_openblas",
      .version = "pkg-config --modversion openblas" },
    { .name = "oneDNN",
      .program = "peer_onednn",
      .version = "dpkg-query -Wf '${Version}' libdnnl-dev",
      .takes_bf16 = true },
    { .name = "torch",
      .interpreter = "/usr/bin/python3",
      .program = "peer_torch.py",
      .version = "/usr/bin/python3 -c 'import torch; print(torch.__version__)'",
      .takes_bf16 = true },
    { .name = "onnxruntime",
      .interpreter = "node",
      .program = "peer_onnxruntime.js",
      .version = "node -p 'require(\"onnxruntime-node/package.json\").version'" },
};

struct options {
    bool quick;
    const char *json_path;
    int threads; /* 0: one, then two */
    int q_len;   /* the shapes of this length; 0: all */
    bool is_bf16;
};

/* The times of one shape, each of one run. */
struct times {
    int rounds;
    double own_s[ROUNDS_MAX], read_s[ROUNDS_MAX], flops[ROUNDS_MAX];
    double peer_s[PEERS][ROUNDS_MAX];
    bool has_peer[PEERS];
};

static bool is_decode(const struct bench_shape *s)
{
    return s->q_len < 16;
}

/* The operations of both products, over the pairs that are seen. */
static double operations(const struct bench_shape *s)
{
    const double hidden = s->causal ? (double)s->q_len * (s->q_len - 1) / 2 : 0;
    const double pairs = (double)s->q_len * s->kv_len - hidden;
    return 4.0 * s->batch * s->q_heads * s->head_dim * pairs;
}

static double key_value_bytes(const struct bench_shape *s)
{
    return 8.0 * s->batch * s->kv_heads * s->kv_len * s->head_dim;
}

/* -------------------------------------------------------------------------------- measure -- */

static bool is_same(const double a[2], const double b[2])
{
    const double room = getenv(BENCH_BF16) ? 1e-2 : 1e-4;
    return fabs(a[0] - b[0]) <= room * fabs(b[1]) && fabs(a[1] - b[1]) <= room * fabs(b[1]);
}

static void invite_peers(struct times *times, const struct bench_shape *shape,
                         const double own_sums[2])
{
    double sums[2];

    for (int p = 0; p < PEERS; p++) {
        times->has_peer[p] = peers[p].is_there && peer_shape(&peers[p], shape, sums);
        if (times->has_peer[p] && !is_same(sums, own_sums)) {
            fprintf(stderr, "%s computes something else: %g %g, not %g %g\n", peers[p].name,
                    sums[0], sums[1], own_sums[0], own_sums[1]);
            exit(1);
        }
    }
}

/* The median of count runs. */
static double time_own(const struct own *own, int count)
{
    double seconds[REPEATS_MAX];
    own_times(own, count, seconds);
    return median(seconds, count);
}

static double time_read(const struct own *own, int count)
{
    double seconds[REPEATS_MAX];
    own_times_read(own, count, seconds);
    return median(seconds, count);
}

static void run_round(struct times *times, struct own *own, int count, bool reads)
{
    const int round = times->rounds++;
    double seconds[REPEATS_MAX];

    times->flops[round] = yardstick_flops(attn_kernels_name(attn_plan_full(&own->plan)->kernels));
    times->own_s[round] = time_own(own, count);
    if (reads)
        times->read_s[round] = time_read(own, count);
    for (int p = 0; p < PEERS; p++)
        if (times->has_peer[p]) {
            times->has_peer[p] = peer_time(&peers[p], count, seconds);
            times->peer_s[p][round] = median(seconds, count);
        }
}

/* Runs rounds for about budget_s seconds of the clock. */
static void measure(struct times *times, struct own *own, const struct bench_shape *shape,
                    double budget_s)
{
    double sums[2];

    *times = (struct times){ .rounds = 0 };
    own_time(own);
    own_sums(own, sums);
    invite_peers(times, shape, sums);
    const double once_s = own_time(own);
    const int count = (int)fmax(1, fmin(REPEATS_MAX, 0.01 / once_s));
    const double begin = now_s(2);
    while (times->rounds < ROUNDS_MAX
           && (times->rounds < ROUNDS_MIN || now_s(2) - begin < budget_s))
        run_round(times, own, count, is_decode(shape));
}

/* --------------------------------------------------------------------------------- report -- */

static void print_name(const struct bench_shape *s)
{
    char name[64];
    snprintf(name, sizeof name, "%d,%d,%d,%d,%d,%d%s", s->batch, s->q_heads, s->kv_heads, s->q_len,
             s->kv_len, s->head_dim, s->causal ? " causal" : "");
    printf("%-28s %d ", name, s->threads);
}

/* The ratio to a peer, for the table. */
static void describe_peer(char text[RATIO_BYTES], const struct times *times, int p)
{
    double ratios[ROUNDS_MAX];
    const struct ratio_peer busy = { peers[p].cpu_s, peer_could_of(&peers[p]) };
    for (int i = 0; i < times->rounds; i++)
        ratios[i] = times->peer_s[p][i] / times->own_s[i];
    ratio_describe(text, ratios, times->rounds, &busy);
}

static void report(FILE *json, const struct bench_shape *s, struct times *times,
                   const struct own *own)
{
    char said[PEERS][RATIO_BYTES];
    for (int p = 0; p < PEERS; p++) /* before medians sort the rounds */
        if (times->has_peer[p])
            describe_peer(said[p], times, p);
    const double own_s = median(times->own_s, times->rounds);
    const double flops = median(times->flops, times->rounds);
    const double read_s = median(times->read_s, times->rounds);
    const double bytes = key_value_bytes(s);
    int best = -1; /* the fastest that was busy, even if its rounds give no ratio */
    double best_s = INFINITY;

    fprintf(json,
            "{\"batch\":%d,\"q_heads\":%d,\"kv_heads\":%d,\"q_len\":%d,\"kv_len\":%d,"
            "\"head_dim\":%d,\"causal\":%d,\"threads\":%d,\"rounds\":%d,\"peak_flops\":%.4g,"
            "\"read_s\":%.6g,\"workspace_bytes\":%zu,\"own_s\":%.6g",
            s->batch, s->q_heads, s->kv_heads, s->q_len, s->kv_len, s->head_dim, s->causal,
            s->threads, times->rounds, flops, read_s, own->plan.workspace_bytes, own_s);
    print_name(s);
    printf("%9.3f ms  %5.2f", own_s * 1e3, operations(s) / own_s / flops);
    if (is_decode(s))
        printf(" %6.1f GB/s %5.2f", bytes / own_s * 1e-9, read_s / own_s);
    else
        printf(" %17s", "");
    for (int p = 0; p < PEERS; p++) {
        if (!times->has_peer[p]) {
            printf("%19s", "-");
            continue;
        }
        const double peer_s = median(times->peer_s[p], times->rounds);
        fprintf(json, ",\"%s_s\":%.6g,\"%s_peak_mib\":%.0f", peers[p].name, peer_s, peers[p].name,
                peer_peak_mib(&peers[p]));
        fprintf(json, ",\"%s_cpus\":%.2f", peers[p].name, peers[p].cpu_s / peers[p].clock_s);
        printf("%19s", said[p]);
        if (peer_was_busy(&peers[p]) && peer_s < best_s) {
            best_s = peer_s;
            best = p;
        }
    }
    printf("   %s %s\n", best < 0 ? "no ratio" : said[best], best < 0 ? "" : peers[best].name);
    fprintf(json, "}\n");
    fflush(stdout);
}

static void print_head(void)
{
    printf("\n%-28s threads   ours  of peak  keys+values of read", "batch,heads,kv,q,keys,dim");
    for (int p = 0; p < PEERS; p++)
        printf("%19s", peers[p].name);
    printf("   best peer / ours\n");
}

static void print_versions(void)
{
    char version[MACHINE_TEXT_MAX];
    for (int p = 0; p < PEERS; p++)
        if (peers[p].is_there) {
            machine_ask(peers[p].version, version, "of unknown version");
            printf("%s: %s\n", peers[p].name, version);
        }
}

static void bench(const struct options *options, const char *folder, FILE *json, int threads)
{
    struct times times;
    struct own own;

    for (int p = 0; p < PEERS; p++)
        if (!options->is_bf16 || peers[p].takes_bf16)
            peer_start(&peers[p], folder, threads);
    if (threads == 1 || options->threads > 0)
        print_versions();
    print_head();
    for (int i = 0; i < SHAPES; i++) {
        struct bench_shape shape = shapes[i];
        if ((options->quick && shape.q_len == 4096)
            || (options->q_len != 0 && shape.q_len != options->q_len))
            continue;
        shape.threads = threads;
        own_init(&own, &shape);
        if (options->is_bf16) {
            own_narrow(&own, ATTN_BF16);
            own_narrow_query(&own, ATTN_BF16);
            own.problem.options.precision = ATTN_PRECISION_MEDIUM;
        }
        own_plan(&own);
        measure(&times, &own, &shape, options->quick ? 2 : 12);
        report(json, &shape, &times, &own);
        own_free(&own);
    }
    for (int p = 0; p < PEERS; p++)
        if (peers[p].pid > 0)
            peer_stop(&peers[p]);
}

static bool read_options(struct options *options, int argc, char **argv)
{
    *options = (struct options){ .json_path = "build/bench_attention.jsonl" };
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            options->quick = true;
        else if (strcmp(argv[i], "--bf16") == 0)
            options->is_bf16 = true;
        else if (strcmp(argv[i], "--json") == 0 && i + 1 < argc)
            options->json_path = argv[++i];
        else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
            options->threads = atoi(argv[++i]);
        else if (strcmp(argv[i], "--q-len") == 0 && i + 1 < argc)
            options->q_len = atoi(argv[++i]);
        else
            return false;
    }
    return options->threads >= 0 && options->threads <= 2;
}

int main(int argc, char **argv)
{
    struct options options;

    if (!read_options(&options, argc, argv)) {
        fprintf(stderr,
                "usage: %s [--quick] [--json FILE] [--threads 1 or 2] [--q-len N] "
                "[--bf16]\n",
                argv[0]);
        return 2;
    }
    if (options.is_bf16)
        setenv(BENCH_BF16, "1", 1); /* for the peers */
    FILE *json = fopen(options.json_path, "w");
    if (!json) {
        perror(options.json_path);
        return 1;
    }
    char *folder = dirname(argv[0]);
    machine_print();
    for (int threads = 1; threads <= 2; threads++)
        if (options.threads == 0 || options.threads == threads)
            bench(&options, folder, json, threads);
    return fclose(json) == 0 ? 0 : 1;
}
