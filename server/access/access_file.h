/* access_file.h - the bytes of the keys' file. */
#ifndef ATTND_ACCESS_FILE_H
#define ATTND_ACCESS_FILE_H

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>

enum { ACCESS_FILE_BYTES_MAX = 1 << 20 };

/* Reads the whole file; *text is malloc'd. Refuses a file that is not regular, that is over
 * ACCESS_FILE_BYTES_MAX, or that others may write, because they could give themselves a key. Logs a
 * warning where others may read it. */
bool access_file_read(const char *path, char **text, size_t *size, struct fault *fault);

#endif
