/* SPDX-License-Identifier: Apache-2.0 */
/* load_overload.c - what becomes of a server that gets half, all and twice the load that it can
 * carry.
 *
 *     load_overload [attnd|fastapi|cjson] [WORKLOAD]      without a name: all of them
 *     load_overload burst [PERCENT]                       after a burst; and many connections
 *
 * A closed loop finds what the server carries. Then requests arrive by Poisson at 50 to 200 % of
 * that, each with a deadline, unless a rival was not busy (peers.h), so that what it carries is not
 * known. What counts is goodput: answers of 200 within the deadline, beside what is possible: the
 * capacity less the CPU time that refusals take, of which a daemon with a full queue shows what one
 * costs. The server has one CPU and the client another, so that the client's own work takes nothing
 * from the server. On a machine with one CPU they share it, and the output says so.
 * ATTND_LOAD_SECONDS is the time of each point (2), ATTND_LOAD_DEADLINE_MS the deadline (100),
 * ATTND_LOAD_PERCENT_MIN the least load (50), ATTND_LOAD_TRIES as traffic_report.h says. */
#include "peers.h"
#include "traffic_connection.h"
#include "traffic_report.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIZES_MAX = 3, CLOSED_CALLERS = 16, OPEN_CALLERS = 9000, HELD_AFTER_US = 200000 };
enum { REFUSED_CALLERS = 512, OTHERS_AMONG = 20 };

static const int PERCENTS[] = { 50, 80, 100, 150, 200 };
static const double WEIGHTS[SIZES_MAX] = { 80, 15, 5 };

static const struct workload {
    const char *name;
    bool is_binary;
    int heads, size_count, lengths[SIZES_MAX];
} workloads[] = {
    { "binary 16x64", true, 1, 1, { 16 } },
    { "JSON 16x64", false, 1, 1, { 16 } },
    { "binary mixed", true, 1, SIZES_MAX, { 16, 128, 512 } },
    { "JSON mixed", false, 1, SIZES_MAX, { 16, 128, 512 } },
    { "binary 8x256x64", true, 8, 1, { 256 } }, /* an answer costs much more than a refusal */
};
enum { WORKLOADS = sizeof workloads / sizeof workloads[0] };

static int deadline_ms(void)
{
    const char *text = getenv("ATTND_LOAD_DEADLINE_MS");
    const long ms = text ? strtol(text, NULL, 10) : 0;
    return ms > 0 && ms < INT_MAX ? (int)ms : 100;
}

/* The bench measures nothing below this share of the capacity. */
static int least_percent(void)
{
    const char *text = getenv("ATTND_LOAD_PERCENT_MIN");
    return text ? (int)strtol(text, NULL, 10) : 0;
}

static void make_requests(const struct workload *workload, struct traffic_request *requests)
{
    for (int i = 0; i < workload->size_count && i < SIZES_MAX; i++) {
        const struct traffic_shape shape = { .heads = workload->heads,
                                             .length = workload->lengths[i],
                                             .head_dim = 64 };
        requests[i] = workload->is_binary ? traffic_attention_binary(shape, deadline_ms())
                                          : traffic_attention_json(shape, deadline_ms());
        requests[i].weight = WEIGHTS[i];
    }
}

/* CPU seconds of the server for an answer and for a refusal; 0: not known. */
struct costs {
    double answer_s, refusal_s;
};

/* The part of the capacity that can be good where load times the capacity arrives. What is not
 * answered is refused: of the whole CPU time, good * answer_s + (load - good) * refusal_s. */
static double possible(const struct costs *costs, double load)
{
    if (load <= 1)
        return load;
    if (costs->refusal_s <= 0 || costs->answer_s <= load * costs->refusal_s)
        return 0;
    return (costs->answer_s - load * costs->refusal_s) / (costs->answer_s - costs->refusal_s);
}

static void measure(struct traffic_server *server, const struct workload *workload,
                    const struct traffic_load *load, int percent, double capacity_bytes_per_s,
                    const struct costs *costs)
{
    struct traffic_result result;
    char point[16];
    snprintf(point, sizeof point, "%d%%", percent);
    const struct traffic_row row = { .workload = workload->name,
                                     .point = point,
                                     .capacity_bytes_per_s = capacity_bytes_per_s,
                                     .is_bounded = costs->refusal_s > 0,
                                     .possible = possible(costs, percent / 100.0) };
    traffic_measure(server, load, &row, &result);
    traffic_result_free(&result);
}

/* CPU seconds of the server for each answer, in a closed loop; 0 where too few have this status. */
static double answer_cpu_s(struct traffic_server *server, const struct traffic_load *load,
                           int callers, int status)
{
    struct traffic_load closed = *load;
    struct traffic_result result;
    int64_t others = 0;
    closed.port = server->port;
    closed.callers = callers;
    closed.seconds = traffic_seconds(2) / 4;
    traffic_run_alone(server, &closed, &result);
    const double used_s = result.server_cpu_s, answers = (double)result.answered;
    for (int i = 0; i < TRAFFIC_STATUS_MAX; i++)
        others += i == status ? 0 : result.statuses[i];
    const bool is_known = others * OTHERS_AMONG < result.statuses[status];
    traffic_result_free(&result);
    return is_known ? used_s / answers : 0;
}

