/* SPDX-License-Identifier: Apache-2.0 */
/* regex.h - the matches of a regular expression of a tokenizer file, in bounded time and memory.
 *
 * Patterns are compiled and searched by Oniguruma, with the syntax and the options of the reference
 * implementation, which uses the same engine: so the same matches are found, also where engines
 * differ. Patterns come from files, and a pattern may take exponential time on a text: a scan that
 * takes too long ends with a fault, see regex.c.
 *
 * Source: Oniguruma 6.9, doc/RE and doc/API, https://github.com/kkos/oniguruma. */
#ifndef ATTND_REGEX_H
#define ATTND_REGEX_H

#include "models/tokenizer/work_limit.h"

#include <stdbool.h>
#include <stdint.h>

enum { REGEX_PATTERN_BYTES_MAX = 16384 }; /* published patterns have a few hundred */

/* Does not change once it is made; any number of threads may use it at once. */
struct regex;

/* Compiles size bytes of a pattern, UTF-8. The fault names the pattern and what is wrong in it. */
bool regex_create(struct regex **regex, const char *pattern, size_t size, struct fault *fault);
void regex_free(struct regex *regex); /* NULL is fine */

/* The matches in a text from left to right, as the reference's find_iter() gives them: none lies
 * over another, and an empty one directly behind the match before it is left out. */
struct regex_scan {
    const struct regex *regex;
    const char *text; /* the bounds of the text are those of ^, $, \b and look-around */
    int64_t size;
    int64_t at;       /* where the next search begins */
    int64_t last_end; /* of the match before; -1: none */
    struct work_limit *limit;
    struct regex_engine *engine; /* what the searches share; NULL before the first one */
};

/* What the scan costs is counted in the limit, which outlives it. */
void regex_scan_init(struct regex_scan *scan, const struct regex *regex, const char *text,
                     int64_t size, struct work_limit *limit);
void regex_scan_free(struct regex_scan *scan);

/* Goes on with another text, from its start. A scan that goes over many short texts is faster than
 * a scan for each. */
void regex_scan_restart(struct regex_scan *scan, const char *text, int64_t size);

/* Finds the next match, [*start, *end) of the text; *found is false behind the last one. The fault
 * is memory, a match that takes too long, or a request that is over. */
bool regex_scan_next(struct regex_scan *scan, bool *found, int64_t *start, int64_t *end,
                     struct fault *fault);

#endif
