/* SPDX-License-Identifier: Apache-2.0 */
/* load_quota.c - a key that asks for ten times its budget of CPU time gets its budget.
 *
 *     load_quota [WORD]      the loads that have the word in their names; without one: all of them
 *
 * A key without limits shows what a request costs. Then requests of a key with a budget arrive by
 * Poisson, at ten times of what it pays for; those beyond it are refused with 429. After a while,
 * in which the key uses up what it has saved, three numbers are compared with the budget of the
 * time: what the daemon charged, by its page of metrics; and what the kernel says that its workers,
 * and all its threads, used. Workers also wait for jobs and hand answers over, which is charged to
 * nobody and weighs more the smaller a request is. Connection threads receive, send and refuse,
 * which is charged to nobody either. They run the smallest requests themselves, and a spare thread
 * runs some beside long ones: those are charged. ATTND_LOAD_SECONDS is the time of each load (20).
 */
#include "http_client.h"
#include "key_file.h"
#include "metrics_page.h"
#include "traffic_report.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZES_MAX = 3, OVERLOAD = 10, WORKER_NICE = 5, SAVED_S = 2, CALLERS = 256 };

static const double BUDGET = 0.2, GOAL = 0.03; /* CPU seconds a second; part of the budget */

static const struct key_line KEYS[] = {
    { "free", "infer" },
    { "metered", "infer cpu=0.2" },
    { "watcher", "metrics" },
    { NULL, NULL },
};

static const char *const ADDITIVE[] = { "model", "new",      "--attention", "additive", "--d-model",
                                        "64",    "--hidden", "512",         "--seed",   "1" };
enum { ADDITIVE_ARGUMENTS = sizeof ADDITIVE / sizeof ADDITIVE[0] };

static const struct workload {
    const char *name;
    bool is_json; /* attention as text, where most of the cost is to read and write; else additive
                     scores as bytes, where it is to compute */
    int size_count, rows[SIZES_MAX];
    double weights[SIZES_MAX];
} workloads[] = {
    { "additive 32x64", false, 1, { 32 }, { 1 } },
    { "additive mixed", false, SIZES_MAX, { 16, 48, 96 }, { 80, 15, 5 } },
    { "JSON 64x64", true, 1, { 64 }, { 1 } },
    { "JSON 512x64", true, 1, { 512 }, { 1 } },
};

static void make_requests(const struct workload *workload, const char *key,
                          struct traffic_request *requests)
{
    char header[200];
    snprintf(header, sizeof header, "X-Api-Key: %s", key_secret(key));
    for (int i = 0; i < workload->size_count; i++) {
        const struct traffic_shape shape = { 1, workload->rows[i], 64 };
        requests[i] = workload->is_json ? traffic_attention_json(shape, 0)
                                        : traffic_model_binary("additive", workload->rows[i], 64);
        requests[i].weight = workload->weights[i];
        traffic_add_header(&requests[i], header);
    }
}

/* ------------------------------------------------------------------- reading -- */

/* CPU seconds that were charged to a key. */
static double charged_s(struct http_client *client, const char *key)
{
    char series[100];
    struct metrics_page page = { 0 };
    const struct http_request request = { .path = "/metrics" };
    struct http_response response = key_expect(client, "watcher", &request, 200);
    snprintf(series, sizeof series, "attnd_key_cpu_seconds_total{key=\"%s\"}", key);
    metrics_page_read(&page, response.body);
    const double seconds = metrics_page_value(&page, series);
    metrics_page_free(&page);
    http_response_free(&response);
    return seconds;
}

/* Reads a file of a thread in /proc; "" where the thread has ended. */
static void read_thread(pid_t pid, const char *thread, const char *name, char text[1024])
{
    char path[300];
    snprintf(path, sizeof path, "/proc/%d/task/%s/%s", (int)pid, thread, name);
    FILE *file = fopen(path, "re");
    text[file ? fread(text, 1, 1023, file) : 0] = '\0';
    if (file)
        fclose(file);
}

static int nice_of(const char *stat)
{
    int nice = 0;
    const char *p = strrchr(stat, ')'); /* the end of field 2; nice is field 19 (proc(5)) */
    for (int field = 2; p && field < 19; field++)
        p = strchr(p + 1, ' ');
    if (p)
        nice = (int)strtol(p, NULL, 10);
    return nice;
}

/* CPU seconds that the threads of the daemon used, those that are at least so nice. Workers are
 * nicer than all others. */
static double threads_s(pid_t pid, int nice_min)
{
    char path[64], text[1024];
    double sum_ns = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        if (task->d_name[0] == '.')
            continue;
        read_thread(pid, task->d_name, "stat", text);
        if (nice_of(text) < nice_min)
            continue;
        read_thread(pid, task->d_name, "schedstat", text);
        sum_ns += strtod(text, NULL);
    }
    if (tasks)
        closedir(tasks);
    return sum_ns / 1e9;
}

