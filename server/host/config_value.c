/* SPDX-License-Identifier: Apache-2.0 */
/* config_value.c - see config_value.h.
 *
 * strtoll() is not used: it accepts white space, signs and, with a base of 0, octal numbers, none
 * of which a user means by --body-max. strtod() gets only what was checked to be a plain decimal.
 */
#include "host/config_value.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct unit {
    const char *name;
    int64_t factor;
};

static const struct unit SIZE_UNITS[] = {
    { "", 1 }, { "KiB", 1 << 10 }, { "MiB", 1 << 20 }, { "GiB", 1 << 30 }, { NULL, 0 }
};

static const struct unit TIME_UNITS[] = { { "ms", 1000000 },
                                          { "s", 1000000000 },
                                          { "m", 60000000000 },
                                          { "h", 3600000000000 },
                                          { NULL, 0 } };

/* Reads the digits at the start of text. Returns where they end, or NULL where there are none or
 * their number does not fit. */
static const char *read_digits(const char *text, int64_t *value)
{
    int64_t number = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(number, 10, &number)
            || __builtin_add_overflow(number, *p - '0', &number))
            return NULL;
    *value = number;
    return p == text ? NULL : p;
}

static bool read_with_unit(const char *text, const struct unit *units, int64_t *value)
{
    int64_t number, product;
    const char *rest = read_digits(text, &number);
    if (!rest)
        return false;
    for (; units->name; units++) {
        if (strcmp(rest, units->name) != 0)
            continue;
        if (__builtin_mul_overflow(number, units->factor, &product))
            return false;
        *value = product;
        return true;
    }
    return false;
}

bool config_value_integer(const char *text, int64_t *value)
{
    int64_t number;
    const char *rest = read_digits(text, &number);
    if (!rest || *rest)
        return false;
    *value = number;
    return true;
}

bool config_value_decimal(const char *text, double *value)
{
    const size_t whole = strspn(text, "0123456789");
    const char *point = text + whole;
    const size_t places = *point == '.' ? strspn(point + 1, "0123456789") : 0;
    const char *end = *point == '.' ? point + 1 + places : point;
    if (*end || whole < 1 || whole > 9 || (*point == '.' && (places < 1 || places > 6)))
        return false;
    *value = strtod(text, NULL);
    return true;
}

bool config_value_size(const char *text, int64_t *bytes)
{
    return read_with_unit(text, SIZE_UNITS, bytes);
}

bool config_value_mode(const char *text, int64_t *mode)
{
    int64_t bits = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '7' && bits <= 0777; p++)
        bits = bits * 8 + (*p - '0');
    if (p == text || *p || bits > 0777)
        return false;
    *mode = bits;
    return true;
}

bool config_value_time(const char *text, int64_t *ns)
{
    if (strcmp(text, "0") == 0) {
        *ns = 0;
        return true;
    }
    return read_with_unit(text, TIME_UNITS, ns);
}

void config_value_show_size(char text[CONFIG_VALUE_SHOWN], int64_t bytes)
{
    const struct unit *unit = SIZE_UNITS;
    while (bytes != 0 && unit[1].name && bytes % unit[1].factor == 0)
        unit++;
    snprintf(text, CONFIG_VALUE_SHOWN, "%lld%s", (long long)(bytes / unit->factor), unit->name);
}

void config_value_show_time(char text[CONFIG_VALUE_SHOWN], int64_t ns)
{
    const int64_t ms = 1000000, s = 1000 * ms, h = 3600 * s;
    if (ns != 0 && ns % h == 0)
        snprintf(text, CONFIG_VALUE_SHOWN, "%lldh", (long long)(ns / h));
    else if (ns % s == 0)
        snprintf(text, CONFIG_VALUE_SHOWN, "%llds", (long long)(ns / s));
    else
        snprintf(text, CONFIG_VALUE_SHOWN, "%lldms", (long long)(ns / ms));
}

int config_value_choice(const char *text, const char *choices)
{
    const size_t length = strlen(text);
    for (int place = 0;; place++) {
        const size_t size = strcspn(choices, "|");
        if (size == length && memcmp(choices, text, size) == 0)
            return place;
        if (!choices[size])
            return -1;
        choices += size + 1;
    }
}
