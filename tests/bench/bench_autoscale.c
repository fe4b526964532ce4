/* SPDX-License-Identifier: Apache-2.0 */
/* bench_autoscale.c - a day of load on a simulated cluster with the autoscalers of deploy/.
 *
 *     bench_autoscale [FILE.svg]     the table; with a file also the picture
 *
 * The day is made: a night, a long peak in the afternoon, a step in the morning and a burst in the
 * evening. The same day is run with CPU alone, the queue's cost alone, both, and always eight pods.
 * cluster_simulation.h says what is simulated. */
#include "cluster_simulation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    DAY_S = 86400,
    MINUTE = 60,
    SLICE_S = 300,
    SLICES = DAY_S / SLICE_S,
    STEP_PODS = 6,
    SEED = 1
};

static const struct policy {
    const char *name, *color; /* NULL: not in the picture */
    bool by_cpu, by_queue;
} POLICIES[] = {
    { "CPU alone", "#c0392b", true, false },
    { "queue cost alone", NULL, false, true },
    { "CPU and queue cost", "#1f6fb2", true, true },
    { "always 8 pods", NULL, false, false },
};
enum { POLICY_COUNT = sizeof POLICIES / sizeof POLICIES[0] };

static struct day {
    double replicas[SLICES], p99_s[SLICES];
} days[POLICY_COUNT];

/* Requests a second at a time of the day. */
static double load_at(double at_s)
{
    const double hour = at_s / 3600;
    const double day = 40 + 260 * pow(fmax(0, sin((hour - 5) / 19 * M_PI)), 1.5);
    const double step = hour >= 10 && hour < 10.5 ? 200 : 0;
    const double burst = hour >= 21 && hour < 21 + 1.0 / 6 ? 260 : 0;
    return day + step + burst;
}

static void begin(struct cluster *cluster, const struct policy *policy)
{
    struct autoscaler_rules rules;
    autoscaler_read(&rules);
    rules.cpu_target = policy->by_cpu ? rules.cpu_target : 0;
    rules.cost_target = policy->by_queue ? rules.cost_target : 0;
    if (!policy->by_cpu && !policy->by_queue)
        rules.min = rules.max;
    cluster_init(cluster, &rules, SEED);
}

/* Half of two pods, then two thirds of six: how long until six are ready. */
static void run_step(const struct policy *policy)
{
    static struct cluster cluster;
    const double pod_rate = CLUSTER_WORKERS / cluster_request_s();
    int seconds = 0;
    begin(&cluster, policy);
    cluster_run(&cluster, SLICE_S, pod_rate);
    while (cluster_ready(&cluster) < STEP_PODS && seconds++ < SLICE_S)
        cluster_run(&cluster, SLICE_S + seconds, 0.68 * STEP_PODS * pod_rate);
    printf("%-20s %d pods ready %d s after a step\n", policy->name, STEP_PODS, seconds);
}

static void run_day(const struct policy *policy, struct day *day)
{
    static struct cluster cluster;
    struct cluster_latencies all = { 0 };
    int most = 0;
    begin(&cluster, policy);
    for (int i = 0; i < SLICES; i++) {
        cluster.latencies = (struct cluster_latencies){ 0 };
        for (int s = MINUTE; s <= SLICE_S; s += MINUTE)
            cluster_run(&cluster, i * SLICE_S + s, load_at(i * SLICE_S + s - MINUTE));
        day->replicas[i] = cluster.replicas;
        day->p99_s[i] = cluster_latency(&cluster.latencies, 0.99);
        most = cluster.replicas > most ? cluster.replicas : most;
        for (int j = 0; j < CLUSTER_LATENCIES; j++)
            all.counts[j] += cluster.latencies.counts[j];
        all.total += cluster.latencies.total;
    }
    printf("%-20s %9.1f %5d %8d %9.0f %9.0f %9.3f %9lld\n", policy->name, cluster.pod_s / 3600,
           most, cluster.changes, 1e3 * cluster_latency(&all, 0.5),
           1e3 * cluster_latency(&all, 0.99), 100.0 * (double)cluster.late / (double)all.total,
           (long long)cluster.refused);
}

/* ------------------------------------------------------------------------------- the picture -- */

enum { WIDTH = 900, LEFT = 60, PANEL = 130, GAP = 30, TOP = 40 };

static double x_of(int slice)
{
    return LEFT + (WIDTH - LEFT - 20.0) * slice / (SLICES - 1);
}

