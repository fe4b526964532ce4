/* SPDX-License-Identifier: Apache-2.0 */
/* load_start.c - how soon a daemon that has just been started answers, and what an idle one keeps
 * in memory.
 *
 *     load_start [ROUNDS]      15 rounds without a number
 *
 * Each round starts the daemon with a model of BERT-base's shape (12 layers of 12 heads, random
 * parameters as F32, 440 MB in the page cache) and sends a trace of 16 tokens, which asks for the
 * first layer's weights, on one connection after the other until one is answered. Then it starts a
 * daemon with the built-in models alone, waits, and adds up what /proc says: the resident memory
 * (RSS), which counts every page of the libraries, the same with shared pages counted by part
 * (PSS), and the part that is no file's. */
#include "own.h"
#include "traffic_call.h"
#include "traffic_checkpoint.h"
#include "traffic_report.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS_MAX = 101, TOKENS = 16, VOCABULARY = 30522, IDLE_US = 1500000, RETRY_US = 200 };

static const struct traffic_checkpoint BERT = { .layers = 12,
                                                .width = 768,
                                                .inner = 3072,
                                                .heads = 12,
                                                .vocabulary = VOCABULARY,
                                                .positions = 512 };
static const double START_MAX_S = 10, GOAL_MS = 60, GOAL_MIB = 12;

static pid_t begin_daemon(const char *models, int port)
{
    const char *program = daemon_program();
    char listen_at[32];
    snprintf(listen_at, sizeof listen_at, "127.0.0.1:%d", port);
    fflush(stdout);
    const pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    clearenv(); /* the daemon takes variables of ours for its flags */
    if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
        _exit(127);
    if (models)
        execl(program, program, "--models", models, "--listen", listen_at, NULL);
    else
        execl(program, program, "--listen", listen_at, NULL);
    _exit(127);
}

static void end_daemon(pid_t pid)
{
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
}

/* Whether the daemon answers with a 200; false where it does not listen, or loads its models. */
static bool is_answered(int port, const struct traffic_request *request)
{
    struct traffic_connection connection;
    enum traffic_step step = TRAFFIC_BROKEN;
    if (traffic_connection_open(&connection, port)) {
        traffic_connection_begin(&connection, request, 0);
        while ((step = traffic_connection_step(&connection)) == TRAFFIC_WAITS) {
            struct pollfd answer = { .fd = connection.descriptor, .events = POLLIN };
            poll(&answer, 1, 1);
        }
        traffic_connection_close(&connection);
    }
    return step == TRAFFIC_DONE && connection.status == 200;
}

/* Milliseconds from before fork() and exec() to the first answer. */
static double first_answer_ms(const char *models, const struct traffic_request *request)
{
    const int port = daemon_free_port();
    const double began = daemon_now();
    const pid_t pid = begin_daemon(models, port);
    while (!is_answered(port, request)) {
        if (daemon_now() - began > START_MAX_S) {
            int count;
            const char *bytes = traffic_connection_last_bytes(&count);
            fprintf(stderr, "the daemon does not answer:\n%.*s\n", count, bytes);
            exit(1);
        }
        usleep(RETRY_US);
    }
    const double ms = (daemon_now() - began) * 1e3;
    end_daemon(pid);
    return ms;
}

/* ------------------------------------------------------------------------ memory -- */

struct memory {
    double rss_kib, pss_kib, anonymous_kib;
};

static struct memory memory_of(pid_t pid)
{
    struct memory memory = { 0 };
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file) {
        perror(path);
        exit(1);
    }
    while (fgets(line, sizeof line, file)) {
        sscanf(line, "Rss: %lf", &memory.rss_kib);
        sscanf(line, "Pss: %lf", &memory.pss_kib);
        sscanf(line, "Anonymous: %lf", &memory.anonymous_kib);
    }
    fclose(file);
    return memory;
}

static void report_idle(void)
{
    const pid_t pid = begin_daemon(NULL, daemon_free_port());
    usleep(IDLE_US);
    const struct memory memory = memory_of(pid);
    end_daemon(pid);
    printf(
        "idle with the built-in models: %.2f MiB resident (goal %.0f), %.2f with shared pages by "
        "part, %.2f of no file\n",
        memory.rss_kib / 1024, GOAL_MIB, memory.pss_kib / 1024, memory.anonymous_kib / 1024);
    traffic_report_figure("idle, resident", memory.rss_kib / 1024, "MiB");
    traffic_report_figure("idle, shared pages by part", memory.pss_kib / 1024, "MiB");
    traffic_report_figure("idle, of no file", memory.anonymous_kib / 1024, "MiB");
}

int main(int argc, char **argv)
{
    const int asked = argc > 1 ? atoi(argv[1]) : 15;
    const int rounds = asked < 1 ? 1 : asked < ROUNDS_MAX ? asked : ROUNDS_MAX;
    double demo[ROUNDS_MAX], bert[ROUNDS_MAX];
    char *directory = daemon_directory_create(), path[1024];
    traffic_report_open("start");
    report_idle();
    snprintf(path, sizeof path, "%s/bert", directory);
    traffic_checkpoint_encoder(path, &BERT);
    struct traffic_request live = traffic_get("/livez");
    struct traffic_request trace = traffic_trace(
        "bert", TOKENS, VOCABULARY, "\"layers\":[0],\"weight_map\":{\"heads\":\"mean\"}", "");
    for (int i = 0; i < rounds; i++) {
        demo[i] = first_answer_ms(NULL, &live);
        bert[i] = first_answer_ms(directory, &trace);
    }
    printf("from exec to the first answer: /livez %.1f ms; a trace of %d tokens by a model of 12 x "
           "12 heads %.1f ms (goal %.0f)\n",
           median(demo, rounds), TOKENS, median(bert, rounds), GOAL_MS);
    traffic_report_figure("first answer, /livez", median(demo, rounds), "ms");
    traffic_report_figure("first answer, 12 x 12", median(bert, rounds), "ms");
    traffic_requests_free(&live, 1);
    traffic_requests_free(&trace, 1);
    daemon_directory_remove(directory);
    return 0;
}
