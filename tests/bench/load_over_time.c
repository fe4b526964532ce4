/* SPDX-License-Identifier: Apache-2.0 */
/* load_over_time.c - four times the load that the daemon can carry, as it goes on: what it answers
 * in time, and how long a light client waits beside it.
 *
 *     load_over_time [nginx]      nginx: with nginx before it, as deploy/nginx/attnd.conf says
 *
 * One key floods: Poisson arrivals of JSON 16 x 64 with a deadline of 100 ms, at four times what a
 * closed loop of the same requests gets. Another key asks 100 times a second, without a deadline.
 * The daemon, and nginx if there is one, has one CPU, the clients another. The lines are CSV: when,
 * the flood's good answers a second, and the light client's median and 99th percentile in that part
 * of the time. The first two parts are before the flood. ATTND_LOAD_SECONDS is the whole time (6).
 */
#include "balancer.h"
#include "key_file.h"
#include "traffic_connection.h"
#include "traffic_report.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMES = 4, LIGHT_PER_S = 100, LIGHT_CALLERS = 256, FLOOD_CALLERS = 4000, CLOSED = 16 };
enum { PARTS_MAX = 200, BEFORE = 2 };

static const double PART_S = 0.5, DEADLINE_S = 0.1;
static const struct traffic_shape SHAPE = { .heads = 1, .length = 16, .head_dim = 64 };

static struct traffic_request request_of(const char *key, int timeout_ms)
{
    char header[200];
    struct traffic_request request = traffic_attention_json(SHAPE, timeout_ms);
    snprintf(header, sizeof header, "X-Api-Key: %s", key_secret(key));
    traffic_add_header(&request, header);
    return request;
}

/* ------------------------------------------------------------ the light client -- */

struct part {
    double p50_ms, p99_ms;
    long long good, others; /* answers of 200; everything else */
};

/* Runs in a process of its own and writes a struct part for each part of the time. */
static void ask_lightly(int port, int parts, int to)
{
    struct traffic_request request = request_of("light", 0);
    struct traffic_result result;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < parts; i++) {
        /* A fifth more is the warm-up of each part. */
        traffic_run(&(struct traffic_load){ .port = port,
                                            .requests = &request,
                                            .request_count = 1,
                                            .seconds = PART_S / 1.2,
                                            .rate = LIGHT_PER_S,
                                            .callers = LIGHT_CALLERS },
                    &result);
        const struct part part = { traffic_samples_quantile(&result.latency_ms, 0.5),
                                   traffic_samples_quantile(&result.latency_ms, 0.99), result.good,
                                   result.arrived - result.good };
        traffic_result_free(&result);
        if (write(to, &part, sizeof part) != sizeof part)
            _exit(1);
    }
    _exit(0);
}

/* ------------------------------------------------------------------- the flood -- */

static double capacity_per_s(int port, const struct traffic_request *request)
{
    struct traffic_result result;
    traffic_run(&(struct traffic_load){ .port = port,
                                        .requests = request,
                                        .request_count = 1,
                                        .seconds = 0.5,
                                        .callers = CLOSED },
                &result);
    const double per_s = traffic_good_per_s(&result);
    traffic_result_free(&result);
    return per_s;
}

static double good_per_s(const struct traffic_result *result, int part)
{
    const int slices = (int)(PART_S / TRAFFIC_SLICE_S + 0.5);
    int64_t good = 0;
    for (int i = part * slices; i < (part + 1) * slices && i < TRAFFIC_SLICES_MAX; i++)
        good += result->good_in[i];
    return (double)good / PART_S;
}

/* The flood's own warm-up, a fifth of its time, counts as before it began. */
static void run_both(int port, const struct traffic_request *flood, double capacity, int parts)
{
    struct traffic_result result;
    struct part part;
    int light[2];
    if (pipe(light) != 0)
        abort();
    fflush(stdout);
    const pid_t client = fork();
    if (client == 0)
        ask_lightly(port, parts, light[1]);
    close(light[1]);
    usleep((useconds_t)(BEFORE * PART_S * 1e6));
    traffic_run(&(struct traffic_load){ .port = port,
                                        .requests = flood,
                                        .request_count = 1,
                                        .seconds = (parts - BEFORE) * PART_S / 1.2,
                                        .rate = TIMES * capacity,
                                        .callers = FLOOD_CALLERS,
                                        .deadline_s = DEADLINE_S },
                &result);
    const int warm = (int)((parts - BEFORE) / 6.0 + 0.5);
    printf("seconds,flood good/s,light p50 ms,light p99 ms,light answered,light not\n");
    for (int i = 0; read(light[0], &part, sizeof part) == sizeof part; i++) {
        const int counted = i - BEFORE - warm;
        const double good = counted >= 0 ? good_per_s(&result, counted) : 0;
        printf("%.1f,%.0f,%.2f,%.2f,%lld,%lld%s\n", i * PART_S, good, part.p50_ms, part.p99_ms,
               part.good, part.others,
               i < BEFORE    ? ",before the flood"
               : counted < 0 ? ",the flood begins"
                             : "");
    }
    waitpid(client, NULL, 0);
    close(light[0]);
    const double percent = 100.0 / (double)result.arrived;
    printf("the flood: %.0f a second, %.0f%% of its answers in time of what a closed loop gets; "
           "429 %.1f%%, 504 %.1f%%, not answered %.1f%%\n",
           TIMES * capacity, 100 * traffic_good_per_s(&result) / capacity,
           (double)result.statuses[429] * percent, (double)result.statuses[504] * percent,
           (double)(result.abandoned + result.unsent + result.broken) * percent);
    traffic_report_figure("good of capacity at four times", traffic_good_per_s(&result) / capacity,
                          "");
    traffic_result_free(&result);
}

int main(int argc, char **argv)
{
    const bool has_nginx = argc > 1 && strcmp(argv[1], "nginx") == 0;
    const int asked = (int)(traffic_seconds(6) / PART_S + 0.5);
    const int parts = asked < 2 * BEFORE ? 2 * BEFORE : asked < PARTS_MAX ? asked : PARTS_MAX;
    char *directory = daemon_directory_create(), path[1024];
    struct balancer balancer = { 0 };
    struct traffic_server server;
    traffic_report_open("over_time");
    snprintf(path, sizeof path, "%s/keys", directory);
    key_file_write(
        path, (struct key_line[]){ { "flood", "infer" }, { "light", "infer" }, { NULL, NULL } });
    traffic_pin(0);
    traffic_server_start(&server, (const char *const[]){ "--keys", path, NULL });
    int port = server.port;
    if (has_nginx) {
        balancer_prepare(&balancer, BALANCER_NGINX, (const int[]){ server.port, server.port });
        balancer_start(&balancer, BALANCER_NGINX);
        port = balancer.port;
        daemon_pause(0.5);
    }
    traffic_pin(1);
    struct traffic_request flood = request_of("flood", (int)(DEADLINE_S * 1e3));
    traffic_try(port, &flood, 1);
    run_both(port, &flood, capacity_per_s(port, &flood), parts);
    traffic_requests_free(&flood, 1);
    balancer_stop(&balancer);
    traffic_server_stop(&server);
    daemon_directory_remove(directory);
    return 0;
}
