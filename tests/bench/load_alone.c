/* SPDX-License-Identifier: Apache-2.0 */
/* load_alone.c - one request at a time with tensors as bytes, 512 x 64, over TCP, over a Unix
 * socket and over a Unix socket with the tensors in shared memory, beside the cost that no server
 * can save: the kernel's own time and two copies of the bytes.
 *
 *     load_alone [ROUNDS]      15 rounds without a number
 *
 * Each round measures the kernel, the copies, each way for ATTND_LOAD_SECONDS (0.4), and a server
 * that only receives and sends the same bytes by the same way; the medians count, of the ratios
 * too. With shared memory the tensors lie where the client computes with them, so it copies
 * none. */
#include "own.h"
#include "traffic_report.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LENGTH = 512, HEAD_DIM = 64, TENSOR_BYTES = LENGTH * HEAD_DIM * 4 };
enum { KERNEL_RUNS = 15, ROUNDS_MAX = 101 };

enum { TCP, UNIX, SHARED, WAYS };

static const struct way {
    const char *name;
    double goal;                /* of the kernel and two copies */
    size_t in_bytes, out_bytes; /* of tensors that go over the socket */
} WAY_LIST[WAYS] = {
    [TCP] = { "TCP", 1.5, 3 * TENSOR_BYTES, TENSOR_BYTES },
    [UNIX] = { "Unix socket", 0, 3 * TENSOR_BYTES, TENSOR_BYTES },
    [SHARED] = { "Unix, shared memory", 1.15, 0, 0 },
};

static char folder[] = "/tmp/attnd-alone-XXXXXX";
static char daemon_path[64], echo_path[64], region_key[64];

/* ----------------------------------------------------- what cannot be saved -- */

/* Milliseconds of the kernel with two threads, or with one where that is faster. */
static double kernel_ms(void)
{
    double best_ms = 1e9;
    for (int threads = 1; threads <= 2; threads++) {
        const struct bench_shape shape = { 1, 1, 1, LENGTH, LENGTH, HEAD_DIM, 0, threads };
        double seconds[KERNEL_RUNS];
        struct own own;
        own_init(&own, &shape);
        own_plan(&own);
        for (int i = 0; i < KERNEL_RUNS; i++)
            seconds[i] = own_time(&own);
        own_free(&own);
        const double ms = median(seconds, KERNEL_RUNS) * 1e3;
        best_ms = ms < best_ms ? ms : best_ms;
    }
    return best_ms;
}

/* Milliseconds of copying twice the bytes of a request and its answer. */
static double two_copies_ms(void)
{
    enum { BYTES = 4 * TENSOR_BYTES };
    static char from[BYTES], to[BYTES];
    double seconds[KERNEL_RUNS];
    for (int i = 0; i < KERNEL_RUNS; i++) {
        from[i] = (char)(i + 1);
        const double begin = now_s(2);
        memcpy(to, from, BYTES);
        memcpy(from, to, BYTES);
        seconds[i] = now_s(2) - begin;
        if (from[i] != (char)(i + 1))
            abort();
    }
    return median(seconds, KERNEL_RUNS) * 1e3;
}

/* --------------------------------------------- a server that computes nothing -- */

/* Reads in_bytes and answers with out_bytes, until the client is gone. */
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

static int listen_unix(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", echo_path);
    unlink(echo_path);
    if (made < 0 || bind(made, (struct sockaddr *)&address, sizeof address) != 0
        || listen(made, 16) != 0) {
        perror(echo_path);
        exit(1);
    }
    return made;
}

/* ------------------------------------------------------------------- rounds -- */

static double latency_ms(struct traffic_load *load)
{
    struct traffic_result result;
    load->request_count = load->callers = 1;
    traffic_run(load, &result);
    const double ms = traffic_samples_quantile(&result.latency_ms, 0.5);
    if (result.good == 0) {
        fprintf(stderr, "no answer of 200\n");
        exit(1);
    }
    traffic_result_free(&result);
    return ms;
}

static double echo_ms(int way, const struct traffic_request *request)
{
    struct traffic_load load = { .requests = request, .seconds = 0.1 };
    load.unix_path = way == TCP ? NULL : echo_path;
    const int listening = way == TCP ? traffic_listen(&load.port) : listen_unix();
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0)
        echo(listening, request->size, WAY_LIST[way].out_bytes);
    close(listening);
    const double ms = latency_ms(&load);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return ms;
}

static struct rounds {
    double kernel[ROUNDS_MAX], copies[ROUNDS_MAX];
    double ms[WAYS][ROUNDS_MAX], echo[WAYS][ROUNDS_MAX], ratio[WAYS][ROUNDS_MAX];
} rounds;

