/* SPDX-License-Identifier: Apache-2.0 */
/* names.h - names in messages: the known name that a mistyped one probably means, a list of names
 * that fits a buffer, and the beginning of what came. */
#ifndef ATTND_NAMES_H
#define ATTND_NAMES_H

#include <stddef.h>
#include <stdint.h>

/* Returns the known name that is the fewest edits away from given, the first of several; NULL where
 * none is near. An edit adds, removes or replaces a letter, or swaps two neighbours; upper and
 * lower case count as the same letter. */
const char *nearest_name(const char *given, const char *const *known, int count);

/* Writes the beginning of size bytes at text, cut to fit out_bytes (at least 4) and then ended by
 * three dots, with '?' in place of all that is not visible ASCII. Returns out. */
const char *name_show(char *out, size_t out_bytes, const char *text, size_t size);

/* A list of as many names as the buffer has room for: "a, b and 7 more". */
struct name_list {
    char *text; /* the caller's buffer; a valid string at any time */
    size_t bytes, used;
    int64_t left; /* names that had no room */
};

/* An empty list in text, which has bytes bytes, at least 40: " and N more" may take 32 of them. */
struct name_list name_list_in(char *text, size_t bytes);

/* Appends a name. After the first name without room, all further names are only counted. */
void name_list_add(struct name_list *list, const char *name);

/* Appends how many names had no room. */
void name_list_end(struct name_list *list);

#endif
