/* load_capacity.c - how many requests a second a server carries, from the smallest request to
 * one that is all computing, in a closed loop with the client on the same CPUs; and the same for
 * what people write otherwise.
 *
 *     load_capacity [attnd|fastapi|cjson]      without a name: all of them
 *
 * One request at a time with tensors as bytes is compared with the cost that no server can save:
 * the kernel's own time and two copies of the bytes. It is also compared with a server that only
 * receives and sends the same bytes. ATTND_LOAD_SECONDS is the time of each row (2). */
#include "own.h"
#include "traffic_report.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ON_ATTND = 1, ON_FASTAPI = 2, ON_CJSON = 4, EVERYWHERE = 7, ROUNDS = 101 };

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
enum { ROWS = sizeof rows / sizeof rows[0], ALONE = ROWS - 1 };

static struct traffic_request make_request(const struct row *row)
{
    const struct traffic_shape shape = { 1, row->length, 64 };
    if (row->length == 0)
        return row->is_binary ? traffic_get("/livez") : traffic_json("/v1/attention", DEMO, 0);
    return row->is_binary ? traffic_attention_binary(shape, 0) : traffic_attention_json(shape, 0);
}

/* ----------------------------------------------------- what cannot be saved -- */

/* Milliseconds of the kernel with two threads, or with one where that is faster. */
static double kernel_ms(void)
{
    double best_ms = 1e9;
    for (int threads = 1; threads <= 2; threads++) {
        const struct bench_shape shape = { 1, 1, 1, 512, 512, 64, 0, threads };
        double seconds[ROUNDS];
        struct own own;
        own_init(&own, &shape);
        own_plan(&own);
        for (int i = 0; i < ROUNDS; i++)
            seconds[i] = own_time(&own);
        own_free(&own);
        const double ms = median(seconds, ROUNDS) * 1e3;
        best_ms = ms < best_ms ? ms : best_ms;
    }
    return best_ms;
}

/* Milliseconds of copying twice the bytes of a request and its answer. */
static double two_copies_ms(size_t bytes)
{
    double seconds[ROUNDS];
    char *from = calloc(1, bytes), *to = calloc(1, bytes);
    if (!from || !to)
        abort();
    for (int i = 0; i < ROUNDS; i++) {
        from[i] = (char)i;
        const double begin = now_s(2);
        memcpy(to, from, bytes);
        memcpy(from, to, bytes);
        seconds[i] = now_s(2) - begin;
        if (from[i] != (char)i)
            abort();
    }
    free(from);
    free(to);
    return median(seconds, ROUNDS) * 1e3;
}

/* Serves a socket: reads in_bytes and answers with out_bytes, until the client is gone. */
static void echo(int listening, size_t in_bytes, size_t out_bytes)
{
    const int connection = accept(listening, NULL, NULL);
    char *bytes = calloc(1, in_bytes + out_bytes + 256);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!bytes)
        _exit(1);
    const int head =
        snprintf(bytes, 256, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", out_bytes);
    for (;;) {
        for (size_t got = 0; got < in_bytes;) {
            const ssize_t count = recv(connection, bytes + head + out_bytes, in_bytes - got, 0);
            if (count <= 0)
                _exit(0);
            got += (size_t)count;
        }
        for (size_t sent = 0; sent < (size_t)head + out_bytes;) {
            const ssize_t count =
                send(connection, bytes + sent, (size_t)head + out_bytes - sent, MSG_NOSIGNAL);
            if (count <= 0)
                _exit(0);
            sent += (size_t)count;
        }
    }
}

/* Milliseconds of a request to a server that only reads and writes. */
static double echo_ms(const struct traffic_request *request, size_t out_bytes)
{
    struct traffic_load load = {
        .requests = request, .request_count = 1, .seconds = 0.3, .callers = 1
    };
    struct traffic_result result;
    const int listening = traffic_listen(&load.port);
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0)
        echo(listening, request->size, out_bytes);
    close(listening);
    traffic_run(&load, &result);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    const double ms = traffic_samples_quantile(&result.latency_ms, 0.5);
    traffic_result_free(&result);
    return ms;
}

static void compare_alone(const struct traffic_request *request, struct traffic_result *result)
{
    const size_t out_bytes = sizeof(float[512][64]), in_bytes = 3 * out_bytes;
    const double ms = traffic_samples_quantile(&result->latency_ms, 0.5);
    const double compute_ms = traffic_samples_quantile(&result->compute_ms, 0.5);
    const double kernel = kernel_ms(), copies = two_copies_ms(in_bytes + out_bytes);
    const double echoed = echo_ms(request, out_bytes);
    printf(
        "%s, one at a time: %.3f ms = %.2f x (the kernel's %.3f + two copies' %.3f); goal 1.15.\n"
        "Server-Timing says %.3f ms of computing; the same bytes to and fro and nothing else take "
        "%.3f ms.\n",
        rows[ALONE].name, ms, ms / (kernel + copies), kernel, copies, compute_ms, echoed);
    traffic_report_figure("alone_ms", ms, "ms");
    traffic_report_figure("alone_compute_ms", compute_ms, "ms");
    traffic_report_figure("kernel_ms", kernel, "ms");
    traffic_report_figure("two_copies_ms", copies, "ms");
    traffic_report_figure("echo_ms", echoed, "ms");
}

/* ------------------------------------------------------------------- rates -- */

static void measure(struct traffic_server *server, int kind)
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
        if (rows[i].servers & kind) {
            traffic_try(server->port, &request, 1);
            traffic_measure(server, &load, &row, &result);
            if (i == ALONE && kind == ON_ATTND)
                compare_alone(&request, &result);
            traffic_result_free(&result);
        }
        traffic_requests_free(&request, 1);
    }
    traffic_server_stop(server);
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "";
    struct traffic_server server;
    traffic_report_open("capacity");
    printf("Closed loops, the client on the same CPUs; \"of cap\" is of the goal.\n");
    traffic_report_heading();
    if (!*only || strcmp(only, "attnd") == 0) {
        traffic_server_start(&server, NULL);
        measure(&server, ON_ATTND);
    }
    for (int processes = 1; processes <= 2; processes++)
        if ((!*only || strcmp(only, "fastapi") == 0)
            && traffic_server_start_fastapi(&server, processes))
            measure(&server, ON_FASTAPI);
    if ((!*only || strcmp(only, "cjson") == 0) && traffic_server_start_cjson(&server))
        measure(&server, ON_CJSON);
    return 0;
}