static void measure(int round, int port, const struct traffic_request requests[WAYS])
{
    rounds.kernel[round] = kernel_ms();
    rounds.copies[round] = two_copies_ms();
    const double floor_ms = rounds.kernel[round] + rounds.copies[round];
    for (int i = 0; i < WAYS; i++) {
        const int way = (round + i) % WAYS;
        struct traffic_load load = { .port = port,
                                     .unix_path = way == TCP ? NULL : daemon_path,
                                     .requests = &requests[way],
                                     .seconds = traffic_seconds(0.4) };
        rounds.ms[way][round] = latency_ms(&load);
        rounds.echo[way][round] = echo_ms(way, &requests[way]);
        rounds.ratio[way][round] = rounds.ms[way][round] / floor_ms;
    }
}

static void report(int count)
{
    const double kernel = median(rounds.kernel, count), copies = median(rounds.copies, count);
    printf("512 x 64 as bytes, one at a time: the kernel %.3f ms, two copies %.3f ms\n%-20s %8s "
           "%8s %6s %22s\n",
           kernel, copies, "", "ms", "of both", "goal", "to and fro alone, ms");
    traffic_report_figure("kernel_ms", kernel, "ms");
    traffic_report_figure("two_copies_ms", copies, "ms");
    for (int way = 0; way < WAYS; way++) {
        const struct way *described = &WAY_LIST[way];
        const double ms = median(rounds.ms[way], count), ratio = median(rounds.ratio[way], count);
        char name[64], goal[16] = "-";
        if (described->goal > 0)
            snprintf(goal, sizeof goal, "%.2f", described->goal);
        printf("%-20s %8.3f %8.2f %6s %22.3f\n", described->name, ms, ratio, goal,
               median(rounds.echo[way], count));
        snprintf(name, sizeof name, "alone over %s", described->name);
        traffic_report_figure(name, ms, "ms");
        snprintf(name, sizeof name, "alone over %s, of kernel and copies", described->name);
        traffic_report_figure(name, ratio, "ratio");
    }
}

/* ------------------------------------------------------------------ beginning -- */

/* Makes the shared memory with the three inputs, and has the daemon register it. */
static void make_region(int port)
{
    char body[160];
    snprintf(region_key, sizeof region_key, "/attnd-alone-%d", (int)getpid());
    const int file = shm_open(region_key, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    float *numbers =
        file < 0 || ftruncate(file, 4 * TENSOR_BYTES) != 0
            ? MAP_FAILED
            : mmap(NULL, 4 * TENSOR_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (numbers == MAP_FAILED) {
        perror(region_key);
        exit(1);
    }
    bench_fill(numbers, 3 * LENGTH * HEAD_DIM, BENCH_QUERY);
    munmap(numbers, 4 * TENSOR_BYTES);
    close(file);
    snprintf(body, sizeof body, "{\"key\":\"%s\",\"byte_size\":%d}", region_key, 4 * TENSOR_BYTES);
    struct traffic_request request =
        traffic_json("/v2/systemsharedmemory/region/alone/register", body, 0);
    traffic_try(port, &request, 1);
    traffic_requests_free(&request, 1);
}

int main(int argc, char **argv)
{
    const int count = argc > 1 ? atoi(argv[1]) : 15;
    const struct traffic_shape shape = { 1, LENGTH, HEAD_DIM };
    char listen_at[80];
    struct traffic_server server;
    if (count < 1 || count > ROUNDS_MAX || !mkdtemp(folder))
        return 1;
    snprintf(daemon_path, sizeof daemon_path, "%s/attnd.sock", folder);
    snprintf(echo_path, sizeof echo_path, "%s/echo.sock", folder);
    snprintf(listen_at, sizeof listen_at, "unix:%s", daemon_path);
    traffic_report_open("alone");
    traffic_server_start(&server,
                         (const char *const[]){ "--listen", listen_at, "--shared-memory-prefix",
                                                "attnd-alone-", NULL });
    make_region(server.port);
    struct traffic_request requests[WAYS] = {
        traffic_attention_binary(shape, 0),
        traffic_attention_binary(shape, 0),
        traffic_attention_shared(shape, "alone"),
    };
    traffic_try(server.port, requests, WAYS);
    for (int round = 0; round < count; round++)
        measure(round, server.port, requests);
    report(count);
    traffic_requests_free(requests, WAYS);
    traffic_server_stop(&server);
    shm_unlink(region_key);
    unlink(echo_path);
    unlink(daemon_path);
    return rmdir(folder) != 0;
}
