/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - see log.h.
 *
 * A line is put together in a buffer on the stack, so logging allocates nothing and works when
 * memory has run out. A line is at most PIPE_BUF bytes long: up to that size the kernel keeps a
 * write() to a pipe in one piece. A long value is cut, which leaves room for the fields after it; a
 * field that still does not fit is left out, and the line says so. */
#include "telemetry/log.h"

#include "base/utf8.h"
#include "telemetry/log_writer.h"
#include "json/text.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum {
    LINE_BYTES_MAX = PIPE_BUF,
    VALUE_BYTES_MAX = 512,
    TAIL_BYTES_MAX = 32, /* for what ends a line: "truncated" and the newline */
};

static const char *const LEVEL_NAMES[] = { "debug", "info", "warning", "error" };

static _Atomic unsigned logged_levels = 1u << LOG_INFO | 1u << LOG_WARNING | 1u << LOG_ERROR;
static enum log_format line_format = LOG_TEXT;

void log_configure(enum log_level level, enum log_format format)
{
    log_set_levels(~0u << level);
    line_format = format;
}

unsigned log_levels(void)
{
    return atomic_load_explicit(&logged_levels, memory_order_relaxed);
}

void log_set_levels(unsigned levels)
{
    atomic_store_explicit(&logged_levels, levels, memory_order_relaxed);
}

bool log_enabled(enum log_level level)
{
    return (log_levels() >> level & 1u) != 0;
}

/* Whether a well-formed character is still not safe to show: delete and the second set of control
 * characters, which a terminal may obey, and Unicode's own ends of lines. */
static bool is_unsafe(const char *character, size_t size)
{
    const unsigned char *byte = (const unsigned char *)character;
    return (size == 1 && byte[0] == 0x7f) || (size == 2 && byte[0] == 0xc2 && byte[1] < 0xa0)
           || (size == 3 && byte[0] == 0xe2 && byte[1] == 0x80 && (byte[2] | 1) == 0xa9);
}

/* Copies value as UTF-8, with U+FFFD in place of malformed bytes and unsafe characters. A long
 * value is cut and ends in three dots. */
static void copy_value(char out[VALUE_BYTES_MAX + 8], const char *value)
{
    size_t used = 0, left = strlen(value);
    while (left > 0 && used < VALUE_BYTES_MAX) {
        const size_t size = utf8_character_size(value, left);
        const bool safe = size > 0 && !is_unsafe(value, size);
        const size_t taken = size > 0 ? size : 1;
        memcpy(out + used, safe ? value : "\xEF\xBF\xBD", safe ? size : 3);
        used += safe ? size : 3;
        value += taken;
        left -= taken;
    }
    memcpy(out + used, left > 0 ? "..." : "", left > 0 ? 4 : 1);
}

/* The size of a value that needs no quotes in a line of text and no escapes in a line of JSON. 0:
 * the value needs them, is empty or is too long. */
static size_t plain_size(const char *value)
{
    const char *p = value;
    for (; *p; p++)
        if (*p <= ' ' || *p > '~' || *p == '"' || *p == '=' || *p == '\\')
            return 0;
    return p - value <= VALUE_BYTES_MAX ? (size_t)(p - value) : 0;
}

/* Writes six digits, as %.6g does. A decimal number of six digits survives the way through a float
 * (FLT_DIG is 6), and a float is written in a fifth of printf()'s time. */
static void write_number(struct text *line, double number)
{
    const double size = fabs(number);
    if (size < 9007199254740992.0 && number == floor(number)) {
        text_integer(line, (int64_t)number);
    } else if (size > 1e-30 && size < 1e30) {
        const double scale = exp10(5 - floor(log10(size)));
        text_float(line, (float)(round(number * scale) / scale));
    } else if (line_format == LOG_JSON && !isfinite(number)) {
        text_raw(line, "null");
    } else {
        text_format(line, "%.6g", number);
    }
}

