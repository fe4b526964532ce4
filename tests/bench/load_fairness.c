/* SPDX-License-Identifier: Apache-2.0 */
/* load_fairness.c - short requests while a long one runs: their p99 beside the p99 that they
 * have when the daemon has no other request.
 *
 * Short requests of about a millisecond of computing arrive by Poisson. First they are alone.
 * Then another client asks for one long job after another: self-attention over a sequence so
 * long that it takes half a minute, the score function that costs the most, answers in JSON that
 * are all map. Then that client leaves, which ends its job. The clients are on the same CPUs.
 * ATTND_LOAD_SECONDS is the time of each row (4). A word as argument picks the long jobs that
 * have it in their names.
 *
 * Then the same among keys, for which the daemon shares its workers: a light key's short requests
 * alone, and beside floods of other keys' long jobs. They ask for less than the light key's share
 * of two workers beside forty-nine others. The word "key" picks these floods, and "49 keys" one of
 * them. */
#include "key_file.h"
#include "traffic_connection.h"
#include "traffic_report.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KEYS = 50, REFUSED = KEYS /* the key after those */ };
enum { KEYED_LENGTH = 320, KEYED_PER_S = 10, KEYED_SECONDS = 30, FLOOD_S = 3 };
enum { SHORT_LENGTH = 640, SHORT_PER_S = 120, LONG_LENGTH = 147456, MAP_LENGTH = 3900 };

static const double GOAL = 3, KEYS_GOAL = 2;

static const char *const ADDITIVE[] = { "model", "new",      "--attention", "additive", "--d-model",
                                        "64",    "--hidden", "512",         "--seed",   "1" };
enum { ADDITIVE_ARGUMENTS = sizeof ADDITIVE / sizeof ADDITIVE[0] };

static const char DEMO[] = "{\"model\":\"demo\",\"query\":[[1,0,0]]}";

static struct traffic_request long_sequence(void)
{
    return traffic_attention_binary((struct traffic_shape){ 1, LONG_LENGTH, 64 }, 0);
}

static struct traffic_request long_additive(void)
{
    return traffic_model_binary("additive", 16384, 64);
}

static struct traffic_request long_answer(void)
{
    return traffic_map_json((struct traffic_shape){ 1, MAP_LENGTH, 16 });
}

static const struct long_job {
    const char *name;
    struct traffic_request (*make)(void);
} long_jobs[] = {
    { "a long sequence", long_sequence },
    { "additive scores", long_additive },
    { "maps in JSON", long_answer },
};

/* The other client: sends the request again and again. It writes a byte to events for each
 * request that it sends, and one more for each answer of 200. */
static void ask(int port, const struct traffic_request *request, int events)
{
    struct traffic_connection connection;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!traffic_connection_open(&connection, port))
        _exit(1);
    for (bool said = false;; said = false) {
        traffic_connection_begin(&connection, request, 0);
        while (traffic_connection_step(&connection) == TRAFFIC_WAITS) {
            const bool is_sent = connection.sent_bytes == request->size;
            struct pollfd poll_for = { .fd = connection.descriptor,
                                       .events = is_sent ? POLLIN : POLLIN | POLLOUT };
            if (is_sent && !said && write(events, "s", 1) != 1)
                _exit(1);
            said = is_sent;
            poll(&poll_for, 1, -1);
        }
        if (connection.status != 200 || write(events, "a", 1) != 1)
            _exit(1);
    }
}

static double measure(struct traffic_server *server, const char *point)
{
    const struct traffic_shape shape = { 1, SHORT_LENGTH, 64 };
    struct traffic_request request = traffic_attention_binary(shape, 0);
    const struct traffic_load load = { .port = server->port,
                                       .requests = &request,
                                       .request_count = 1,
                                       .seconds = traffic_seconds(4),
                                       .rate = SHORT_PER_S,
                                       .callers = 1024 };
    const struct traffic_row row = { .workload = "binary 640x64", .point = point };
    struct traffic_result result;
    traffic_try(server->port, &request, 1);
    traffic_measure(server, &load, &row, &result);
    const double p99_ms = traffic_samples_quantile(&result.latency_ms, 0.99);
    traffic_result_free(&result);
    traffic_requests_free(&request, 1);
    return p99_ms;
}