/* The same for each refusal. The queue has one place, and a row that waits for others to share its
 * product takes it and no CPU time. There are as many callers as under overload, so that every turn
 * of the daemon has work. */
static double refusal_cpu_s(const struct traffic_load *load)
{
    enum { COLUMNS = 768 };
    char *directory = daemon_directory_create(), path[1024];
    struct traffic_server refusing;
    struct traffic_connection holder;
    struct traffic_request row = traffic_raw("wide", COLUMNS, 0);
    snprintf(path, sizeof path, "%s/wide.safetensors", directory);
    struct daemon_result made = daemon_command(
        (const char *const[]){ "model", "new", "--d-model", "768", "--q-heads", "12", path, NULL },
        NULL);
    daemon_result_free(&made);
    traffic_pin(0);
    traffic_server_start(&refusing, (const char *const[]){ "--models", directory, "--queue-max",
                                                           "1", "--batch-delay", "60s", NULL });
    traffic_pin(1);
    double refused_s = 0;
    if (traffic_connection_open(&holder, refusing.port)) {
        traffic_connection_begin(&holder, &row, 0);
        while (traffic_connection_step(&holder) == TRAFFIC_WAITS && holder.sent_bytes < row.size)
            ;
        usleep(HELD_AFTER_US);
        refused_s = answer_cpu_s(&refusing, load, REFUSED_CALLERS, 429);
        traffic_connection_close(&holder);
    }
    traffic_server_stop(&refusing);
    traffic_requests_free(&row, 1);
    daemon_directory_remove(directory);
    return refused_s;
}

/* A refusal costs something too, which overload must take from the goodput. */
static struct costs compare_refusal(struct traffic_server *server, const struct traffic_load *load,
                                    const char *workload)
{
    const struct costs costs = { answer_cpu_s(server, load, CLOSED_CALLERS, 200),
                                 refusal_cpu_s(load) };
    printf("  %s: %.1f us of CPU an answer, %.1f a refusal: at twice the load %.0f%% of the "
           "capacity is possible\n",
           workload, costs.answer_s * 1e6, costs.refusal_s * 1e6, possible(&costs, 2) * 100);
    return costs;
}

static void overload(struct traffic_server *server, const struct workload *workload, bool is_alone)
{
    struct traffic_request requests[SIZES_MAX];
    make_requests(workload, requests);
    traffic_try(server->port, requests, workload->size_count);
    struct traffic_load load = { .port = server->port,
                                 .requests = requests,
                                 .request_count = workload->size_count,
                                 .seconds = traffic_seconds(2),
                                 .callers = CLOSED_CALLERS,
                                 .spins = is_alone };
    struct traffic_result closed;
    traffic_measure(server, &load,
                    &(struct traffic_row){ .workload = workload->name, .point = "closed" },
                    &closed);
    const bool is_known =
        server->daemon.pid > 0 || peer_is_busy(closed.server_cpu_s, closed.could_s);
    const double capacity_per_s = is_known ? traffic_good_per_s(&closed) : 0;
    struct costs costs = { 0 };
    if (server->daemon.pid > 0)
        costs = compare_refusal(server, &load, workload->name);
    load.callers = OPEN_CALLERS;
    load.deadline_s = deadline_ms() / 1e3;
    for (size_t i = 0; i < sizeof PERCENTS / sizeof PERCENTS[0] && capacity_per_s > 0; i++) {
        load.rate = PERCENTS[i] / 100.0 * capacity_per_s;
        if (PERCENTS[i] >= least_percent())
            measure(server, workload, &load, PERCENTS[i], traffic_good_bytes_per_s(&closed),
                    &costs);
    }
    traffic_result_free(&closed);
    traffic_requests_free(requests, workload->size_count);
}

static bool start(struct traffic_server *server, const char *name)
{
    if (strcmp(name, "fastapi") == 0)
        return traffic_server_start_fastapi(server, 1);
    if (strcmp(name, "cjson") == 0)
        return traffic_server_start_cjson(server);
    traffic_server_start(server, NULL);
    return true;
}

/* Starts the server anew for each workload, so that no workload inherits another's memory. */
static void overload_server(const char *name, const char *only)
{
    bool is_alone = traffic_pin(1);
    for (int i = 0; i < WORKLOADS; i++) {
        struct traffic_server server;
        if ((only && strcmp(only, workloads[i].name) != 0)
            || (strcmp(name, "cjson") == 0 && workloads[i].is_binary))
            continue;
        traffic_pin(0);
        const bool is_up = start(&server, name);
        is_alone = traffic_pin(1);
        if (!is_up)
            break;
        overload(&server, &workloads[i], is_alone);
        traffic_server_stop(&server);
    }
    traffic_pin(-1);
    if (!is_alone)
        printf("one CPU alone: the client and the server share it\n");
}

