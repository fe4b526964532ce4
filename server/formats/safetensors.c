/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.c - the reader of files; see safetensors.h.
 *
 *     8 bytes                   the length N of the header, little-endian
 *     N bytes                   {"name":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},...}
 *     the rest                  the tensors, without a gap, in the order of their offsets
 *
 * The checks come in the order of the reference parser: the length, UTF-8, JSON and types, then
 * each tensor in data order with its offsets before its size, and the end of the file last. */
#include "formats/safetensors.h"

#include "base/grow.h"
#include "base/utf8.h"
#include "formats/foreign_form.h"
#include "formats/safetensors_header.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    unsigned bits;
} DTYPES[] = {
    { "F32", 32 },    { "F16", 16 },        { "BF16", 16 },       { "F64", 64 },
    { "BOOL", 8 },    { "U8", 8 },          { "I8", 8 },          { "U16", 16 },
    { "I16", 16 },    { "U32", 32 },        { "I32", 32 },        { "U64", 64 },
    { "I64", 64 },    { "C64", 64 },        { "F8_E4M3", 8 },     { "F8_E5M2", 8 },
    { "F8_E8M0", 8 }, { "F8_E4M3FNUZ", 8 }, { "F8_E5M2FNUZ", 8 }, { "F4", 4 },
    { "F6_E2M3", 6 }, { "F6_E3M2", 6 },
};

enum { DTYPE_COUNT = sizeof DTYPES / sizeof DTYPES[0] };

struct reader {
    struct safetensors *file;
    struct header_scan scan;
    int64_t entry_capacity, metadata_capacity;
    struct fault *fault;
};

/* ------------------------------------------------------- the header's JSON -- */

static bool read_dtype(struct reader *reader, struct safetensors_entry *entry)
{
    struct header_string text;
    if (!header_read_string(&reader->scan, "a string, the dtype", &text))
        return false;
    for (int i = 0; i < DTYPE_COUNT; i++)
        if (header_string_is(&text, DTYPES[i].name))
            entry->dtype = DTYPES[i].name;
    return entry->dtype
           || fault_set(reader->fault, FAULT_JSON,
                        "dtype is '%.40s', which the format does not have", text.bytes);
}

static bool read_shape(struct reader *reader, struct safetensors_entry *entry)
{
    uint64_t dimension;
    if (!header_array_open(&reader->scan))
        return false;
    entry->shape_text = reader->scan.json.p;
    while (header_array_next(&reader->scan, &entry->rank))
        if (!header_read_u64(&reader->scan, &dimension))
            return false;
    return !reader->scan.failed;
}

static bool read_offsets(struct reader *reader, struct safetensors_entry *entry)
{
    uint64_t offsets[2] = { 0, 0 };
    int64_t count = 0;
    if (!header_array_open(&reader->scan))
        return false;
    while (header_array_next(&reader->scan, &count)) {
        uint64_t offset;
        if (!header_read_u64(&reader->scan, &offset))
            return false;
        if (count <= 2)
            offsets[count - 1] = offset;
    }
    if (reader->scan.failed)
        return false;
    if (count != 2)
        return fault_set(reader->fault, FAULT_JSON,
                         "data_offsets has %" PRId64 " numbers; expected 2", count);
    entry->begin = offsets[0];
    entry->end = offsets[1];
    return true;
}

static bool read_members(struct reader *reader, struct safetensors_entry *entry)
{
    struct header_object object;
    struct header_string key;
    bool has_offsets = false;
    if (!header_object_open(&reader->scan, &object))
        return false;
    while (header_object_next(&reader->scan, &object, &key)) {
        bool good;
        if (header_string_is(&key, "dtype")) {
            good = read_dtype(reader, entry);
        } else if (header_string_is(&key, "shape")) {
            entry->rank = 0; /* a second shape is refused at the end of the object */
            good = read_shape(reader, entry);
        } else if (header_string_is(&key, "data_offsets")) {
            good = has_offsets = read_offsets(reader, entry);
        } else {
            good = header_skip_value(&reader->scan);
        }
        if (!good)
            return false;
    }
    if (reader->scan.failed)
        return false;
    const char *missing = !entry->dtype        ? "dtype"
                          : !entry->shape_text ? "shape"
                          : !has_offsets       ? "data_offsets"
                                               : NULL;
    return !missing || fault_set(reader->fault, FAULT_JSON, "%s is missing", missing);
}

