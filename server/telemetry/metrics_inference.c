/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_inference.c - A model holds the place that it counts in, so no thread counts there while
 * the place goes to another name. Giving places and writing the page are done under a mutex. */
#include "telemetry/metrics_inference.h"

#include "telemetry/metrics.h"
#include "telemetry/metrics_text.h"
#include "json/text.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { LABELS_BYTES_MAX = 512 };

static const char *const STAGE_NAMES[] = { "parse", "queue", "compute", "write" };
enum { STAGE_COUNT = sizeof STAGE_NAMES / sizeof STAGE_NAMES[0] };

/* The counters of one model and one route. */
struct series {
    struct metrics_histogram stages[STAGE_COUNT], total;
    _Atomic uint64_t items, flops;
    _Atomic uint64_t faults[FAULT_CODE_COUNT];
};

enum { PLACE_NONE, PLACE_FIRST, PLACE_OTHER = PLACE_FIRST + METRICS_MODELS_MAX, PLACE_COUNT };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct metrics_place model_places[METRICS_MODELS_MAX];
static struct metrics_places models = { .places = model_places, .count = METRICS_MODELS_MAX };
static struct series all_series[PLACE_COUNT][METRICS_ENDPOINTS_MAX];
static _Atomic int endpoints[METRICS_ENDPOINTS_MAX]; /* route + 1; 0: free. Never given back */

/* ----------------------------------------------------------------- places -- */

int metrics_model_take(const char *name)
{
    bool is_new;
    pthread_mutex_lock(&mutex);
    const int index = metrics_places_take(&models, name, &is_new);
    if (is_new)
        memset((void *)all_series[PLACE_FIRST + index], 0, sizeof all_series[0]);
    pthread_mutex_unlock(&mutex);
    return index < 0 ? PLACE_OTHER : PLACE_FIRST + index;
}

void metrics_model_drop(int place)
{
    if (place < PLACE_FIRST || place >= PLACE_OTHER)
        return;
    pthread_mutex_lock(&mutex);
    metrics_places_drop(&models, place - PLACE_FIRST);
    pthread_mutex_unlock(&mutex);
}

static const char *name_of(int place)
{
    return place == PLACE_NONE    ? ""
           : place == PLACE_OTHER ? "_other"
                                  : model_places[place - PLACE_FIRST].name;
}

/* --------------------------------------------------------------- counting -- */

static int endpoint_of(int route)
{
    for (int i = 0; i < METRICS_ENDPOINTS_MAX; i++) {
        int found = atomic_load_explicit(&endpoints[i], memory_order_relaxed);
        if (found == route + 1
            || (found == 0
                && (atomic_compare_exchange_strong(&endpoints[i], &found, route + 1)
                    || found == route + 1)))
            return i;
    }
    assert(!"more routes of inferences than there are endpoints");
    return METRICS_ENDPOINTS_MAX - 1;
}

void metrics_inference(int place, const struct request_record *record)
{
    struct series *series = &all_series[place][endpoint_of(record->route)];
    if (record->fault != FAULT_NONE) {
        metrics_count(&series->faults[record->fault], 1);
        return;
    }
    metrics_observe(&series->stages[0], record->parse_ns);
    metrics_observe(&series->stages[1], record->queue_ns);
    metrics_observe(&series->stages[2], record->compute_ns);
    metrics_observe(&series->stages[3], record->write_ns);
    metrics_observe(&series->total, record->total_ns);
    metrics_count(&series->items, (uint64_t)record->item_count);
    metrics_count(&series->flops, (uint64_t)record->flops);
}

/* ---------------------------------------------------------------- writing -- */

/* Appends one label: name="value". */
static void add_label(char labels[LABELS_BYTES_MAX], const char *name, const char *value)
{
    const size_t used = strlen(labels);
    struct text text = { .data = labels + used,
                         .capacity = LABELS_BYTES_MAX - 1 - used,
                         .bytes_max = LABELS_BYTES_MAX - 1 - used };
    if (used > 0)
        text_raw(&text, ",");
    metrics_write_label(&text, name, value);
    assert(text.failed == FAULT_NONE);
    text.data[text.used] = '\0';
}

static void write_total(struct text *text, const struct series *series, const char *labels)
{
    metrics_write_histogram(text, "attnd_inference_duration_seconds", labels, &series->total);
}

static void write_stages(struct text *text, const struct series *series, const char *labels)
{
    for (int i = 0; i < STAGE_COUNT; i++) {
        char staged[LABELS_BYTES_MAX];
        snprintf(staged, sizeof staged, "%s", labels);
        add_label(staged, "stage", STAGE_NAMES[i]);
        metrics_write_histogram(text, "attnd_inference_stage_seconds", staged, &series->stages[i]);
    }
}

static void write_items(struct text *text, const struct series *series, const char *labels)
{
    metrics_write_sample(text, "attnd_inference_items_total", labels,
                         metrics_value(&series->items));
}

static void write_flops(struct text *text, const struct series *series, const char *labels)
{
    metrics_write_sample(text, "attnd_inference_flops_total", labels,
                         metrics_value(&series->flops));
}

