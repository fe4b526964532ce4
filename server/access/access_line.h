/* access_line.h - one line of the keys' file, and faults that say where in the file. */
#ifndef ATTND_ACCESS_LINE_H
#define ATTND_ACCESS_LINE_H

#include "access/access_key.h"

enum { ACCESS_LINE_BYTES_MAX = 4096 };

struct access_line {
    const char *path; /* of the file, for messages */
    int number;       /* from 1 */
    const char *text; /* without comment and end of line */
    size_t size;
};

/* Sets a fault "path:line:column: message" for the byte at `at`; columns count bytes from 1.
 * Returns false. A message never holds what may be a secret. */
bool access_line_fault(const struct access_line *line, const char *at, struct fault *fault,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Where the name and the hash of the line begin, for faults that are found later. */
struct access_line_places {
    const char *name, *hash;
};

/* Fills in all of a new key but its account. The line has more than blanks. */
bool access_line_read(const struct access_line *line, struct access_key *key,
                      struct access_line_places *places, struct fault *fault);

#endif
