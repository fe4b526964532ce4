/* json_doubles.c - numbers of a JSON text as doubles, for the few calls that compute in double.
 *
 * The pass over the text has checked the grammar and knows where an array begins, so that here is
 * nothing left to go wrong. The C library rounds correctly and knows NaN and Infinity; it is slower
 * than our reader of floats, and simpler than a second one of our own. */
#include "text/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Reads the element at text and returns the byte after it. A ']' ends every number. */
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