/* ----------------------------------------------------------------- measuring -- */

struct reading {
    double now, charged, workers, daemon;
};

static struct reading read_all(const struct traffic_server *server, struct http_client *client)
{
    return (struct reading){ daemon_now(), charged_s(client, "metered"),
                             threads_s(server->pid, WORKER_NICE), threads_s(server->pid, -20) };
}

/* CPU seconds of a request, by what a key without limits is charged. */
static double request_s(struct traffic_server *server, struct http_client *client,
                        const struct workload *workload)
{
    struct traffic_request requests[SIZES_MAX];
    struct traffic_result result;
    make_requests(workload, "free", requests);
    traffic_try(server->port, requests, workload->size_count);
    const double before = charged_s(client, "free");
    traffic_run(&(struct traffic_load){ .port = server->port,
                                        .requests = requests,
                                        .request_count = workload->size_count,
                                        .seconds = 1,
                                        .callers = 2 },
                &result);
    const double spent = charged_s(client, "free") - before;
    const double answers_per_s = (double)result.statuses[200] / result.seconds;
    const double elapsed = result.elapsed_s;
    traffic_result_free(&result);
    traffic_requests_free(requests, workload->size_count);
    return spent / elapsed / answers_per_s;
}

static void print_part(const char *workload, const char *what, double used, double budget)
{
    char name[100];
    snprintf(name, sizeof name, "%s, %s of the budget", workload, what);
    printf("  %-20s %-28s %7.3f s of %.3f s: %.3f x\n", workload, what, used, budget,
           used / budget);
    traffic_report_figure(name, used / budget, "x");
}

static void overload(struct traffic_server *server, struct http_client *client,
                     const struct workload *workload)
{
    struct traffic_request requests[SIZES_MAX];
    struct traffic_result result;
    const double cost_s = request_s(server, client, workload);
    make_requests(workload, "metered", requests);
    struct traffic_load load = { .port = server->port,
                                 .requests = requests,
                                 .request_count = workload->size_count,
                                 .seconds = SAVED_S,
                                 .rate = OVERLOAD * BUDGET / cost_s,
                                 .callers = CALLERS };
    traffic_run(&load, &result); /* uses up what was saved */
    traffic_result_free(&result);
    load.seconds = traffic_seconds(20);
    const struct reading before = read_all(server, client);
    traffic_measure(server, &load,
                    &(struct traffic_row){ .workload = workload->name, .point = "10 budgets" },
                    &result);
    const struct reading after = read_all(server, client);
    const double budget = BUDGET * (after.now - before.now);
    const double charged = after.charged - before.charged;
    printf("  %-20s a request costs %.3f ms\n", workload->name, cost_s * 1e3);
    print_part(workload->name, "charged", charged, budget);
    print_part(workload->name, "used by the workers", after.workers - before.workers, budget);
    print_part(workload->name, "used by all threads", after.daemon - before.daemon, budget);
    printf("  %-20s goal for what is charged: 1 +- %.2f: %s\n", workload->name, GOAL,
           charged > (1 - GOAL) * budget && charged < (1 + GOAL) * budget ? "met" : "missed");
    traffic_result_free(&result);
    traffic_requests_free(requests, workload->size_count);
}

int main(int argc, char **argv)
{
    char *directory = daemon_directory_create(), path[1024], keys[1024];
    const char *arguments[ADDITIVE_ARGUMENTS + 2] = { NULL };
    struct traffic_server server;
    struct http_client client;
    traffic_report_open("quota");
    snprintf(path, sizeof path, "%s/additive.safetensors", directory);
    memcpy((void *)arguments, (const void *)ADDITIVE, sizeof ADDITIVE);
    arguments[ADDITIVE_ARGUMENTS] = path;
    struct daemon_result made = daemon_command(arguments, NULL);
    daemon_result_free(&made);
    snprintf(keys, sizeof keys, "%s/keys", directory);
    key_file_write(keys, KEYS);
    traffic_server_start(&server,
                         (const char *const[]){ "--models", directory, "--keys", keys, NULL });
    http_client_init(&client, server.port);
    printf("A key with %.1f CPU seconds a second asks for %d times as much.\n", BUDGET, OVERLOAD);
    traffic_report_heading();
    for (size_t i = 0; i < sizeof workloads / sizeof workloads[0]; i++)
        if (argc < 2 || strstr(workloads[i].name, argv[1]))
            overload(&server, &client, &workloads[i]);
    http_client_free(&client);
    traffic_server_stop(&server);
    daemon_directory_remove(directory);
    return 0;
}