/* Most strings are plain and are written as they are. */
static void write_string(struct text *line, const char *string)
{
    char value[VALUE_BYTES_MAX + 8];
    const char *quote = line_format == LOG_JSON ? "\"" : "";
    size_t size = plain_size(string);
    if (size == 0) {
        copy_value(value, string);
        string = value;
        size = plain_size(value);
    }
    if (size == 0) {
        text_string(line, string);
        return;
    }
    text_raw(line, quote);
    text_bytes(line, string, size);
    text_raw(line, quote);
}

static void write_name(struct text *line, const struct log_field *field)
{
    const bool json = line_format == LOG_JSON;
    const size_t size = field->name_size + (json ? 4 : 2);
    char *out = text_reserve(line, size);
    if (!out)
        return;
    memcpy(out, json ? ",\"" : " ", json ? 2 : 1);
    memcpy(out + (json ? 2 : 1), field->name, field->name_size);
    memcpy(out + size - (json ? 2 : 1), json ? "\":" : "=", json ? 2 : 1);
    line->used += size;
}

static void write_field(struct text *line, const struct log_field *field)
{
    write_name(line, field);
    switch (field->kind) {
    case LOG_KIND_STRING:
        write_string(line, field->string);
        break;
    case LOG_KIND_NUMBER:
        write_number(line, field->number);
        break;
    case LOG_KIND_DURATION:
        text_decimal(line, field->duration_ns, 6);
        break;
    }
}

/* Formats the seconds once for all lines of a second. */
static void write_time(struct text *line)
{
    static _Thread_local char seconds[32];
    static _Thread_local time_t written;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (!seconds[0] || now.tv_sec != written) {
        struct tm utc;
        gmtime_r(&now.tv_sec, &utc);
        strftime(seconds, sizeof seconds, "%Y-%m-%dT%H:%M:%S", &utc);
        written = now.tv_sec;
    }
    const int ms = (int)(now.tv_nsec / 1000000);
    const char fraction[] = { '.', (char)('0' + ms / 100), (char)('0' + ms / 10 % 10),
                              (char)('0' + ms % 10), 'Z' };
    text_raw(line, seconds);
    text_bytes(line, fraction, sizeof fraction);
}

static void write_head(struct text *line, enum log_level level, const char *event)
{
    const bool json = line_format == LOG_JSON;
    text_raw(line, json ? "{\"time\":\"" : "");
    write_time(line);
    text_raw(line, json ? "\",\"level\":\"" : " ");
    text_raw(line, LEVEL_NAMES[level]);
    text_raw(line, json ? "\",\"event\":" : " ");
    if (json)
        text_string(line, event);
    else
        text_raw(line, event);
}

void log_event(enum log_level level, const char *event, const struct log_field *fields,
               size_t field_count)
{
    log_event_by(log_levels(), level, event, fields, field_count);
}

void log_event_by(unsigned levels, enum log_level level, const char *event,
                  const struct log_field *fields, size_t field_count)
{
    if ((levels >> level & 1u) == 0)
        return;
    const int saved_errno = errno;
    char buffer[LINE_BYTES_MAX + 1];
    bool truncated = false;
    /* The text has its whole capacity from the start, so it never allocates. */
    struct text line = {
        .data = buffer,
        .capacity = LINE_BYTES_MAX - TAIL_BYTES_MAX,
        .bytes_max = LINE_BYTES_MAX - TAIL_BYTES_MAX,
    };
    write_head(&line, level, event);
    for (size_t i = 0; i < field_count; i++) {
        const size_t before = line.used;
        write_field(&line, &fields[i]);
        if (line.failed == FAULT_NONE)
            continue;
        line.used = before;
        line.failed = FAULT_NONE;
        truncated = true;
    }
    line.capacity = line.bytes_max = LINE_BYTES_MAX;
    if (line_format == LOG_JSON)
        text_raw(&line, truncated ? ",\"truncated\":true}\n" : "}\n");
    else
        text_raw(&line, truncated ? " truncated=true\n" : "\n");
    log_writer_put(buffer, line.used, level > LOG_INFO);
    errno = saved_errno;
}

void log_dropped(uint64_t count)
{
    log_line(LOG_WARNING, "log lines dropped", LOG_NUMBER("count", count));
}
