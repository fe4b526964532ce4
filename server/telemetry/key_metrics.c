/* SPDX-License-Identifier: Apache-2.0 */
/* key_metrics.c - see key_metrics.h.
 *
 * An account holds the place that it counts in, so no thread counts there while the place goes to
 * another name. Giving places and writing the page are done under a mutex. */
#include "telemetry/key_metrics.h"

#include "telemetry/metrics.h"
#include "telemetry/metrics_text.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* How a request ended, the word on the page. */
#define OUTCOME_MAP(X)                                                                             \
    X(OK, "ok")                                                                                    \
    X(REFUSED, "refused") /* for the key's scopes and limits, or for the daemon's */               \
    X(FAILED, "failed")                                                                            \
    X(CANCELLED, "cancelled")

enum outcome {
#define X(name, text) OUTCOME_##name,
    OUTCOME_MAP(X)
#undef X
        OUTCOME_COUNT
};

static const char *const OUTCOMES[] = {
#define X(name, text) text,
    OUTCOME_MAP(X)
#undef X
};

/* The faults that refuse a request, whatever is in its body; their codes are the reasons. */
static const enum fault_code REASONS[] = { FAULT_SCOPE,    FAULT_QUOTA,  FAULT_OVERLOADED,
                                           FAULT_DEADLINE, FAULT_MEMORY, FAULT_DRAINING };
enum { REASON_COUNT = sizeof REASONS / sizeof REASONS[0], LABELS_BYTES_MAX = 128 };

