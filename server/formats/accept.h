/* SPDX-License-Identifier: Apache-2.0 */
/* accept.h - what a client accepts: the quality values of an Accept and of an Accept-Encoding line
 * (RFC 9110, sections 12.4.2, 12.5.1 and 12.5.3). */
#ifndef ATTND_ACCEPT_H
#define ATTND_ACCEPT_H

#include <stdbool.h>
#include <stddef.h>

/* An element of a list: "gzip;q=0.5", "application/json; charset=utf-8". */
struct accept_element {
    const char *text; /* in the line: the name and its parameters */
    size_t length;
    size_t name_length;
};

/* Reads the next element of the list, and moves *list behind it. Returns false at the end. A comma
 * in a quoted string is part of its element. */
bool accept_next(const char **list, struct accept_element *element);

/* The quality value of the element, in thousandths: 1000 where it has none, 0 where it is
 * malformed. Other parameters may stand before it of a media type; of a coding they are malformed.
 */
int accept_quality(const struct accept_element *element, bool is_media_type);

/* Chooses one of the media types that an answer may have by an Accept line; NULL: there is none.
 * Returns the index of the type with the highest quality value. Of equal ones a type that the line
 * names comes before one that it means by a wildcard, and of those that are named the first; else,
 * and where the line accepts none, `usual` is chosen. A type's value is that of the most specific
 * range that has it. Parameters of a range other than q are not looked at. */
int accept_choose(const char *line, const char *const *types, int count, int usual);

#endif
