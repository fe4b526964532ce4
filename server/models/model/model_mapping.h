/* SPDX-License-Identifier: Apache-2.0 */
/* model_mapping.h - a file on disk as bytes in memory, read-only, guarded against being cut short
 * (model_guard.h) and watched for being written into.
 *
 * A file is replaced by renaming another one over it; the mapping then keeps the old file. A writer
 * that cuts, extends or overwrites the mapped file itself changes the bytes under the model, and no
 * signal tells of it unless a whole page goes away: the rest of the last page reads as zeros. So
 * the file's size and time of change are compared with those from before the first read. The file
 * is found by its path: a descriptor kept for each mapping would be one less for connections. Three
 * kinds of writes are not seen: one within the same tick of the file system's clock as the opening,
 * one through another process's mapping that is not yet written back, and one into a file that its
 * path does not lead to any more: such a file was renamed, replaced or removed. */
#ifndef ATTND_MODEL_MAPPING_H
#define ATTND_MODEL_MAPPING_H

#include "base/fault.h"
#include "models/model/model_guard.h"

#include <stdatomic.h>
#include <sys/stat.h>

struct model_mapping {
    void *bytes;
    size_t size; /* 1 or more */
    struct model_guard *guard;
    char *real_path;              /* where the file was opened, without links */
    struct stat opened;           /* what fstat() told of it then */
    _Atomic(const char *) damage; /* never cleared once it is set */
    struct model_mapping *next;   /* another file of the same model; NULL: none */
};

/* Maps a regular file of at least one byte. NULL at a fault. */
struct model_mapping *model_mapping_create(const char *path, struct fault *fault);

/* Frees a struct model_mapping and all that follow it; NULL is fine. Takes a void * so that it can
 * be the release function of model_create(). */
void model_mapping_free(void *mapping);

/* The bytes of mapping and those that follow it; 0 for NULL. */
size_t model_mapping_bytes(const struct model_mapping *mapping);

/* Why mapping and those that follow it must not be used any more: a constant string, "its file was
 * cut short while it was mapped" or "... written into ...". NULL: no file has changed. mapping may
 * be NULL. Sets *is_new for the one caller that is the first to hear of a file. */
const char *model_mapping_damage(struct model_mapping *mapping, bool *is_new);

/* Says that the mapped file is about to be renamed to path, in the folder where it lies. Call it
 * while no other thread has the mapping. */
bool model_mapping_rename(struct model_mapping *mapping, const char *path, struct fault *fault);

/* Reads a whole text file of at most 16 MiB and puts a NUL byte after it. malloc'd, the caller's;
 * NULL at a fault. */
char *model_mapping_read_text(const char *path, struct fault *fault);

/* Whether path lies in folder once symbolic links are followed. True where path does not exist: the
 * call that opens it says so. On false the fault is binary, or memory where nobody knows. */
bool model_mapping_is_inside(const char *folder, const char *path, struct fault *fault);

#endif
