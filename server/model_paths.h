/* model_paths.h - what a client sees of a path: where a file is in the models' directory, and never
 * where that is on the machine. */
#ifndef ATTND_MODEL_PATHS_H
#define ATTND_MODEL_PATHS_H

#include "fault.h"

/* The part of path that follows directory (NULL: there is none); "." where they are the same. What
 * lies elsewhere has its last part alone. Points into path. */
const char *model_paths_relative(const char *directory, const char *path);

/* Takes the directory out of every path that the message has in quotes. */
void model_paths_hide(const char *directory, struct fault *fault);

#endif