static bool read_entry(struct reader *reader, const struct header_string *name)
{
    struct safetensors *file = reader->file;
    struct safetensors_entry entry = { .name = name->bytes, .name_length = name->length };
    struct safetensors_entry *entries =
        array_with_room(file->entries, file->entry_count, &reader->entry_capacity, sizeof entry);
    if (!entries)
        return fault_no_memory(reader->fault);
    file->entries = entries;
    if (!read_members(reader, &entry)) {
        if (reader->fault->code != FAULT_MEMORY)
            fault_set(reader->fault, reader->fault->code, "tensor '%.60s': %s", name->bytes,
                      reader->fault->message);
        return false;
    }
    file->entries[file->entry_count++] = entry;
    return true;
}

static bool read_metadata(struct reader *reader)
{
    struct safetensors *file = reader->file;
    struct header_object object;
    struct header_string key, value;
    if (!header_object_open(&reader->scan, &object))
        return false;
    while (header_object_next(&reader->scan, &object, &key)) {
        if (!header_read_string(&reader->scan, "a string, a value of __metadata__", &value))
            return false;
        struct safetensors_pair *pairs = array_with_room(file->metadata, file->metadata_count,
                                                         &reader->metadata_capacity, sizeof *pairs);
        if (!pairs)
            return fault_no_memory(reader->fault);
        file->metadata = pairs;
        pairs[file->metadata_count++] =
            (struct safetensors_pair){ key.bytes, value.bytes, key.length, value.length };
    }
    return !reader->scan.failed;
}

static bool read_header(struct reader *reader)
{
    struct header_object object;
    struct header_string key;
    if (!header_object_open(&reader->scan, &object))
        return false;
    while (header_object_next(&reader->scan, &object, &key))
        if (!(header_string_is(&key, "__metadata__") ? read_metadata(reader)
                                                     : read_entry(reader, &key)))
            return false;
    return !reader->scan.failed && header_at_end(&reader->scan);
}

/* -------------------------------------------------------- offsets and sizes -- */

static int compare_offsets(const void *left, const void *right)
{
    const struct safetensors_entry *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return (a->end > b->end) - (a->end < b->end);
}

/* Reads the next number of a shape whose text was checked before. */
static const char *next_dimension(const char *text, uint64_t *dimension)
{
    while (!json_scan_is_digit(*text))
        text++;
    for (*dimension = 0; json_scan_is_digit(*text); text++)
        *dimension = *dimension * 10 + (uint64_t)(*text - '0');
    return text;
}

void safetensors_shape(const struct safetensors_entry *entry, uint64_t *shape, int64_t count)
{
    const char *text = entry->shape_text;
    for (int64_t i = 0; i < count; i++)
        text = next_dimension(text, &shape[i]);
}

unsigned safetensors_dtype_bits(const char *dtype)
{
    int i = 0;
    while (strcmp(DTYPES[i].name, dtype) != 0)
        i++;
    return DTYPES[i].bits;
}

