/* SPDX-License-Identifier: Apache-2.0 */
/* writer_files.c - answers as files of safetensors and as .npy files.
 *
 * In a file of safetensors, arrays are tensors under dotted names, "results.0.weights.indices", and
 * the plain members of the whole answer are strings of __metadata__. Plain members of a list or an
 * object in it become its JSON, a string of __metadata__ too. Tensors of eight bytes come first, so
 * that all are aligned in the file. */
#include "base/dtype.h"
#include "formats/format.h"
#include "formats/npy.h"
#include "formats/safetensors.h"
#include "formats/writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TENSORS_FIRST = 16, PAIRS_MAX = 16, PATH_BYTES = 160, DEPTH_MAX = 8 };

/* An object or list that is open; the first is the whole answer. */
struct file_level {
    const char *name;
    int64_t index;      /* in the list that it is in */
    int64_t next_index; /* of a list */
    bool is_list, is_group;
    bool is_written; /* in the JSON */
};

struct file_writer {
    struct writer base; /* first */
    struct safetensors_tensor *tensors;
    int64_t tensor_count, tensor_capacity;
    struct safetensors_pair pairs[PAIRS_MAX];
    int64_t pair_count;
    struct file_level levels[DEPTH_MAX];
    int depth;
    struct text json_text;
    struct writer *json; /* of the list or object of the whole answer that is open; or NULL */
    bool failed;         /* no memory */
};

static struct file_writer *file_of(struct writer *writer)
{
    return (struct file_writer *)writer;
}

static struct writer *file_begin(const struct format_body *body, struct text *text,
                                 struct fault *fault)
{
    struct file_writer *file = arena_calloc(body->arena, 1, sizeof *file);
    if (!file) {
        fault_no_memory(fault);
        return NULL;
    }
    file->base = (struct writer){ &writer_safetensors, body->arena, text, fault, .parts = NULL };
    return &file->base;
}

/* ----------------------------------------------------------- plain members -- */

/* Begins in the JSON what is open and has no plain member yet. */
static struct writer *file_json(struct file_writer *file)
{
    if (file->json && file->levels[file->depth - 1].is_written)
        return file->json;
    if (!file->json) {
        text_init(&file->json_text, file->base.text->bytes_max);
        file->json_text.memory = file->base.text->memory;
        const struct format_body body = { .arena = file->base.arena };
        file->json = writer_json.begin(&body, &file->json_text, file->base.fault);
        file->failed = file->failed || !file->json;
    }
    for (int i = 1; file->json && i < file->depth; i++) {
        struct file_level *level = &file->levels[i];
        if (level->is_written)
            continue;
        const char *name = i > 1 ? level->name : NULL;
        level->is_written = true;
        if (level->is_list)
            writer_json.list(file->json, name);
        else
            writer_json.object(file->json, name);
    }
    return file->json;
}

static void file_pair(struct file_writer *file, const char *name, const char *value)
{
    file->failed = file->failed || !value || file->pair_count == PAIRS_MAX;
    if (!file->failed)
        file->pairs[file->pair_count++] = (struct safetensors_pair){ .key = name, .value = value };
}

static void file_string(struct writer *writer, const char *name, const char *value)
{
    struct file_writer *file = file_of(writer);
    if (file->depth <= 1)
        file_pair(file, name, value);
    else if (file_json(file))
        writer_json.string(file->json, name, value);
}

static void file_flag(struct writer *writer, const char *name, bool value)
{
    struct file_writer *file = file_of(writer);
    if (file->depth <= 1)
        file_pair(file, name, value ? "true" : "false");
    else if (file_json(file))
        writer_json.flag(file->json, name, value);
}

static void file_integer(struct writer *writer, const char *name, int64_t value)
{
    struct file_writer *file = file_of(writer);
    char text[24];
    if (file->depth <= 1) {
        snprintf(text, sizeof text, "%" PRId64, value);
        file_pair(file, name, arena_strdup(writer->arena, text));
    } else if (file_json(file)) {
        writer_json.integer(file->json, name, value);
    }
}

/* The JSON of a list or object of the whole answer is complete. */
static void file_end_json(struct file_writer *file, const char *name)
{
    char *text = arena_alloc(file->base.arena, file->json_text.used + 1);
    if (text && file->json_text.failed == FAULT_NONE) {
        memcpy(text, file->json_text.data, file->json_text.used);
        text[file->json_text.used] = '\0';
        file_pair(file, name, text);
    } else {
        file->failed = true;
    }
    text_free(&file->json_text);
    file->json = NULL;
}

