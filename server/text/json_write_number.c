/* json_write_number.c - see json_numbers.h: doubles and integers to text, for the few answers that
 * have them. */
#include "text/json_numbers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char NOT_FINITE[4] = { 'n', 'u', 'l', 'l' };

size_t json_write_double(char *out, double value)
{
    int digits = 15, size;
    if (!isfinite(value)) {
        memcpy(out, NOT_FINITE, sizeof NOT_FINITE);
        return sizeof NOT_FINITE;
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