/* ------------------------------------------------------------------- bursts -- */

enum { BURST_SECONDS = 7, BURST_TIMES = 3 };

static const double BURST_AT_S = 1, BURST_S = 1, RECOVERED = 0.95;

/* How long after the burst the last slice began that was not well served. */
static double recovery_s(const struct traffic_result *result)
{
    const int from = (int)((BURST_AT_S + BURST_S) / TRAFFIC_SLICE_S + 0.5);
    const int slices = (int)(result->seconds / TRAFFIC_SLICE_S + 0.5);
    int last = from - 1;
    for (int i = from; i < slices; i++)
        if ((double)result->good_in[i] < RECOVERED * (double)result->arrived_in[i])
            last = i;
    return (last + 1 - from) * TRAFFIC_SLICE_S;
}

static void print_slices(const struct traffic_result *result)
{
    const int slices = (int)(result->seconds / TRAFFIC_SLICE_S + 0.5);
    printf("  good in percent, each tenth of a second:");
    for (int i = 0; i < slices; i++)
        printf("%s%.0f", i % 10 ? " " : "\n   ",
               100.0 * (double)result->good_in[i]
                   / (result->arrived_in[i] ? (double)result->arrived_in[i] : 1));
    printf("\n  well served again %.1f s after the burst\n", recovery_s(result));
}

static void burst_at(struct traffic_server *server, struct traffic_load load, double capacity_per_s,
                     int percent)
{
    struct traffic_result result;
    char point[24];
    snprintf(point, sizeof point, "%d+burst", percent);
    load.callers = OPEN_CALLERS;
    load.seconds = BURST_SECONDS;
    load.deadline_s = 1;
    load.rate = percent / 100.0 * capacity_per_s;
    load.burst_rate = BURST_TIMES * capacity_per_s;
    load.burst_at_s = BURST_AT_S;
    load.burst_s = BURST_S;
    traffic_measure(server, &load,
                    &(struct traffic_row){ .workload = "JSON 16x64", .point = point }, &result);
    print_slices(&result);
    traffic_report_figure(point, recovery_s(&result), "s");
    traffic_result_free(&result);
}

/* Closed loops of more and more connections, and then bursts of three times the capacity of the
 * first, a second long, in a load that the server carries. Nothing has a deadline but the client,
 * which calls an answer good for a second. */
static void burst(const char *only)
{
    static const int CALLERS[] = { 32, 1000, 2000 }, BASES[] = { 60, 70, 80 };
    struct traffic_server server;
    struct traffic_request request = traffic_attention_json((struct traffic_shape){ 1, 16, 64 }, 0);
    double capacity_per_s = 0;
    traffic_pin(0);
    traffic_server_start(&server, NULL);
    const bool is_alone = traffic_pin(1);
    traffic_try(server.port, &request, 1);
    struct traffic_load load = { .port = server.port,
                                 .requests = &request,
                                 .request_count = 1,
                                 .seconds = traffic_seconds(2),
                                 .spins = is_alone };
    for (size_t i = 0; i < sizeof CALLERS / sizeof CALLERS[0]; i++) {
        struct traffic_result result;
        char point[24];
        snprintf(point, sizeof point, "%d", CALLERS[i]);
        load.callers = CALLERS[i];
        traffic_measure(&server, &load,
                        &(struct traffic_row){ .workload = "JSON 16x64", .point = point }, &result);
        capacity_per_s = i == 0 ? traffic_good_per_s(&result) : capacity_per_s;
        traffic_result_free(&result);
    }
    for (size_t i = 0; i < sizeof BASES / sizeof BASES[0]; i++)
        if (!only || BASES[i] == (int)strtol(only, NULL, 10))
            burst_at(&server, load, capacity_per_s, BASES[i]);
    traffic_server_stop(&server);
    traffic_requests_free(&request, 1);
}

int main(int argc, char **argv)
{
    static const char *const servers[] = { "attnd", "fastapi", "cjson" };
    traffic_report_open("overload");
    printf("Requests with a deadline of %d ms; the server has one CPU, the client another.\n"
           "of cap: goodput, by the bytes of the requests, of that of the closed loop; at best: "
           "what refusals\nleave of it (no deadline missed, no connection lost), and how much of "
           "that was reached;\nlate: a 200 after the deadline; no answer: given up at twice the "
           "deadline; CPU of the server,\nthe generator and others; late ms: how late it sent, "
           "p99.\n",
           deadline_ms());
    traffic_report_heading();
    if (argc >= 2 && strcmp(argv[1], "burst") == 0) {
        burst(argc > 2 ? argv[2] : NULL);
        return 0;
    }
    for (size_t i = 0; i < sizeof servers / sizeof servers[0]; i++)
        if (argc < 2 || strcmp(argv[1], servers[i]) == 0)
            overload_server(servers[i], argc > 2 ? argv[2] : NULL);
    return 0;
}
