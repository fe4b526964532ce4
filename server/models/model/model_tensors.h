/* model_tensors.h - the tensors of a model by name, whether in one safetensors file or in the
 * shards of a model.safetensors.index.json.
 *
 * Source: Hugging Face transformers, "Sharded checkpoints": the index's weight_map names, for every
 * tensor, the file beside the index that has it. All of it is checked when a model is opened: a
 * shard's name is that of a file beside the index, no link leads out of the directory, and the
 * shard has every tensor that weight_map places in it. */
#ifndef ATTND_MODEL_TENSORS_H
#define ATTND_MODEL_TENSORS_H

#include "formats/safetensors.h"
#include "models/model/model_mapping.h"
#include "json/json.h"

enum { MODEL_SHARDS_MAX = 1000 };

struct model_tensors {
    struct safetensors *files; /* the one file, or the shards */
    int64_t file_count;
    const char **names;  /* [file_count], of the shards; NULL: one file */
    int64_t entry_count; /* of all files */

    /* Private, for shards. */
    const char *root;
    struct json_document index;
    const cJSON *weight_map; /* NULL: one file */
    struct model_mapping *mapping;
};

/* Reads the tensors of one file. Its bytes must outlive tensors. */
bool model_tensors_read(struct model_tensors *tensors, const void *bytes, size_t size,
                        struct fault *fault);

/* Maps the file at path or, where that is an index, its shards. They lie beside it, and may be
 * links to files below root; root NULL: below the index's own directory. On false the fault of a
 * shard names it and a tensor. */
bool model_tensors_open(struct model_tensors *tensors, const char *path, const char *root,
                        struct fault *fault);

/* Whether path is the path of an index: whether it ends with ".index.json". */
bool model_tensors_is_index(const char *path);

/* Hands over the mapping of the files, which the caller frees once it needs the tensors' numbers
 * no more. NULL: nothing is mapped, or the mapping was taken before. */
struct model_mapping *model_tensors_take_mapping(struct model_tensors *tensors);

void model_tensors_free(struct model_tensors *tensors);

/* The tensor of that name; NULL: there is none. */
const struct safetensors_entry *model_tensors_find(const struct model_tensors *tensors,
                                                   const char *name);

/* The same for a tensor that a published checkpoint must have. NULL, with a fault: it has none. */
const struct safetensors_entry *model_tensors_require(const struct model_tensors *tensors,
                                                      const char *name, struct fault *fault);

/* The entry number index of entry_count, and the inverse: the number of an entry. */
const struct safetensors_entry *model_tensors_at(const struct model_tensors *tensors,
                                                 int64_t index);
int64_t model_tensors_index(const struct model_tensors *tensors,
                            const struct safetensors_entry *entry);

#endif
