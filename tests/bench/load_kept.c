/* SPDX-License-Identifier: Apache-2.0 */
/* load_kept.c - how fast a kept trace answers: tiles of a map of 16 384 tokens, and what its heads
 * do.
 *
 *     load_kept [CALLS]      20 calls of each without a number
 *
 * The first call of each row is reported by itself. A tile is asked for as a page would: 256 x 256
 * cells as bytes. */
#include "http_client.h"
#include "own.h"
#include "traffic_call.h"
#include "traffic_checkpoint.h"
#include "traffic_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 16384, CALLS_MAX = 1000 };

static const struct traffic_checkpoint ENCODER = {
    .layers = 1, .width = 128, .inner = 512, .heads = 2, .vocabulary = 1000, .positions = TOKENS
};

static const double GOAL_MS = 20;

static const struct row {
    const char *name, *query; /* beside the trace's path; %d is the head */
} ROWS[] = {
    { "all, the largest", "/weights?layer=0&head=%d&cells=256x256&dtype=u8" },
    { "all, means", "/weights?layer=0&head=%d&cells=256x256&reduce=mean&dtype=u8" },
    { "a quarter, the largest",
      "/weights?layer=0&head=%d&rows=8192:16384&keys=0:8192&cells=256x256&dtype=u8" },
    { "4096 x 4096, the largest",
      "/weights?layer=0&head=%d&rows=5000:9096&keys=300:4396&cells=256x256&dtype=u8" },
    { "4096 x 4096, means",
      "/weights?layer=0&head=%d&rows=5000:9096&keys=300:4396&cells=256x256&reduce=mean&dtype=u8" },
    { "2048 x 2048, the largest",
      "/weights?layer=0&head=%d&rows=5000:7048&keys=300:2348&cells=256x256&dtype=u8" },
    { "1024 x 1024, the largest",
      "/weights?layer=0&head=%d&rows=5000:6024&keys=300:1324&cells=256x256&dtype=u8" },
    { "256 x 256, each pair",
      "/weights?layer=0&head=%d&rows=5000:5256&keys=300:556&cells=256x256&dtype=u8" },
    { "one pair", "/pair?layer=0&head=%d&row=7000&key=4" },
};

static const struct row STATISTICS = { "statistics", "/statistics" };

/* Sends the body and returns the id of the kept trace. */
static const char *keep(int port, const char *body, double *seconds)
{
    static char id[80];
    struct http_client client;
    http_client_init(&client, port);
    struct http_response response = http_client_send(
        &client,
        &(struct http_request){ .path = "/v1/trace", .body = body, .timeout_seconds = 600 });
    const char *found = response.status == 200 ? strstr(response.body, "\"trace\":\"") : NULL;
    if (!found || sscanf(found, "\"trace\":\"%64[^\"]", id) != 1) {
        fprintf(stderr, "no kept trace: %ld %.200s\n", response.status, response.body);
        exit(1);
    }
    *seconds = response.seconds;
    http_response_free(&response);
    http_client_free(&client);
    return id;
}

static void measure(struct traffic_server *server, struct traffic_connection *connection,
                    const char *id, const struct row *row, double goal_ms, int calls)
{
    static double warm_ms[CALLS_MAX];
    struct traffic_request requests[2];
    char path[512];
    for (int head = 0; head < ENCODER.heads; head++) {
        const int used = snprintf(path, sizeof path, "/v1/traces/%s", id);
        snprintf(path + used, sizeof path - (size_t)used, row->query, head);
        requests[head] = traffic_get(path);
    }
    const double first_ms = traffic_call(connection, &requests[0]) * 1e3;
    traffic_server_cpu_s(server);
    for (int i = 0; i < calls; i++)
        warm_ms[i] = traffic_call(connection, &requests[i % ENCODER.heads]) * 1e3;
    const double cpu_ms = traffic_server_cpu_s(server) * 1e3 / calls, warm = median(warm_ms, calls);
    printf("%-28s first %8.2f ms, then median %8.2f, slowest %8.2f, CPU %8.2f", row->name, first_ms,
           warm, warm_ms[calls - 1], cpu_ms);
    printf(goal_ms > 0 ? " (goal %.0f)\n" : "\n", goal_ms);
    traffic_report_figure(row->name, warm, "ms");
    traffic_requests_free(requests, ENCODER.heads);
}

int main(int argc, char **argv)
{
    const int asked = argc > 1 ? atoi(argv[1]) : 20;
    const int calls = asked < 1 ? 1 : asked < CALLS_MAX ? asked : CALLS_MAX;
    char *directory = daemon_directory_create(), path[1024];
    struct traffic_server server;
    struct traffic_connection connection;
    double seconds, plain_s;
    traffic_report_open("kept");
    snprintf(path, sizeof path, "%s/encoder", directory);
    traffic_checkpoint_encoder(path, &ENCODER);
    traffic_server_start(&server, (const char *const[]){ "--models", directory, "--workers", "2",
                                                         "--timeout", "600s", NULL });
    traffic_call_open(&connection, server.port);
    struct traffic_request plain = traffic_trace("encoder", TOKENS, ENCODER.vocabulary,
                                                 "\"weight_map\":{\"pool\":[64,64]}", "");
    char *body = traffic_trace_body("encoder", TOKENS, ENCODER.vocabulary,
                                    "\"keep\":\"10m\",\"weight_map\":{\"pool\":[64,64]}");
    plain_s = traffic_call(&connection, &plain);
    const char *id = keep(server.port, body, &seconds);
    printf("%d tokens of one layer of %d heads, 2 workers: %.2f s, kept %.2f s\n", TOKENS,
           ENCODER.heads, plain_s, seconds);
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++)
        measure(&server, &connection, id, &ROWS[i], GOAL_MS, calls);
    measure(&server, &connection, id, &STATISTICS, 0, calls);
    free(body);
    traffic_requests_free(&plain, 1);
    traffic_connection_close(&connection);
    traffic_server_stop(&server);
    daemon_directory_remove(directory);
    return 0;
}
