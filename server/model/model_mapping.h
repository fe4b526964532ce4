/* model_mapping.h - a file on disk as bytes in memory, read-only, guarded against being cut short
 * (model_guard.h) and watched for being written into.
 *
 * Who replaces a file renames another over it, and the mapping keeps the old one. Who cuts, appends
 * to or overwrites the file itself changes the bytes under the model, and where no page goes away
 * nothing tells: behind the end of the last page there are zeros. So the descriptor is kept, and
 * size and time of change are compared with what they were before anything was read. A write within
 * the same tick of the file system's clock as the opening, or one by a mapping of somebody else
 * that is not yet written back, is not seen. */
#ifndef ATTND_MODEL_MAPPING_H
#define ATTND_MODEL_MAPPING_H

#include "base/fault.h"
#include "model/model_guard.h"

#include <stdatomic.h>
#include <sys/stat.h>

struct model_mapping {
    void *bytes;
    size_t size; /* 1 or more */
    struct model_guard *guard;
    int file; /* open as long as it is mapped */
    struct timespec changed_at;
    _Atomic(const char *) damage; /* once seen it stays */
    struct model_mapping *next;   /* another file of the same model; NULL: none */
};

/* A regular file of at least one byte. NULL at a fault. */
struct model_mapping *model_mapping_create(const char *path, struct fault *fault);

/* Takes a struct model_mapping, with all that follow it, or NULL; a release function of
 * model_create(). */
void model_mapping_free(void *mapping);

/* Why these files are not to be used any more, "its file was cut short while it was mapped" or
 * "... written into ...", a constant string; NULL: they are what they were. mapping may be NULL. */
const char *model_mapping_damage(struct model_mapping *mapping);

/* The whole of a small text file, with a NUL byte behind it; malloc'd, NULL at a fault. */
char *model_mapping_read_text(const char *path, struct fault *fault);

/* The same file opened for reading, and what fstat() says of it; -1 at a fault. */
int model_mapping_open_file(const char *path, struct stat *status, struct fault *fault);

#endif
