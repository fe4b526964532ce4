/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c - requests by route, refusals and gauges; connections, shared products, the process.
 *
 * All counters are static, so counting never allocates. A route has a counter for every HTTP
 * status: that costs address space, but memory only for the pages of statuses that were answered. A
 * page of metrics is written while other threads count, so each of its numbers is true but they are
 * not of one instant. */
#include "telemetry/metrics.h"

#include "telemetry/metrics_text.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { STATUS_FIRST = 100, STATUS_LAST = 599, STATUS_COUNT = STATUS_LAST - STATUS_FIRST + 1 };
enum { LABELS_BYTES_MAX = 128 };

struct route_metrics {
    const char *method, *pattern;
    char labels[LABELS_BYTES_MAX]; /* method and route, as the page writes them */
    _Atomic uint64_t requests[STATUS_COUNT];
    _Atomic uint64_t request_bytes, answer_bytes;
    struct metrics_histogram duration;
};

static const char *const REFUSED_REASONS[] = { "overloaded", "deadline", "draining", "memory",
                                               "other" };
enum { REASON_COUNT = sizeof REFUSED_REASONS / sizeof REFUSED_REASONS[0] };

static const struct gauge {
    const char *name, *help;
} GAUGES[METRICS_GAUGE_COUNT] = {
#define X(name, text, help) { text, help },
    METRICS_GAUGE_MAP(X)
#undef X
};

static struct {
    struct route_metrics routes[METRICS_ROUTES_MAX];
    int route_count;
    _Atomic uint64_t refused[REASON_COUNT];
    _Atomic int64_t gauges[METRICS_GAUGE_COUNT];
    const char *version, *kernels, *precision, *blas_core, *blas_computes;
} all;

/* --------------------------------------------------------------- counting -- */

int metrics_route(const char *method, const char *pattern)
{
    for (int i = 0; i < all.route_count; i++)
        if (strcmp(all.routes[i].method, method) == 0
            && strcmp(all.routes[i].pattern, pattern) == 0)
            return i;
    assert(all.route_count < METRICS_ROUTES_MAX);
    struct route_metrics *route = &all.routes[all.route_count];
    route->method = method;
    route->pattern = pattern;
    const int length = snprintf(route->labels, sizeof route->labels, "method=\"%s\",route=\"%s\"",
                                method, pattern);
    assert(length > 0 && length < LABELS_BYTES_MAX);
    (void)length;
    return all.route_count++;
}

const char *metrics_route_pattern(int route)
{
    return all.routes[route].pattern;
}

void metrics_request(int route, int status, int64_t duration_ns, size_t request_bytes,
                     size_t answer_bytes)
{
    assert(route >= 0 && route < all.route_count);
    assert(status >= STATUS_FIRST && status <= STATUS_LAST);
    struct route_metrics *metrics = &all.routes[route];
    metrics_count(&metrics->requests[status - STATUS_FIRST], 1);
    metrics_count(&metrics->request_bytes, request_bytes);
    metrics_count(&metrics->answer_bytes, answer_bytes);
    metrics_observe(&metrics->duration, duration_ns);
}

void metrics_refused(const char *reason)
{
    int i = 0;
    while (i < REASON_COUNT - 1 && strcmp(REFUSED_REASONS[i], reason) != 0)
        i++;
    metrics_count(&all.refused[i], 1);
}

void metrics_gauge_add(enum metrics_gauge gauge, int64_t difference)
{
    atomic_fetch_add_explicit(&all.gauges[gauge], difference, memory_order_relaxed);
}

void metrics_gauge_set(enum metrics_gauge gauge, int64_t value)
{
    atomic_store_explicit(&all.gauges[gauge], value, memory_order_relaxed);
}

void metrics_build_info(const char *version, const char *kernels, const char *precision,
                        const char *blas_core, const char *blas_computes)
{
    all.version = version;
    all.kernels = kernels;
    all.precision = precision;
    all.blas_core = blas_core;
    all.blas_computes = blas_computes;
}

/* ---------------------------------------------------------------- writing -- */

