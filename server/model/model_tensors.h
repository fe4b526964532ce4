/* model_tensors.h - the tensors of a model by name, whether in one safetensors file or in the
 * shards of a model.safetensors.index.json.
 *
 * Source: Hugging Face transformers, "Sharded checkpoints": the index's weight_map says of every
 * tensor which file beside it has it. What it says is checked before anything is computed: a shard
 * is named beside the index, lies where it may, and has the tensors that it is said to have. */
#ifndef ATTND_MODEL_TENSORS_H
#define ATTND_MODEL_TENSORS_H

#include "format/safetensors.h"
#include "model/model_mapping.h"
#include "text/json.h"

enum { MODEL_SHARDS_MAX = 1000 };

struct model_tensors {
    struct safetensors *files; /* one, or a shard each */
    int64_t file_count;
    const char **names;  /* [file_count], of shards */
    int64_t entry_count; /* of all files */

    /* Private: of shards. */
    const char *root;
    struct json_document index;
    const cJSON *weight_map; /* NULL: one file */
    struct model_mapping *mapping;
};

/* The tensors of one file's bytes, which must outlive them. */
bool model_tensors_read(struct model_tensors *tensors, const void *bytes, size_t size,
                        struct fault *fault);

/* Maps the shards of the index at path, each a name beside it that may be a link to a file below
 * root; NULL: below the index's own directory. On false the fault names shard and tensor. */
bool model_tensors_open(struct model_tensors *tensors, const char *path, const char *root,
                        struct fault *fault);

/* Whether path is that of an index: it ends with ".index.json". */
bool model_tensors_is_index(const char *path);

/* What maps the shards, for the caller to free when the tensors' numbers are done with; NULL before
 * model_tensors_open() and after. */
struct model_mapping *model_tensors_take_mapping(struct model_tensors *tensors);

void model_tensors_free(struct model_tensors *tensors);

/* NULL where there is none of that name. */
const struct safetensors_entry *model_tensors_find(const struct model_tensors *tensors,
                                                   const char *name);

/* Number index of entry_count, and the number of an entry. */
const struct safetensors_entry *model_tensors_at(const struct model_tensors *tensors,
                                                 int64_t index);
int64_t model_tensors_index(const struct model_tensors *tensors,
                            const struct safetensors_entry *entry);

#endif
