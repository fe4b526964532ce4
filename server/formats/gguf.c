/* SPDX-License-Identifier: Apache-2.0 */
/* gguf.c - the reader of files; see gguf.h.
 *
 *     "GGUF", u32 version, u64 tensors, u64 pairs
 *     a pair                    string key, u32 type, a value
 *       a string                u64 length, its bytes
 *       an array                u32 type of its elements, u64 count, the elements
 *     a tensor                  string name, u32 rank, u64 dimensions from the contiguous one on,
 *                               u32 type, u64 offset in the data
 *     the data, aligned         the tensors in the order of the table, each aligned
 *
 * Where the table ends is known once it is read. So the copy of the header grows by what is asked
 * for, and what is read remembers places in it, which become pointers at the end. A string is
 * followed by something that is read by then, or by another string of its array, whose length is
 * known by where it starts: so a NUL byte takes that place. */
#include "base/grow.h"
#include "base/utf8.h"
#include "formats/foreign_form.h"
#include "formats/gguf_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEADER_BYTES_MAX = 128 << 20,
    KEY_BYTES_MAX = 65535,
    NAME_BYTES_MAX = 63,
    ALIGNMENT_DEFAULT = 32,
    ALIGNMENT_MIN = 8,
    MAGIC_BYTES = 4,
    /* The least that each takes: with a name of one byte, one dimension, a value of one byte. */
    PAIR_BYTES_MIN = 8 + 1 + 4 + 1,
    TENSOR_BYTES_MIN = 8 + 1 + 4 + 8 + 4 + 8,
    ARRAY_BYTES_MIN = 4 + 8,
};

struct reader {
    struct gguf *file;
    const char *bytes;
    size_t size, copied, capacity; /* of bytes; of the copy, and of its memory */
    size_t at;                     /* of the next byte to read */
    int64_t start_count, start_capacity, array_count, array_capacity;
    int64_t pair_capacity, tensor_capacity;
    struct fault *fault;
};

/* ---------------------------------------------------------- bytes, strings -- */

static size_t bytes_left(const struct reader *reader)
{
    return reader->size - reader->at;
}

/* Copies the header up to its byte `end`, at most reader->size. */
static bool copy_until(struct reader *reader, size_t end)
{
    if (end <= reader->copied)
        return true;
    if (end > HEADER_BYTES_MAX)
        return fault_set(reader->fault, FAULT_BINARY,
                         "its metadata and tensor table have more than %d bytes", HEADER_BYTES_MAX);
    if (end >= reader->capacity) {
        const size_t wanted = end + end / 2 + 4096;
        char *larger = realloc(reader->file->header, wanted);
        if (!larger)
            return fault_no_memory(reader->fault);
        reader->file->header = larger;
        reader->capacity = wanted;
    }
    memcpy(reader->file->header + reader->copied, reader->bytes + reader->copied,
           end - reader->copied);
    reader->copied = end;
    return true;
}

/* Sets *place to where the next count bytes lie in the copy. */
static bool take(struct reader *reader, uint64_t count, uint32_t *place)
{
    if (count > bytes_left(reader))
        return fault_set(reader->fault, FAULT_BINARY,
                         "the file is cut: %" PRIu64 " bytes are expected at byte %zu of %zu",
                         count, reader->at, reader->size);
    if (!copy_until(reader, reader->at + (size_t)count))
        return false;
    *place = (uint32_t)reader->at;
    reader->at += (size_t)count;
    return true;
}

static bool read_u32(struct reader *reader, uint32_t *number)
{
    uint32_t place;
    if (!take(reader, sizeof *number, &place))
        return false;
    *number = (uint32_t)gguf_load(reader->file->header + place, sizeof *number);
    return true;
}

static bool read_u64(struct reader *reader, uint64_t *number)
{
    uint32_t place;
    if (!take(reader, sizeof *number, &place))
        return false;
    *number = gguf_load(reader->file->header + place, sizeof *number);
    return true;
}

