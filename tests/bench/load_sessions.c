/* SPDX-License-Identifier: Apache-2.0 */
/* load_sessions.c - how fast sessions decode, beside the kernel alone and beside reading memory.
 *
 *     load_sessions [WORD] [ROUNDS]      all of them, 11 rounds, without words
 *
 * step    one step over 32 768 keys, for each dtype, over HTTP, beside the kernel alone with the
 *         same number of threads, the same bytes read, and torch
 * side    a step of 64 sessions in one request, as a file and as JSON, beside the kernel alone and
 *         reading; and beside 64 clients that send their past to /v1/attention
 * forks   64 forks of one session: bytes held, and a step of all in one request beside 64 requests
 * tokens  1000 tokens of stories260K, all layers in one request: the time of a token by its place
 * move    1000 sessions of 1 MB to another daemon by a drain: seconds and bytes, at most 3 rounds
 *
 * What is compared runs in turns, and the medians count. Steps append, so a cache grows by a key a
 * round. */
#include "own.h"
#include "peers.h"
#include "traffic_call.h"
#include "traffic_report.h"
#include "traffic_sessions.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS_MAX = 101, KEYS = 32768, SESSIONS = 64, TOKENS = 1000, THREADS = 2 };

static const struct session_shape GROUPED = { 32, 8, 128 }, SINGLE = { 8, 8, 128 };

static int rounds = 11;

static struct bench_shape shape_of(struct session_shape shape, int batch, int keys)
{
    return (struct bench_shape){ batch, shape.q_heads, shape.kv_heads, 1, keys, shape.head_dim,
                                 0,     THREADS };
}

static double bytes_of(struct session_shape shape, int keys, int number_bytes)
{
    return 2.0 * shape.kv_heads * shape.head_dim * keys * number_bytes;
}

static void start(struct traffic_server *server, struct traffic_connection *connection)
{
    traffic_server_start(server,
                         (const char *const[]){ "--workers", "2", "--timeout", "600s",
                                                "--session-memory-max", "6GiB", "--body-max",
                                                "512MiB", "--models", "examples/models", NULL });
    traffic_call_open(connection, server->port);
}

static void stop(struct traffic_server *server, struct traffic_connection *connection)
{
    traffic_connection_close(connection);
    traffic_server_stop(server);
}

/* ------------------------------------------------------------------------------- a step -- */

static const struct dtype {
    const char *name;
    enum attn_dtype dtype;
    int bytes;
} DTYPES[] = {
    { "f32", ATTN_F32, 4 }, { "bf16", ATTN_BF16, 2 }, { "f16", ATTN_F16, 2 }, { "int8", ATTN_I8, 1 }
};

static struct peer torch = { .name = "torch",
                             .interpreter = "/usr/bin/python3",
                             .program = "peer_torch.py" };