/* -------------------------------------------------------- lists and objects -- */

static void file_open(struct writer *writer, const char *name, bool is_list, bool is_group)
{
    struct file_writer *file = file_of(writer);
    struct file_level *outer = file->depth > 0 ? &file->levels[file->depth - 1] : NULL;
    struct file_level level = { .name = name, .is_list = is_list, .is_group = is_group };
    if (file->depth == DEPTH_MAX) {
        file->failed = true;
        return;
    }
    if (outer && !is_group && !name)
        level.index = outer->next_index++;
    file->levels[file->depth++] = level;
    if (outer && !is_group && (is_list || outer->is_list)) /* also where nothing plain comes */
        file_json(file);
}

static void file_object(struct writer *writer, const char *name)
{
    file_open(writer, name, false, false);
}

static void file_list(struct writer *writer, const char *name)
{
    file_open(writer, name, true, false);
}

static void file_group(struct writer *writer, const char *name)
{
    file_open(writer, name, false, true);
}

static void file_end(struct writer *writer)
{
    struct file_writer *file = file_of(writer);
    if (file->failed || file->depth == 0)
        return;
    const struct file_level *level = &file->levels[--file->depth];
    if (level->is_written)
        writer_json.end(file->json);
    if (level->is_written && file->depth == 1)
        file_end_json(file, level->name);
}

/* ---------------------------------------------------------------- tensors -- */

/* Room for one more tensor; lists may have any number of them. */
static bool file_grow(struct file_writer *file)
{
    if (file->tensor_count < file->tensor_capacity)
        return true;
    const int64_t capacity = file->tensor_capacity ? 2 * file->tensor_capacity : TENSORS_FIRST;
    struct safetensors_tensor *tensors =
        arena_alloc(file->base.arena, (size_t)capacity * sizeof *tensors);
    if (!tensors)
        return false;
    if (file->tensor_count > 0)
        memcpy(tensors, file->tensors, (size_t)file->tensor_count * sizeof *tensors);
    file->tensors = tensors;
    file->tensor_capacity = capacity;
    return true;
}

/* The name with those, or the indices in lists, of all that is open before it: "results.0.lse".
 * NULL: it is too long, or there is no memory. */
static const char *file_path(const struct file_writer *file, const char *name)
{
    char path[PATH_BYTES];
    size_t used = 0;
    for (int i = 1; i < file->depth && used < sizeof path; i++) {
        const struct file_level *level = &file->levels[i];
        if (level->name && !level->is_group)
            used += (size_t)snprintf(path + used, sizeof path - used, "%s.", level->name);
        else if (!level->is_group)
            used += (size_t)snprintf(path + used, sizeof path - used, "%" PRId64 ".", level->index);
    }
    if (used == 0)
        return name;
    if (used < sizeof path)
        used += (size_t)snprintf(path + used, sizeof path - used, "%s", name);
    return used < sizeof path ? arena_strdup(file->base.arena, path) : NULL;
}

static void file_add(struct writer *writer, const char *name, const char *dtype, const void *values,
                     int rank, const int64_t *shape)
{
    struct file_writer *file = file_of(writer);
    const char *kept = file_path(file, name);
    file->failed = file->failed || !kept || !file_grow(file);
    if (file->failed)
        return;
    struct safetensors_tensor *tensor = &file->tensors[file->tensor_count++];
    *tensor = (struct safetensors_tensor){ kept, rank, { 0 }, values, dtype };
    memcpy(tensor->shape, shape, (size_t)rank * sizeof *shape);
}

static void file_array(struct writer *writer, const char *name, const struct array *array)
{
    file_add(writer, name, dtype_name(array->dtype), array->data, array->rank, array->shape);
}

static void file_indices(struct writer *writer, const char *name, const int64_t *values, int rank,
                         const int64_t *shape)
{
    file_add(writer, name, "I64", values, rank, shape);
}

/* The tensors, those of the largest elements first, and integers before doubles. */
static struct safetensors_tensor *file_order(struct file_writer *file)
{
    struct safetensors_tensor *ordered =
        arena_alloc(file->base.arena, (size_t)file->tensor_count * sizeof *ordered);
    int64_t used = 0;
    for (int is_double = 0; ordered && is_double < 2; is_double++)
        for (int64_t i = 0; i < file->tensor_count; i++) {
            const char *dtype = file->tensors[i].dtype;
            if (safetensors_dtype_bits(dtype) == 64 && (dtype[0] == 'F') == is_double)
                ordered[used++] = file->tensors[i];
        }
    for (unsigned bits = 32; ordered && bits >= 8; bits /= 2)
        for (int64_t i = 0; i < file->tensor_count; i++)
            if (safetensors_dtype_bits(file->tensors[i].dtype) == bits)
                ordered[used++] = file->tensors[i];
    return ordered;
}

