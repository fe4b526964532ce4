/* access_limits.c - see access_limits.h.
 *
 * LIMITS is the one list of limits: name, kind of value, field, bounds and what a message says that
 * a value is. Reading, writing, --help and the suggestion for a mistyped name come from it. */
#include "access/access_limits.h"

#include "base/names.h"
#include "config/config_value.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum limit_kind { DECIMAL, INTEGER, SIZE, TIME, DATE };

struct limit {
    const char *name;
    enum limit_kind kind;
    size_t field; /* its offset in struct access_limits: a double for DECIMAL, else an int64_t */
    double min, max;
    const char *help;
};

enum { NS_PER_MS = 1000000, TEXT_SHOWN = 28, NUMBER_BYTES = CONFIG_VALUE_SHOWN };

#define FIELD(name) offsetof(struct access_limits, name)
#define COUNT_MOST  1e6
#define BYTES_MOST  ((double)(INT64_C(1) << 40))
#define TIME_MOST   (86400e9)

static const struct limit LIMITS[ACCESS_LIMIT_COUNT] = {
    { "cpu", DECIMAL, FIELD(cpu), 0.001, 1024, "CPU seconds a second, as in 0.5" },
    { "burst", TIME, FIELD(burst_ns), NS_PER_MS, TIME_MOST,
      "CPU time that may be saved up, in ms, s, m or h as in 500ms" },
    { "in-flight", INTEGER, FIELD(in_flight), 1, COUNT_MOST, "a number of requests" },
    { "memory", SIZE, FIELD(memory_bytes), 1, BYTES_MOST, "bytes, or KiB, MiB or GiB as in 64MiB" },
    { "sessions", INTEGER, FIELD(sessions), 1, COUNT_MOST, "a number of sessions" },
    { "session-memory", SIZE, FIELD(session_bytes), 1, BYTES_MOST,
      "bytes of its sessions, with keys and values, as in 1GiB" },
    { "traces", INTEGER, FIELD(traces), 1, COUNT_MOST, "a number of kept traces" },
    { "trace-memory", SIZE, FIELD(trace_bytes), 1, BYTES_MOST,
      "bytes of its kept traces, as in 256MiB" },
    { "weight", DECIMAL, FIELD(weight), 0.01, 100, "a share of the workers, as in 2" },
    { "expires", DATE, FIELD(expires_s), 0, 0, "the first day without the key, as in 2027-01-31" },
};

void access_limits_init(struct access_limits *limits)
{
    *limits = (struct access_limits){ .weight = 1, .expires_s = INT64_MAX };
}

/* ------------------------------------------------------------------ names -- */

int access_limit_find(const char *name)
{
    for (int i = 0; i < ACCESS_LIMIT_COUNT; i++)
        if (strcmp(LIMITS[i].name, name) == 0)
            return i;
    return -1;
}

const char *access_limit_name(int limit)
{
    return LIMITS[limit].name;
}

const char *access_limit_help(int limit)
{
    return LIMITS[limit].help;
}

const char *access_limit_nearest(const char *name)
{
    const char *names[ACCESS_LIMIT_COUNT];
    for (int i = 0; i < ACCESS_LIMIT_COUNT; i++)
        names[i] = LIMITS[i].name;
    return nearest_name(name, names, ACCESS_LIMIT_COUNT);
}

void access_limit_names(char *text, size_t bytes)
{
    struct name_list list = name_list_in(text, bytes);
    for (int i = 0; i < ACCESS_LIMIT_COUNT; i++)
        name_list_add(&list, LIMITS[i].name);
    name_list_end(&list);
}

/* ------------------------------------------------------------------ dates -- */

/* The number in size digits. */
static int digits(const char *text, int size)
{
    int number = 0;
    for (int i = 0; i < size; i++)
        number = 10 * number + (text[i] - '0');
    return number;
}

