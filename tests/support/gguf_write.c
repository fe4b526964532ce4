/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_write.c - see gguf_write.h. */
#include "gguf_write.h"
#include "gguf_quantize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096, RANK_MAX = 4, TYPE_STRING = 8, TYPE_ARRAY = 9 };

struct bytes {
    char *data;
    size_t size, capacity;
};

struct tensor {
    char *name;
    int rank;
    int64_t shape[RANK_MAX];
    const struct gguf_block *type;
    size_t place, size; /* in the data */
};

struct gguf_write {
    uint32_t version, alignment;
    struct bytes pairs, data;
    uint64_t pair_count;
    struct tensor *tensors;
    int tensor_count;
};

static void require(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "gguf_write: %s\n", what);
    abort();
}

/* ------------------------------------------------------------------- bytes -- */

static void append(struct bytes *bytes, const void *more, size_t size)
{
    if (bytes->size + size > bytes->capacity) {
        bytes->capacity = 2 * (bytes->size + size) + 64;
        bytes->data = realloc(bytes->data, bytes->capacity);
        require(bytes->data != NULL, "no memory");
    }
    if (size > 0)
        memcpy(bytes->data + bytes->size, more, size);
    bytes->size += size;
}

static void append_integer(struct bytes *bytes, uint64_t integer, int size)
{
    for (int i = 0; i < size; i++)
        append(bytes, &(unsigned char){ (unsigned char)(integer >> (8 * i)) }, 1);
}

static void append_string(struct bytes *bytes, const char *text)
{
    append_integer(bytes, strlen(text), 8);
    append(bytes, text, strlen(text));
}

static void append_padding(struct bytes *bytes, uint32_t alignment)
{
    while (bytes->size % alignment != 0)
        append(bytes, "", 1);
}

/* ------------------------------------------------------------------- pairs -- */

static const struct {
    char letter;
    int number, size;
} TYPES[] = { { 'B', 0, 1 },  { 'b', 1, 1 },  { 'H', 2, 2 }, { 'h', 3, 2 },
              { 'I', 4, 4 },  { 'i', 5, 4 },  { 'f', 6, 4 }, { '?', 7, 1 },
              { 'Q', 10, 8 }, { 'q', 11, 8 }, { 'd', 12, 8 } };

/* The row of TYPES for a letter. */
static int type_of(char letter)
{
    const int count = sizeof TYPES / sizeof TYPES[0];
    int i = 0;
    while (i < count && TYPES[i].letter != letter)
        i++;
    require(i < count, "no such type");
    return i;
}

void gguf_write_value(struct gguf_write *file, const char *key, uint32_t type, const void *bytes,
                      size_t size)
{
    append_string(&file->pairs, key);
    append_integer(&file->pairs, type, 4);
    append(&file->pairs, bytes, size);
    file->pair_count++;
}

void gguf_write_text(struct gguf_write *file, const char *key, const char *text)
{
    struct bytes bytes = { .data = NULL };
    append_string(&bytes, text);
    gguf_write_value(file, key, TYPE_STRING, bytes.data, bytes.size);
    free(bytes.data);
}

void gguf_write_integer(struct gguf_write *file, const char *key, char type, int64_t integer)
{
    const int i = type_of(type);
    struct bytes bytes = { .data = NULL };
    append_integer(&bytes, (uint64_t)integer, TYPES[i].size);
    gguf_write_value(file, key, (uint32_t)TYPES[i].number, bytes.data, bytes.size);
    free(bytes.data);
}

void gguf_write_number(struct gguf_write *file, const char *key, char type, double number)
{
    const float single = (float)number;
    if (type == 'f')
        gguf_write_value(file, key, 6, &single, sizeof single);
    else
        gguf_write_value(file, key, 12, &number, sizeof number);
}

void gguf_write_bool(struct gguf_write *file, const char *key, bool flag)
{
    gguf_write_integer(file, key, '?', flag);
}

void gguf_write_numbers(struct gguf_write *file, const char *key, char type, const void *numbers,
                        int64_t count)
{
    const int i = type_of(type);
    struct bytes bytes = { .data = NULL };
    append_integer(&bytes, (uint64_t)TYPES[i].number, 4);
    append_integer(&bytes, (uint64_t)count, 8);
    append(&bytes, numbers, (size_t)count * (size_t)TYPES[i].size);
    gguf_write_value(file, key, TYPE_ARRAY, bytes.data, bytes.size);
    free(bytes.data);
}

void gguf_write_texts(struct gguf_write *file, const char *key, const char *const *texts,
                      int64_t count)
{
    struct bytes bytes = { .data = NULL };
    append_integer(&bytes, TYPE_STRING, 4);
    append_integer(&bytes, (uint64_t)count, 8);
    for (int64_t i = 0; i < count; i++)
        append_string(&bytes, texts[i]);
    gguf_write_value(file, key, TYPE_ARRAY, bytes.data, bytes.size);
    free(bytes.data);
}

void gguf_write_alignment(struct gguf_write *file, uint32_t alignment)
{
    gguf_write_integer(file, "general.alignment", 'I', alignment);
    file->alignment = alignment;
}

/* ----------------------------------------------------------------- tensors -- */

