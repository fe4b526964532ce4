/* model_tensors_internal.h - models in several files, for model_tensors.c and model_shards.c only.
 */
#ifndef ATTND_MODEL_TENSORS_INTERNAL_H
#define ATTND_MODEL_TENSORS_INTERNAL_H

#include "models/model/model_tensors.h"

/* Reads the index at path and maps the shards that it names. On false tensors keeps what was read,
 * for model_tensors_free(). */
bool model_shards_open(struct model_tensors *tensors, const char *path, struct fault *fault);

/* The number of the file of that name; file_count: there is none. */
int64_t model_shards_find(const struct model_tensors *tensors, const char *shard);

/* Maps the other parts where the file at path, which is read, is the first part of a GGUF file. The
 * same holds on false. */
bool model_parts_open(struct model_tensors *tensors, const char *path, struct fault *fault);

/* Refuses one part of a GGUF file that comes without its path. */
bool model_parts_check_whole(const struct model_tensors *tensors, struct fault *fault);

#endif