static bool read_string(struct reader *reader, uint32_t *place, size_t *length)
{
    uint64_t count;
    if (!read_u64(reader, &count))
        return false;
    if (count > bytes_left(reader))
        return fault_set(reader->fault, FAULT_BINARY,
                         "a string has %" PRIu64 " bytes; %zu follow in the file", count,
                         bytes_left(reader));
    *length = (size_t)count;
    return take(reader, count, place);
}

/* Reads the string that names a pair or a tensor, number i of what. */
static bool read_name(struct reader *reader, const char *what, int64_t i, size_t bytes_max,
                      uint32_t *place, size_t *length)
{
    if (!read_string(reader, place, length))
        return false;
    const char *text = reader->file->header + *place;
    if (*length == 0 || *length > bytes_max)
        return fault_set(reader->fault, FAULT_BINARY,
                         "%s %" PRId64 " has %zu bytes; expected 1 to %zu", what, i, *length,
                         bytes_max);
    for (size_t j = 0; j < *length;) {
        const size_t character = text[j] ? utf8_character_size(text + j, *length - j) : 0;
        if (character == 0)
            return fault_set(reader->fault, FAULT_BINARY,
                             "%s %" PRId64 " is no text in UTF-8 at its byte %zu", what, i, j);
        j += character;
    }
    return true;
}

/* How many bytes of a name, whole characters, a message shows. */
static int shown_bytes(const char *name, size_t length)
{
    enum { SHOWN_BYTES_MAX = 80 };
    size_t shown = 0, character = 0;
    do {
        shown += character;
        character = utf8_character_size(name + shown, length - shown);
    } while (character > 0 && shown + character <= SHOWN_BYTES_MAX);
    return (int)shown;
}

/* Puts the words of what is being read before the fault. */
static bool fault_of(struct reader *reader, const char *what, uint32_t place, size_t length)
{
    const char *name = reader->file->header + place;
    if (reader->fault->code != FAULT_MEMORY)
        fault_set(reader->fault, reader->fault->code, "%s '%.*s': %s", what,
                  shown_bytes(name, length), name, reader->fault->message);
    return false;
}

/* ----------------------------------------------------------------- values -- */

static bool read_type(struct reader *reader, enum gguf_type *type)
{
    uint32_t number;
    if (!read_u32(reader, &number))
        return false;
    if (number >= GGUF_TYPE_COUNT)
        return fault_set(reader->fault, FAULT_BINARY,
                         "its type is %" PRIu32 "; expected a number below %d", number,
                         GGUF_TYPE_COUNT);
    *type = (enum gguf_type)number;
    return true;
}

static bool check_bools(struct reader *reader, uint32_t place, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if ((unsigned char)reader->file->header[place + i] > 1)
            return fault_set(reader->fault, FAULT_BINARY, "a bool is %d; expected 0 or 1",
                             (unsigned char)reader->file->header[place + i]);
    return true;
}

static bool append_start(struct reader *reader, size_t start)
{
    uint32_t *starts = array_with_room(reader->file->starts, reader->start_count,
                                       &reader->start_capacity, sizeof *starts);
    if (!starts)
        return fault_no_memory(reader->fault);
    reader->file->starts = starts;
    starts[reader->start_count++] = (uint32_t)start;
    return true;
}

static bool read_strings(struct reader *reader, struct gguf_value *value)
{
    value->at = (uint32_t)reader->at;
    value->first = (uint32_t)reader->start_count;
    for (int64_t i = 0; i < value->count; i++) {
        uint32_t place;
        size_t length;
        if (!read_string(reader, &place, &length) || !append_start(reader, place - value->at))
            return false;
    }
    return append_start(reader, reader->at + GGUF_LENGTH_BYTES - value->at);
}

static bool read_array(struct reader *reader, struct gguf_value *value, int depth);