/* Returns how many long jobs were answered while the short requests were measured; -1: the
 * client of the long jobs failed. */
static int measure_beside(struct traffic_server *server, const struct long_job *job, double *p99_ms)
{
    struct traffic_request request = job->make();
    int events[2], status, answered = 0;
    char byte;
    if (pipe(events) != 0)
        abort();
    fflush(stdout);
    const pid_t client = fork();
    if (client == 0)
        ask(server->port, &request, events[1]);
    close(events[1]);
    const bool is_sent = read(events[0], &byte, 1) == 1;
    *p99_ms = measure(server, "beside");
    const bool has_failed = !is_sent || waitpid(client, &status, WNOHANG) == client;
    kill(client, SIGKILL);
    waitpid(client, NULL, 0);
    while (read(events[0], &byte, 1) == 1)
        answered += byte == 'a';
    close(events[0]);
    traffic_requests_free(&request, 1);
    return has_failed ? -1 : answered;
}

static void compare(struct traffic_server *server, const struct long_job *job)
{
    char name[80];
    double beside_ms;
    const double idle_ms = measure(server, "alone");
    const int answered = measure_beside(server, job, &beside_ms);
    if (answered < 0) {
        fprintf(stderr, "%s: no 200\n", job->name);
        exit(1);
    }
    printf("  beside %s: p99 %.2f ms, alone %.2f ms: %.1f x, goal %.0f x (%d of the long jobs were "
           "done meanwhile)\n",
           job->name, beside_ms, idle_ms, beside_ms / idle_ms, GOAL, answered);
    snprintf(name, sizeof name, "p99 beside %s", job->name);
    traffic_report_figure(name, beside_ms / idle_ms, "x");
}

/* ------------------------------------------------------------- floods of keys -- */

/* A flood: long jobs of these keys, so many at a time. Key 0 is the light one. */
static const struct flood {
    const char *name;
    int keys, jobs;
    bool is_refused; /* small requests of a key whose budget is used up, in place of the jobs */
} floods[] = {
    { "1 key refused on 900 connections", 1, 900, true },
    { "1 key with 4 long jobs", 1, 4, false },
    { "1 key with 1000 long jobs", 1, 1000, false },
    { "49 keys with 1000 long jobs", 49, 1000, false },
};

static const char *key_name(int key)
{
    static char name[16];
    snprintf(name, sizeof name, "key-%d", key);
    return name;
}

static void add_key(struct traffic_request *request, int key)
{
    char header[200];
    snprintf(header, sizeof header, "X-Api-Key: %s", key_secret(key_name(key)));
    traffic_add_header(request, header);
}

static void write_keys(const char *path)
{
    static char names[KEYS + 1][16];
    struct key_line lines[KEYS + 2] = { { NULL, NULL } };
    for (int i = 0; i <= KEYS; i++) {
        snprintf(names[i], sizeof names[i], "%s", key_name(i));
        lines[i] =
            (struct key_line){ names[i], i == REFUSED ? "infer cpu=0.001 burst=1ms" : "infer" };
    }
    key_file_write(path, lines);
}

/* Sends the long jobs until it is killed. Each takes about half a second of a worker. */
static void pour(int port, const struct flood *flood)
{
    struct traffic_request requests[KEYS];
    struct traffic_result result;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < flood->keys; i++) {
        requests[i] = flood->is_refused ? traffic_json("/v1/attention", DEMO, 0)
                                        : traffic_model_binary("additive", 512, 64);
        add_key(&requests[i], flood->is_refused ? REFUSED : 1 + i);
    }
    traffic_run(&(struct traffic_load){ .port = port,
                                        .requests = requests,
                                        .request_count = flood->keys,
                                        .seconds = 3600,
                                        .callers = flood->jobs },
                &result);
    _exit(0);
}

/* The quantiles of the light key's short requests. */
struct keyed {
    double p50_ms, p99_ms;
};