struct counters {
    _Atomic uint64_t outcomes[OUTCOME_COUNT], reasons[REASON_COUNT];
    _Atomic uint64_t cpu_ns;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct metrics_place key_places[KEY_METRICS_NAMES_MAX];
static struct metrics_places keys = { .places = key_places, .count = KEY_METRICS_NAMES_MAX };
static struct counters all[KEY_METRICS_PLACES]; /* the last place is that of all other keys */
static _Atomic uint64_t unknown;

int key_metrics_take(const char *name)
{
    bool is_new;
    pthread_mutex_lock(&mutex);
    const int index = metrics_places_take(&keys, name, &is_new);
    if (is_new)
        memset((void *)&all[index], 0, sizeof all[0]);
    pthread_mutex_unlock(&mutex);
    return index < 0 ? KEY_METRICS_NAMES_MAX : index;
}

void key_metrics_drop(int place)
{
    if (place >= KEY_METRICS_NAMES_MAX)
        return;
    pthread_mutex_lock(&mutex);
    metrics_places_drop(&keys, place);
    pthread_mutex_unlock(&mutex);
}

/* --------------------------------------------------------------- counting -- */

void key_metrics_request(int place, enum fault_code code)
{
    const enum fault_code fault = code == FAULT_FULL ? FAULT_MEMORY : code; /* one on the wire */
    enum outcome outcome = fault == FAULT_NONE   ? OUTCOME_OK
                           : fault == FAULT_LEFT ? OUTCOME_CANCELLED
                                                 : OUTCOME_FAILED;
    for (int i = 0; i < REASON_COUNT; i++)
        if (fault == REASONS[i]) {
            outcome = OUTCOME_REFUSED;
            metrics_count(&all[place].reasons[i], 1);
        }
    metrics_count(&all[place].outcomes[outcome], 1);
}

void key_metrics_charge(int place, int64_t ns)
{
    metrics_count(&all[place].cpu_ns, (uint64_t)ns);
}

void key_metrics_unknown(void)
{
    metrics_count(&unknown, 1);
}

/* ---------------------------------------------------------------- writing -- */

static bool is_used(int place)
{
    uint64_t count = 0;
    for (int i = 0; i < OUTCOME_COUNT; i++)
        count += metrics_value(&all[place].outcomes[i]);
    return count > 0;
}

/* Writes the label of a key, and a second label unless its name and value are NULL. */
static void write_labels(char labels[LABELS_BYTES_MAX], int place, const char *name,
                         const char *value)
{
    struct text text = text_in(labels, LABELS_BYTES_MAX - 1);
    metrics_write_label(&text, "key",
                        place < KEY_METRICS_NAMES_MAX ? key_places[place].name : "(other)");
    if (name && value) {
        text_raw(&text, ",");
        metrics_write_label(&text, name, value);
    }
    labels[text.used] = '\0';
}

static void write_counts(struct text *text, int place, const char *family, const char *label,
                         const char *value, const _Atomic uint64_t *counter)
{
    char labels[LABELS_BYTES_MAX];
    const uint64_t count = metrics_value(counter);
    if (count == 0)
        return;
    write_labels(labels, place, label, value);
    metrics_write_sample(text, family, labels, count);
}

static void write_outcomes(struct text *text, int place, const struct key_holding *holding)
{
    (void)holding;
    for (int i = 0; i < OUTCOME_COUNT; i++)
        write_counts(text, place, "attnd_key_requests_total", "outcome", OUTCOMES[i],
                     &all[place].outcomes[i]);
}

static void write_reasons(struct text *text, int place, const struct key_holding *holding)
{
    (void)holding;
    for (int i = 0; i < REASON_COUNT; i++)
        write_counts(text, place, "attnd_key_refused_total", "reason", fault_code_name(REASONS[i]),
                     &all[place].reasons[i]);
}

static void write_cpu(struct text *text, int place, const struct key_holding *holding)
{
    char labels[LABELS_BYTES_MAX];
    (void)holding;
    write_labels(labels, place, NULL, NULL);
    text_format(text, "attnd_key_cpu_seconds_total{%s} %.9f\n", labels,
                (double)metrics_value(&all[place].cpu_ns) / 1e9);
}

static void write_gauge(struct text *text, int place, const char *family, uint64_t value)
{
    char labels[LABELS_BYTES_MAX];
    write_labels(labels, place, NULL, NULL);
    metrics_write_sample(text, family, labels, value);
}

static void write_active(struct text *text, int place, const struct key_holding *holding)
{
    write_gauge(text, place, "attnd_key_requests_active", (uint64_t)holding->requests);
}

static void write_memory(struct text *text, int place, const struct key_holding *holding)
{
    write_gauge(text, place, "attnd_key_memory_bytes", holding->memory_bytes);
}

static void write_sessions(struct text *text, int place, const struct key_holding *holding)
{
    write_gauge(text, place, "attnd_key_sessions", (uint64_t)holding->sessions);
}

static void write_session_bytes(struct text *text, int place, const struct key_holding *holding)
{
    write_gauge(text, place, "attnd_key_session_bytes", holding->session_bytes);
}

static const struct family {
    const char *name, *type, *help;
    void (*write)(struct text *text, int place, const struct key_holding *holding);
} FAMILIES[] = {
    { "attnd_key_requests_total", "counter", "Requests with a valid key, by how they ended.",
      write_outcomes },
    { "attnd_key_refused_total", "counter", "The refused of them, by the code of their answer.",
      write_reasons },
    { "attnd_key_cpu_seconds_total", "counter", "CPU time charged to the key.", write_cpu },
    { "attnd_key_requests_active", "gauge", "Requests of the key that have not ended.",
      write_active },
    { "attnd_key_memory_bytes", "gauge", "Memory reserved by them.", write_memory },
    { "attnd_key_sessions", "gauge", "Sessions of the key's name.", write_sessions },
    { "attnd_key_session_bytes", "gauge", "Memory of the keys and values that they made.",
      write_session_bytes },
};
enum { FAMILY_COUNT = sizeof FAMILIES / sizeof FAMILIES[0] };

void key_metrics_write(struct text *text, const struct key_holding holdings[KEY_METRICS_PLACES])
{
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        metrics_write_family(text, FAMILIES[i].name, FAMILIES[i].type, FAMILIES[i].help);
        for (int place = 0; place < KEY_METRICS_PLACES; place++)
            if (is_used(place) || holdings[place].requests > 0 || holdings[place].sessions > 0)
                FAMILIES[i].write(text, place, &holdings[place]);
    }
    pthread_mutex_unlock(&mutex);
    metrics_write_family(text, "attnd_keys_unknown_total", "counter",
                         "Requests refused because they had no key, or no valid one.");
    metrics_write_sample(text, "attnd_keys_unknown_total", "", metrics_value(&unknown));
}