static bool read_arrays(struct reader *reader, struct gguf_value *value, int depth)
{
    value->first = (uint32_t)reader->array_count;
    for (int64_t i = 0; i < value->count; i++) {
        struct gguf_value *arrays = array_with_room(reader->file->arrays, reader->array_count,
                                                    &reader->array_capacity, sizeof *arrays);
        if (!arrays)
            return fault_no_memory(reader->fault);
        reader->file->arrays = arrays;
        arrays[reader->array_count++] = (struct gguf_value){ .type = GGUF_ARRAY };
    }
    for (int64_t i = 0; i < value->count; i++) {
        struct gguf_value element = { .type = GGUF_ARRAY };
        if (!read_array(reader, &element, depth + 1))
            return false;
        reader->file->arrays[value->first + i] = element;
    }
    return true;
}

static bool read_array(struct reader *reader, struct gguf_value *value, int depth)
{
    uint64_t count;
    if (depth > GGUF_ARRAY_DEPTH_MAX)
        return fault_set(reader->fault, FAULT_BINARY, "arrays lie in arrays more than %d deep",
                         GGUF_ARRAY_DEPTH_MAX);
    if (!read_type(reader, &value->element_type) || !read_u64(reader, &count))
        return false;
    const size_t number_bytes = gguf_number_bytes(value->element_type);
    const size_t element_bytes = number_bytes > 0                     ? number_bytes
                                 : value->element_type == GGUF_STRING ? (size_t)GGUF_LENGTH_BYTES
                                                                      : (size_t)ARRAY_BYTES_MIN;
    if (count > bytes_left(reader) / element_bytes)
        return fault_set(reader->fault, FAULT_BINARY,
                         "an array has %" PRIu64 " elements; the %zu bytes that follow in the file "
                         "hold at most %zu",
                         count, bytes_left(reader), bytes_left(reader) / element_bytes);
    value->count = (int64_t)count;
    if (value->element_type == GGUF_STRING)
        return read_strings(reader, value);
    if (value->element_type == GGUF_ARRAY)
        return read_arrays(reader, value, depth);
    return take(reader, count * number_bytes, &value->at)
           && (value->element_type != GGUF_BOOL || check_bools(reader, value->at, count));
}

static bool read_value(struct reader *reader, struct gguf_value *value)
{
    if (!read_type(reader, &value->type))
        return false;
    if (value->type == GGUF_ARRAY)
        return read_array(reader, value, 1);
    value->count = 1;
    if (value->type == GGUF_STRING)
        return read_string(reader, &value->at, &value->size);
    return take(reader, gguf_number_bytes(value->type), &value->at)
           && (value->type != GGUF_BOOL || check_bools(reader, value->at, 1));
}

static bool read_pair(struct reader *reader)
{
    struct gguf *file = reader->file;
    struct gguf_pair pair = { .key = NULL };
    struct gguf_pair *pairs =
        array_with_room(file->pairs, file->pair_count, &reader->pair_capacity, sizeof pair);
    if (!pairs)
        return fault_no_memory(reader->fault);
    file->pairs = pairs;
    if (!read_name(reader, "key", file->pair_count, KEY_BYTES_MAX, &pair.key_at, &pair.key_length))
        return false;
    if (!read_value(reader, &pair.value))
        return fault_of(reader, "key", pair.key_at, pair.key_length);
    pairs[file->pair_count++] = pair;
    return true;
}

/* ----------------------------------------------------------------- tensors -- */

static bool read_shape(struct reader *reader, struct gguf_tensor *tensor)
{
    uint32_t rank;
    int64_t elements = 1;
    if (!read_u32(reader, &rank))
        return false;
    if (rank < 1 || rank > GGUF_RANK_MAX)
        return fault_set(reader->fault, FAULT_BINARY,
                         "it has %" PRIu32 " dimensions; expected 1 to %d", rank, GGUF_RANK_MAX);
    tensor->rank = (int)rank;
    for (int i = tensor->rank - 1; i >= 0; i--) {
        uint64_t dimension;
        if (!read_u64(reader, &dimension))
            return false;
        if (dimension == 0)
            return fault_set(reader->fault, FAULT_BINARY, "a dimension is 0");
        if (dimension > INT64_MAX
            || __builtin_mul_overflow(elements, (int64_t)dimension, &elements))
            return fault_set(reader->fault, FAULT_BINARY, "its shape overflows");
        tensor->shape[i] = (int64_t)dimension;
    }
    return true;
}