static bool check_size(const struct safetensors_entry *entry, struct fault *fault)
{
    uint64_t bits = 1, dimension;
    bool overflows = false;
    const char *text = entry->shape_text;
    for (int64_t i = 0; i < entry->rank; i++) {
        text = next_dimension(text, &dimension);
        overflows = overflows || __builtin_mul_overflow(bits, dimension, &bits);
    }
    if (overflows || __builtin_mul_overflow(bits, safetensors_dtype_bits(entry->dtype), &bits))
        return fault_set(fault, FAULT_BINARY, "tensor '%.60s': its shape overflows", entry->name);
    if (bits % 8 != 0)
        return fault_set(fault, FAULT_BINARY,
                         "tensor '%.60s': %" PRIu64 " bits of %s are no whole number of bytes",
                         entry->name, bits, entry->dtype);
    if (bits / 8 != entry->end - entry->begin)
        return fault_set(fault, FAULT_BINARY,
                         "tensor '%.60s': its shape takes %" PRIu64 " bytes of %s; data_offsets "
                         "[%" PRIu64 ",%" PRIu64 "] hold %" PRIu64,
                         entry->name, bits / 8, entry->dtype, entry->begin, entry->end,
                         entry->end - entry->begin);
    return true;
}

static bool check_entries(struct safetensors *file, size_t data_size, struct fault *fault)
{
    uint64_t end = 0;
    for (int64_t i = 0; i < file->entry_count; i++) {
        const struct safetensors_entry *entry = &file->entries[i];
        if (entry->begin != end)
            return fault_set(fault, FAULT_BINARY,
                             "tensor '%.60s': data_offsets begin at %" PRIu64 "; expected %" PRIu64
                             ", where the tensor before it ends",
                             entry->name, entry->begin, end);
        if (entry->end < entry->begin)
            return fault_set(fault, FAULT_BINARY,
                             "tensor '%.60s': data_offsets [%" PRIu64 ",%" PRIu64
                             "] end before they begin",
                             entry->name, entry->begin, entry->end);
        if (!check_size(entry, fault))
            return false;
        end = entry->end;
    }
    if (end != data_size)
        return fault_set(fault, FAULT_BINARY,
                         "the tensors take %" PRIu64 " bytes; %zu follow the header%s", end,
                         data_size, data_size < end ? ": the file is cut" : "");
    return true;
}

static int compare_names(const void *left, const void *right, void *context)
{
    const struct safetensors_entry *entries = context;
    const struct safetensors_entry *a = &entries[*(const uint32_t *)left];
    const struct safetensors_entry *b = &entries[*(const uint32_t *)right];
    return header_string_compare(a->name, a->name_length, b->name, b->name_length);
}

static bool index_entries(struct safetensors *file, const char *data, size_t data_size,
                          struct fault *fault)
{
    const size_t count = (size_t)file->entry_count;
    if (count == 0)
        return check_entries(file, data_size, fault);
    qsort(file->entries, count, sizeof *file->entries, compare_offsets);
    if (!check_entries(file, data_size, fault))
        return false;
    file->by_name = malloc(count * sizeof *file->by_name);
    if (!file->by_name)
        return fault_no_memory(fault);
    for (size_t i = 0; i < count; i++) {
        struct safetensors_entry *entry = &file->entries[i];
        entry->data = data + entry->begin;
        entry->size = (size_t)(entry->end - entry->begin);
        file->by_name[i] = (uint32_t)i;
    }
    qsort_r(file->by_name, count, sizeof *file->by_name, compare_names, file->entries);
    return true;
}

/* --------------------------------------------------------------- the file -- */

/* Says what the bytes are in place of a safetensors file, and never what they say: clients are told
 * too. */
static bool refuse_length(uint64_t length, const unsigned char *bytes, size_t size,
                          struct fault *fault)
{
    enum { TEXT_BYTES = 40 };
    struct foreign_form foreign;
    size_t visible = 0;
    if (foreign_form_of_bytes(bytes, size, &foreign))
        return fault_set(fault, FAULT_BINARY, "this is %s; expected a safetensors file: %s",
                         foreign.form, foreign.advice);
    while (visible < size && visible < TEXT_BYTES && bytes[visible] >= ' ' && bytes[visible] < 0x7F)
        visible++;
    if (visible > SAFETENSORS_LENGTH_BYTES)
        return fault_set(fault, FAULT_BINARY,
                         "this is text, perhaps the answer to a download that failed; expected a "
                         "safetensors file");
    return fault_set(fault, FAULT_BINARY,
                     "the header's length is %" PRIu64 "; expected at most %d (is this a "
                     "safetensors file?)",
                     length, SAFETENSORS_HEADER_BYTES_MAX);
}

