/* model_save.h - writes a file so that a crash at any moment leaves the old file or the new one,
 * whole.
 *
 * The bytes go to a hidden temporary file in the same directory. It is synced and renamed over the
 * old file, and then the directory is synced. rename() is atomic, the first sync puts the bytes on
 * disk before the new name, and the second puts the name on disk before the caller goes on. */
#ifndef ATTND_MODEL_SAVE_H
#define ATTND_MODEL_SAVE_H

#include "base/fault.h"

struct model_save {
    char *temporary; /* path of the temporary file; NULL: not begun, or committed */
    int file;        /* its descriptor, open and locked until it is committed or freed */
};

/* Writes and syncs the temporary file. On false nothing is left. */
bool model_save_begin(struct model_save *save, const char *directory, const void *bytes,
                      size_t size, struct fault *fault);

/* Renames the temporary file to path, which is in directory. On false the old file is unchanged and
 * the temporary one is still there. */
bool model_save_commit(struct model_save *save, const char *directory, const char *path,
                       struct fault *fault);

/* Removes the temporary file where it was not committed. A zeroed struct is fine. */
void model_save_free(struct model_save *save);

/* Removes path, which is in directory, and syncs the directory. A file that is gone already is
 * fine. */
bool model_save_remove(const char *directory, const char *path, struct fault *fault);

/* Removes temporary files that a crash left behind. */
void model_save_clean(const char *directory);

#endif
