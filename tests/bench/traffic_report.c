/* SPDX-License-Identifier: Apache-2.0 */
/* traffic_report.c - see traffic_report.h. */
#include "traffic_report.h"

#include "machine.h"
#include "peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static FILE *lines;

/* Others may take this part of one CPU from a load that counts; the pause before another try. */
static const double OTHERS_MAX = 0.12;
enum { PAUSE_US = 400000 };

void traffic_report_open(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "build/load_%s.jsonl", name);
    lines = fopen(path, "we");
    if (!lines)
        printf("%s cannot be written: no JSON lines\n", path);
    setvbuf(stdout, NULL, _IOLBF, 0);
}

double traffic_good_per_s(const struct traffic_result *result)
{
    return (double)result->good / result->seconds;
}

double traffic_good_bytes_per_s(const struct traffic_result *result)
{
    return result->good_bytes / result->seconds;
}

/* The share of the goal or of the capacity that the result reaches; 0 if there is neither. */
static double part_of_whole(const struct traffic_row *row, const struct traffic_result *result)
{
    if (row->capacity_bytes_per_s > 0)
        return traffic_good_bytes_per_s(result) / row->capacity_bytes_per_s;
    return row->goal_per_s > 0 ? traffic_good_per_s(result) / row->goal_per_s : 0;
}

double traffic_seconds(double fallback)
{
    const char *text = getenv("ATTND_LOAD_SECONDS");
    const double seconds = text ? strtod(text, NULL) : 0;
    return seconds > 0 ? seconds : fallback;
}

