/* model_tensors.c - one file, or an index and the shards that it names. */
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

bool model_tensors_read(struct model_tensors *tensors, const void *bytes, size_t size,
                        struct fault *fault)
{
    *tensors = (struct model_tensors){ .files = calloc(1, sizeof *tensors->files) };
    if (!tensors->files)
        return fault_no_memory(fault);
    if (!safetensors_read(tensors->files, bytes, size, fault)) {
        model_tensors_free(tensors);
        return false;
    }
    tensors->file_count = 1;
    tensors->entry_count = tensors->files->entry_count;
    return true;
}

void model_tensors_free(struct model_tensors *tensors)
{
    for (int64_t i = 0; i < tensors->file_count; i++)
        safetensors_free(&tensors->files[i]);
    free(tensors->files);
    free(tensors->names);
    json_free(&tensors->index);
    model_mapping_free(tensors->mapping);
    *tensors = (struct model_tensors){ .files = NULL };
}

struct model_mapping *model_tensors_take_mapping(struct model_tensors *tensors)
{
    struct model_mapping *mapping = tensors->mapping;
    tensors->mapping = NULL;
    return mapping;
}

/* ------------------------------------------------------------------ shards -- */

static bool refuse_shard(const char *shard, const char *tensor, const struct fault *why,
                         struct fault *fault)
{
    return fault_set_at(fault, "/weight_map", why->code, "shard '%.80s' of tensor '%.80s': %s",
                        shard, tensor, why->message);
}

/* The path of a shard; malloc'd, NULL at a fault. */
static char *path_of(const char *index_path, const char *root, const char *shard,
                     struct fault *fault)
{
    const char *slash = strrchr(index_path, '/');
    const int folder_length = slash ? (int)(slash - index_path) : 1;
    char *folder = NULL, *path = NULL;
    if (asprintf(&folder, "%.*s", folder_length, slash ? index_path : ".") < 0
        || asprintf(&path, "%s/%s", folder, shard) < 0) {
        fault_no_memory(fault);
        path = NULL;
    } else if (!shard[0] || strchr(shard, '/') || shard[0] == '.') {
        fault_set(fault, FAULT_BINARY,
                  "this is no name of a file beside the index; a shard may be nowhere else");
        free(path);
        path = NULL;
    } else if (!model_mapping_is_inside(root ? root : folder, path)) {
        fault_set(fault, FAULT_BINARY, "this is a symbolic link that leads out of the directory");
        free(path);
        path = NULL;
    }
    free(folder);
    return path;
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
    tensors->entry_count += file->entry_count;
    return true;
}

static const struct safetensors *find_file(const struct model_tensors *tensors, const char *shard)
{
    for (int64_t i = 0; i < tensors->file_count; i++)
        if (strcmp(tensors->names[i], shard) == 0)
            return &tensors->files[i];
    return NULL;
}

static bool add_entry(struct model_tensors *tensors, const char *index_path, const cJSON *node,
                      struct fault *fault)
{
    struct fault why = { .code = FAULT_NONE };
    if (!cJSON_IsString(node))
        return fault_set_at(fault, "/weight_map", FAULT_TYPE,
                            "weight_map has no name of a file for tensor '%.100s'", node->string);
    const char *shard = node->valuestring;
    const struct safetensors *file = find_file(tensors, shard);
    if (!file && tensors->file_count == MODEL_SHARDS_MAX)
        return fault_set_at(fault, "/weight_map", FAULT_TOO_LARGE,
                            "weight_map names more than %d shards", MODEL_SHARDS_MAX);
    if (!file) {
        if (!map_shard(tensors, index_path, shard, &why))
            return why.code == FAULT_MEMORY ? fault_no_memory(fault)
                                            : refuse_shard(shard, node->string, &why, fault);
        file = &tensors->files[tensors->file_count - 1];
    }
    if (safetensors_find(file, node->string))
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

static bool open_shards(struct model_tensors *tensors, const char *path, const char *root,
                        struct fault *fault)
{
    *tensors = (struct model_tensors){ .root = root };
    tensors->files = calloc(MODEL_SHARDS_MAX, sizeof *tensors->files);
    tensors->names = calloc(MODEL_SHARDS_MAX, sizeof *tensors->names);
    bool good = (tensors->files && tensors->names) || fault_no_memory(fault);
    good = good && read_index(tensors, path, fault);
    for (const cJSON *node = good ? tensors->weight_map->child : NULL; good && node;
         node = node->next)
        good = add_entry(tensors, path, node, fault);
    if (!good)
        model_tensors_free(tensors);
    return good;
}

bool model_tensors_open(struct model_tensors *tensors, const char *path, const char *root,
                        struct fault *fault)
{
    if (model_tensors_is_index(path))
        return open_shards(tensors, path, root, fault);
    struct model_mapping *mapping = model_mapping_create(path, fault);
    if (!mapping)
        return false;
    if (!model_tensors_read(tensors, mapping->bytes, mapping->size, fault)) {
        model_mapping_free(mapping);
        return false;
    }
    tensors->mapping = mapping;
    return true;
}

/* ----------------------------------------------------------------- looking -- */

const struct safetensors_entry *model_tensors_find(const struct model_tensors *tensors,
                                                   const char *name)
{
    if (!tensors->weight_map)
        return safetensors_find(tensors->files, name);
    const cJSON *shard = cJSON_GetObjectItemCaseSensitive(tensors->weight_map, name);
    return shard ? safetensors_find(find_file(tensors, shard->valuestring), name) : NULL;
}

const struct safetensors_entry *model_tensors_require(const struct model_tensors *tensors,
                                                      const char *name, struct fault *fault)
{
    const struct safetensors_entry *entry = model_tensors_find(tensors, name);
    if (!entry)
        fault_set_at(fault, "/parameters", FAULT_FIELD,
                     "the file has no tensor '%.100s', which config.json asks for", name);
    return entry;
}

const struct safetensors_entry *model_tensors_at(const struct model_tensors *tensors, int64_t index)
{
    const struct safetensors *file = tensors->files;
    for (; index >= file->entry_count; file++)
        index -= file->entry_count;
    return &file->entries[index];
}

int64_t model_tensors_index(const struct model_tensors *tensors,
                            const struct safetensors_entry *entry)
{
    int64_t before = 0;
    const struct safetensors *file = tensors->files;
    while (!((uintptr_t)entry >= (uintptr_t)file->entries
             && (uintptr_t)entry < (uintptr_t)(file->entries + file->entry_count)))
        before += file++->entry_count;
    return before + (entry - file->entries);
}