static void measure_step(struct traffic_connection *connection, int port, const char *folder,
                         const struct dtype *dtype, bool has_torch)
{
    const struct bench_shape shape = shape_of(GROUPED, 1, KEYS);
    const bool has_kernel = dtype->dtype != ATTN_I8; /* its scales are made as rows come */
    double step_s[ROUNDS_MAX], own_s[ROUNDS_MAX], read_s[ROUNDS_MAX], torch_s[ROUNDS_MAX], sums[2];
    char idle[PEER_IDLE_BYTES];
    struct own own;
    if (!traffic_session_make(port, "sdpa", dtype->name, dtype->name))
        return;
    traffic_session_fill(port, dtype->name, GROUPED, KEYS);
    struct traffic_request request = traffic_step_binary(dtype->name, GROUPED);
    own_init(&own, &shape);
    if (has_kernel && dtype->dtype != ATTN_F32)
        own_narrow(&own, dtype->dtype);
    own_plan(&own);
    has_torch = has_torch && dtype->dtype == ATTN_F32 && peer_start(&torch, folder, THREADS)
                && peer_shape(&torch, &shape, sums);
    traffic_call(connection, &request);
    for (int i = 0; i < rounds; i++) {
        own_s[i] = has_kernel ? own_time(&own) : 0;
        step_s[i] = traffic_call(connection, &request);
        read_s[i] = own_time_read(&own);
        if (has_torch)
            has_torch = peer_time(&torch, 1, &torch_s[i]);
    }
    const double step = median(step_s, rounds), kernel = median(own_s, rounds);
    const double per_s = bytes_of(GROUPED, KEYS, 4) / median(read_s, rounds);
    printf("%-5s %8.2f ms, %.1f GB/s, %.2f of reading", dtype->name, step * 1e3,
           bytes_of(GROUPED, KEYS, dtype->bytes) / step * 1e-9,
           bytes_of(GROUPED, KEYS, dtype->bytes) / step / per_s);
    if (has_kernel)
        printf("; the kernel alone %.2f: %.3f x (goal 1.10)", kernel * 1e3, step / kernel);
    if (has_torch && peer_was_busy(&torch)) {
        printf("; torch %.2f ms, %.1f x", median(torch_s, rounds) * 1e3,
               median(torch_s, rounds) / step);
    } else if (has_torch) {
        peer_describe_idle(idle, torch.cpu_s, peer_could_of(&torch));
        printf("; torch %s", idle);
    }
    printf("\n");
    traffic_report_figure(dtype->name, has_kernel ? step / kernel : step, has_kernel ? "x" : "s");
    peer_stop(&torch);
    own_free(&own);
    traffic_requests_free(&request, 1);
    traffic_session_delete(port, dtype->name);
}

static void step(const char *folder)
{
    struct traffic_server server;
    struct traffic_connection connection;
    start(&server, &connection);
    printf("a step over %d keys of 32 and 8 heads x 128, %d workers\n", KEYS, THREADS);
    for (size_t i = 0; i < sizeof DTYPES / sizeof DTYPES[0]; i++)
        measure_step(&connection, server.port, folder, &DTYPES[i], true);
    stop(&server, &connection);
}

/* -------------------------------------------------------------------------- side by side -- */

static double steps_with_past_per_s(struct traffic_server *server, int keys)
{
    struct traffic_request request = traffic_step_with_past(GROUPED, keys);
    const struct traffic_load load = { .port = server->port,
                                       .requests = &request,
                                       .request_count = 1,
                                       .seconds = traffic_seconds(3),
                                       .callers = SESSIONS };
    struct traffic_result result;
    traffic_run(&load, &result);
    const double per_s = traffic_good_per_s(&result);
    traffic_result_free(&result);
    traffic_requests_free(&request, 1);
    return per_s;
}

static void measure_side(struct traffic_server *server, struct traffic_connection *connection,
                         int keys, bool has_past)
{
    const struct bench_shape shape = shape_of(GROUPED, SESSIONS, keys);
    double step_s[ROUNDS_MAX], text_s[ROUNDS_MAX], own_s[ROUNDS_MAX], read_s[ROUNDS_MAX];
    struct own own;
    char id[32];
    for (int i = 0; i < SESSIONS; i++) {
        snprintf(id, sizeof id, "s%d", i);
        traffic_session_make(server->port, "sdpa", id, "f32");
        traffic_session_fill(server->port, id, GROUPED, keys);
    }
    struct traffic_request requests[] = { traffic_step_batch_binary("s", SESSIONS, GROUPED),
                                          traffic_step_batch("s", SESSIONS, GROUPED) };
    own_init(&own, &shape);
    own_plan(&own);
    traffic_call(connection, &requests[0]);
    for (int i = 0; i < rounds; i++) {
        own_s[i] = own_time(&own);
        step_s[i] = traffic_call(connection, &requests[0]);
        text_s[i] = traffic_call(connection, &requests[1]);
        read_s[i] = own_time_read(&own);
    }
    const double step = median(step_s, rounds), read = median(read_s, rounds);
    own_free(&own);
    printf("%5d keys: %8.2f ms a request, %.0f steps/s; the kernel alone %.2f ms; %.2f of reading "
           "(goal 0.85); as JSON %.2f ms",
           keys, step * 1e3, SESSIONS / step, median(own_s, rounds) * 1e3, read / step,
           median(text_s, rounds) * 1e3);
    if (has_past) {
        const double past_per_s = steps_with_past_per_s(server, keys);
        printf("; with the past %.0f steps/s: %.1f x (goal 10)", past_per_s,
               SESSIONS / step / past_per_s);
    }
    printf("\n");
    traffic_requests_free(requests, 2);
    for (int i = 0; i < SESSIONS; i++) {
        snprintf(id, sizeof id, "s%d", i);
        traffic_session_delete(server->port, id);
    }
}

