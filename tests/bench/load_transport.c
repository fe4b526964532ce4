/* SPDX-License-Identifier: Apache-2.0 */
/* load_transport.c - what a unix socket saves, and what TLS costs: the same requests over TCP, over
 * a unix socket and over TLS, in turns, on kept connections.
 *
 *     load_transport [ROUNDS]      21 rounds without a number
 *
 * Each round measures each transport once, for ATTND_LOAD_SECONDS (0.5), in an order that turns,
 * and compares it with TCP of the same round; the medians of these ratios count. The client pays
 * for its side of TLS on the same CPUs. */
#include "own.h"
#include "traffic_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TCP, UNIX, TLS, TRANSPORTS, ROUNDS_MAX = 101 };

static const char *const NAMES[TRANSPORTS] = { "TCP", "unix", "TLS" };
static const char DEMO[] = "{\"model\":\"demo\",\"query\":[[1,0,0]]}";

static const struct row {
    const char *name;
    int callers;
    struct traffic_shape shape; /* heads 0: the demo */
    bool is_binary;
    double goals[TRANSPORTS]; /* of TCP; 0: none */
} ROWS[] = {
    { "demo, one row", 32, { 0, 0, 0 }, false, { [TLS] = 0.8 } },
    { "JSON 16x64", 32, { 1, 16, 64 }, false, { [UNIX] = 1.15, [TLS] = 0.8 } },
    { "binary 16x64", 32, { 1, 16, 64 }, true, { [UNIX] = 1.15, [TLS] = 0.8 } },
    { "binary 16x64, one", 1, { 1, 16, 64 }, true, { [UNIX] = 1.15 } },
    { "binary 512x64, one", 1, { 1, 512, 64 }, true, { 0 } },
    { "JSON of 8 MB", 2, { 1, 2048, 64 }, false, { [TLS] = 0.9 } },
    { "binary of 8 MB", 2, { 8, 1280, 64 }, true, { [TLS] = 0.9 } },
};
enum { ROW_COUNT = sizeof ROWS / sizeof ROWS[0] };

static char folder[] = "/tmp/attnd-transport-XXXXXX";

static struct traffic_request make_request(const struct row *row)
{
    if (row->shape.heads == 0)
        return traffic_json("/v1/attention", DEMO, 0);
    return row->is_binary ? traffic_attention_binary(row->shape, 0)
                          : traffic_attention_json(row->shape, 0);
}

/* Requests a second, and in *per_cpu_s requests for a second of the daemon's CPU time. */
static double rate(struct traffic_server *server, const struct traffic_request *request,
                   const struct row *row, int transport, const char *path, double *per_cpu_s)
{
    struct traffic_result result;
    const struct traffic_load load = { .port = server->port,
                                       .unix_path = transport == UNIX ? path : NULL,
                                       .is_tls = transport == TLS,
                                       .requests = request,
                                       .request_count = 1,
                                       .seconds = traffic_seconds(0.5),
                                       .callers = row->callers };
    traffic_server_cpu_s(server);
    traffic_run(&load, &result);
    *per_cpu_s = (double)result.good / traffic_server_cpu_s(server);
    if (result.good == 0) {
        fprintf(stderr, "%s over %s: no answer of 200\n", row->name, NAMES[transport]);
        exit(1);
    }
    const double per_s = traffic_good_per_s(&result);
    traffic_result_free(&result);
    return per_s;
}

static void measure(const struct row *row, struct traffic_server *plain,
                    struct traffic_server *secure, const char *path, int rounds)
{
    static double rates[TRANSPORTS][ROUNDS_MAX], ratios[TRANSPORTS][ROUNDS_MAX];
    static double costs[TRANSPORTS][ROUNDS_MAX];
    struct traffic_request request = make_request(row);
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < TRANSPORTS; i++) {
            const int transport = (round + i) % TRANSPORTS;
            struct traffic_server *server = transport == TLS ? secure : plain;
            rates[transport][round] =
                rate(server, &request, row, transport, path, &costs[transport][round]);
        }
        for (int i = TRANSPORTS - 1; i >= 0; i--) {
            ratios[i][round] = rates[i][round] / rates[TCP][round];
            costs[i][round] /= costs[TCP][round];
        }
    }
    printf("%-20s %8zu", row->name, request.size);
    for (int i = 0; i < TRANSPORTS; i++) {
        char name[64];
        const double ratio = median(ratios[i], rounds);
        printf(" %9.0f", median(rates[i], rounds));
        if (i != TCP)
            printf(" %5.2f %5.2f", ratio, median(costs[i], rounds));
        if (row->goals[i] > 0)
            printf(" (%.2f)", row->goals[i]);
        else if (i != TCP)
            printf("       ");
        snprintf(name, sizeof name, "%s over %s, of TCP", row->name, NAMES[i]);
        traffic_report_figure(name, ratio, "ratio");
    }
    printf("\n");
    fflush(stdout);
    traffic_requests_free(&request, 1);
}

/* Makes a key and a certificate of its own in the folder. */
static void make_certificate(void)
{
    char command[512];
    snprintf(command, sizeof command,
             "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
             " -subj /CN=localhost -keyout %s/key.pem -out %s/cert.pem 2>/dev/null",
             folder, folder);
    if (system(command) != 0) {
        fprintf(stderr, "openssl has made no certificate\n");
        exit(1);
    }
}

/* A client that speaks no TLS cannot ask whether the daemon is ready, so the log tells. */
static void start(struct traffic_server *server, const char *const *arguments)
{
    *server = (struct traffic_server){ .name = "attnd" };
    daemon_start(&server->daemon,
                 &(struct daemon_options){ .arguments = arguments, .may_not_be_ready = true });
    free(daemon_log_with(&server->daemon, " ready"));
    server->port = server->daemon.port;
    server->pid = server->daemon.pid;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 21;
    char path[64], listen_unix[80], certificate[64], key[64];
    struct traffic_server plain, secure;
    if (rounds < 1 || rounds > ROUNDS_MAX || !mkdtemp(folder))
        return 1;
    make_certificate();
    snprintf(path, sizeof path, "%s/attnd.sock", folder);
    snprintf(listen_unix, sizeof listen_unix, "unix:%s", path);
    snprintf(certificate, sizeof certificate, "%s/cert.pem", folder);
    snprintf(key, sizeof key, "%s/key.pem", folder);
    traffic_report_open("transport");
    start(&plain, (const char *const[]){ "--listen", listen_unix, NULL });
    start(&secure, (const char *const[]){ "--tls-cert", certificate, "--tls-key", key, NULL });
    printf(
        "requests/s on kept connections, medians of %d; of TCP in the same round: requests/s, and\n"
        "requests for the daemon's CPU time (goal)\n"
        "%-20s %8s %9s %9s %19s %9s\n",
        rounds, "", "bytes", "TCP", "unix", "", "TLS");
    for (int i = 0; i < ROW_COUNT; i++)
        measure(&ROWS[i], &plain, &secure, path, rounds);
    traffic_server_stop(&plain);
    traffic_server_stop(&secure);
    snprintf(listen_unix, sizeof listen_unix, "rm -rf %s", folder);
    return system(listen_unix) != 0;
}
