/* log.h - one line an event, to standard error, as text or JSON.
 *
 *     2026-11-21T09:00:00.123Z info listening address=127.0.0.1:8080
 *     {"time":"2026-11-21T09:00:00.123Z","level":"info","event":"listening","address":"127.0.0.1:8080"}
 *
 * A line is one write(), or one of several whole lines in one (log_writer.h); lines never mix.
 * Values are escaped: no client can forge a line. */
#ifndef ATTND_LOG_H
#define ATTND_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR };
enum log_format { LOG_TEXT, LOG_JSON };

/* Once, before threads start. */
void log_configure(enum log_level level, enum log_format format);

/* A field of a line, its name a literal: a string, a number printed with %.6g, integers in full, or
 * a duration in milliseconds to the last nanosecond. */
enum log_kind { LOG_KIND_STRING, LOG_KIND_NUMBER, LOG_KIND_DURATION };
struct log_field {
    const char *name;
    size_t name_size; /* of a literal, and so known when this is compiled */
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

void log_event(enum log_level level, const char *event, const struct log_field *fields,
               size_t field_count);

/* log_line(LOG_INFO, "listening", LOG_STRING("address", address)); at least one field. */
#define log_line(level, event, ...)                                                                \
    log_event((level), (event), (const struct log_field[]){ __VA_ARGS__ },                         \
              sizeof((const struct log_field[]){ __VA_ARGS__ }) / sizeof(struct log_field))

/* The line about count lines that were dropped, for log_writer_start(). */
void log_dropped(uint64_t count);

bool log_enabled(enum log_level level);

/* Which levels are logged, as bits: 1 << LOG_INFO is one. At any time, from any thread. */
unsigned log_levels(void);
void log_set_levels(unsigned levels);

#endif
