/* model_hub.h - a model as it lies in the cache of Hugging Face's hub.
 *
 * Source: huggingface_hub, "Understand caching": models--<organisation>--<name> has refs/main,
 * which holds the number of a revision, snapshots/<revision>/, the files of the model by their
 * names, and blobs/, what these are symbolic links to. */
#ifndef ATTND_MODEL_HUB_H
#define ATTND_MODEL_HUB_H

#include "base/arena.h"

#include <stdbool.h>

/* The path of the snapshot that serves, in a folder of that form: that of refs/main, or the only
 * one there is; NULL where folder is of another form. *failed where there is no memory. */
const char *model_hub_snapshot(struct arena *arena, const char *folder, bool *failed);

#endif
