/* SPDX-License-Identifier: Apache-2.0 */
/* model_shards.c - a model in several files: an index and the shards that it names, or the parts of
 * a GGUF file.
 *
 * Sources: Hugging Face transformers, "Sharded checkpoints"; tools/gguf-split of llama.cpp, which
 * says in each part its number, how many parts there are, and how many tensors all have. */
#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "models/model/model_tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INDEX_ENDING ".index.json"

bool model_tensors_is_index(const char *path)
{
    const size_t length = strlen(path), ending = strlen(INDEX_ENDING);
    return length > ending && strcmp(path + length - ending, INDEX_ENDING) == 0;
}

/* The path of a file beside another one; malloc'd, NULL at a fault. */
static char *path_of(const char *first_path, const char *root, const char *shard,
                     struct fault *fault)
{
    const char *slash = strrchr(first_path, '/');
    const int folder_length = slash ? (int)(slash - first_path) : 1;
    char *folder = NULL, *path = NULL;
    if (asprintf(&folder, "%.*s", folder_length, slash ? first_path : ".") < 0
        || asprintf(&path, "%s/%s", folder, shard) < 0) {
        fault_no_memory(fault);
        path = NULL;
    } else if (!shard[0] || strchr(shard, '/') || shard[0] == '.') {
        fault_set(fault, FAULT_BINARY,
                  "this is no name of a file beside the index; a shard may be nowhere else");
        free(path);
        path = NULL;
    } else if (!model_mapping_is_inside(root ? root : folder, path, fault)) {
        free(path);
        path = NULL;
    }
    free(folder);
    return path;
}

/* ------------------------------------------------------------------ shards -- */

int64_t model_shards_find(const struct model_tensors *tensors, const char *shard)
{
    int64_t i = 0;
    while (i < tensors->file_count && strcmp(tensors->names[i], shard) != 0)
        i++;
    return i;
}

static bool refuse_shard(const char *shard, const char *tensor, const struct fault *why,
                         struct fault *fault)
{
    return fault_set_at(fault, "/weight_map", why->code, "shard '%.80s' of tensor '%.80s': %s",
                        shard, tensor, why->message);
}

static bool map_shard(struct model_tensors *tensors, const char *index_path, const char *shard,
                      struct fault *fault)
{
    char *path = path_of(index_path, tensors->root, shard, fault);
    struct model_mapping *mapping = path ? model_mapping_create(path, fault) : NULL;
    free(path);
    if (!mapping)
        return false;
    mapping->next = tensors->mapping;
    tensors->mapping = mapping;
    struct safetensors *file = &tensors->files[tensors->file_count];
    if (!safetensors_read(file, mapping->bytes, mapping->size, fault))
        return false;
    tensors->names[tensors->file_count++] = shard;
    return true;
}

static bool add_entry(struct model_tensors *tensors, const char *index_path, const cJSON *node,
                      struct fault *fault)
{
    struct fault why = { .code = FAULT_NONE };
    if (!cJSON_IsString(node))
        return fault_set_at(fault, "/weight_map", FAULT_TYPE,
                            "weight_map has no name of a file for tensor '%.100s'", node->string);
    const char *shard = node->valuestring;
    const int64_t number = model_shards_find(tensors, shard);
    if (number == MODEL_SHARDS_MAX)
        return fault_set_at(fault, "/weight_map", FAULT_TOO_LARGE,
                            "weight_map names more than %d shards", MODEL_SHARDS_MAX);
    if (number == tensors->file_count && !map_shard(tensors, index_path, shard, &why))
        return why.code == FAULT_MEMORY ? fault_no_memory(fault)
                                        : refuse_shard(shard, node->string, &why, fault);
    if (safetensors_find(&tensors->files[number], node->string))
        return true;
    fault_set(&why, FAULT_FIELD, "the file has no tensor of that name");
    return refuse_shard(shard, node->string, &why, fault);
}

static bool read_index(struct model_tensors *tensors, const char *path, struct fault *fault)
{
    const struct json_options options = { .nonfinite_allowed = true };
    const char *slash = strrchr(path, '/');
    char *text = model_mapping_read_text(path, fault);
    if (!text)
        return false;
    const bool good = json_read(&tensors->index, text, strlen(text), &options, fault);
    free(text);
    if (!good)
        return fault_name_file(fault, slash ? slash + 1 : path);
    tensors->weight_map = cJSON_GetObjectItemCaseSensitive(tensors->index.root, "weight_map");
    return (cJSON_IsObject(tensors->weight_map) && tensors->weight_map->child)
           || fault_set_at(fault, "/weight_map", FAULT_FIELD,
                           "'%s' has no weight_map, an object of tensors and the shards they are "
                           "in",
                           path);
}

bool model_shards_open(struct model_tensors *tensors, const char *path, struct fault *fault)
{
    tensors->files = calloc(MODEL_SHARDS_MAX, sizeof *tensors->files);
    tensors->names = calloc(MODEL_SHARDS_MAX, sizeof *tensors->names);
    bool good = (tensors->files && tensors->names) || fault_no_memory(fault);
    good = good && read_index(tensors, path, fault);
    for (const cJSON *node = good ? tensors->weight_map->child : NULL; good && node;
         node = node->next)
        good = add_entry(tensors, path, node, fault);
    return good;
}