/* Reads "2027-01-31", a day that the calendar has, as its first second in UTC. */
static bool read_date(const char *text, int64_t *seconds)
{
    static const char form[] = "dddd-dd-dd";
    if (strlen(text) != sizeof form - 1)
        return false;
    for (size_t i = 0; i < sizeof form - 1; i++)
        if (form[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != form[i])
            return false;
    const struct tm wanted = {
        .tm_year = digits(text, 4) - 1900,
        .tm_mon = digits(text + 5, 2) - 1,
        .tm_mday = digits(text + 8, 2),
    };
    struct tm day = wanted;
    const time_t time = timegm(&day); /* makes 1 March of 30 February */
    if (time < 0 || day.tm_mday != wanted.tm_mday || day.tm_mon != wanted.tm_mon)
        return false;
    *seconds = time;
    return true;
}

static void write_date(char out[NUMBER_BYTES], int64_t seconds)
{
    const time_t time = (time_t)seconds;
    struct tm day;
    if (!gmtime_r(&time, &day) || strftime(out, NUMBER_BYTES, "%Y-%m-%d", &day) == 0)
        out[0] = '\0';
}

/* ----------------------------------------------------------------- values -- */

/* A value of the limit as it is typed. */
static void write_value(char out[NUMBER_BYTES], const struct limit *limit, double value)
{
    const int64_t number = (int64_t)value;
    if (limit->kind == TIME)
        config_value_show_time(out, number);
    else if (limit->kind == SIZE)
        config_value_show_size(out, number);
    else if (limit->kind == DATE)
        write_date(out, number);
    else
        snprintf(out, NUMBER_BYTES, "%.10g", value); /* at most 4 digits and 6 behind the point */
}

static double value_of(const struct access_limits *limits, const struct limit *limit)
{
    const char *field = (const char *)limits + limit->field;
    double decimal;
    int64_t number;
    if (limit->kind == DECIMAL) {
        memcpy(&decimal, field, sizeof decimal);
        return decimal;
    }
    memcpy(&number, field, sizeof number);
    return (double)number;
}

static bool refuse_value(const struct limit *limit, const char *text, struct fault *fault)
{
    char shown[TEXT_SHOWN], min[NUMBER_BYTES], max[NUMBER_BYTES];
    if (limit->kind == DATE)
        return fault_set(fault, FAULT_OPTION, "%s is '%s'; expected %s", limit->name,
                         name_show(shown, sizeof shown, text, strlen(text)), limit->help);
    write_value(min, limit, limit->min);
    write_value(max, limit, limit->max);
    return fault_set(fault, FAULT_OPTION, "%s is '%s'; expected %s, from %s to %s", limit->name,
                     name_show(shown, sizeof shown, text, strlen(text)), limit->help, min, max);
}

bool access_limit_set(struct access_limits *limits, int limit, const char *text,
                      struct fault *fault)
{
    const struct limit *row = &LIMITS[limit];
    char *field = (char *)limits + row->field;
    double decimal = 0;
    int64_t number = 0;
    const bool is_read = row->kind == DECIMAL   ? config_value_decimal(text, &decimal)
                         : row->kind == INTEGER ? config_value_integer(text, &number)
                         : row->kind == SIZE    ? config_value_size(text, &number)
                         : row->kind == TIME    ? config_value_time(text, &number)
                                                : read_date(text, &number);
    if (row->kind != DECIMAL)
        decimal = (double)number;
    if (!is_read || (row->kind != DATE && !(decimal >= row->min && decimal <= row->max)))
        return refuse_value(row, text, fault);
    if (row->kind == DECIMAL)
        memcpy(field, &decimal, sizeof decimal);
    else
        memcpy(field, &number, sizeof number);
    return true;
}

static int64_t burst_of_a_second(const struct access_limits *limits)
{
    return llround(limits->cpu * 1e9);
}

void access_limits_settle(struct access_limits *limits)
{
    if (limits->burst_ns == 0)
        limits->burst_ns = burst_of_a_second(limits);
}

void access_limits_write(const struct access_limits *limits, struct text *text)
{
    struct access_limits usual;
    char value[NUMBER_BYTES];
    access_limits_init(&usual);
    usual.burst_ns = burst_of_a_second(limits);
    for (int i = 0; i < ACCESS_LIMIT_COUNT; i++) {
        if (value_of(limits, &LIMITS[i]) == value_of(&usual, &LIMITS[i]))
            continue;
        write_value(value, &LIMITS[i], value_of(limits, &LIMITS[i]));
        text_format(text, " %s=%s", LIMITS[i].name, value);
    }
}
