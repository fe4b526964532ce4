/* traffic_report.c - see traffic_report.h. */
#include "traffic_report.h"

#include <stdio.h>
#include <stdlib.h>

static FILE *lines;

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

double traffic_seconds(double fallback)
{
    const char *text = getenv("ATTND_LOAD_SECONDS");
    const double seconds = text ? strtod(text, NULL) : 0;
    return seconds > 0 ? seconds : fallback;
}

void traffic_report_heading(void)
{
    printf("\n%-19s %-15s %-7s %9s %9s %6s %8s %8s %8s %11s %7s  %s\n", "server", "requests",
           "load", "offered/s", "good/s", "of cap", "p50 ms", "p99 ms", "p99.9 ms", "CPU srv/gen",
           "late ms", "not 200");
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

static void write_line(const struct traffic_row *row, const double quantiles[3], double late_ms)
{
    const struct traffic_result *result = row->result;
    if (!lines)
        return;
    fprintf(lines,
            "{\"server\":\"%s\",\"workload\":\"%s\",\"point\":\"%s\",\"seconds\":%g,"
            "\"offered_per_s\":%.1f,\"capacity_per_s\":%.1f,\"good_per_s\":%.1f,"
            "\"p50_ms\":%.4f,\"p99_ms\":%.4f,\"p999_ms\":%.4f,\"server_cpu_s\":%.3f,"
            "\"generator_cpu_s\":%.3f,\"elapsed_s\":%.3f,\"late_p99_ms\":%.4f,\"arrived\":%lld,"
            "\"good\":%lld,\"abandoned\":%lld,\"broken\":%lld,\"unsent\":%lld,\"statuses\":{",
            row->server, row->workload, row->point, result->seconds, row->offered_per_s,
            row->capacity_per_s, traffic_good_per_s(result), quantiles[0], quantiles[1],
            quantiles[2], row->server_cpu_s, result->cpu_s, result->elapsed_s, late_ms,
            (long long)result->arrived, (long long)result->good, (long long)result->abandoned,
            (long long)result->broken, (long long)result->unsent);
    const char *comma = "";
    for (int status = 0; status < TRAFFIC_STATUS_MAX; status++)
        if (result->statuses[status]) {
            fprintf(lines, "%s\"%d\":%lld", comma, status, (long long)result->statuses[status]);
            comma = ",";
        }
    fputs("}}\n", lines);
    fflush(lines);
}

void traffic_report_row(const struct traffic_row *row)
{
    struct traffic_result *result = row->result;
    const double quantiles[] = { traffic_samples_quantile(&result->latency_ms, 0.5),
                                 traffic_samples_quantile(&result->latency_ms, 0.99),
                                 traffic_samples_quantile(&result->latency_ms, 0.999) };
    const double late_ms = traffic_samples_quantile(&result->late_ms, 0.99);
    const double percent = 100 / result->elapsed_s;
    char offered[24] = "-", part[24] = "-", cpu[24];
    if (row->offered_per_s > 0)
        snprintf(offered, sizeof offered, "%.0f", row->offered_per_s);
    if (row->capacity_per_s > 0)
        snprintf(part, sizeof part, "%.0f%%",
                 100 * traffic_good_per_s(result) / row->capacity_per_s);
    snprintf(cpu, sizeof cpu, "%.0f/%.0f%%", row->server_cpu_s * percent, result->cpu_s * percent);
    printf("%-19s %-15s %-7s %9s %9.0f %6s %8.2f %8.2f %8.2f %11s %7.2f ", row->server,
           row->workload, row->point, offered, traffic_good_per_s(result), part, quantiles[0],
           quantiles[1], quantiles[2], cpu, late_ms);
    print_others(result);
    write_line(row, quantiles, late_ms);
}

void traffic_report_figure(const char *name, double value, const char *unit)
{
    if (lines) {
        fprintf(lines, "{\"figure\":\"%s\",\"value\":%.6g,\"unit\":\"%s\"}\n", name, value, unit);
        fflush(lines);
    }
}
