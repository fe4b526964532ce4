/* tokenizer_file.h - the files of a tokenizer's folder, read whole and bounded in size. */
#ifndef ATTND_TOKENIZER_FILE_H
#define ATTND_TOKENIZER_FILE_H

#include "base/fault.h"

enum { TOKENIZER_FILE_BYTES_MAX = 64 << 20 };

/* Reads a file of a folder. *bytes is malloc'd, the caller's, with a NUL byte behind its size; NULL
 * where the folder has no such file, which is no fault. The fault names the file: it is too large,
 * not a regular file, or cannot be read. */
bool tokenizer_file_read(const char *directory, const char *name, char **bytes, size_t *size,
                         struct fault *fault);

#endif