void traffic_report_heading(void)
{
    printf("\n%-19s %-15s %-7s %9s %9s %6s %7s %7s %8s %8s %8s %13s %7s  %s\n", "server",
           "requests", "load", "offered/s", "good/s", "of cap", "at best", "of that", "p50 ms",
           "p99 ms", "p99.9 ms", "CPU: srv/gen/o", "late ms", "not 200");
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

double traffic_could_s(int server_cpus, int machine_cpus, int callers,
                       const struct traffic_result *result)
{
    const double server_s = least(server_cpus, callers) * result->elapsed_s;
    const double left_s = least(machine_cpus, callers) * result->elapsed_s - result->cpu_s;
    return server_s < left_s ? server_s : left_s;
}

/* What a server takes in an open loop is for the load to say, and the daemon is held to goals. */
static void print_idle(const struct traffic_server *server, const struct traffic_load *load,
                       const struct traffic_result *result)
{
    char idle[PEER_IDLE_BYTES];
    if (load->rate > 0 || server->daemon.pid > 0
        || peer_is_busy(result->server_cpu_s, result->could_s))
        return;
    peer_describe_idle(idle, result->server_cpu_s, result->could_s);
    printf(" %s", idle);
}

static void print_others(const struct traffic_result *result)
{
    const double percent = result->arrived ? 100.0 / (double)result->arrived : 0;
    const struct {
        const char *name;
        int64_t count;
    } others[] = { { "no answer", result->abandoned },
                   { "broken", result->broken },
                   { "not sent", result->unsent } };
    const int64_t late = result->statuses[200] - result->good;
    if (late > 0)
        printf(" late %.1f%%", (double)late * percent);
    for (int status = 0; status < TRAFFIC_STATUS_MAX; status++)
        if (status != 200 && result->statuses[status])
            printf(" %d %.1f%%", status, (double)result->statuses[status] * percent);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (others[i].count)
            printf(" %s %.1f%%", others[i].name, (double)others[i].count * percent);
    printf("\n");
}

/* What a load cost besides its requests. */
struct cost {
    double others_cpu_s;
    double quantiles_ms[3], late_ms;
};

static void write_line(const struct traffic_server *server, const struct traffic_load *load,
                       const struct traffic_row *row, const struct traffic_result *result,
                       const struct cost *cost)
{
    if (!lines)
        return;
    fprintf(lines,
            "{\"server\":\"%s\",\"workload\":\"%s\",\"point\":\"%s\",\"seconds\":%g,"
            "\"offered_per_s\":%.1f,\"of_capacity\":%.4f,\"possible\":%.4f,\"good_per_s\":%.1f,"
            "\"p50_ms\":%.4f,\"p99_ms\":%.4f,\"p999_ms\":%.4f,\"server_cpu_s\":%.3f,"
            "\"server_could_s\":%.3f,"
            "\"generator_cpu_s\":%.3f,\"others_cpu_s\":%.3f,\"elapsed_s\":%.3f,"
            "\"late_p99_ms\":%.4f,\"arrived\":%lld,\"good\":%lld,\"abandoned\":%lld,"
            "\"broken\":%lld,\"unsent\":%lld,\"statuses\":{",
            server->name, row->workload, row->point, result->seconds, load->rate,
            part_of_whole(row, result), row->possible, traffic_good_per_s(result),
            cost->quantiles_ms[0], cost->quantiles_ms[1], cost->quantiles_ms[2],
            result->server_cpu_s, result->could_s, result->cpu_s, cost->others_cpu_s,
            result->elapsed_s, cost->late_ms, (long long)result->arrived, (long long)result->good,
            (long long)result->abandoned, (long long)result->broken, (long long)result->unsent);
    const char *comma = "";
    for (int status = 0; status < TRAFFIC_STATUS_MAX; status++)
        if (result->statuses[status]) {
            fprintf(lines, "%s\"%d\":%lld", comma, status, (long long)result->statuses[status]);
            comma = ",";
        }
    fputs("}}\n", lines);
    fflush(lines);
}

static void print_row(const struct traffic_server *server, const struct traffic_load *load,
                      const struct traffic_row *row, const struct traffic_result *result,
                      const struct cost *cost)
{
    const double percent = 100 / result->elapsed_s, good_per_s = traffic_good_per_s(result);
    char offered[24] = "-", part[24] = "-", best[24] = "-", of_best[24] = "-", cpu[40];
    if (load->rate > 0)
        snprintf(offered, sizeof offered, "%.0f", load->rate);
    if (part_of_whole(row, result) > 0)
        snprintf(part, sizeof part, "%.0f%%", 100 * part_of_whole(row, result));
    if (row->is_bounded)
        snprintf(best, sizeof best, "%.0f%%", 100 * row->possible);
    if (row->possible > 0)
        snprintf(of_best, sizeof of_best, "%.0f%%",
                 100 * part_of_whole(row, result) / row->possible);
    snprintf(cpu, sizeof cpu, "%.0f/%.0f/%.0f%%", result->server_cpu_s * percent,
             result->cpu_s * percent, cost->others_cpu_s * percent);
    printf("%-19s %-15s %-7s %9s %9.0f %6s %7s %7s %8.2f %8.2f %8.2f %14s %7.2f ", server->name,
           row->workload, row->point, offered, good_per_s, part, best, of_best,
           cost->quantiles_ms[0], cost->quantiles_ms[1], cost->quantiles_ms[2], cpu, cost->late_ms);
    print_idle(server, load, result);
    print_others(result);
}

/* CPU seconds of others while the load ran. */
static double run_once(struct traffic_server *server, const struct traffic_load *load,
                       struct traffic_result *result)
{
    const double start_busy_s = machine_busy_s();
    traffic_server_cpu_s(server);
    traffic_run(load, result);
    result->server_cpu_s = traffic_server_cpu_s(server);
    const double others_s = machine_busy_s() - start_busy_s - result->server_cpu_s - result->cpu_s;
    return others_s > 0 ? others_s : 0;
}

double traffic_run_alone(struct traffic_server *server, const struct traffic_load *load,
                         struct traffic_result *result)
{
    const char *text = getenv("ATTND_LOAD_TRIES");
    const int tries = text ? atoi(text) : 1;
    for (int i = 1;; i++) {
        const double others_s = run_once(server, load, result);
        if (i >= tries || others_s <= OTHERS_MAX * result->elapsed_s)
            return others_s;
        traffic_result_free(result);
        usleep(PAUSE_US); /* what the last try left in the server is over */
    }
}

void traffic_measure(struct traffic_server *server, const struct traffic_load *load,
                     const struct traffic_row *row, struct traffic_result *result)
{
    struct cost cost;
    cost.others_cpu_s = traffic_run_alone(server, load, result);
    result->could_s = traffic_could_s(server->cpus, traffic_cpus(), load->callers, result);
    cost.quantiles_ms[0] = traffic_samples_quantile(&result->latency_ms, 0.5);
    cost.quantiles_ms[1] = traffic_samples_quantile(&result->latency_ms, 0.99);
    cost.quantiles_ms[2] = traffic_samples_quantile(&result->latency_ms, 0.999);
    cost.late_ms = traffic_samples_quantile(&result->late_ms, 0.99);
    print_row(server, load, row, result, &cost);
    write_line(server, load, row, result, &cost);
}

void traffic_report_figure(const char *name, double value, const char *unit)
{
    if (lines) {
        fprintf(lines, "{\"figure\":\"%s\",\"value\":%.6g,\"unit\":\"%s\"}\n", name, value, unit);
        fflush(lines);
    }
}
