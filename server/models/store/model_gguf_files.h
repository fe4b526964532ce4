/* SPDX-License-Identifier: Apache-2.0 */
/* model_gguf_files.h - GGUF files by their names: one for a model, or its parts, as
 * llama-gguf-split of llama.cpp calls them: NAME-00001-of-00003.gguf. */
#ifndef ATTND_MODEL_GGUF_FILES_H
#define ATTND_MODEL_GGUF_FILES_H

#include "base/arena.h"

#include <stdint.h>

struct model_gguf_name {
    size_t length;         /* of the model's name: without the ending, and the numbers of a part */
    int64_t number, count; /* of the part, from 1 on; count 1: the file is whole */
};

/* Reads the name of a file; false: it does not end with ".gguf", nor with ".GGUF" and the like. */
bool model_gguf_name(const char *file_name, struct model_gguf_name *name);

/* The first file, or the only one, of the model that is called name in folder; NULL: there is none.
 * Of several the greatest name counts: a whole file, and that with small letters. Sets *failed
 * where there is no memory. */
const char *model_gguf_find(struct arena *arena, const char *folder, const char *name,
                            bool *failed);

/* The same of a folder that is one model: of model.gguf, else of its only GGUF file. NULL: it has
 * none, or several, then *problem names two. Projectors of pictures, mmproj*.gguf, do not count. */
const char *model_gguf_find_only(struct arena *arena, const char *folder, const char **problem,
                                 bool *failed);

#endif