/* Writes one counter, at offset in struct route_metrics, of every route that was used. */
static void write_bytes(struct text *text, const char *name, const char *help,
                        const bool used[METRICS_ROUTES_MAX], size_t offset)
{
    metrics_write_family(text, name, "counter", help);
    for (int i = 0; i < all.route_count; i++) {
        const char *route = (const char *)&all.routes[i];
        if (used[i])
            metrics_write_sample(text, name, all.routes[i].labels,
                                 metrics_value((const _Atomic uint64_t *)(route + offset)));
    }
}

/* A route has series only once it has answered. Most daemons use few routes, and each series costs
 * time at every scrape and memory in the scraper. */
void metrics_write_requests(struct text *text)
{
    bool used[METRICS_ROUTES_MAX] = { false };
    for (int i = 0; i < all.route_count; i++)
        used[i] = metrics_histogram_count(&all.routes[i].duration) > 0;
    metrics_write_family(text, "attnd_requests_total", "counter", "Requests answered.");
    for (int i = 0; i < all.route_count; i++)
        for (int j = 0; used[i] && j < STATUS_COUNT; j++) {
            const uint64_t requests = metrics_value(&all.routes[i].requests[j]);
            if (requests > 0) {
                char labels[LABELS_BYTES_MAX + 16];
                snprintf(labels, sizeof labels, "%s,status=\"%d\"", all.routes[i].labels,
                         STATUS_FIRST + j);
                metrics_write_sample(text, "attnd_requests_total", labels, requests);
            }
        }
    write_bytes(text, "attnd_request_bytes_total", "Bytes of request bodies.", used,
                offsetof(struct route_metrics, request_bytes));
    write_bytes(text, "attnd_answer_bytes_total", "Bytes of answers' bodies.", used,
                offsetof(struct route_metrics, answer_bytes));
    metrics_write_family(text, "attnd_request_duration_seconds", "histogram",
                         "From a request's first byte to the hand-over of its answer.");
    for (int i = 0; i < all.route_count; i++)
        if (used[i])
            metrics_write_histogram(text, "attnd_request_duration_seconds", all.routes[i].labels,
                                    &all.routes[i].duration);
}

static void write_refused(struct text *text)
{
    metrics_write_family(text, "attnd_refused_total", "counter", "Inferences refused, by reason.");
    for (int i = 0; i < REASON_COUNT; i++) {
        char label[LABELS_BYTES_MAX];
        snprintf(label, sizeof label, "reason=\"%s\"", REFUSED_REASONS[i]);
        metrics_write_sample(text, "attnd_refused_total", label, metrics_value(&all.refused[i]));
    }
}

static void write_gauges(struct text *text)
{
    for (int i = 0; i < METRICS_GAUGE_COUNT; i++) {
        metrics_write_family(text, GAUGES[i].name, "gauge", GAUGES[i].help);
        text_format(text, "%s %lld\n", GAUGES[i].name,
                    (long long)atomic_load_explicit(&all.gauges[i], memory_order_relaxed));
    }
    if (!all.version)
        return;
    metrics_write_family(text, "attnd_build_info", "gauge", "What runs; always 1.");
    text_raw(text, "attnd_build_info{");
    metrics_write_label(text, "version", all.version);
    text_raw(text, ",");
    metrics_write_label(text, "kernels", all.kernels);
    text_raw(text, ",");
    metrics_write_label(text, "precision", all.precision);
    text_raw(text, ",");
    metrics_write_label(text, "blas_core", all.blas_core);
    text_raw(text, ",");
    metrics_write_label(text, "blas_computes", all.blas_computes);
    text_raw(text, "} 1\n");
}

void metrics_write_counts(struct text *text)
{
    write_refused(text);
    write_gauges(text);
}

/* --------------------------------------------------------- places by name -- */

/* The place of this name; else one that nobody holds: a free one first, then the one dropped
 * longest ago. NULL where all are held. */
static struct metrics_place *find_place(const struct metrics_places *places, const char *name)
{
    struct metrics_place *best = NULL;
    for (int i = 0; i < places->count; i++) {
        struct metrics_place *place = &places->places[i];
        if (strcmp(place->name, name) == 0)
            return place;
        if (place->holder_count == 0 && (!best || place->dropped_at < best->dropped_at))
            best = place;
    }
    return best;
}

