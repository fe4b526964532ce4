/* regex.h - regular expressions of tokenizer files, by Oniguruma, the engine that the reference
 * implementation uses.
 *
 * Patterns come from files, so their time and memory are bounded: a match that is tried too often
 * is a fault, and so is a pattern that takes too much memory. */
#ifndef ATTND_REGEX_H
#define ATTND_REGEX_H

#include "base/fault.h"

#include <stdbool.h>
#include <stdint.h>

/* Does not change once it is made; any number of threads may use it at once. */
struct regex;

/* Compiles size bytes of a pattern, UTF-8. The fault names the pattern and what is wrong in it. */
bool regex_create(struct regex **regex, const char *pattern, size_t size, struct fault *fault);
void regex_free(struct regex *regex); /* NULL is fine */

/* The matches in a text from left to right, as the reference's find_iter() gives them. */
struct regex_scan {
    const struct regex *regex;
    const char *text; /* the bounds of the text are those of ^, $, \b and look-around */
    int64_t size, at, last_end;
    void *region;
};

void regex_scan_init(struct regex_scan *scan, const struct regex *regex, const char *text,
                     int64_t size);
void regex_scan_free(struct regex_scan *scan);

/* Finds the next match, [*start, *end) of the text; *found is false behind the last one. The fault
 * is memory, or a match that takes too long. */
bool regex_scan_next(struct regex_scan *scan, bool *found, int64_t *start, int64_t *end,
                     struct fault *fault);

#endif