static void draw_panel(FILE *file, int panel, const char *title, const double *marks,
                       const char *const *labels, int count)
{
    const double top = TOP + panel * (PANEL + GAP);
    fprintf(file, "<text x=\"%d\" y=\"%.0f\" class=\"title\">%s</text>\n", LEFT, top - 6, title);
    for (int i = 0; i < count; i++) {
        const double y = top + PANEL * (1 - marks[i]);
        fprintf(file, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>", LEFT, y, WIDTH - 20);
        fprintf(file, "<text x=\"%d\" y=\"%.1f\" class=\"mark\">%s</text>\n", LEFT - 6, y + 4,
                labels[i]);
    }
}

/* values from 0 to 1 of the panel's height */
static void draw_line(FILE *file, int panel, const double *values, const char *color)
{
    const double top = TOP + panel * (PANEL + GAP);
    fprintf(file, "<polyline stroke=\"%s\" points=\"", color);
    for (int i = 0; i < SLICES; i++)
        fprintf(file, "%.1f,%.1f ", x_of(i), top + PANEL * (1 - fmin(1, fmax(0, values[i]))));
    fprintf(file, "\"/>\n");
}

static void draw_load(FILE *file)
{
    double values[SLICES];
    draw_panel(file, 0, "requests a second", (const double[]){ 0, 0.5, 1 },
               (const char *const[]){ "0", "225", "450" }, 3);
    for (int i = 0; i < SLICES; i++)
        values[i] = load_at(i * SLICE_S) / 450;
    draw_line(file, 0, values, "#555");
}

static void draw_policy(FILE *file, const struct day *day, const char *color)
{
    double values[SLICES];
    for (int i = 0; i < SLICES; i++)
        values[i] = day->replicas[i] / 8;
    draw_line(file, 1, values, color);
    for (int i = 0; i < SLICES; i++) /* from 0.1 s to 100 s */
        values[i] = (log10(fmax(0.1, day->p99_s[i])) + 1) / 3;
    draw_line(file, 2, values, color);
}

static void draw(const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file) {
        fprintf(stderr, "%s cannot be written\n", path);
        exit(1);
    }
    const int height = TOP + 3 * (PANEL + GAP) + 30;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\">\n"
            "<style>text{font:12px sans-serif;fill:#333}.mark{text-anchor:end}"
            ".hour{text-anchor:middle}.title{font-weight:bold}"
            "polyline{fill:none;stroke-width:1.5}.grid{stroke:#ddd}</style>\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n",
            WIDTH, height, WIDTH, WIDTH, height);
    draw_load(file);
    draw_panel(file, 1, "pods", (const double[]){ 0, 0.25, 0.5, 0.75, 1 },
               (const char *const[]){ "0", "2", "4", "6", "8" }, 5);
    draw_panel(file, 2, "99 % of requests of five minutes are answered within",
               (const double[]){ 0, 1 / 3.0, 2 / 3.0, 1 },
               (const char *const[]){ "0.1 s", "1 s", "10 s", "100 s" }, 4);
    int at = WIDTH - 20;
    for (int i = 0; i < POLICY_COUNT; i++)
        if (POLICIES[i].color) {
            draw_policy(file, &days[i], POLICIES[i].color);
            fprintf(file, "<text x=\"%d\" y=\"20\" class=\"mark\" style=\"fill:%s\">%s</text>\n",
                    at, POLICIES[i].color, POLICIES[i].name);
            at -= 160;
        }
    for (int hour = 0; hour <= 24; hour += 3)
        fprintf(file, "<text x=\"%.1f\" y=\"%d\" class=\"hour\">%02d:00</text>\n",
                LEFT + (WIDTH - LEFT - 20.0) * hour / 24, height - 24, hour);
    fprintf(file, "</svg>\n");
    if (fclose(file) != 0)
        fprintf(stderr, "%s could not be written whole\n", path);
}

int main(int argc, char **argv)
{
    printf("%-20s %9s %5s %8s %9s %9s %9s %9s\n", "autoscaler", "pod hours", "most", "changes",
           "p50 ms", "p99 ms", "% over 1s", "refused");
    for (int i = 0; i < POLICY_COUNT; i++)
        run_day(&POLICIES[i], &days[i]);
    for (int i = 0; i < POLICY_COUNT; i++)
        run_step(&POLICIES[i]);
    if (argc > 1)
        draw(argv[1]);
    return 0;
}
