/* SPDX-License-Identifier: Apache-2.0 */
/* accept.c - see accept.h. */
#include "formats/accept.h"

#include <string.h>
#include <strings.h>

/* The end of what begins at p and is followed by one of the marks: behind quoted strings. */
static const char *find_mark(const char *p, const char *end, const char *marks)
{
    bool is_quoted = false;
    for (; p < end; p++) {
        if (is_quoted && *p == '\\' && end - p > 1)
            p++;
        else if (*p == '"')
            is_quoted = !is_quoted;
        else if (!is_quoted && strchr(marks, *p))
            break;
    }
    return p;
}

static const char *trimmed_end(const char *begin, const char *end)
{
    while (end > begin && strchr(" \t", end[-1]))
        end--;
    return end;
}

bool accept_next(const char **list, struct accept_element *element)
{
    const char *begin = *list + strspn(*list, ", \t");
    const char *const end = find_mark(begin, begin + strlen(begin), ",");
    *list = end;
    element->text = begin;
    element->length = (size_t)(trimmed_end(begin, end) - begin);
    element->name_length = 0;
    while (element->name_length < element->length && !strchr("; \t", begin[element->name_length]))
        element->name_length++;
    return element->length > 0;
}

/* "0.5" in thousandths; 0 where it is malformed. */
static int quality_of(const char *p, const char *end)
{
    if (p == end || (*p != '0' && *p != '1'))
        return 0;
    int quality = *p++ == '1' ? 1000 : 0;
    if (p < end && *p == '.') {
        int unit = 100;
        for (p++; p < end && *p >= '0' && *p <= '9' && unit > 0; p++, unit /= 10)
            quality += unit * (*p - '0');
    }
    return p == end && quality <= 1000 ? quality : 0;
}

int accept_quality(const struct accept_element *element, bool is_media_type)
{
    const char *p = element->text + element->name_length;
    const char *const end = element->text + element->length;
    while (p < end) {
        p += strspn(p, "; \t");
        const char *const next = find_mark(p, end, ";");
        if (next - p >= 2 && strncasecmp(p, "q=", 2) == 0)
            return quality_of(p + 2, trimmed_end(p, next));
        if (p < next && !is_media_type)
            return 0;
        p = next;
    }
    return 1000;
}

/* ------------------------------------------------------------ media types -- */

enum { RANGE_NONE, RANGE_ANY, RANGE_OF_TYPE, RANGE_NAMED };

/* How specific a range is for the type; RANGE_NONE where it does not have it. */
static int range_of(const struct accept_element *element, const char *type)
{
    const char *const name = element->text;
    const size_t length = element->name_length, main = strcspn(type, "/") + 1;
    if (length == strlen(type) && strncasecmp(name, type, length) == 0)
        return RANGE_NAMED;
    if (length == main + 1 && name[main] == '*' && strncasecmp(name, type, main) == 0)
        return RANGE_OF_TYPE;
    return length == 3 && memcmp(name, "*/*", 3) == 0 ? RANGE_ANY : RANGE_NONE;
}

/* Twice the quality value of the type, and 1 more where the line names it. */
static int rank_of(const char *line, const char *type)
{
    struct accept_element element;
    int range = RANGE_NONE, quality = 0;
    while (accept_next(&line, &element)) {
        const int own = range_of(&element, type);
        if (own > range) {
            range = own;
            quality = accept_quality(&element, true);
        }
    }
    return 2 * quality + (quality > 0 && range == RANGE_NAMED);
}

int accept_choose(const char *line, const char *const *types, int count, int usual)
{
    if (!line)
        return usual;
    int best = usual, best_rank = rank_of(line, types[usual]);
    for (int i = 0; i < count; i++) {
        const int rank = rank_of(line, types[i]);
        if (rank > best_rank || (rank == best_rank && rank % 2 == 1 && i < best)) {
            best = i;
            best_rank = rank;
        }
    }
    return best;
}
