/* SPDX-License-Identifier: Apache-2.0 */
/* load_equal.c - does a busy daemon answer as an idle one does, to the bit?
 *
 *     load_equal [COUNT [TABLE]...]     1000000 answers; the tables of kernels of this CPU
 *
 * Calls of all kinds (traffic_kinds.c) go to a daemon of one worker, one at a time. Then they go to
 * one daemon after another, with 1, 2 and 4 workers, with and without products of several requests,
 * with a short queue, from 1 to 32 callers with three keys, evenly or in bursts; each of these gets
 * SIGTERM while callers wait for it. Every answer is compared with that of the idle daemon of the
 * same table, byte for byte but for MAY_DIFFER in traffic_equal.c. 429 and 503 are no answers.
 *
 * TABLE:OTHER compares answers of one table with those of another idle one: they differ, which
 * shows that this program sees it. It exits with 1 if an answer differs, or if COUNT answers take
 * longer than ATTND_LOAD_SECONDS (3600). */
#include "base/clock.h"
#include "machine.h"
#include "traffic_equal.h"
#include "traffic_report.h"
#include "traffic_server.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TABLES_MAX = 8, ROUND_ANSWERS = 10000, ROUNDS_LEAST = 4, NAME_MAX_BYTES = 128 };

static const char *const TABLES[] = { "generic",     "avx2",        "avx512",
                                      "avx512_vnni", "avx512_bf16", "amx" };
static const char *const WORKERS[] = { "4", "1", "2" };
static const struct batching {
    const char *flag, *value;
} BATCHINGS[] = {
    { "--batch-max", "64" },
    { "--batch-delay", "2ms" },
    { "--batch-max", "1" },
    { "--queue-max", "12" },
};
enum { WORKER_COUNT = 3, BATCHING_COUNT = 4 };

struct table {
    char name[32], alone[32]; /* of the load, and of the idle daemon */
    struct equal_answer *wanted;
};

static struct table tables[TABLES_MAX];
static int table_count;
static char *directory, keys[512];

/* --------------------------------------------------------------------- daemons -- */

static void start(struct traffic_server *server, const char *table, const char *workers,
                  const struct batching *batching)
{
    traffic_server_start(server, (const char *const[]){ "--models", directory, "--keys", keys,
                                                        "--kernels", table, "--workers", workers,
                                                        batching->flag, batching->value, NULL });
}

static bool runs_here(const char *table)
{
    struct daemon_result result =
        daemon_command((const char *const[]){ "--check-config", "--kernels", table, NULL }, NULL);
    const bool runs = result.exit_code == 0;
    daemon_result_free(&result);
    return runs;
}

static void add_table(const char *name)
{
    struct table *table = &tables[table_count++];
    const char *other = strchr(name, ':');
    snprintf(table->name, sizeof table->name, "%.*s", (int)strcspn(name, ":"), name);
    snprintf(table->alone, sizeof table->alone, "%s", other ? other + 1 : name);
    if (runs_here(table->name) && runs_here(table->alone))
        return;
    fprintf(stderr, "this CPU does not run the kernels %s\n", name);
    exit(1);
}

static void choose_tables(int argc, char **argv)
{
    for (int i = 2; i < argc && table_count < TABLES_MAX; i++)
        add_table(argv[i]);
    for (size_t i = 0; argc <= 2 && i < sizeof TABLES / sizeof TABLES[0]; i++)
        if (runs_here(TABLES[i]))
            add_table(TABLES[i]);
}

/* ---------------------------------------------------------------------- rounds -- */

static void ask_alone(const struct kind_calls *kinds, struct table *table)
{
    struct traffic_server server;
    table->wanted = calloc((size_t)kinds->count, sizeof *table->wanted);
    start(&server, table->alone, "1", &BATCHINGS[0]);
    equal_ask_alone(server.port, kinds, table->wanted);
    traffic_server_stop(&server);
}