static bool read_tensor_type(struct reader *reader, struct gguf_tensor *tensor)
{
    uint32_t number;
    if (!read_u32(reader, &number))
        return false;
    const struct gguf_tensor_type *type = gguf_tensor_type(number);
    if (!type)
        return fault_set(reader->fault, FAULT_DTYPE, "its type is %" PRIu32 ", which is unknown",
                         number);
    if (type->block_bytes == 0)
        return fault_set(reader->fault, FAULT_DTYPE,
                         "its type is %s, which ggml has removed: quantize the model again",
                         type->name);
    const int64_t columns = tensor->shape[tensor->rank - 1];
    if (columns % type->block_count != 0)
        return fault_set(reader->fault, FAULT_BINARY,
                         "a row has %" PRId64 " elements; %s takes multiples of %" PRId64, columns,
                         type->name, type->block_count);
    tensor->type = type->name;
    tensor->block_count = type->block_count;
    tensor->block_bytes = type->block_bytes;
    int64_t elements = 1;
    for (int i = 0; i < tensor->rank; i++)
        elements *= tensor->shape[i];
    if (__builtin_mul_overflow((uint64_t)(elements / type->block_count), type->block_bytes,
                               &tensor->size))
        return fault_set(reader->fault, FAULT_BINARY, "its shape overflows");
    return true;
}

static bool read_tensor(struct reader *reader)
{
    struct gguf *file = reader->file;
    struct gguf_tensor tensor = { .name = NULL };
    struct gguf_tensor *tensors =
        array_with_room(file->tensors, file->tensor_count, &reader->tensor_capacity, sizeof tensor);
    if (!tensors)
        return fault_no_memory(reader->fault);
    file->tensors = tensors;
    if (!read_name(reader, "the name of tensor", file->tensor_count, NAME_BYTES_MAX,
                   &tensor.name_at, &tensor.name_length))
        return false;
    if (!read_shape(reader, &tensor) || !read_tensor_type(reader, &tensor)
        || !read_u64(reader, &tensor.offset))
        return fault_of(reader, "tensor", tensor.name_at, tensor.name_length);
    tensors[file->tensor_count++] = tensor;
    return true;
}

/* ---------------------------------------------------------------- the head -- */

static bool read_version(struct reader *reader)
{
    struct foreign_form foreign;
    uint32_t place;
    if (reader->size < MAGIC_BYTES || memcmp(reader->bytes, "GGUF", MAGIC_BYTES) != 0) {
        if (foreign_form_of_bytes(reader->bytes, reader->size, &foreign))
            return fault_set(reader->fault, FAULT_BINARY, "this is %s; expected a GGUF file: %s",
                             foreign.form, foreign.advice);
        return fault_set(reader->fault, FAULT_BINARY, "the file does not begin with GGUF");
    }
    if (!take(reader, MAGIC_BYTES, &place) || !read_u32(reader, &reader->file->version))
        return false;
    const uint32_t version = reader->file->version;
    if (version == 2 || version == 3)
        return true;
    if (version != 0 && (version & 0xFFFF) == 0)
        return fault_set(reader->fault, FAULT_BINARY,
                         "the file is big-endian; expected a little-endian one: convert the model "
                         "again, or use ggml's gguf_convert_endian.py");
    return fault_set(reader->fault, FAULT_BINARY, "its version is %" PRIu32 "; expected 2 or 3%s",
                     version, version == 1 ? ": convert the model again" : "");
}

/* Reads a count of what takes at least bytes_min bytes each. */
static bool read_count(struct reader *reader, const char *what, size_t bytes_min, uint64_t *count)
{
    if (!read_u64(reader, count))
        return false;
    if (*count > bytes_left(reader) / bytes_min)
        return fault_set(reader->fault, FAULT_BINARY,
                         "it has %" PRIu64
                         " %s; the %zu bytes that follow in the file hold at most "
                         "%zu: it is cut or damaged",
                         *count, what, bytes_left(reader), bytes_left(reader) / bytes_min);
    return true;
}

