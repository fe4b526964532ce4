/* load_capacity.c - how many requests a second a server carries, from the smallest request to
 * one that is all computing, in a closed loop with the client on the same CPUs; and the same for
 * what people write otherwise.
 *
 *     load_capacity [attnd|fastapi|cjson [ROW]]      without a name: all of them
 *
 * ROW is the name of one row, as it is printed. ATTND_LOAD_SECONDS is the time of each row (2).
 * What one request at a time costs beside its kernel is in load_alone.c. */
#include "traffic_report.h"

#include <stdio.h>
#include <string.h>

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

/* ------------------------------------------------------------------- rates -- */

/* only: the name of the one row to be measured; NULL: all are. */
static void measure(struct traffic_server *server, int kind, const char *only)
{
    for (int i = 0; i < ROWS; i++) {
        struct traffic_result result;
        struct traffic_request request = make_request(&rows[i]);
        const struct traffic_load load = { .port = server->port,
                                           .requests = &request,
                                           .request_count = 1,
                                           .seconds = traffic_seconds(2),
                                           .callers = rows[i].callers };
        const struct traffic_row row = { .workload = rows[i].name,
                                         .point = "closed",
                                         .goal_per_s = kind == ON_ATTND ? rows[i].goal_per_s : 0 };
        if ((rows[i].servers & kind) && (!only || strcmp(only, rows[i].name) == 0)) {
            traffic_try(server->port, &request, 1);
            traffic_measure(server, &load, &row, &result);
            traffic_result_free(&result);
        }
        traffic_requests_free(&request, 1);
    }
    traffic_server_stop(server);
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "", *row = argc > 2 ? argv[2] : NULL;
    struct traffic_server server;
    traffic_report_open("capacity");
    printf("Closed loops, the client on the same CPUs; \"of cap\" is of the goal.\n");
    traffic_report_heading();
    if (!*only || strcmp(only, "attnd") == 0) {
        traffic_server_start(&server, NULL);
        measure(&server, ON_ATTND, row);
    }
    for (int processes = 1; processes <= 2; processes++)
        if ((!*only || strcmp(only, "fastapi") == 0)
            && traffic_server_start_fastapi(&server, processes))
            measure(&server, ON_FASTAPI, row);
    if ((!*only || strcmp(only, "cjson") == 0) && traffic_server_start_cjson(&server))
        measure(&server, ON_CJSON, row);
    return 0;
}