/* Returns room for the blocks of a new tensor. */
static void *add_tensor(struct gguf_write *file, const char *name, const char *type, int rank,
                        const int64_t *shape)
{
    struct tensor tensor = { .name = strdup(name), .rank = rank, .type = gguf_block(type) };
    int64_t elements = 1;
    require(tensor.type && tensor.name && rank >= 1 && rank <= RANK_MAX,
            "a tensor of no such kind");
    for (int i = 0; i < rank; i++)
        elements *= tensor.shape[i] = shape[i];
    require(shape[rank - 1] % tensor.type->count == 0, "a row of no whole blocks");
    append_padding(&file->data, file->alignment);
    tensor.place = file->data.size;
    tensor.size = (size_t)(elements / tensor.type->count) * (size_t)tensor.type->bytes;
    file->tensors =
        realloc(file->tensors, ((size_t)file->tensor_count + 1) * sizeof *file->tensors);
    require(file->tensors != NULL, "no memory");
    file->tensors[file->tensor_count++] = tensor;
    char *blocks = calloc(tensor.size + 1, 1);
    require(blocks != NULL, "no memory");
    append(&file->data, blocks, tensor.size);
    free(blocks);
    return file->data.data + tensor.place;
}

void gguf_write_blocks(struct gguf_write *file, const char *name, const char *type, int rank,
                       const int64_t *shape, const void *blocks)
{
    void *to = add_tensor(file, name, type, rank, shape);
    memcpy(to, blocks, file->tensors[file->tensor_count - 1].size);
}

void gguf_write_tensor(struct gguf_write *file, const char *name, const char *type, int rank,
                       const int64_t *shape, const float *values)
{
    void *to = add_tensor(file, name, type, rank, shape);
    const struct tensor *tensor = &file->tensors[file->tensor_count - 1];
    gguf_quantize(tensor->type, values,
                  (int64_t)(tensor->size / (size_t)tensor->type->bytes) * tensor->type->count, to);
}

/* ---------------------------------------------------------------- the file -- */

struct gguf_write *gguf_write_create(uint32_t version)
{
    struct gguf_write *file = calloc(1, sizeof *file);
    require(file != NULL, "no memory");
    file->version = version;
    file->alignment = 32;
    return file;
}

void gguf_write_free(struct gguf_write *file)
{
    if (!file)
        return;
    for (int i = 0; i < file->tensor_count; i++)
        free(file->tensors[i].name);
    free(file->tensors);
    free(file->pairs.data);
    free(file->data.data);
    free(file);
}

/* Writes the tensors from first on, behind these pairs. */
static struct bytes file_of(const struct gguf_write *file, const struct bytes *pairs,
                            uint64_t pair_count, int first, int count)
{
    struct bytes bytes = { .data = NULL };
    append(&bytes, "GGUF", 4);
    append_integer(&bytes, file->version, 4);
    append_integer(&bytes, (uint64_t)count, 8);
    append_integer(&bytes, pair_count, 8);
    append(&bytes, pairs->data, pairs->size);
    for (int i = first; i < first + count; i++) {
        const struct tensor *tensor = &file->tensors[i];
        append_string(&bytes, tensor->name);
        append_integer(&bytes, (uint64_t)tensor->rank, 4);
        for (int j = tensor->rank - 1; j >= 0; j--)
            append_integer(&bytes, (uint64_t)tensor->shape[j], 8);
        append_integer(&bytes, (uint64_t)tensor->type->number, 4);
        append_integer(&bytes, tensor->place - file->tensors[first].place, 8);
    }
    append_padding(&bytes, file->alignment);
    for (int i = first; i < first + count; i++) {
        append(&bytes, file->data.data + file->tensors[i].place, file->tensors[i].size);
        append_padding(&bytes, file->alignment);
    }
    return bytes;
}

void *gguf_write_bytes(const struct gguf_write *file, size_t *size)
{
    const struct bytes bytes = file_of(file, &file->pairs, file->pair_count, 0, file->tensor_count);
    *size = bytes.size;
    return bytes.data;
}

static void write_bytes(const char *path, const void *bytes, size_t size)
{
    FILE *out = fopen(path, "wb");
    require(out && fwrite(bytes, 1, size, out) == size && fclose(out) == 0, path);
}

void gguf_write_file(const struct gguf_write *file, const char *path)
{
    size_t size;
    void *bytes = gguf_write_bytes(file, &size);
    write_bytes(path, bytes, size);
    free(bytes);
}

void gguf_write_split(const struct gguf_write *file, const char *prefix, int count)
{
    for (int i = 0; i < count; i++) {
        const int first = file->tensor_count * i / count;
        const int end = file->tensor_count * (i + 1) / count;
        struct gguf_write head = { .pair_count = i == 0 ? file->pair_count : 0 };
        char path[PATH_BYTES];
        if (i == 0)
            append(&head.pairs, file->pairs.data, file->pairs.size);
        gguf_write_integer(&head, "split.no", 'H', i);
        gguf_write_integer(&head, "split.count", 'H', count);
        gguf_write_integer(&head, "split.tensors.count", 'i', file->tensor_count);
        if (i > 0 && file->alignment != 32)
            gguf_write_integer(&head, "general.alignment", 'I', file->alignment);
        struct bytes bytes = file_of(file, &head.pairs, head.pair_count, first, end - first);
        snprintf(path, sizeof path, "%s-%05d-of-%05d.gguf", prefix, i + 1, count);
        write_bytes(path, bytes.data, bytes.size);
        free(bytes.data);
        free(head.pairs.data);
    }
}