static void side(void)
{
    struct traffic_server server;
    struct traffic_connection connection;
    start(&server, &connection);
    printf("%d sessions in one request, as a file\n", SESSIONS);
    measure_side(&server, &connection, 512, true);
    measure_side(&server, &connection, 4096, false);
    stop(&server, &connection);
}

/* --------------------------------------------------------------------------------- forks -- */

static void measure_forks(struct traffic_server *server, struct traffic_connection *connection,
                          struct session_shape shape, const char *dtype)
{
    double batch_s[ROUNDS_MAX], single_s[ROUNDS_MAX];
    struct traffic_request requests[SESSIONS];
    char id[32];
    traffic_session_make(server->port, "sdpa", "f0", dtype);
    traffic_session_fill(server->port, "f0", shape, KEYS);
    const double one = traffic_session_bytes(server->port);
    for (int i = 1; i < SESSIONS; i++) {
        snprintf(id, sizeof id, "f%d", i);
        traffic_session_fork(server->port, "f0", id);
    }
    const double all = traffic_session_bytes(server->port);
    struct traffic_request batch = traffic_step_batch("f", SESSIONS, shape);
    for (int i = 0; i < SESSIONS; i++) {
        snprintf(id, sizeof id, "f%d", i);
        requests[i] = traffic_step_json(id, shape);
    }
    for (int round = -1; round < rounds; round++) {
        const int at = round < 0 ? 0 : round;
        batch_s[at] = traffic_call(connection, &batch);
        single_s[at] = 0;
        for (int i = 0; i < SESSIONS; i++)
            single_s[at] += traffic_call(connection, &requests[i]);
    }
    const double held = traffic_session_bytes(server->port);
    const double together = median(batch_s, rounds), apart = median(single_s, rounds);
    printf("%d and %d heads, %s: %.4f x the bytes of one (goal 1.01), %.4f with %d keys more each; "
           "%.1f ms in one request, %.1f in %d: %.2f x (goal 8)\n",
           shape.q_heads, shape.kv_heads, dtype, all / one, held / one, 2 * rounds + 2,
           together * 1e3, apart * 1e3, SESSIONS, apart / together);
    traffic_report_figure("forks", apart / together, "x");
    traffic_requests_free(requests, SESSIONS);
    traffic_requests_free(&batch, 1);
    for (int i = 0; i < SESSIONS; i++) {
        snprintf(id, sizeof id, "f%d", i);
        traffic_session_delete(server->port, id);
    }
}

static void forks(void)
{
    struct traffic_server server;
    struct traffic_connection connection;
    start(&server, &connection);
    printf("%d forks of %d keys\n", SESSIONS, KEYS);
    measure_forks(&server, &connection, GROUPED, "f32");
    measure_forks(&server, &connection, GROUPED, "bf16");
    measure_forks(&server, &connection, SINGLE, "f32");
    measure_forks(&server, &connection, SINGLE, "bf16");
    stop(&server, &connection);
}

/* -------------------------------------------------------------------------------- tokens -- */

