/* SPDX-License-Identifier: Apache-2.0 */
/* load_batching.c - what the daemon gains when it computes queued rows together. Many callers
 * each send one row for the same layer of 4096 x 4096 projections, or of 768 x 768.
 *
 *     load_batching
 *
 * 64 callers run in a closed loop on all CPUs. The daemon runs in turns with --batch-max 1 and
 * with its default. ATTND_LOAD_SECONDS is the time of each row (3). */
#include "traffic_report.h"

#include <stdio.h>
#include <stdlib.h>

enum { CALLERS = 64, ROUNDS = 2 };

static const struct layer {
    int width;
    const char *columns, *heads, *model, *request;
    double goal; /* 0: none */
} LAYERS[] = {
    { 4096, "4096", "32", "wide", "raw 1x4096", 6 },
    { 768, "768", "12", "narrow", "raw 1x768", 0 },
};

static void make_model(const char *directory, const struct layer *layer)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.safetensors", directory, layer->model);
    struct daemon_result made =
        daemon_command((const char *const[]){ "model", "new", "--d-model", layer->columns,
                                              "--q-heads", layer->heads, path, NULL },
                       NULL);
    if (made.exit_code != 0) {
        fprintf(stderr, "the model was not made: %s\n", made.errors);
        exit(1);
    }
    daemon_result_free(&made);
}

static double measure(const char *directory, const struct layer *layer, const char *batch_max)
{
    struct traffic_request request = traffic_raw(layer->model, layer->width, 0);
    struct traffic_load load = {
        .requests = &request, .request_count = 1, .seconds = traffic_seconds(3), .callers = CALLERS
    };
    const struct traffic_row row = { .workload = layer->request,
                                     .point = batch_max ? "max 1" : "default" };
    const char *const arguments[] = { "--models", directory, batch_max ? "--batch-max" : NULL,
                                      batch_max, NULL };
    struct traffic_server server;
    struct traffic_result result;
    traffic_server_start(&server, arguments);
    load.port = server.port;
    traffic_try(server.port, &request, 1);
    traffic_measure(&server, &load, &row, &result);
    const double per_s = traffic_good_per_s(&result);
    traffic_result_free(&result);
    traffic_server_stop(&server);
    traffic_requests_free(&request, 1);
    return per_s;
}

static void compare(const char *directory, const struct layer *layer, bool has_batches)
{
    double one_by_one = 0, together = 0;
    char figure[64];
    make_model(directory, layer);
    printf("%d callers, each with one row for a layer of %d x %d projections.\n", CALLERS,
           layer->width, layer->width);
    traffic_report_heading();
    for (int i = 0; i < ROUNDS; i++) {
        one_by_one += has_batches ? measure(directory, layer, "1") : 0;
        together += measure(directory, layer, NULL);
    }
    if (!has_batches) {
        printf("this build computes each request on its own (no --batch-max)\n");
        return;
    }
    printf("together %.1f x one by one", together / one_by_one);
    if (layer->goal > 0)
        printf("; goal %.0f x", layer->goal);
    printf("\n");
    snprintf(figure, sizeof figure, "batching_%d", layer->width);
    traffic_report_figure(figure, together / one_by_one, "x");
}

int main(void)
{
    char *directory = daemon_directory_create();
    const bool has_batches = traffic_server_has_flag("--batch-max");
    traffic_report_open("batching");
    for (size_t i = 0; i < sizeof LAYERS / sizeof LAYERS[0]; i++)
        compare(directory, &LAYERS[i], has_batches);
    daemon_directory_remove(directory);
    return 0;
}