/* ----------------------------------------------- places become pointers -- */

static void settle_value(const struct gguf *file, struct gguf_value *value)
{
    value->bytes = file->header + value->at;
    if (value->type == GGUF_STRING) {
        file->header[value->at + value->size] = '\0';
    } else if (value->type == GGUF_ARRAY && value->element_type == GGUF_STRING) {
        value->starts = file->starts + value->first;
        for (int64_t i = 1; i <= value->count; i++)
            file->header[value->at + value->starts[i] - GGUF_LENGTH_BYTES] = '\0';
    } else if (value->type == GGUF_ARRAY && value->element_type == GGUF_ARRAY) {
        value->arrays = value->count > 0 ? file->arrays + value->first : NULL;
    }
}

static void settle(struct reader *reader)
{
    struct gguf *file = reader->file;
    for (int64_t i = 0; i < reader->array_count; i++)
        settle_value(file, &file->arrays[i]);
    for (int64_t i = 0; i < file->pair_count; i++) {
        struct gguf_pair *pair = &file->pairs[i];
        settle_value(file, &pair->value);
        pair->key = file->header + pair->key_at;
        file->header[pair->key_at + pair->key_length] = '\0';
    }
    for (int64_t i = 0; i < file->tensor_count; i++) {
        struct gguf_tensor *tensor = &file->tensors[i];
        tensor->name = file->header + tensor->name_at;
        file->header[tensor->name_at + tensor->name_length] = '\0';
    }
}

/* ------------------------------------------------------------------- order -- */

static int compare_keys(const void *left, const void *right, void *context)
{
    const struct gguf_pair *pairs = context;
    return strcmp(pairs[*(const uint32_t *)left].key, pairs[*(const uint32_t *)right].key);
}

static int compare_names(const void *left, const void *right, void *context)
{
    const struct gguf_tensor *tensors = context;
    return strcmp(tensors[*(const uint32_t *)left].name, tensors[*(const uint32_t *)right].name);
}

