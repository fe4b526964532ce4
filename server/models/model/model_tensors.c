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

/* ----------------------------------------------------------------- entries -- */

static struct model_entry entry_of(const struct safetensors_entry *from)
{
    struct model_entry entry = {
        .name = from->name,
        .name_length = from->name_length,
        .dtype = from->dtype,
        .rank = from->rank,
        .number_count = (uint64_t)from->size * 8 / safetensors_dtype_bits(from->dtype),
        .data = from->data,
        .size = from->size,
    };
    safetensors_shape(from, entry.shape,
                      from->rank < MODEL_ENTRY_DIMENSIONS ? from->rank : MODEL_ENTRY_DIMENSIONS);
    return entry;
}

static int compare_names(const char *a, size_t a_length, const char *b, size_t b_length)
{
    const int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
    return order != 0 ? order : (a_length > b_length) - (a_length < b_length);
}

static int compare_entries(const void *left, const void *right)
{
    const struct model_entry *a = *(const struct model_entry *const *)left;
    const struct model_entry *b = *(const struct model_entry *const *)right;
    return compare_names(a->name, a->name_length, b->name, b->name_length);
}

static int64_t find_file(const struct model_tensors *tensors, const char *shard)
{
    int64_t i = 0;
    while (i < tensors->file_count && strcmp(tensors->names[i], shard) != 0)
        i++;
    return i;
}

/* The entry made of the tensor that weight_map places in this file. */
static const struct model_entry *entry_in(const struct model_tensors *tensors, int64_t file,
                                          const char *name)
{
    const struct model_entry *first = tensors->entries;
    for (int64_t i = 0; i < file; i++)
        first += tensors->files[i].entry_count;
    return first + (safetensors_find(&tensors->files[file], name) - tensors->files[file].entries);
}

/* Of a tensor that several shards have, the one counts that weight_map names. */
static void name_entries(struct model_tensors *tensors)
{
    const struct model_entry **named = tensors->by_name;
    const cJSON *node;
    if (tensors->weight_map)
        cJSON_ArrayForEach(node, tensors->weight_map)
            *named++ = entry_in(tensors, find_file(tensors, node->valuestring), node->string);
    for (int64_t i = 0; !tensors->weight_map && i < tensors->entry_count; i++)
        *named++ = &tensors->entries[i];
    tensors->named_count = named - tensors->by_name;
    qsort(tensors->by_name, (size_t)tensors->named_count, sizeof *named, compare_entries);
}

/* Makes entries of the tensors of all files, which have what weight_map says. */
static bool list_entries(struct model_tensors *tensors, struct fault *fault)
{
    int64_t named = tensors->weight_map ? cJSON_GetArraySize(tensors->weight_map) : 0;
    for (int64_t i = 0; i < tensors->file_count; i++)
        tensors->entry_count += tensors->files[i].entry_count;
    if (named < tensors->entry_count)
        named = tensors->entry_count;
    struct model_entry *entry = calloc((size_t)tensors->entry_count + 1, sizeof *entry);
    tensors->entries = entry;
    tensors->by_name = calloc((size_t)named + 1, sizeof *tensors->by_name);
    if (!entry || !tensors->by_name)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < tensors->file_count; i++)
        for (int64_t j = 0; j < tensors->files[i].entry_count; j++)
            *entry++ = entry_of(&tensors->files[i].entries[j]);
    name_entries(tensors);
    return true;
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
    if (list_entries(tensors, fault))
        return true;
    model_tensors_free(tensors);
    return false;
}

void model_tensors_free(struct model_tensors *tensors)
{
    for (int64_t i = 0; i < tensors->file_count; i++)
        safetensors_free(&tensors->files[i]);
    free(tensors->files);
    free(tensors->names);
    free(tensors->entries);
    free(tensors->by_name);
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
    const int64_t number = find_file(tensors, shard);
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
    good = good && list_entries(tensors, fault);
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

const char *model_tensors_config(const struct model_tensors *tensors, size_t *length)
{
    const struct safetensors_pair *pair = safetensors_metadata(tensors->files, "attnd");
    *length = pair ? pair->value_length : 0;
    return pair ? pair->value : NULL;
}

const struct model_entry *model_tensors_find(const struct model_tensors *tensors, const char *name)
{
    const size_t length = strlen(name);
    int64_t low = 0, high = tensors->named_count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const struct model_entry *entry = tensors->by_name[middle];
        const int order = compare_names(name, length, entry->name, entry->name_length);
        if (order == 0)
            return entry;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const struct model_entry *model_tensors_require(const struct model_tensors *tensors,
                                                const char *name, struct fault *fault)
{
    const struct model_entry *entry = model_tensors_find(tensors, name);
    if (!entry)
        fault_set_at(fault, "/parameters", FAULT_FIELD,
                     "the file has no tensor '%.100s', which config.json asks for", name);
    return entry;
}