/* CPU time of a process: on a busy machine the clock says little of calls this short. */
static double cpu_s(pid_t pid)
{
    struct timespec time = { .tv_sec = 0 };
    clockid_t clock;
    if (clock_getcpuclockid(pid, &clock) == 0)
        clock_gettime(clock, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void tokens(void)
{
    enum { LAYERS = 5, WIDTH = 64, WINDOW = 100 };
    struct traffic_server server;
    struct traffic_connection connection;
    static double seconds[TOKENS], used_s[TOKENS];
    start(&server, &connection);
    traffic_session_make(server.port, "stories260K", "t", "f32");
    struct traffic_request request = traffic_step_of_layers("t", LAYERS, WIDTH);
    for (int i = 0; i < TOKENS; i++) {
        const double before_s = cpu_s(server.pid);
        seconds[i] = traffic_call(&connection, &request);
        used_s[i] = cpu_s(server.pid) - before_s;
    }
    printf(
        "%d tokens of stories260K, %d layers each, by their place, medians of %d, of the clock and "
        "of CPU time:",
        TOKENS, LAYERS, WINDOW);
    double first = 0, last = 0;
    for (int i = 0; i < TOKENS; i += WINDOW) {
        last = median(used_s + i, WINDOW);
        first = i == 0 ? last : first;
        printf(" %.0f (%.0f)", median(seconds + i, WINDOW) * 1e6, last * 1e6);
    }
    printf(" us; the last %.2f x the CPU time of the first\n", last / first);
    traffic_report_figure("tokens", last / first, "x");
    traffic_requests_free(&request, 1);
    stop(&server, &connection);
}

/* ---------------------------------------------------------------------------------- move -- */

/* A drain of sessions of 1 MB to a new daemon. Returns the seconds; *bytes is what was sent. */
static double time_move(double *bytes)
{
    enum { MOVED = 1000, ROWS = 1024 };
    static const struct session_shape SHAPE = { 1, 1, 128 };
    struct traffic_server source, target;
    struct traffic_connection connection;
    char url[64], id[32];
    start(&target, &connection);
    traffic_connection_close(&connection);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", target.port);
    traffic_server_start(&source, (const char *const[]){ "--workers", "2", "--timeout", "600s",
                                                         "--session-memory-max", "6GiB",
                                                         "--body-max", "512MiB", "--replica",
                                                         "source", "--move-to", url, NULL });
    for (int i = 0; i < MOVED; i++) {
        snprintf(id, sizeof id, "s%d", i);
        traffic_session_make(source.port, "sdpa", id, "f32");
        traffic_session_fill(source.port, id, SHAPE, ROWS);
    }
    struct traffic_request request = traffic_json("/v1/sessions:drain", "{}", 0);
    traffic_call_open(&connection, source.port);
    const double seconds = traffic_call(&connection, &request);
    *bytes = traffic_session_bytes(target.port);
    const double left = traffic_session_bytes(source.port);
    if (left != 0)
        printf("%.0f bytes of sessions stay\n", left);
    traffic_requests_free(&request, 1);
    stop(&source, &connection);
    traffic_server_stop(&target);
    return seconds;
}

static void move(void)
{
    enum { MOVES_MAX = 3 };
    const int count = rounds < MOVES_MAX ? rounds : MOVES_MAX;
    double seconds[MOVES_MAX], bytes = 0;
    for (int i = 0; i < count; i++)
        seconds[i] = time_move(&bytes);
    const double middle = median(seconds, count);
    printf("a drain of 1000 sessions of 1 MB, median of %d: %.2f s, %.0f bytes there, "
           "%.0f MB/s\n",
           count, middle, bytes, bytes / middle * 1e-6);
    traffic_report_figure("move", middle, "s");
}

int main(int argc, char **argv)
{
    static const char *const WORDS[] = { "step", "side", "forks", "tokens", "move" };
    char program[1024];
    const char *word = "";
    for (int i = 1; i < argc; i++)
        if (atoi(argv[i]) > 0)
            rounds = atoi(argv[i]) < ROUNDS_MAX ? atoi(argv[i]) : ROUNDS_MAX;
        else
            word = argv[i];
    snprintf(program, sizeof program, "%s", argv[0]);
    traffic_report_open("sessions");
    if (!word[0] || strcmp(word, WORDS[0]) == 0)
        step(dirname(program));
    if (!word[0] || strcmp(word, WORDS[1]) == 0)
        side();
    if (!word[0] || strcmp(word, WORDS[2]) == 0)
        forks();
    if (!word[0] || strcmp(word, WORDS[3]) == 0)
        tokens();
    if (!word[0] || strcmp(word, WORDS[4]) == 0)
        move();
    return 0;
}
