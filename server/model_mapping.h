/* model_mapping.h - a file on disk as bytes in memory, read-only, and guarded against
 * being cut short (model_guard.h). */
#ifndef ATTND_MODEL_MAPPING_H
#define ATTND_MODEL_MAPPING_H

#include "fault.h"
#include "model_guard.h"

#include <sys/stat.h>

struct model_mapping {
    void *bytes;
    size_t size; /* 1 or more */
    struct model_guard *guard;
    struct model_mapping *next; /* another file of the same model; NULL: none */
};

/* A regular file of at least one byte. NULL at a fault. */
struct model_mapping *model_mapping_create(const char *path, struct fault *fault);

/* Takes a struct model_mapping, with all that follow it, or NULL; a release function of
 * model_create(). */
void model_mapping_free(void *mapping);

/* Whether any of these files was cut short under us. NULL: no. */
bool model_mapping_damaged(const struct model_mapping *mapping);

/* The whole of a small text file, with a NUL byte behind it; malloc'd, NULL at a fault. */
char *model_mapping_read_text(const char *path, struct fault *fault);

/* The same file opened for reading, and what fstat() says of it; -1 at a fault. */
int model_mapping_open_file(const char *path, struct stat *status, struct fault *fault);

#endif
