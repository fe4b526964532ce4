/* SPDX-License-Identifier: Apache-2.0 */
/* load_spans.c - what spans cost: the same small requests to a daemon without spans, to one whose
 * collector takes them, and to one whose collector is dead, in turns, on kept connections.
 *
 *     load_spans [ROUNDS [ROW]]      15 rounds without a number, all rows without a name
 *
 * Each round measures each daemon once, for ATTND_LOAD_SECONDS (0.5), in an order that turns, and
 * compares it with the one without spans in the same round; the medians of these ratios count. The
 * daemon without spans is there twice: how far the second is from the first is what the machine
 * itself does. The collector is a thread of this program, on the same CPUs. */
#include "own.h"
#include "stub_collector.h"
#include "traffic_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OFF, OFF_AGAIN, TAKEN, DEAD, KINDS, ROUNDS_MAX = 101 };

static const char *const NAMES[KINDS] = { "no spans", "no spans again", "spans taken",
                                          "collector dead" };

static const struct row {
    const char *name;
    int callers;
    struct traffic_shape shape; /* heads 0: the demo */
} ROWS[] = {
    { "demo, one row", 32, { 0, 0, 0 } },
    { "JSON 16x64", 32, { 1, 16, 64 } },
};
enum { ROW_COUNT = sizeof ROWS / sizeof ROWS[0] };

static struct traffic_request make_request(const struct row *row)
{
    static const char DEMO[] = "{\"model\":\"demo\",\"query\":[[1,0,0]]}";
    return row->shape.heads == 0 ? traffic_json("/v1/attention", DEMO, 0)
                                 : traffic_attention_json(row->shape, 0);
}

/* Requests a second, and in *per_cpu_s requests for a second of the daemon's CPU time. */
static double rate(struct traffic_server *server, const struct traffic_request *request,
                   const struct row *row, double *per_cpu_s)
{
    struct traffic_result result;
    const struct traffic_load load = { .port = server->port,
                                       .requests = request,
                                       .request_count = 1,
                                       .seconds = traffic_seconds(0.5),
                                       .callers = row->callers };
    traffic_server_cpu_s(server);
    traffic_run(&load, &result);
    *per_cpu_s = (double)result.good / traffic_server_cpu_s(server);
    const double per_s = traffic_good_per_s(&result);
    traffic_result_free(&result);
    if (per_s > 0)
        return per_s;
    fprintf(stderr, "%s: no answer of 200\n", row->name);
    exit(1);
}

static void measure(const struct row *row, struct traffic_server servers[KINDS], int rounds)
{
    static double rates[KINDS][ROUNDS_MAX], ratios[KINDS][ROUNDS_MAX], costs[KINDS][ROUNDS_MAX];
    struct traffic_request request = make_request(row);
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < KINDS; i++) {
            const int kind = (round + i) % KINDS;
            rates[kind][round] =
                rate(&servers[kind == OFF_AGAIN ? OFF : kind], &request, row, &costs[kind][round]);
        }
        for (int i = KINDS - 1; i >= 0; i--) {
            ratios[i][round] = rates[i][round] / rates[OFF][round];
            costs[i][round] /= costs[OFF][round];
        }
    }
    for (int i = 0; i < KINDS; i++) {
        char name[64];
        const double ratio = median(ratios[i], rounds);
        printf("%-16s %-16s %9.0f %7.3f %7.3f\n", row->name, NAMES[i], median(rates[i], rounds),
               ratio, median(costs[i], rounds));
        snprintf(name, sizeof name, "%s, %s, of none", row->name, NAMES[i]);
        traffic_report_figure(name, ratio, "ratio");
    }
    fflush(stdout);
    traffic_requests_free(&request, 1);
}

static void start(struct traffic_server *server, int collector_port)
{
    char endpoint[64];
    snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", collector_port);
    const char *const arguments[] = { "--otlp-endpoint", endpoint, NULL };
    traffic_server_start(server, collector_port ? arguments : NULL);
}

int main(int argc, char **argv)
{
    static const char *const TAKES[] = { STUB_TAKES, NULL };
    static struct traffic_server servers[KINDS];
    const int rounds = argc > 1 ? atoi(argv[1]) : 15;
    struct stub_collector living, dead;
    if (rounds < 1 || rounds > ROUNDS_MAX)
        return 1;
    stub_collector_start(&living, TAKES);
    stub_collector_start(&dead, TAKES);
    stub_collector_stop(&dead);
    traffic_report_open("spans");
    start(&servers[OFF], 0);
    start(&servers[TAKEN], living.port);
    start(&servers[DEAD], dead.port);
    printf("requests/s on kept connections, medians of %d; of none in the same round: requests/s,\n"
           "and requests for the daemon's CPU time\n",
           rounds);
    for (int i = 0; i < ROW_COUNT; i++)
        if (argc < 3 || strcmp(argv[2], ROWS[i].name) == 0)
            measure(&ROWS[i], servers, rounds);
    traffic_server_stop(&servers[OFF]);
    traffic_server_stop(&servers[TAKEN]);
    traffic_server_stop(&servers[DEAD]);
    stub_collector_stop(&living);
    return 0;
}
