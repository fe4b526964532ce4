/* model_save.h - writing a file so that a crash at any moment leaves the old one or
 * the new one, whole.
 *
 * The bytes go to a hidden temporary file in the same directory, which is synced,
 * renamed over the old one, and the directory synced: rename() is atomic, and the
 * two syncs keep its order on disk. */
#ifndef ATTND_MODEL_SAVE_H
#define ATTND_MODEL_SAVE_H

#include "base/fault.h"

struct model_save {
    char *temporary; /* its path; NULL: nothing begun, or committed */
    int file;        /* open and locked while it is begun */
};

/* Writes and syncs the temporary file. On false nothing is left. */
bool model_save_begin(struct model_save *save, const char *directory, const void *bytes,
                      size_t size, struct fault *fault);

/* Renames it to path, which is in directory. On false the old file is as it was, and the
 * temporary one is still there. */
bool model_save_commit(struct model_save *save, const char *directory, const char *path,
                       struct fault *fault);

/* Removes the temporary file where it was not committed. A zeroed struct is fine. */
void model_save_free(struct model_save *save);

/* Removes path, which is in directory, for good. One that is gone already is fine. */
bool model_save_remove(const char *directory, const char *path, struct fault *fault);

/* Removes temporary files that a crash left behind. */
void model_save_clean(const char *directory);

#endif