static bool copy_header(struct safetensors *file, const unsigned char *bytes, size_t size,
                        struct fault *fault)
{
    uint64_t length = 0;
    if (size < SAFETENSORS_LENGTH_BYTES)
        return fault_set(fault, FAULT_BINARY,
                         "a safetensors file begins with a length of 8 bytes; this has %zu in all",
                         size);
    for (int i = SAFETENSORS_LENGTH_BYTES - 1; i >= 0; i--)
        length = length << 8 | bytes[i];
    if (length > SAFETENSORS_HEADER_BYTES_MAX)
        return refuse_length(length, bytes, size, fault);
    if (length > size - SAFETENSORS_LENGTH_BYTES)
        return fault_set(fault, FAULT_BINARY,
                         "the header's length is %" PRIu64
                         "; only %zu bytes follow: the file is cut",
                         length, size - SAFETENSORS_LENGTH_BYTES);
    file->header_size = (size_t)length;
    file->header = malloc(file->header_size + 1);
    if (!file->header)
        return fault_no_memory(fault);
    memcpy(file->header, bytes + SAFETENSORS_LENGTH_BYTES, file->header_size);
    file->header[file->header_size] = '\0';
    return true;
}

static bool check_utf8(const struct safetensors *file, struct fault *fault)
{
    const char *end = file->header + file->header_size;
    for (const char *p = file->header; p < end;) {
        const size_t character = utf8_character_size(p, (size_t)(end - p));
        if (character == 0)
            return fault_set(fault, FAULT_JSON, "the header is not UTF-8 at its byte %zu",
                             (size_t)(p - file->header));
        p += character;
    }
    return true;
}

static bool parse_header(struct safetensors *file, struct fault *fault)
{
    struct reader reader = { .file = file, .fault = fault };
    header_scan_init(&reader.scan, file->header, file->header_size, fault);
    const bool good = read_header(&reader);
    header_scan_free(&reader.scan);
    if (!good && fault->code != FAULT_MEMORY)
        fault_set(fault, fault->code, "safetensors header: %s", fault->message);
    return good;
}

bool safetensors_read(struct safetensors *file, const void *bytes, size_t size, struct fault *fault)
{
    *file = (struct safetensors){ .entries = NULL };
    if (copy_header(file, bytes, size, fault) && check_utf8(file, fault)
        && parse_header(file, fault)) {
        const size_t data_offset = SAFETENSORS_LENGTH_BYTES + file->header_size;
        if (index_entries(file, (const char *)bytes + data_offset, size - data_offset, fault))
            return true;
    }
    safetensors_free(file);
    return false;
}

void safetensors_free(struct safetensors *file)
{
    if (!file)
        return;
    free(file->entries);
    free(file->metadata);
    free(file->by_name);
    free(file->header);
    *file = (struct safetensors){ .entries = NULL };
}

const struct safetensors_entry *safetensors_find(const struct safetensors *file, const char *name)
{
    const size_t length = strlen(name);
    int64_t low = 0, high = file->entry_count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const struct safetensors_entry *entry = &file->entries[file->by_name[middle]];
        const int order = header_string_compare(name, length, entry->name, entry->name_length);
        if (order == 0)
            return entry;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const struct safetensors_pair *safetensors_metadata(const struct safetensors *file, const char *key)
{
    const size_t length = strlen(key);
    for (int64_t i = 0; i < file->metadata_count; i++) {
        const struct safetensors_pair *pair = &file->metadata[i];
        if (header_string_compare(pair->key, pair->key_length, key, length) == 0)
            return pair;
    }
    return NULL;
}