int metrics_places_take(struct metrics_places *places, const char *name, bool *is_new)
{
    struct metrics_place *place = find_place(places, name);
    *is_new = place && strcmp(place->name, name) != 0;
    if (!place)
        return -1;
    if (*is_new)
        snprintf(place->name, sizeof place->name, "%s", name);
    place->holder_count++;
    return (int)(place - places->places);
}

void metrics_places_drop(struct metrics_places *places, int index)
{
    struct metrics_place *place = &places->places[index];
    assert(place->holder_count > 0);
    if (--place->holder_count == 0)
        place->dropped_at = ++places->drop_count;
}

/* -------------------------------------------------------- shared products -- */

/* The bounds are powers of two: what a batch gains doubles
 * with its size, until arithmetic is the limit. */

enum { BOUND_COUNT = 8 }; /* 1, 2, 4 .. 128 */

struct shared_counts {
    _Atomic uint64_t buckets[BOUND_COUNT + 1]; /* not cumulative; the last is above all bounds */
    _Atomic uint64_t sum;
};

static struct shared_counts shared_requests, shared_rows;

static void observe_shared(struct shared_counts *counts, int64_t number)
{
    int bucket = 0;
    while (bucket < BOUND_COUNT && number > (int64_t)1 << bucket)
        bucket++;
    metrics_count(&counts->buckets[bucket], 1);
    metrics_count(&counts->sum, (uint64_t)number);
}

void batch_metrics_observe(int64_t request_count, int64_t row_count)
{
    observe_shared(&shared_requests, request_count);
    observe_shared(&shared_rows, row_count);
}

static void write_shared(struct text *text, const char *name, const char *help,
                         const struct shared_counts *counts)
{
    uint64_t count = 0;
    metrics_write_family(text, name, "histogram", help);
    for (int i = 0; i < BOUND_COUNT; i++) {
        count += metrics_value(&counts->buckets[i]);
        text_format(text, "%s_bucket{le=\"%d\"} %llu\n", name, 1 << i, (unsigned long long)count);
    }
    count += metrics_value(&counts->buckets[BOUND_COUNT]);
    text_format(text, "%s_bucket{le=\"+Inf\"} %llu\n", name, (unsigned long long)count);
    text_format(text, "%s_sum %llu\n", name, (unsigned long long)metrics_value(&counts->sum));
    text_format(text, "%s_count %llu\n", name, (unsigned long long)count);
}

void batch_metrics_write(struct text *text)
{
    write_shared(text, "attnd_batch_rows", "Rows in a product that requests shared.", &shared_rows);
    write_shared(text, "attnd_batch_requests", "Requests that shared a product.", &shared_requests);
}

/* --------------------------------------- ends of requests and connections -- */

static const char *const REQUEST_ENDS[REQUEST_END_COUNT] = {
    [REQUEST_LEFT_READING] = "left_reading", [REQUEST_LEFT_WAITING] = "left_waiting",
    [REQUEST_LEFT_SENDING] = "left_sending", [REQUEST_SLOW_READER] = "slow_reader",
    [REQUEST_STOPPED] = "stopped",
};

static const char *const CONNECTION_ENDS[CONNECTION_END_COUNT] = {
    [CONNECTION_IDLE] = "idle",
    [CONNECTION_FOR_ANOTHER] = "for_another",
};

static _Atomic uint64_t cancelled[REQUEST_END_COUNT];
static _Atomic uint64_t closed[CONNECTION_END_COUNT];

void connection_metrics_cancelled(enum request_end why)
{
    metrics_count(&cancelled[why], 1);
}

void connection_metrics_closed(enum connection_end why)
{
    metrics_count(&closed[why], 1);
}

static void write_ends(struct text *text, const char *name, const char *help,
                       const char *const *reasons, const _Atomic uint64_t *counts, int count)
{
    char labels[64];
    metrics_write_family(text, name, "counter", help);
    for (int i = 0; i < count; i++) {
        snprintf(labels, sizeof labels, "reason=\"%s\"", reasons[i]);
        metrics_write_sample(text, name, labels, metrics_value(&counts[i]));
    }
}

