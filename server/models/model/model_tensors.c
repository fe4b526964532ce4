/* SPDX-License-Identifier: Apache-2.0 */
/* model_tensors.c - the entries of one file, or of all files that belong together, and their names.
 */
#include "models/model/model_tensors.h"

#include "base/dtype.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ----------------------------------------------------------------- entries -- */

static struct model_entry entry_of_safetensors(const struct safetensors_entry *from)
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

static struct model_entry entry_of_gguf(const struct gguf_tensor *from)
{
    struct model_entry entry = {
        .name = from->name,
        .name_length = from->name_length,
        .dtype = from->type,
        .rank = from->rank,
        .number_count = 1,
        .data = from->data,
        .size = from->size,
    };
    for (int i = 0; i < from->rank; i++) {
        entry.shape[i] = (uint64_t)from->shape[i];
        entry.number_count *= entry.shape[i]; /* no overflow: the file has them */
    }
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

/* Takes memory for count entries, of which named can be found by their names. */
static bool make_entries(struct model_tensors *tensors, int64_t count, int64_t named,
                         struct fault *fault)
{
    free(tensors->entries);
    free(tensors->by_name);
    tensors->entries = calloc((size_t)count + 1, sizeof *tensors->entries);
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
    tensors->by_name = calloc((size_t)named + 1, sizeof *tensors->by_name);
    tensors->entry_count = count;
    tensors->named_count = named;
    return (tensors->entries && tensors->by_name) || fault_no_memory(fault);
}

static void sort_names(struct model_tensors *tensors)
{
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
    qsort(tensors->by_name, (size_t)tensors->named_count, sizeof *tensors->by_name,
          compare_entries);
}

/* All entries are found by their names, which must differ. */
static bool name_all(struct model_tensors *tensors, struct fault *fault)
{
    for (int64_t i = 0; i < tensors->entry_count; i++)
        tensors->by_name[i] = &tensors->entries[i];
    sort_names(tensors);
    for (int64_t i = 1; i < tensors->named_count; i++)
        if (compare_entries(&tensors->by_name[i - 1], &tensors->by_name[i]) == 0)
            return fault_set(fault, FAULT_DUPLICATE, "two tensors have the name '%.100s'",
                             tensors->by_name[i]->name);
    return true;
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
static void name_by_weight_map(struct model_tensors *tensors)
{
    const struct model_entry **named = tensors->by_name;
    const cJSON *node;
    cJSON_ArrayForEach(node, tensors->weight_map) {
        *named++ = entry_in(tensors, model_shards_find(tensors, node->valuestring), node->string);
    }
    sort_names(tensors);
}

/* Makes entries of the tensors of all files, which have what weight_map says. */
static bool list_entries(struct model_tensors *tensors, struct fault *fault)
{
    int64_t count = 0;
    for (int64_t i = 0; i < tensors->file_count; i++)
        count += tensors->files ? tensors->files[i].entry_count : tensors->ggufs[i].tensor_count;
    if (!make_entries(tensors, count,
                      tensors->weight_map ? cJSON_GetArraySize(tensors->weight_map) : count, fault))
        return false;
    struct model_entry *entry = tensors->entries;
    for (int64_t i = 0; i < tensors->file_count; i++) {
        for (int64_t j = 0; tensors->files && j < tensors->files[i].entry_count; j++)
            *entry++ = entry_of_safetensors(&tensors->files[i].entries[j]);
        for (int64_t j = 0; tensors->ggufs && j < tensors->ggufs[i].tensor_count; j++)
            *entry++ = entry_of_gguf(&tensors->ggufs[i].tensors[j]);
    }
    if (!tensors->weight_map)
        return name_all(tensors, fault);
    name_by_weight_map(tensors);
    return true;
}

bool model_tensors_rename(struct model_tensors *tensors, const struct model_entry *entries,
                          int64_t count, struct fault *fault)
{
    if (!make_entries(tensors, count, count, fault))
        return false;
    memcpy(tensors->entries, entries, (size_t)count * sizeof *entries);
    return name_all(tensors, fault);
}

/* -------------------------------------------------------------------- files -- */

static bool is_gguf(const void *bytes, size_t size)
{
    return size >= 4 && memcmp(bytes, "GGUF", 4) == 0;
}

static bool is_gguf_path(const char *path)
{
    const char *ending = strrchr(path, '.');
    return ending && strcasecmp(ending, ".gguf") == 0;
}

/* Reads one file, whatever its format; path NULL: it has no name. */
static bool read_file(struct model_tensors *tensors, const char *path, const void *bytes,
                      size_t size, struct fault *fault)
{
    *tensors = (struct model_tensors){ .files = NULL };
    arena_init(&tensors->arena, SIZE_MAX);
    bool good;
    if (is_gguf(bytes, size) || (path && is_gguf_path(path))) {
        tensors->ggufs = calloc(1, sizeof *tensors->ggufs);
        good =
            tensors->ggufs ? gguf_read(tensors->ggufs, bytes, size, fault) : fault_no_memory(fault);
    } else {
        tensors->files = calloc(1, sizeof *tensors->files);
        good = tensors->files ? safetensors_read(tensors->files, bytes, size, fault)
                              : fault_no_memory(fault);
    }
    tensors->file_count = good ? 1 : 0;
    if (!good)
        model_tensors_free(tensors);
    return good;
}

bool model_tensors_read(struct model_tensors *tensors, const void *bytes, size_t size,
                        struct fault *fault)
{
    if (!read_file(tensors, NULL, bytes, size, fault))
        return false;
    if (model_parts_check_whole(tensors, fault) && list_entries(tensors, fault))
        return true;
    model_tensors_free(tensors);
    return false;
}

bool model_tensors_open(struct model_tensors *tensors, const char *path, const char *root,
                        struct fault *fault)
{
    bool good;
    if (model_tensors_is_index(path)) {
        *tensors = (struct model_tensors){ .root = root };
        arena_init(&tensors->arena, SIZE_MAX);
        good = model_shards_open(tensors, path, fault);
    } else {
        struct model_mapping *mapping = model_mapping_create(path, fault);
        if (!mapping)
            return false;
        if (!read_file(tensors, path, mapping->bytes, mapping->size, fault)) {
            model_mapping_free(mapping);
            return false;
        }
        tensors->root = root;
        tensors->mapping = mapping;
        good = model_parts_open(tensors, path, fault);
    }
    if (good && list_entries(tensors, fault))
        return true;
    model_tensors_free(tensors);
    return false;
}

void model_tensors_free(struct model_tensors *tensors)
{
    for (int64_t i = 0; i < tensors->file_count; i++) {
        if (tensors->files)
            safetensors_free(&tensors->files[i]);
        if (tensors->ggufs)
            gguf_free(&tensors->ggufs[i]);
    }
    free(tensors->files);
    free(tensors->ggufs);
    free(tensors->names);
    free(tensors->entries);
    free(tensors->by_name);
    json_free(&tensors->index);
    arena_free(&tensors->arena);
    model_mapping_free(tensors->mapping);
    *tensors = (struct model_tensors){ .files = NULL };
}

struct model_mapping *model_tensors_take_mapping(struct model_tensors *tensors)
{
    struct model_mapping *mapping = tensors->mapping;
    tensors->mapping = NULL;
    return mapping;
}

const struct gguf *model_tensors_gguf(const struct model_tensors *tensors)
{
    return tensors->ggufs;
}

/* ----------------------------------------------------------------- looking -- */

const char *model_tensors_config(const struct model_tensors *tensors, size_t *length)
{
    const struct safetensors_pair *pair =
        tensors->files ? safetensors_metadata(tensors->files, "attnd") : NULL;
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

/* ---------------------------------------------------------------- counting -- */

/* Whether bytes are the blocks of MXFP4, "NAME_blocks" beside "NAME_scales". */
static bool is_mxfp4(const struct model_tensors *tensors, const struct model_entry *entry)
{
    static const char BLOCKS[] = "_blocks";
    const size_t ending = sizeof BLOCKS - 1, length = entry->name_length;
    char scales[256];
    if (strcmp(entry->dtype, "U8") != 0 || length <= ending || length + 1 >= sizeof scales
        || strcmp(entry->name + length - ending, BLOCKS) != 0)
        return false;
    snprintf(scales, sizeof scales, "%.*s_scales", (int)(length - ending), entry->name);
    return model_tensors_find(tensors, scales) != NULL;
}

int64_t model_tensors_count_numbers(const struct model_tensors *tensors)
{
    static const char *const SMALL[] = { "F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F4" };
    int64_t count = 0;
    for (int64_t i = 0; i < tensors->entry_count; i++) {
        const struct model_entry *entry = &tensors->entries[i];
        enum attn_dtype dtype;
        bool is_number = dtype_find(entry->dtype, &dtype) && dtype != ATTN_BOOL;
        for (size_t s = 0; s < sizeof SMALL / sizeof SMALL[0]; s++)
            is_number = is_number || strcmp(entry->dtype, SMALL[s]) == 0;
        const int64_t times = is_number ? 1 : is_mxfp4(tensors, entry) ? 2 : 0;
        count += times * (int64_t)entry->number_count;
    }
    return count;
}