/* ------------------------------------------------------------------- parts -- */

#define PART_FORMAT "-%05" PRId64 "-of-%05" PRId64 ".gguf"

enum { PART_ENDING_BYTES = 64 };

/* What one file says of the parts. */
struct split {
    int64_t number, count, tensor_count; /* number from 0 on; count 1: it is whole */
};

static int64_t integer_in(const struct gguf *file, const char *key, int64_t otherwise)
{
    int64_t integer;
    const struct gguf_value *value = gguf_find(file, key);
    return value && gguf_integer(value, &integer) ? integer : otherwise;
}

static struct split split_of(const struct gguf *file)
{
    const int64_t count = integer_in(file, "split.count", 1);
    return (struct split){ .number = integer_in(file, "split.no", 0),
                           .count = count > 1 ? count : 1,
                           .tensor_count = integer_in(file, "split.tensors.count", 0) };
}

bool model_parts_check_whole(const struct model_tensors *tensors, struct fault *fault)
{
    if (!tensors->ggufs)
        return true;
    const struct split split = split_of(tensors->ggufs);
    return split.count == 1
           || fault_set(fault, FAULT_BINARY,
                        "the file is part %" PRId64 " of %" PRId64
                        " of a model: put all parts into one folder of the models' directory, or "
                        "merge them (llama-gguf-split --merge)",
                        split.number + 1, split.count);
}

/* Checks that path is that of the first part, and sets the length of what stands before its number.
 */
static bool check_first(const char *path, const struct split *split, size_t *stem,
                        struct fault *fault)
{
    char ending[PART_ENDING_BYTES];
    const char *slash = strrchr(path, '/');
    const size_t length = strlen(path);
    if (split->number != 0)
        return fault_set(fault, FAULT_BINARY,
                         "'%.80s' is part %" PRId64 " of %" PRId64 ": name the first part",
                         slash ? slash + 1 : path, split->number + 1, split->count);
    if (split->count > MODEL_SHARDS_MAX)
        return fault_set(fault, FAULT_TOO_LARGE,
                         "the file says that the model is in %" PRId64
                         " parts; expected at most %d",
                         split->count, MODEL_SHARDS_MAX);
    const size_t used =
        (size_t)snprintf(ending, sizeof ending, PART_FORMAT, (int64_t)1, split->count);
    *stem = length > used ? length - used : 0;
    return (length > used && strcmp(path + *stem, ending) == 0)
           || fault_set(fault, FAULT_BINARY,
                        "the file says that it is part 1 of %" PRId64
                        "; its name must end with '%s', so that the others are found",
                        split->count, ending);
}

static bool read_part(struct model_tensors *tensors, const char *path, const struct split *first,
                      struct fault *fault)
{
    struct model_mapping *mapping = model_mapping_create(path, fault);
    if (!mapping)
        return false;
    mapping->next = tensors->mapping;
    tensors->mapping = mapping;
    struct gguf *file = &tensors->ggufs[tensors->file_count];
    if (!gguf_read(file, mapping->bytes, mapping->size, fault))
        return false;
    const struct split split = split_of(file);
    const int64_t number = tensors->file_count++;
    return (split.number == number && split.count == first->count)
           || fault_set(fault, FAULT_BINARY,
                        "the file says that it is part %" PRId64 " of %" PRId64, split.number + 1,
                        split.count);
}

static bool open_part(struct model_tensors *tensors, const char *first_path, size_t stem,
                      const struct split *first, struct fault *fault)
{
    struct fault why = { .code = FAULT_NONE };
    const char *slash = strrchr(first_path, '/');
    const size_t folder = slash ? (size_t)(slash + 1 - first_path) : 0;
    char *name = NULL, *path = NULL;
    if (asprintf(&name, "%.*s" PART_FORMAT, (int)(stem - folder), first_path + folder,
                 tensors->file_count + 1, first->count)
        < 0)
        return fault_no_memory(fault);
    path = path_of(first_path, tensors->root, name, &why);
    const bool good = path && read_part(tensors, path, first, &why);
    if (!good && why.code == FAULT_MEMORY)
        fault_no_memory(fault);
    else if (!good)
        fault_set(fault, why.code, "'%.80s', a part of the model: %s", name, why.message);
    free(path);
    free(name);
    return good;
}

bool model_parts_open(struct model_tensors *tensors, const char *path, struct fault *fault)
{
    if (!tensors->ggufs)
        return true;
    const struct split first = split_of(tensors->ggufs);
    size_t stem = 0;
    if (first.count == 1)
        return true;
    if (!check_first(path, &first, &stem, fault))
        return false;
    struct gguf *files = calloc((size_t)first.count, sizeof *files);
    if (!files)
        return fault_no_memory(fault);
    files[0] = tensors->ggufs[0];
    free(tensors->ggufs);
    tensors->ggufs = files;
    int64_t count = files[0].tensor_count;
    while (tensors->file_count < first.count) {
        if (!open_part(tensors, path, stem, &first, fault))
            return false;
        count += files[tensors->file_count - 1].tensor_count;
    }
    return count == first.tensor_count
           || fault_set(fault, FAULT_BINARY,
                        "the parts have %" PRId64
                        " tensors, and the first part's split.tensors.count is %" PRId64,
                        count, first.tensor_count);
}
