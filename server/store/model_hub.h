/* model_hub.h - finds a model in the cache of Hugging Face's hub.
 *
 * Source: huggingface_hub, "Understand caching". A folder models--<organisation>--<name> has
 * refs/main, a file that holds the name of a revision; snapshots/<revision>/, which has the model's
 * files by their names; and blobs/, which has the files that those are symbolic links to. */
#ifndef ATTND_MODEL_HUB_H
#define ATTND_MODEL_HUB_H

#include "base/arena.h"

#include <stdbool.h>

/* The path of the snapshot to serve from such a folder: the one in refs/main, else the only one.
 * NULL: folder has another form, or no such snapshot. Sets *failed where there is no memory. */
const char *model_hub_snapshot(struct arena *arena, const char *folder, bool *failed);

#endif
