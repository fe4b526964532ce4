/* nearest.c - see nearest.h.
 *
 * The distance is optimal string alignment (Damerau-Levenshtein without edits
 * inside a swap), row by row in fixed memory. Names of fields and flags are short;
 * whatever is longer than NAME_MAX_BYTES is near to nothing. */
#include "base/nearest.h"

#include <stddef.h>
#include <string.h>

enum { NAME_MAX_BYTES = 64 };

static char folded(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

static int edit_distance(const char *a, int a_length, const char *b, int b_length)
{
    int rows[3][NAME_MAX_BYTES + 1];
    int *before = rows[0], *above = rows[1], *row = rows[2];
    for (int j = 0; j <= b_length; j++)
        row[j] = j;
    for (int i = 1; i <= a_length; i++) {
        int *const oldest = before;
        before = above;
        above = row;
        row = oldest;
        row[0] = i;
        for (int j = 1; j <= b_length; j++) {
            const char c = folded(a[i - 1]), d = folded(b[j - 1]);
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (c != d));
            if (i > 1 && j > 1 && c == folded(b[j - 2]) && d == folded(a[i - 2]))
                row[j] = least(row[j], before[j - 2] + 1);
        }
    }
    return row[b_length];
}

const char *nearest_name(const char *given, const char *const *known, int count)
{
    const size_t given_length = strlen(given);
    const char *nearest = NULL;
    int nearest_distance = 0;
    if (given_length > NAME_MAX_BYTES)
        return NULL;
    for (int i = 0; i < count; i++) {
        const size_t length = strlen(known[i]);
        if (length > NAME_MAX_BYTES)
            continue;
        /* Two names of which a third differs have nothing to do with each other. */
        const size_t longer = length > given_length ? length : given_length;
        const int distance_max = longer < 6 ? 1 : (int)(longer / 3);
        const int distance = edit_distance(given, (int)given_length, known[i], (int)length);
        if (distance <= distance_max && (!nearest || distance < nearest_distance)) {
            nearest = known[i];
            nearest_distance = distance;
        }
    }
    return nearest;
}
