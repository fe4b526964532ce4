/* SPDX-License-Identifier: Apache-2.0 */
/* model_paths.h - names and paths of models. A client sees paths within the models' directory, and
 * never where that directory is on the machine. */
#ifndef ATTND_MODEL_PATHS_H
#define ATTND_MODEL_PATHS_H

#include "base/arena.h"
#include "base/fault.h"

#include <dirent.h>
#include <stdint.h>

enum { MODEL_PATHS_VERSION_DIGITS_MAX = 18 };

/* path as seen from directory (NULL: there is none); "." where both are the same. Of a path that
 * lies elsewhere, the last part. Points into path, or to a constant. */
const char *model_paths_relative(const char *directory, const char *path);

/* Makes every quoted path in the fault's message relative to directory. */
void model_paths_hide(const char *directory, struct fault *fault);

/* "folder/name", in the arena; NULL where there is no memory. */
const char *model_paths_join(struct arena *arena, const char *folder, const char *name);

/* Whether path is a folder, once links are followed; false for NULL. */
bool model_paths_is_folder(const char *path);

/* opendir(). *failed is set where the machine has too little for it, for then nobody knows what the
 * folder holds. */
DIR *model_paths_open_folder(const char *folder, bool *failed);

/* Whether a model can have this name. It is used in paths, lists, labels of metrics and lines of
 * the log, so it has no character that is written otherwise in a label or in JSON. */
#define MODEL_PATHS_NAME_RULE                                                                      \
    "1 to 128 letters, digits, spaces and . _ - + ( ) @ ~, the first one a letter or digit, the "  \
    "last one no space"
bool model_paths_name_good(const char *name);

/* The version that text names, as a folder or in a request: a number of at most 18 digits without a
 * leading zero. 0: text is no such number. */
int64_t model_paths_version(const char *text);

/* The path of the snapshot to serve from a folder of the cache of Hugging Face's hub: the one in
 * refs/main, else the only one. NULL: folder has another form, or no such snapshot. Sets *failed
 * where there is no memory.
 *
 * Source: huggingface_hub, "Understand caching". A folder models--<organisation>--<name> has
 * refs/main, a file that holds the name of a revision; snapshots/<revision>/, which has the model's
 * files by their names; and blobs/, which has the files that those are symbolic links to. */
const char *model_hub_snapshot(struct arena *arena, const char *folder, bool *failed);

#endif