static bool file_finish(struct writer *writer)
{
    struct file_writer *file = file_of(writer);
    const struct safetensors_tensor *tensors = file->failed ? NULL : file_order(file);
    struct byte_slice *parts =
        arena_calloc(writer->arena, (size_t)file->tensor_count + 1, sizeof *parts);
    if (file->json)
        text_free(&file->json_text);
    if (!tensors || !parts)
        return fault_no_memory(writer->fault);
    if (!safetensors_write_head(writer->text, tensors, file->tensor_count, file->pairs,
                                file->pair_count, writer->fault))
        return false;
    parts[writer->part_count++] = (struct byte_slice){ writer->text->data, writer->text->used };
    for (int64_t i = 0; i < file->tensor_count; i++) {
        int64_t size = 0;
        if (safetensors_tensor_bytes(&tensors[i], &size) && size > 0)
            parts[writer->part_count++] = (struct byte_slice){ tensors[i].values, (size_t)size };
    }
    writer->parts = parts;
    return true;
}

const struct writer_kind writer_safetensors = {
    .content_type = "application/x-safetensors",
    .keeps_dtype = true,
    .begin = file_begin,
    .object = file_object,
    .list = file_list,
    .group = file_group,
    .end = file_end,
    .string = file_string,
    .flag = file_flag,
    .integer = file_integer,
    .array = file_array,
    .indices = file_indices,
    .finish = file_finish,
};

/* -------------------------------------------------------------------- .npy -- */

/* An .npy file has one array and nothing beside it. An answer of more is refused when it is
 * planned. */
struct npy_writer {
    struct writer base; /* first */
    struct array array;
};

static struct writer *npy_begin(const struct format_body *body, struct text *text,
                                struct fault *fault)
{
    struct npy_writer *npy = arena_calloc(body->arena, 1, sizeof *npy);
    if (!npy) {
        fault_no_memory(fault);
        return NULL;
    }
    npy->base = (struct writer){ &writer_npy, body->arena, text, fault, .parts = NULL };
    return &npy->base;
}

void writer_skip_begin(struct writer *writer, const char *name)
{
    (void)writer, (void)name;
}

void writer_skip_end(struct writer *writer)
{
    (void)writer;
}

void writer_skip_string(struct writer *writer, const char *name, const char *value)
{
    (void)writer, (void)name, (void)value;
}

void writer_skip_flag(struct writer *writer, const char *name, bool value)
{
    (void)writer, (void)name, (void)value;
}

void writer_skip_integer(struct writer *writer, const char *name, int64_t value)
{
    (void)writer, (void)name, (void)value;
}

static void npy_array(struct writer *writer, const char *name, const struct array *array)
{
    (void)name;
    ((struct npy_writer *)writer)->array = *array;
}

void writer_skip_indices(struct writer *writer, const char *name, const int64_t *values, int rank,
                         const int64_t *shape)
{
    (void)writer, (void)name, (void)values, (void)rank, (void)shape;
}

static bool npy_finish(struct writer *writer)
{
    const struct array *array = &((struct npy_writer *)writer)->array;
    size_t size = attn_dtype_size(array->dtype);
    struct byte_slice *parts = arena_calloc(writer->arena, 2, sizeof *parts);
    if (!parts)
        return fault_no_memory(writer->fault);
    npy_write_head(writer->text, array->dtype, array->rank, array->shape);
    if (!text_finish(writer->text, writer->fault))
        return false;
    for (int i = 0; i < array->rank; i++)
        size *= (size_t)array->shape[i]; /* no overflow: they are in memory */
    parts[0] = (struct byte_slice){ writer->text->data, writer->text->used };
    parts[1] = (struct byte_slice){ array->data, size };
    writer->parts = parts;
    writer->part_count = size > 0 ? 2 : 1;
    return true;
}

const struct writer_kind writer_npy = {
    .content_type = "application/x-npy",
    .keeps_dtype = true,
    .begin = npy_begin,
    .object = writer_skip_begin,
    .list = writer_skip_begin,
    .group = writer_skip_begin,
    .end = writer_skip_end,
    .string = writer_skip_string,
    .flag = writer_skip_flag,
    .integer = writer_skip_integer,
    .array = npy_array,
    .indices = writer_skip_indices,
    .finish = npy_finish,
};