void connection_metrics_write(struct text *text)
{
    write_ends(text, "attnd_cancelled_total",
               "Requests that ended without their answer having been taken, by reason.",
               REQUEST_ENDS, cancelled, REQUEST_END_COUNT);
    write_ends(text, "attnd_connections_closed_total",
               "Connections closed on clients that sent no request, by reason.", CONNECTION_ENDS,
               closed, CONNECTION_END_COUNT);
}

/* ------------------------------------------------------------ the process -- */

/* Names and meaning are those of the standard clients
 * (https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics);
 * the source is proc(5). Nothing is kept between two calls. */

/* The columns of /proc/self/stat that are used, by their numbers in proc(5). */
enum { STAT_UTIME = 14, STAT_STIME = 15, STAT_THREADS = 20, STAT_START = 22, STAT_VSIZE = 23 };
enum { STAT_RSS = 24, STAT_COLUMNS = 25, STAT_FIRST_AFTER_NAME = 3 };

static void write_one(struct text *text, const char *name, const char *type, const char *help,
                      double value)
{
    text_format(text, "# HELP %s %s\n# TYPE %s %s\n%s %.15g\n", name, help, name, type, name,
                value);
}

static ssize_t read_file(const char *path, char *bytes, size_t size)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    const ssize_t length = read(file, bytes, size - 1);
    close(file);
    bytes[length > 0 ? length : 0] = '\0';
    return length;
}

/* False where /proc does not have them. The program's name, column 2, may hold spaces and
 * parentheses, so columns are counted from the last parenthesis. */
static bool read_stat(double columns[STAT_COLUMNS])
{
    char bytes[1024];
    if (read_file("/proc/self/stat", bytes, sizeof bytes) <= 0)
        return false;
    char *rest = strrchr(bytes, ')');
    if (!rest)
        return false;
    rest += 2;
    int column = STAT_FIRST_AFTER_NAME;
    for (char *word = strsep(&rest, " "); word && column < STAT_COLUMNS; word = strsep(&rest, " "))
        columns[column++] = strtod(word, NULL);
    return column == STAT_COLUMNS;
}

/* When the system started, in seconds since 1970; 0 where /proc/stat does not say. It is read line
 * by line, because it has a line for each CPU and a long one of all interrupts. */
static double read_boot_time(void)
{
    FILE *file = fopen("/proc/stat", "re");
    char line[256];
    double boot_time = 0;
    while (file && boot_time == 0 && fgets(line, sizeof line, file))
        if (strncmp(line, "btime ", 6) == 0)
            boot_time = strtod(line + 6, NULL);
    if (file)
        fclose(file);
    return boot_time;
}

/* How many descriptors are open, without the one that counting them takes; -1 where the system does
 * not tell. */
static long count_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    if (!directory)
        return -1;
    long count = -1;
    for (const struct dirent *entry = readdir(directory); entry; entry = readdir(directory))
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

static void write_stat(struct text *text)
{
    double columns[STAT_COLUMNS];
    if (!read_stat(columns))
        return;
    const double ticks = (double)sysconf(_SC_CLK_TCK);
    const double boot_time = read_boot_time();
    write_one(text, "process_cpu_seconds_total", "counter", "User and system CPU time.",
              (columns[STAT_UTIME] + columns[STAT_STIME]) / ticks);
    write_one(text, "process_resident_memory_bytes", "gauge", "Resident memory.",
              columns[STAT_RSS] * (double)sysconf(_SC_PAGESIZE));
    write_one(text, "process_virtual_memory_bytes", "gauge", "Virtual memory.",
              columns[STAT_VSIZE]);
    write_one(text, "process_threads", "gauge", "Threads of the process.", columns[STAT_THREADS]);
    if (boot_time > 0)
        write_one(text, "process_start_time_seconds", "gauge",
                  "Start of the process, in seconds since 1970.",
                  boot_time + columns[STAT_START] / ticks);
}

void process_metrics_write(struct text *text)
{
    struct rlimit limit;
    const long descriptors = count_descriptors();
    write_stat(text);
    if (descriptors >= 0)
        write_one(text, "process_open_fds", "gauge", "Open file descriptors.", (double)descriptors);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        write_one(text, "process_max_fds", "gauge", "The most file descriptors there may be.",
                  (double)limit.rlim_cur);
}
