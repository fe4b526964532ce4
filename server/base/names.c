/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - see names.h.
 *
 * The distance between two names is optimal string alignment: Damerau-Levenshtein without edits
 * inside a swapped pair. It is computed row by row in fixed memory. Names of fields and flags are
 * short; a name longer than NAME_MAX_BYTES is near to none. */
#include "base/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    NAME_MAX_BYTES = 64,
    LIST_END_BYTES = 32, /* ", ", the longest " and N more" and the NUL byte */
};

/* ---------------------------------------------------------- nearest name -- */

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
        /* Names that differ in more than a third of their letters are not related. */
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

/* ------------------------------------------------------------- what came -- */

const char *name_show(char *out, size_t out_bytes, const char *text, size_t size)
{
    const size_t shown = size < out_bytes ? size : out_bytes - 4;
    for (size_t i = 0; i < shown; i++)
        out[i] = text[i] > ' ' && text[i] < 0x7F ? text[i] : '?';
    memcpy(out + shown, shown < size ? "..." : "", shown < size ? 4 : 1);
    return out;
}

/* ---------------------------------------------------------- list of names -- */

struct name_list name_list_in(char *text, size_t bytes)
{
    text[0] = '\0';
    return (struct name_list){ .text = text, .bytes = bytes };
}

void name_list_add(struct name_list *list, const char *name)
{
    if (list->left > 0 || list->used + strlen(name) + LIST_END_BYTES > list->bytes)
        list->left++;
    else
        list->used += (size_t)snprintf(list->text + list->used, list->bytes - list->used, "%s%s",
                                       list->used > 0 ? ", " : "", name);
}

void name_list_end(struct name_list *list)
{
    if (list->left > 0)
        snprintf(list->text + list->used, list->bytes - list->used, "%s%" PRId64 " more",
                 list->used > 0 ? " and " : "", list->left);
}
