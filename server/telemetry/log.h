/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - one line for each event, to standard error, as text or JSON.
 *
 *     2026-11-21T09:00:00.123Z info listening address=127.0.0.1:8080
 *     {"time":"2026-11-21T09:00:00.123Z","level":"info","event":"listening","address":"127.0.0.1:8080"}
 *
 * Each write() holds one line or several whole lines (log_writer.h), so lines never mix. Values are
 * escaped, so no client can forge a line. */
#ifndef ATTND_LOG_H
#define ATTND_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR };
enum log_format { LOG_TEXT, LOG_JSON };

/* Call it once, before threads start. */
void log_configure(enum log_level level, enum log_format format);

/* A field of a line: a string; a number, of which integers are written in full and others with
 * %.6g; or a duration, written in milliseconds to the last nanosecond. The name is a literal. */
enum log_kind { LOG_KIND_STRING, LOG_KIND_NUMBER, LOG_KIND_DURATION };
struct log_field {
    const char *name;
    size_t name_size; /* known at compile time, because name is a literal */
    enum log_kind kind;
    const char *string;
    double number;
    int64_t duration_ns;
};
#define LOG_STRING(name, value) log_field_string((name), sizeof(name) - 1, (value))
#define LOG_NUMBER(name, value)                                                                    \
    ((struct log_field){ (name), sizeof(name) - 1, LOG_KIND_NUMBER, NULL, (double)(value), 0 })
#define LOG_MS(name, ns)                                                                           \
    ((struct log_field){ (name), sizeof(name) - 1, LOG_KIND_DURATION, NULL, 0, (ns) })

static inline struct log_field log_field_string(const char *name, size_t name_size,
                                                const char *value)
{
    return (struct log_field){ name, name_size, LOG_KIND_STRING, value ? value : "", 0, 0 };
}

/* Writes one line, if its level is logged. */
void log_event(enum log_level level, const char *event, const struct log_field *fields,
               size_t field_count);

/* The same, where a line is logged by the levels that log_levels() said before. */
void log_event_by(unsigned levels, enum log_level level, const char *event,
                  const struct log_field *fields, size_t field_count);

/* log_line(LOG_INFO, "listening", LOG_STRING("address", address)); at least one field. */
#define log_line(level, event, ...)                                                                \
    log_event((level), (event), (const struct log_field[]){ __VA_ARGS__ },                         \
              sizeof((const struct log_field[]){ __VA_ARGS__ }) / sizeof(struct log_field))

/* Logs that count lines were dropped, for log_writer_start(). */
void log_dropped(uint64_t count);

bool log_enabled(enum log_level level);

/* The levels that are logged, as bits: 1 << LOG_INFO stands for info. From any thread, at any
 * time. */
unsigned log_levels(void);
void log_set_levels(unsigned levels);

#endif
