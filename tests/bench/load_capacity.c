/* SPDX-License-Identifier: Apache-2.0 */
/* load_capacity.c - how many requests a second a server carries, from the smallest request to
 * one that is all computing, in a closed loop with the client on the same CPUs; and the same for
 * what people write otherwise.
 *
 *     load_capacity [attnd|fastapi|cjson [ROW]]      without a name, or with "": all of them
 *
 * ROW is the name of one row, as it is printed. All servers are up at once, and each row goes round
 * them ROUNDS times, so that what slows the machine slows all of them. Then come medians of the
 * rounds in which a server was busy (peers.h), and how many times the daemon's is those of the
 * others.
 * ATTND_LOAD_SECONDS is the time of each row (1), ATTND_LOAD_ROUNDS the number of rounds (5). What
 * one request at a time costs beside its kernel is in load_alone.c. */
#include "own.h"
#include "peers.h"
#include "traffic_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS_MAX = 99, SERVERS = 4 };
enum { ON_ATTND = 1, ON_FASTAPI = 2, ON_CJSON = 4, EVERYWHERE = 7 };

static const char DEMO[] = "{\"model\":\"demo\",\"query\":[[1,0,0]]}";

static const struct row {
    const char *name;
    int callers, servers, length; /* length 0: not of attention */
    bool is_binary;
    double goal_per_s;
} rows[] = {
    { "GET /livez", 32, EVERYWHERE, 0, true, 93000 },
    { "demo, one row", 32, ON_ATTND, 0, false, 60000 },
    { "JSON 16x64", 32, EVERYWHERE, 16, false, 20000 },
    { "JSON 512x64", 4, EVERYWHERE, 512, false, 350 },
    { "binary 16x64", 32, ON_ATTND | ON_FASTAPI, 16, true, 0 },
    { "binary 512x64", 1, ON_ATTND | ON_FASTAPI, 512, true, 0 },
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static struct traffic_request make_request(const struct row *row)
{
    const struct traffic_shape shape = { 1, row->length, 64 };
    if (row->length == 0)
        return row->is_binary ? traffic_get("/livez") : traffic_json("/v1/attention", DEMO, 0);
    return row->is_binary ? traffic_attention_binary(shape, 0) : traffic_attention_json(shape, 0);
}

/* ----------------------------------------------------------------- servers -- */

static struct contender {
    int kind; /* its ON_ */
    struct traffic_server server;
    bool is_there;
    int busy_rounds; /* of the row that is measured */
    double per_s[ROUNDS_MAX], cpu_s, could_s;
} contenders[SERVERS] = {
    { .kind = ON_ATTND }, { .kind = ON_FASTAPI }, { .kind = ON_FASTAPI }, { .kind = ON_CJSON }
};

static void start(const char *only)
{
    static const char *const NAMES[] = { "attnd", "fastapi", "fastapi", "cjson" };
    int processes = 0;
    for (int i = 0; i < SERVERS; i++) {
        struct contender *contender = &contenders[i];
        processes += contender->kind == ON_FASTAPI;
        contender->is_there = !*only || strcmp(only, NAMES[i]) == 0;
        if (!contender->is_there)
            continue;
        if (contender->kind == ON_ATTND)
            traffic_server_start(&contender->server, NULL);
        else if (contender->kind == ON_FASTAPI)
            contender->is_there = traffic_server_start_fastapi(&contender->server, processes);
        else
            contender->is_there = traffic_server_start_cjson(&contender->server);
    }
}

static void stop(void)
{
    for (int i = 0; i < SERVERS; i++)
        if (contenders[i].is_there)
            traffic_server_stop(&contenders[i].server);
}

/* ------------------------------------------------------------------- rates -- */

static int rounds_wanted(void)
{
    const char *text = getenv("ATTND_LOAD_ROUNDS");
    const int count = text ? atoi(text) : 5;
    return count < 1 ? 1 : count < ROUNDS_MAX ? count : ROUNDS_MAX;
}

static bool takes(const struct contender *contender, const struct row *row)
{
    return contender->is_there && (row->servers & contender->kind);
}

static void measure(struct contender *contender, const struct row *row,
                    const struct traffic_request *request)
{
    struct traffic_result result;
    const struct traffic_load load = { .port = contender->server.port,
                                       .requests = request,
                                       .request_count = 1,
                                       .seconds = traffic_seconds(1),
                                       .callers = row->callers };
    const struct traffic_row line = { .workload = row->name,
                                      .point = "closed",
                                      .goal_per_s =
                                          contender->kind == ON_ATTND ? row->goal_per_s : 0 };
    traffic_try(contender->server.port, request, 1);
    traffic_measure(&contender->server, &load, &line, &result);
    if (peer_is_busy(result.server_cpu_s, result.could_s))
        contender->per_s[contender->busy_rounds++] = traffic_good_per_s(&result);
    contender->cpu_s += result.server_cpu_s;
    contender->could_s += result.could_s;
    traffic_result_free(&result);
}

/* The median of the rounds in which the server was busy; 0: those were fewer than half of all. */
static double busy_per_s(struct contender *contender)
{
    char text[PEER_IDLE_BYTES];
    printf("; %s ", contender->server.name);
    if (2 * contender->busy_rounds < rounds_wanted()) {
        peer_describe_idle(text, contender->cpu_s, contender->could_s);
        printf("%s", text);
        return 0;
    }
    const double per_s = median(contender->per_s, contender->busy_rounds);
    printf("%.0f/s (%.0f to %.0f)", per_s, contender->per_s[0],
           contender->per_s[contender->busy_rounds - 1]);
    return per_s;
}

static void compare(const struct row *row)
{
    double own_per_s = 0;
    printf("  %s, %d rounds", row->name, rounds_wanted());
    for (int i = 0; i < SERVERS; i++) {
        char figure[80];
        if (!takes(&contenders[i], row))
            continue;
        const double per_s = busy_per_s(&contenders[i]);
        if (contenders[i].kind == ON_ATTND)
            own_per_s = per_s;
        else if (own_per_s > 0 && per_s > 0) {
            printf(", %.1f x", own_per_s / per_s);
            snprintf(figure, sizeof figure, "%s, beside %s", row->name, contenders[i].server.name);
            traffic_report_figure(figure, own_per_s / per_s, "ratio");
        }
    }
    printf("\n");
}

static void go_round(const struct row *row)
{
    struct traffic_request request = make_request(row);
    for (int i = 0; i < SERVERS; i++) {
        contenders[i].busy_rounds = 0;
        contenders[i].cpu_s = contenders[i].could_s = 0;
    }
    for (int round = 0; round < rounds_wanted(); round++)
        for (int i = 0; i < SERVERS; i++)
            if (takes(&contenders[i], row))
                measure(&contenders[i], row, &request);
    compare(row);
    traffic_requests_free(&request, 1);
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "", *row = argc > 2 ? argv[2] : NULL;
    traffic_report_open("capacity");
    printf("Closed loops, the client on the same CPUs; \"of cap\" is of the goal.\n");
    start(only);
    traffic_report_heading();
    for (int i = 0; i < ROWS; i++)
        if (!row || strcmp(row, rows[i].name) == 0)
            go_round(&rows[i]);
    stop();
    return 0;
}
