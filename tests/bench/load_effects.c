/* SPDX-License-Identifier: Apache-2.0 */
/* load_effects.c - what a sweep over heads costs beside as many single passes.
 *
 *     load_effects [ROUNDS]      3 rounds without a number
 *
 * The models have 12 layers of 12 heads and 768 columns, random parameters, and read 128 tokens.
 * Each round asks POST /v1/effects for all 144 heads, and then for one head of each layer by a
 * trace with that edit; the ratio is of the medians, with 144 times that of a trace. */
#include "own.h"
#include "traffic_call.h"
#include "traffic_checkpoint.h"
#include "traffic_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 128, LAYERS = 12, HEADS = 12, ROUNDS_MAX = 100 };

static const struct traffic_checkpoint ENCODER = { .layers = LAYERS,
                                                   .width = 768,
                                                   .inner = 3072,
                                                   .heads = HEADS,
                                                   .vocabulary = 30522,
                                                   .positions = 512 };
static const struct traffic_checkpoint DECODER = {
    .layers = LAYERS, .width = 768, .inner = 2048, .heads = HEADS, .vocabulary = 32000
};

static const double GOAL = 0.35;

#define METRIC "\"position\":100,\"token\":7"

/* As a trace has its tokens, to another path. */
static struct traffic_request effects_request(const char *model, int vocabulary)
{
    char *body =
        traffic_trace_body(model, TOKENS, vocabulary, "\"metric\":{" METRIC "},\"each\":\"heads\"");
    const struct traffic_request request = traffic_json("/v1/effects", body, 0);
    free(body);
    return request;
}

static struct traffic_request trace_request(const char *model, int vocabulary, int layer)
{
    char fields[300];
    snprintf(fields, sizeof fields,
             "\"layers\":[],\"outputs\":[\"predictions\"],\"positions\":[],\"targets\":[{" METRIC
             "}],\"edits\":[{\"layers\":[%d],\"heads\":[%d],\"scale\":0}]",
             layer, layer);
    return traffic_trace(model, TOKENS, vocabulary, fields, "");
}

static void measure(struct traffic_connection *connection, const char *model, int vocabulary,
                    int rounds)
{
    static double sweeps[ROUNDS_MAX], passes[ROUNDS_MAX * LAYERS];
    struct traffic_request sweep = effects_request(model, vocabulary), traces[LAYERS];
    for (int i = 0; i < LAYERS; i++)
        traces[i] = trace_request(model, vocabulary, i);
    traffic_call(connection, &traces[0]);
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < LAYERS; i++)
            passes[round * LAYERS + i] = traffic_call(connection, &traces[i]);
        sweeps[round] = traffic_call(connection, &sweep);
    }
    const double pass = median(passes, rounds * LAYERS), whole = median(sweeps, rounds);
    const double ratio = whole / (LAYERS * HEADS * pass);
    printf("%-8s %8.2f s for %d heads, %7.1f ms a pass: %.3f of as many passes (goal %.2f)\n",
           model, whole, LAYERS * HEADS, pass * 1e3, ratio, GOAL);
    traffic_report_figure(model, ratio, "ratio");
    traffic_requests_free(&sweep, 1);
    traffic_requests_free(traces, LAYERS);
}

int main(int argc, char **argv)
{
    const int asked = argc > 1 ? atoi(argv[1]) : 3;
    const int rounds = asked < 1 ? 1 : asked < ROUNDS_MAX ? asked : ROUNDS_MAX;
    char *directory = daemon_directory_create(), path[1024];
    struct traffic_server server;
    struct traffic_connection connection;
    traffic_report_open("effects");
    snprintf(path, sizeof path, "%s/encoder", directory);
    traffic_checkpoint_encoder(path, &ENCODER);
    snprintf(path, sizeof path, "%s/decoder", directory);
    traffic_checkpoint_decoder(path, &DECODER);
    traffic_server_start(&server, (const char *const[]){ "--models", directory, "--workers", "2",
                                                         "--timeout", "600s", NULL });
    traffic_call_open(&connection, server.port);
    measure(&connection, "encoder", ENCODER.vocabulary, rounds);
    measure(&connection, "decoder", DECODER.vocabulary, rounds);
    traffic_connection_close(&connection);
    traffic_server_stop(&server);
    daemon_directory_remove(directory);
    return 0;
}
