/* SPDX-License-Identifier: Apache-2.0 */
/* model_tensors.h - the tensors of a model by name, whatever files they lie in: a safetensors file,
 * the shards of a model.safetensors.index.json, or a GGUF file, whole or in parts.
 *
 * Nothing behind this file knows a format: a tensor is a name, a dtype, a shape and bytes.
 *
 * Source: Hugging Face transformers, "Sharded checkpoints": the index's weight_map names, for every
 * tensor, the file beside the index that has it. All of it is checked when a model is opened: a
 * shard's name is that of a file beside the index, no link leads out of the directory, and the
 * shard has every tensor that weight_map places in it. */
#ifndef ATTND_MODEL_TENSORS_H
#define ATTND_MODEL_TENSORS_H

#include "base/arena.h"
#include "models/model/model_mapping.h"
#include "json/json.h"

enum { MODEL_SHARDS_MAX = 1000, MODEL_ENTRY_DIMENSIONS = 4 };

/* A tensor. */
struct model_entry {
    const char *name;   /* ends with a NUL byte and may contain others */
    size_t name_length; /* in bytes */
    const char *dtype;  /* "F32", "BF16", "I64", "Q4_K", ...: any that its format has */
    int64_t rank;
    uint64_t shape[MODEL_ENTRY_DIMENSIONS]; /* the first dimensions; 0 behind the last one */
    uint64_t number_count;
    const void *data; /* row-major, little-endian, any alignment */
    size_t size;      /* of data, in bytes */
};

struct gguf;
struct safetensors;

struct model_tensors {
    struct model_entry *entries; /* of all files */
    int64_t entry_count;

    /* Private. */
    const struct model_entry **by_name; /* [named_count], sorted */
    int64_t named_count;
    struct safetensors *files; /* [file_count], or NULL, */
    struct gguf *ggufs;        /* and these */
    int64_t file_count;
    const char **names; /* [file_count], of the shards; NULL: one file */
    const char *root;
    struct json_document index;
    const cJSON *weight_map; /* NULL: one file */
    struct model_mapping *mapping;
    struct arena arena; /* of the names that model_tensors_rename() brings */
};

/* Reads the tensors of one file. Its bytes must outlive tensors. */
bool model_tensors_read(struct model_tensors *tensors, const void *bytes, size_t size,
                        struct fault *fault);

/* Maps the file at path or, where that is an index, its shards, or the parts of which it is the
 * first. They lie beside it, and may be links to files below root; root NULL: below its own
 * directory. On false the fault of a shard names it and a tensor, that of a part the part. */
bool model_tensors_open(struct model_tensors *tensors, const char *path, const char *root,
                        struct fault *fault);

/* Whether path is the path of an index: whether it ends with ".index.json". */
bool model_tensors_is_index(const char *path);

/* Hands over the mapping of the files, which the caller frees once it needs the tensors' numbers
 * no more. NULL: nothing is mapped, or the mapping was taken before. */
struct model_mapping *model_tensors_take_mapping(struct model_tensors *tensors);

void model_tensors_free(struct model_tensors *tensors);

/* The metadata of a GGUF file, which in parts the first has; NULL: it is none. */
const struct gguf *model_tensors_gguf(const struct model_tensors *tensors);

/* Takes these entries, with their names in tensors->arena, in place of those of the files. The
 * fault is duplicate or memory. */
bool model_tensors_rename(struct model_tensors *tensors, const struct model_entry *entries,
                          int64_t count, struct fault *fault);

/* The config of ours in the file's own metadata, and its length; NULL: there is none. */
const char *model_tensors_config(const struct model_tensors *tensors, size_t *length);

/* The tensor of that name; NULL: there is none. */
const struct model_entry *model_tensors_find(const struct model_tensors *tensors, const char *name);

/* The same for a tensor that a published checkpoint must have. NULL, with a fault: it has none. */
const struct model_entry *model_tensors_require(const struct model_tensors *tensors,
                                                const char *name, struct fault *fault);

/* The numbers of all tensors but those of integers and booleans, which are masks and counters, and
 * no parameters. */
int64_t model_tensors_count_numbers(const struct model_tensors *tensors);

/* ----------------------- models in several files, for model_tensors.c only -- */

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