/* One daemon, asked until count answers have come. */
static void run_round(const struct kind_calls *kinds, int round, int64_t count,
                      struct equal_counts *counts)
{
    const struct table *table = &tables[round % table_count];
    const int turn = round / table_count + round % table_count;
    const char *workers = WORKERS[turn % WORKER_COUNT];
    const struct batching *batching = &BATCHINGS[turn / WORKER_COUNT % BATCHING_COUNT];
    struct traffic_server server;
    char name[NAME_MAX_BYTES];
    snprintf(name, sizeof name, "%s, --workers %s %s %s", table->name, workers, batching->flag,
             batching->value);
    start(&server, table->name, workers, batching);
    equal_ask_alone(server.port, kinds, NULL);
    equal_run(&(struct equal_load){ .port = server.port,
                                    .pid = server.pid,
                                    .kinds = kinds,
                                    .wanted = table->wanted,
                                    .count = count,
                                    .seed = (uint64_t)round,
                                    .name = name },
              counts);
    traffic_server_stop(&server);
    printf("%9" PRId64 " answers, %" PRId64 " differ; %" PRId64 " refused; %s\n", counts->answers,
           counts->differ, counts->refused, name);
    fflush(stdout);
}

static void run_all(const struct kind_calls *kinds, int64_t count, struct equal_counts *counts)
{
    const int64_t end_ns = clock_now_ns() + (int64_t)(traffic_seconds(3600) * 1e9);
    const int64_t rounds =
        count / ROUND_ANSWERS < ROUNDS_LEAST ? ROUNDS_LEAST : count / ROUND_ANSWERS;
    for (int round = 0; counts->answers < count && clock_now_ns() < end_ns; round++) {
        const int64_t left = count - counts->answers;
        const int64_t share = count / rounds + 1;
        run_round(kinds, round, left < share ? left : share, counts);
    }
}

/* ---------------------------------------------------------------------- report -- */

static void report(const struct kind_calls *kinds, const struct equal_counts *counts)
{
    struct machine_cpu cpu;
    char commit[MACHINE_TEXT_MAX], day[32];
    const time_t now = time(NULL);
    FILE *cpuinfo = fopen("/proc/cpuinfo", "re");
    machine_read_cpu(cpuinfo, &cpu);
    if (cpuinfo)
        fclose(cpuinfo);
    machine_ask("git log -1 --format=%h 2>/dev/null", commit, "not known");
    strftime(day, sizeof day, "%Y-%m-%d", gmtime(&now));
    printf("%" PRId64 " answers, %" PRId64 " differ; %" PRId64 " refused, %" PRId64
           " unanswered after SIGTERM; %d calls, kernels",
           counts->answers, counts->differ, counts->refused, counts->unanswered, kinds->count);
    for (int i = 0; i < table_count; i++)
        printf(" %s", tables[i].name);
    printf("; %d x %s; commit %s; %s\n", traffic_cpus(), cpu.model, commit, day);
}

int main(int argc, char **argv)
{
    const int64_t count = argc > 1 ? strtoll(argv[1], NULL, 10) : 1000000;
    struct equal_counts counts = { 0 };
    struct kind_calls kinds;
    if (count < 1) {
        fprintf(stderr, "usage: load_equal [COUNT [TABLE]...]\n");
        return 1;
    }
    choose_tables(argc, argv);
    directory = daemon_directory_create();
    snprintf(keys, sizeof keys, "%s.keys", directory);
    kinds_make_models(directory);
    kinds_make_keys(keys);
    kinds_make(&kinds);
    for (int i = 0; i < table_count; i++)
        ask_alone(&kinds, &tables[i]);
    run_all(&kinds, count, &counts);
    report(&kinds, &counts);
    for (int i = 0; i < table_count; i++) {
        equal_answers_free(tables[i].wanted, kinds.count);
        free(tables[i].wanted);
    }
    kinds_free(&kinds);
    remove(keys);
    daemon_directory_remove(directory);
    return counts.differ > 0 || counts.answers < count;
}
