/* load_fairness.c - short requests while a long one runs: their p99 beside the p99 that they
 * have when the daemon has no other request.
 *
 * Short requests of about a millisecond of computing arrive by Poisson. First they are alone.
 * Then another client asks for one long job after another: self-attention over a sequence so
 * long that it takes half a minute, the score function that costs the most, answers in JSON that
 * are all map. Then that client leaves, which ends its job. The clients are on the same CPUs.
 * ATTND_LOAD_SECONDS is the time of each row (4). A word as argument picks the long jobs that
 * have it in their names. */
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

enum { SHORT_LENGTH = 640, SHORT_PER_S = 120, LONG_LENGTH = 147456, MAP_LENGTH = 3900 };

static const double GOAL = 3;

static const char *const ADDITIVE[] = { "model", "new",      "--attention", "additive", "--d-model",
                                        "64",    "--hidden", "512",         "--seed",   "1" };
enum { ADDITIVE_ARGUMENTS = sizeof ADDITIVE / sizeof ADDITIVE[0] };

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
    const struct traffic_row row = { "binary 640x64", point, 0, 0 };
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
    daemon_directory_remove(directory);
    return 0;
}