/* The numbers below count, in the order of compare; NULL where there is no memory. */
static uint32_t *sorted_order(int64_t count, int (*compare)(const void *, const void *, void *),
                              void *context)
{
    uint32_t *order = malloc(((size_t)count + 1) * sizeof *order);
    if (!order)
        return NULL;
    for (int64_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    qsort_r(order, (size_t)count, sizeof *order, compare, context);
    return order;
}

static bool refuse_twice(const struct gguf_pair *pair, struct fault *fault)
{
    return fault_set(fault, FAULT_DUPLICATE, "key '%.*s' occurs twice",
                     shown_bytes(pair->key, pair->key_length), pair->key);
}

static bool sort_names(struct gguf *file, struct fault *fault)
{
    file->pairs_by_key = sorted_order(file->pair_count, compare_keys, file->pairs);
    file->tensors_by_name = sorted_order(file->tensor_count, compare_names, file->tensors);
    if (!file->pairs_by_key || !file->tensors_by_name)
        return fault_no_memory(fault);
    for (int64_t i = 1; i < file->pair_count; i++)
        if (compare_keys(&file->pairs_by_key[i - 1], &file->pairs_by_key[i], file->pairs) == 0)
            return refuse_twice(&file->pairs[file->pairs_by_key[i]], fault);
    for (int64_t i = 1; i < file->tensor_count; i++)
        if (compare_names(&file->tensors_by_name[i - 1], &file->tensors_by_name[i], file->tensors)
            == 0)
            return fault_set(fault, FAULT_DUPLICATE, "tensor '%s' occurs twice",
                             file->tensors[file->tensors_by_name[i]].name);
    return true;
}

/* ---------------------------------------------------------------- the data -- */

static bool read_alignment(struct gguf *file, struct fault *fault)
{
    int64_t alignment;
    file->alignment = ALIGNMENT_DEFAULT;
    const struct gguf_value *value = gguf_find(file, "general.alignment");
    if (!value)
        return true;
    if (value->type != GGUF_U32)
        return fault_set(fault, FAULT_BINARY, "general.alignment is %s; expected u32",
                         gguf_type_name(value));
    gguf_integer(value, &alignment);
    if (alignment < ALIGNMENT_MIN || (alignment & (alignment - 1)) != 0)
        return fault_set(fault, FAULT_BINARY,
                         "general.alignment is %" PRId64
                         "; expected a power of two that is at least %d",
                         alignment, ALIGNMENT_MIN);
    file->alignment = (uint32_t)alignment;
    return true;
}

/* False where it overflows. */
static bool align(uint64_t *offset, uint64_t alignment)
{
    if (__builtin_add_overflow(*offset, alignment - 1, offset))
        return false;
    *offset &= ~(alignment - 1);
    return true;
}

static bool place_tensors(struct gguf *file, const char *bytes, size_t size, struct fault *fault)
{
    uint64_t data_at = file->header_size, end = 0;
    align(&data_at, file->alignment);
    for (int64_t i = 0; i < file->tensor_count; i++) {
        struct gguf_tensor *tensor = &file->tensors[i];
        if (tensor->offset != end)
            return fault_set(fault, FAULT_BINARY,
                             "tensor '%s': its offset is %" PRIu64 "; expected %" PRIu64
                             ", where the tensor before it ends, aligned to %" PRIu32,
                             tensor->name, tensor->offset, end, file->alignment);
        if (data_at > size || end > size - data_at || tensor->size > size - data_at - end)
            return fault_set(fault, FAULT_BINARY,
                             "tensor '%s' has %zu bytes from byte %" PRIu64
                             " on; the file has %zu: it is cut",
                             tensor->name, tensor->size, data_at + end, size);
        tensor->data = bytes + data_at + end;
        end += tensor->size;
        if (!align(&end, file->alignment))
            return fault_set(fault, FAULT_BINARY, "tensor '%s': its end overflows", tensor->name);
    }
    return true;
}

/* ---------------------------------------------------------------- the file -- */

static bool read_header(struct reader *reader)
{
    uint64_t tensor_count, pair_count;
    if (!read_version(reader) || !read_count(reader, "tensors", TENSOR_BYTES_MIN, &tensor_count)
        || !read_count(reader, "keys", PAIR_BYTES_MIN, &pair_count))
        return false;
    for (uint64_t i = 0; i < pair_count; i++)
        if (!read_pair(reader))
            return false;
    for (uint64_t i = 0; i < tensor_count; i++)
        if (!read_tensor(reader))
            return false;
    reader->file->header_size = reader->at;
    settle(reader);
    return true;
}

bool gguf_read(struct gguf *file, const void *bytes, size_t size, struct fault *fault)
{
    *file = (struct gguf){ .pairs = NULL };
    struct reader reader = { .file = file, .bytes = bytes, .size = size, .fault = fault };
    if (read_header(&reader) && sort_names(file, fault) && read_alignment(file, fault)
        && place_tensors(file, bytes, size, fault))
        return true;
    gguf_free(file);
    return false;
}

void gguf_free(struct gguf *file)
{
    if (!file)
        return;
    free(file->pairs);
    free(file->tensors);
    free(file->header);
    free(file->starts);
    free(file->arrays);
    free(file->pairs_by_key);
    free(file->tensors_by_name);
    *file = (struct gguf){ .pairs = NULL };
}

const struct gguf_value *gguf_find(const struct gguf *file, const char *key)
{
    int64_t low = 0, high = file->pair_count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const struct gguf_pair *pair = &file->pairs[file->pairs_by_key[middle]];
        const int order = strcmp(key, pair->key);
        if (order == 0)
            return &pair->value;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const struct gguf_tensor *gguf_tensor_find(const struct gguf *file, const char *name)
{
    int64_t low = 0, high = file->tensor_count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const struct gguf_tensor *tensor = &file->tensors[file->tensors_by_name[middle]];
        const int order = strcmp(name, tensor->name);
        if (order == 0)
            return tensor;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}