/* Two fault codes with different statuses may share one name; together they are one series. */
static void write_faults(struct text *text, const struct series *series, const char *labels)
{
    uint64_t counts[FAULT_CODE_COUNT] = { 0 };
    for (int i = 1; i < FAULT_CODE_COUNT; i++) {
        int first = 1;
        while (strcmp(fault_code_name(first), fault_code_name(i)) != 0)
            first++;
        counts[first] += metrics_value(&series->faults[i]);
    }
    for (int i = 1; i < FAULT_CODE_COUNT; i++) {
        char coded[LABELS_BYTES_MAX];
        if (counts[i] == 0)
            continue;
        snprintf(coded, sizeof coded, "%s", labels);
        add_label(coded, "code", fault_code_name(i));
        metrics_write_sample(text, "attnd_inference_faults_total", coded, counts[i]);
    }
}

static const struct family {
    const char *name, *type, *help;
    void (*write)(struct text *text, const struct series *series, const char *labels);
} FAMILIES[] = {
    { "attnd_inference_duration_seconds", "histogram",
      "From a request's first byte to its complete answer, of inferences that were answered well.",
      write_total },
    { "attnd_inference_stage_seconds", "histogram", "The stages of the same.", write_stages },
    { "attnd_inference_items_total", "counter",
      "Batch items of inferences that were answered well.", write_items },
    { "attnd_inference_flops_total", "counter",
      "Multiplications and additions of the same, as counted from their shapes.", write_flops },
    { "attnd_inference_faults_total", "counter",
      "Inferences that came to a worker and were answered with a fault, by its code.",
      write_faults },
};
enum { FAMILY_COUNT = sizeof FAMILIES / sizeof FAMILIES[0] };

static bool is_used(const struct series *series)
{
    uint64_t count = metrics_value(&series->items) + metrics_histogram_count(&series->total);
    for (int i = 1; i < FAULT_CODE_COUNT; i++)
        count += metrics_value(&series->faults[i]);
    return count > 0;
}

static void write_family(struct text *text, const struct family *family)
{
    metrics_write_family(text, family->name, family->type, family->help);
    for (int i = 0; i < PLACE_COUNT; i++)
        for (int j = 0; j < METRICS_ENDPOINTS_MAX; j++) {
            const int route = atomic_load_explicit(&endpoints[j], memory_order_relaxed) - 1;
            char labels[LABELS_BYTES_MAX] = "";
            if (route < 0 || !is_used(&all_series[i][j]))
                continue;
            add_label(labels, "model", name_of(i));
            add_label(labels, "route", metrics_route_pattern(route));
            family->write(text, &all_series[i][j], labels);
        }
}

/* ---------------------------------------------------------- parts of passes -- */

static _Atomic int64_t spent_ns[METRICS_PART_COUNT];

void metrics_pass_spent(enum metrics_part part, int64_t ns)
{
    atomic_fetch_add_explicit(&spent_ns[part], ns, memory_order_relaxed);
}

static void write_spent(struct text *text)
{
    static const char *const NAMES[METRICS_PART_COUNT] = {
#define X(name, text) text,
        METRICS_PART_MAP(X)
#undef X
    };
    metrics_write_family(text, "attnd_pass_seconds_total", "counter",
                         "Time of threads in the parts of passes of models, by the clock.");
    for (int i = 0; i < METRICS_PART_COUNT; i++) {
        const int64_t ns = atomic_load_explicit(&spent_ns[i], memory_order_relaxed);
        if (ns > 0)
            text_format(text, "attnd_pass_seconds_total{part=\"%s\"} %.9f\n", NAMES[i],
                        (double)ns / 1e9);
    }
}

void metrics_inference_write(struct text *text)
{
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < FAMILY_COUNT; i++)
        write_family(text, &FAMILIES[i]);
    pthread_mutex_unlock(&mutex);
    write_spent(text);
}

/* --------------------------------------------------- what one request did -- */

void request_record_durations(struct request_record *record, const struct request_clock *clock,
                              int64_t written_ns)
{
    const int64_t begun_ns = clock->begun_ns ? clock->begun_ns : clock->computed_ns;
    const int64_t parsed_ns = clock->parsed_ns ? clock->parsed_ns : clock->computed_ns;
    record->was_job = true;
    record->queue_ns = begun_ns - clock->submitted_ns;
    record->parse_ns = parsed_ns - begun_ns;
    record->compute_ns = clock->computed_ns - parsed_ns;
    record->write_ns = written_ns - clock->computed_ns;
    record->total_ns = written_ns - clock->started_ns;
}

/* Appends "name;dur=1.234". Not by printf(), which is slower where libquadmath is loaded, as
 * OpenBLAS does: these five numbers would take a tenth of a small request's time. */
static void append_duration(struct text *text, const char *name, int64_t duration_ns)
{
    text_raw(text, name);
    text_raw(text, ";dur=");
    text_decimal(text, (duration_ns + 500) / 1000, 3);
}

void request_record_timing(const struct request_record *record, int64_t total_ns,
                           char timing[REQUEST_TIMING_MAX])
{
    struct text text = text_in(timing, REQUEST_TIMING_MAX);
    if (record->was_job) {
        append_duration(&text, "parse", record->parse_ns);
        append_duration(&text, ", queue", record->queue_ns);
        append_duration(&text, ", compute", record->compute_ns);
        append_duration(&text, ", write", record->write_ns);
    }
    append_duration(&text, record->was_job ? ", total" : "total", total_ns);
    timing[text.used] = '\0';
}
