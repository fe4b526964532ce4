/* SPDX-License-Identifier: Apache-2.0 */
/* file_save.h - writes a file so that a crash at any moment leaves the old file or the new one,
 * whole.
 *
 * The bytes go to a hidden temporary file in the same directory. It is synced and renamed over the
 * old file, and then the directory is synced. rename() is atomic, the first sync puts the bytes on
 * disk before the new name, and the second puts the name on disk before the caller goes on. */
#ifndef ATTND_FILE_SAVE_H
#define ATTND_FILE_SAVE_H

#include "base/bytes.h"
#include "base/fault.h"

#include <stdint.h>

/* Where files are saved. */
struct file_folder {
    const char *path;
    const char *words; /* for the client: "models' directory" */
    unsigned mode;     /* of its files, less the umask */
};

struct file_save {
    char *temporary; /* path of the temporary file; NULL: not begun, or committed */
    int file;        /* its descriptor, open and locked until it is committed or freed */
};

/* Writes and syncs the temporary file, the parts one behind the other. On false nothing is left. */
bool file_save_begin(struct file_save *save, const struct file_folder *folder,
                     const struct byte_slice *parts, int64_t part_count, struct fault *fault);

/* Renames the temporary file to path, which is in folder. On false the old file is unchanged and
 * the temporary one is still there. */
bool file_save_commit(struct file_save *save, const struct file_folder *folder, const char *path,
                      struct fault *fault);

/* Removes the temporary file where it was not committed. A zeroed struct is fine. */
void file_save_free(struct file_save *save);

/* Removes path, which is in folder, and syncs the folder. A file that is gone already is
 * fine. */
bool file_save_remove(const struct file_folder *folder, const char *path, struct fault *fault);

/* Removes temporary files that a crash left behind. */
void file_save_clean(const char *directory);

#endif
