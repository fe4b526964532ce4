/* SPDX-License-Identifier: Apache-2.0 */
/* json_floats.c - chooses how this CPU reads and writes a row of floats; doubles and 64-bit
 * integers by the C library, for the few calls that have them.
 *
 * The C library rounds correctly and knows NaN and Infinity. It is slower than our reader and
 * writer of floats, and simpler than a second pair of our own. */
#include "json/json_floats.h"

#include "json/json.h"
#include "json/json_numbers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---------------------------------------------------- floats, by this CPU -- */

static bool avx2_runs(void)
{
#ifdef __x86_64__
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi")
           && __builtin_cpu_supports("bmi2");
#else
    return false;
#endif
}

json_floats_reader *const *json_floats_readers(void)
{
    static json_floats_reader *const READERS[] = {
#ifdef __x86_64__
        json_read_floats_avx2,
#endif
        json_read_floats_plain,
        NULL,
    };
    return avx2_runs() ? READERS : READERS + (sizeof READERS / sizeof READERS[0] - 2);
}

size_t json_read_floats(const char *begin, const char **text, const char *end, float *values)
{
    return (*json_floats_readers())(begin, text, end, values);
}

json_floats_writer *const *json_floats_writers(void)
{
    static json_floats_writer *const WRITERS[] = {
#ifdef __x86_64__
        json_write_floats_avx2,
#endif
        json_write_floats_plain,
        NULL,
    };
    return avx2_runs() ? WRITERS : WRITERS + (sizeof WRITERS / sizeof WRITERS[0] - 2);
}

size_t json_write_floats(char *out, const float *values, size_t count)
{
    return (*json_floats_writers())(out, values, count);
}

/* ------------------------------------------------------- doubles from text -- */

/* json_read() has checked the grammar, so nothing can go wrong here. */

/* Reads the element at text and returns the byte after it. strtod() stops in time: a ',', a ']' or
 * white space follows every number. */
static const char *read_element(const char *text, double *value)
{
    char *end;
    switch (*text) {
    case 't':
        *value = 1;
        return text + strlen("true");
    case 'f':
        *value = 0;
        return text + strlen("false");
    case 'n':
        *value = -INFINITY;
        return text + strlen("null");
    default:
        *value = strtod(text, &end);
        return end;
    }
}

int64_t json_read_doubles(const char *text, const struct json_numbers *numbers, double *values)
{
    const char *p = text + numbers->offset;
    int64_t nonfinite_index = -1;
    for (int64_t i = 0; i < numbers->count; i++) {
        p += strspn(p, "[], \t\n\r");
        const bool is_null = *p == 'n';
        p = read_element(p, &values[i]);
        if (nonfinite_index < 0 && !is_null && !isfinite(values[i]))
            nonfinite_index = i;
    }
    return nonfinite_index;
}

/* --------------------------------------------------------- doubles to text -- */

size_t json_write_double(char *out, double value)
{
    int digits = 15, size;
    if (!isfinite(value)) {
        memcpy(out, JSON_NULL, sizeof JSON_NULL);
        return sizeof JSON_NULL;
    }
    do
        size = snprintf(out, JSON_DOUBLE_BYTES_MAX, "%.*g", digits, value);
    while (digits++ < 17 && strtod(out, NULL) != value);
    return (size_t)size;
}

size_t json_write_decimal(char *out, int64_t value, int places)
{
    char digits[JSON_INTEGER_BYTES_MAX];
    char *end = digits + sizeof digits, *p = end;
    uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    for (int i = 0; i <= places || magnitude > 0; i++) {
        if (i == places && places > 0)
            *--p = '.';
        *--p = (char)('0' + magnitude % 10);
        magnitude /= 10;
    }
    if (value < 0)
        *--p = '-';
    memcpy(out, p, (size_t)(end - p));
    return (size_t)(end - p);
}
