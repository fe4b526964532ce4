/* model_paths.h - names and paths of models. A client sees where a file is in the models'
 * directory, and never where that is on the machine. */
#ifndef ATTND_MODEL_PATHS_H
#define ATTND_MODEL_PATHS_H

#include "base/arena.h"
#include "base/fault.h"

/* The part of path that follows directory (NULL: there is none); "." where they are the same. What
 * lies elsewhere has its last part alone. Points into path. */
const char *model_paths_relative(const char *directory, const char *path);

/* Takes the directory out of every path that the message has in quotes. */
void model_paths_hide(const char *directory, struct fault *fault);

/* "folder/name", in the arena; NULL where there is no memory. */
const char *model_paths_join(struct arena *arena, const char *folder, const char *name);

/* Links are followed; no path, NULL, is none. */
bool model_paths_is_folder(const char *path);

/* 1 to 128 ASCII letters, digits, '.', '_' and '-', the first a letter or digit. */
bool model_paths_name_good(const char *name);

#endif