static struct keyed measure_keyed(struct traffic_server *server, const char *point)
{
    struct traffic_request request =
        traffic_attention_binary((struct traffic_shape){ 1, KEYED_LENGTH, 64 }, 0);
    struct traffic_result result;
    add_key(&request, 0);
    const struct traffic_load load = { .port = server->port,
                                       .requests = &request,
                                       .request_count = 1,
                                       .seconds = traffic_seconds(KEYED_SECONDS),
                                       .rate = KEYED_PER_S,
                                       .callers = 1024 };
    const struct traffic_row row = { .workload = "a key's 320x64", .point = point };
    traffic_try(server->port, &request, 1);
    traffic_measure(server, &load, &row, &result);
    const struct keyed keyed = { traffic_samples_quantile(&result.latency_ms, 0.5),
                                 traffic_samples_quantile(&result.latency_ms, 0.99) };
    traffic_result_free(&result);
    traffic_requests_free(&request, 1);
    return keyed;
}

static void compare_flood(struct traffic_server *server, const struct flood *flood)
{
    char name[80];
    int status;
    const struct keyed idle = measure_keyed(server, "alone");
    fflush(stdout);
    const pid_t client = fork();
    if (client == 0)
        pour(server->port, flood);
    daemon_pause(FLOOD_S); /* the jobs are queued by then */
    const struct keyed beside = measure_keyed(server, "beside");
    if (waitpid(client, &status, WNOHANG) == client) {
        fprintf(stderr, "%s: the flood failed\n", flood->name);
        exit(1);
    }
    kill(client, SIGKILL);
    waitpid(client, NULL, 0);
    daemon_pause(FLOOD_S); /* their jobs end with their connections */
    printf("  beside %s: p50 %.2f ms, alone %.2f ms; p99 %.2f ms, alone %.2f ms: %.1f x, goal %.0f "
           "x\n",
           flood->name, beside.p50_ms, idle.p50_ms, beside.p99_ms, idle.p99_ms,
           beside.p99_ms / idle.p99_ms, KEYS_GOAL);
    snprintf(name, sizeof name, "p99 beside %s", flood->name);
    traffic_report_figure(name, beside.p99_ms / idle.p99_ms, "x");
}

static void compare_keys(const char *directory, const char *word)
{
    struct traffic_server server;
    char path[1024];
    snprintf(path, sizeof path, "%s/keys", directory);
    write_keys(path);
    traffic_server_start(&server,
                         (const char *const[]){ "--models", directory, "--queue-max", "8192",
                                                "--timeout", "600s", "--keys", path, NULL });
    printf(
        "%d short requests a second of a key by Poisson, alone and beside floods of other keys.\n",
        KEYED_PER_S);
    traffic_report_heading();
    for (size_t i = 0; i < sizeof floods / sizeof floods[0]; i++)
        if (strstr(floods[i].name, word))
            compare_flood(&server, &floods[i]);
    traffic_server_stop(&server);
}

int main(int argc, char **argv)
{
    char *directory = daemon_directory_create(), path[1024];
    const char *arguments[ADDITIVE_ARGUMENTS + 2] = { NULL };
    struct traffic_server server;
    traffic_report_open("fairness");
    snprintf(path, sizeof path, "%s/additive.safetensors", directory);
    memcpy((void *)arguments, (const void *)ADDITIVE, sizeof ADDITIVE);
    arguments[ADDITIVE_ARGUMENTS] = path;
    struct daemon_result made = daemon_command(arguments, NULL);
    daemon_result_free(&made);
    traffic_server_start(&server, (const char *const[]){ "--models", directory, "--body-max",
                                                         "256MiB", "--timeout", "600s", NULL });
    printf("%d short requests a second by Poisson, alone and beside long jobs.\n", SHORT_PER_S);
    traffic_report_heading();
    for (size_t i = 0; i < sizeof long_jobs / sizeof long_jobs[0]; i++)
        if (argc < 2 || strstr(long_jobs[i].name, argv[1]))
            compare(&server, &long_jobs[i]);
    traffic_server_stop(&server);
    compare_keys(directory, argc < 2 ? "" : argv[1]);
    daemon_directory_remove(directory);
    return 0;
}
