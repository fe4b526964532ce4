/* SPDX-License-Identifier: Apache-2.0 */
/* npy.c - see npy.h. */
#include "formats/npy.h"

#include "json/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char MAGIC[] = "\x93NUMPY";

enum { MAGIC_BYTES = sizeof MAGIC - 1, VERSION_BYTES = 2, ALIGNMENT = 64, WORD_BYTES = 32 };

#define TAKEN "'<f4', '<f2' or '<f8'"

static const struct {
    const char *descr;
    enum attn_dtype dtype;
} DTYPES[] = { { "<f4", ATTN_F32 }, { "<f2", ATTN_F16 }, { "<f8", ATTN_F64 } };

enum { DTYPE_COUNT = sizeof DTYPES / sizeof DTYPES[0] };

/* -------------------------------------------------------------- the header -- */

/* The dict while it is read. */
struct header {
    const char *text;
    size_t size, at;
    bool has_descr, has_order, has_shape;
    struct fault *fault;
};

static bool bad_header(const struct header *header, const char *expected)
{
    return fault_set(header->fault, FAULT_BINARY,
                     "the header of the .npy file has something else at byte %zu; expected %s",
                     header->at, expected);
}

static void skip_blanks(struct header *header)
{
    while (header->at < header->size && strchr(" \t\r\n", header->text[header->at])
           && header->text[header->at])
        header->at++;
}

/* Whether the next character but blanks is this one, which is then behind us. */
static bool take(struct header *header, char character)
{
    skip_blanks(header);
    if (header->at == header->size || header->text[header->at] != character)
        return false;
    header->at++;
    return true;
}

/* Reads a string without escapes. One that has no room is cut: no word that is known is as long. */
static bool take_string(struct header *header, char word[WORD_BYTES])
{
    size_t used = 0;
    const char quote = take(header, '\'') ? '\'' : '"';
    if (quote == '"' && !take(header, '"'))
        return false;
    for (; header->at < header->size && header->text[header->at] != quote; header->at++) {
        const char c = header->text[header->at];
        if (c < ' ' || c > '~' || c == '\\')
            return false;
        if (used < WORD_BYTES - 1)
            word[used++] = c;
    }
    word[used] = '\0';
    return take(header, quote);
}

static bool take_word(struct header *header, const char *word)
{
    const size_t length = strlen(word);
    skip_blanks(header);
    if (header->size - header->at < length || memcmp(header->text + header->at, word, length) != 0)
        return false;
    header->at += length;
    return true;
}

static bool read_descr(struct header *header, struct npy_array *array)
{
    char descr[WORD_BYTES];
    int i = 0;
    if (!take_string(header, descr))
        return fault_set(header->fault, FAULT_DTYPE,
                         "descr of the .npy file is no plain dtype; expected " TAKEN);
    while (i < DTYPE_COUNT && strcmp(DTYPES[i].descr, descr) != 0)
        i++;
    if (i == DTYPE_COUNT)
        return fault_set(header->fault, FAULT_DTYPE,
                         "descr of the .npy file is '%s'; expected " TAKEN
                         ", as array.astype('<f4') makes one",
                         descr);
    array->dtype = DTYPES[i].dtype;
    return true;
}

static bool read_order(struct header *header)
{
    if (take_word(header, "False"))
        return true;
    if (take_word(header, "True"))
        return fault_set(header->fault, FAULT_BINARY,
                         "fortran_order of the .npy file is True; expected rows, as "
                         "numpy.ascontiguousarray(array) makes them");
    return bad_header(header, "True or False");
}

static bool read_dimension(struct header *header, struct npy_array *array)
{
    const size_t begin = header->at;
    int64_t number = 0;
    if (array->rank == NPY_RANK_MAX)
        return fault_set(header->fault, FAULT_SHAPE,
                         "the .npy file has more than %d dimensions; expected at most %d",
                         NPY_RANK_MAX, NPY_RANK_MAX);
    for (; header->at < header->size && header->text[header->at] >= '0'
           && header->text[header->at] <= '9';
         header->at++)
        if (number <= INT32_MAX)
            number = number * 10 + (header->text[header->at] - '0');
    if (header->at == begin)
        return bad_header(header, "a dimension of the shape");
    if (number > INT32_MAX)
        return fault_set(header->fault, FAULT_SHAPE,
                         "dimension %d of the .npy file is over %d; expected at most as many",
                         array->rank, INT32_MAX);
    array->shape[array->rank++] = number;
    return true;
}

/* Reads a tuple, which has a comma where it has one member. */
static bool read_shape(struct header *header, struct npy_array *array)
{
    bool comma = true;
    array->rank = 0;
    if (!take(header, '('))
        return bad_header(header, "a tuple, the shape");
    while (!take(header, ')')) {
        if (!comma)
            return bad_header(header, "a comma between the dimensions");
        if (!read_dimension(header, array))
            return false;
        comma = take(header, ',');
    }
    return array->rank != 1 || comma || bad_header(header, "a comma: (3,) is the tuple of one");
}

static bool read_member(struct header *header, struct npy_array *array)
{
    char key[WORD_BYTES];
    bool *has = NULL;
    skip_blanks(header);
    const size_t begin = header->at;
    if (take_string(header, key))
        has = strcmp(key, "descr") == 0           ? &header->has_descr
              : strcmp(key, "fortran_order") == 0 ? &header->has_order
              : strcmp(key, "shape") == 0         ? &header->has_shape
                                                  : NULL;
    if (!has || *has) {
        header->at = begin;
        return bad_header(header, "'descr', 'fortran_order' and 'shape', each once");
    }
    *has = true;
    if (!take(header, ':'))
        return bad_header(header, "a colon");
    return has == &header->has_descr   ? read_descr(header, array)
           : has == &header->has_order ? read_order(header)
                                       : read_shape(header, array);
}

static bool read_header(struct header *header, struct npy_array *array)
{
    bool comma = true;
    if (!take(header, '{'))
        return bad_header(header, "a dict");
    while (!take(header, '}')) {
        if (!comma)
            return bad_header(header, "a comma between the members");
        if (!read_member(header, array))
            return false;
        comma = take(header, ',');
    }
    skip_blanks(header);
    if (header->at < header->size)
        return bad_header(header, "nothing but blanks behind the dict");
    return (header->has_descr && header->has_order && header->has_shape)
           || bad_header(header, "'descr', 'fortran_order' and 'shape' before its end");
}

/* ----------------------------------------------------------------- the file -- */

/* Finds the text of the header by the length before it, which has two bytes in version 1. */
static bool find_header(struct header *header, struct byte_slice file)
{
    const unsigned char *bytes = file.data;
    size_t begin = MAGIC_BYTES + VERSION_BYTES, length = 0;
    if (file.size < begin || memcmp(bytes, MAGIC, MAGIC_BYTES) != 0)
        return fault_set(header->fault, FAULT_BINARY,
                         "the body is no .npy file: it does not begin with \\x93NUMPY; expected "
                         "what numpy.save() writes");
    const unsigned major = bytes[MAGIC_BYTES], minor = bytes[MAGIC_BYTES + 1];
    if (major < 1 || major > 3 || minor != 0)
        return fault_set(header->fault, FAULT_BINARY,
                         "the .npy file has version %u.%u; expected 1.0, 2.0 or 3.0", major, minor);
    const size_t length_bytes = major == 1 ? 2 : 4;
    for (size_t i = 0; i < length_bytes && begin + i < file.size; i++)
        length |= (size_t)bytes[begin + i] << (8 * i);
    begin += length_bytes;
    if (begin > file.size || length > file.size - begin)
        return fault_set(header->fault, FAULT_BINARY,
                         "the .npy file has %zu bytes and ends in its header", file.size);
    if (length > NPY_HEADER_BYTES_MAX)
        return fault_set(header->fault, FAULT_BINARY,
                         "the header of the .npy file has %zu bytes; expected at most %d", length,
                         NPY_HEADER_BYTES_MAX);
    header->text = (const char *)bytes + begin;
    header->size = length;
    return true;
}

/* Counts the numbers; false where their bytes are more than a size_t holds. A dimension of 0 makes
 * them none, whatever the others. */
static bool count_numbers(struct npy_array *array, size_t *bytes)
{
    size_t count = 1;
    for (int i = 0; i < array->rank; i++)
        if (array->shape[i] == 0)
            count = 0;
    for (int i = 0; i < array->rank && count > 0; i++)
        if (__builtin_mul_overflow(count, (size_t)array->shape[i], &count))
            return false;
    array->count = (int64_t)count;
    return !__builtin_mul_overflow(count, attn_dtype_size(array->dtype), bytes);
}

bool npy_read(struct npy_array *array, struct byte_slice file, struct fault *fault)
{
    struct header header = { .fault = fault };
    size_t bytes;
    *array = (struct npy_array){ .rank = 0 };
    if (!find_header(&header, file) || !read_header(&header, array))
        return false;
    array->data = header.text + header.size;
    array->size = (size_t)((const char *)file.data + file.size - (const char *)array->data);
    if (!count_numbers(array, &bytes))
        return fault_set(fault, FAULT_BINARY,
                         "the shape of the .npy file asks for more numbers than a file can have");
    if (bytes != array->size)
        return fault_set(fault, FAULT_BINARY,
                         "the .npy file has %zu bytes behind its header; its shape and descr ask "
                         "for %zu",
                         array->size, bytes);
    return true;
}

/* ---------------------------------------------------------------- the writer -- */

void npy_write_head(struct text *text, enum attn_dtype dtype, int rank, const int64_t *shape)
{
    char dict[256];
    int i = 0;
    while (DTYPES[i].dtype != dtype)
        i++;
    size_t used = (size_t)snprintf(
        dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (", DTYPES[i].descr);
    for (int axis = 0; axis < rank; axis++)
        used += (size_t)snprintf(dict + used, sizeof dict - used, "%s%" PRId64,
                                 axis > 0 ? ", " : "", shape[axis]);
    used += (size_t)snprintf(dict + used, sizeof dict - used, "%s), }", rank == 1 ? "," : "");
    const size_t before = MAGIC_BYTES + VERSION_BYTES + 2;
    const size_t whole = (before + used + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    const size_t length = whole - before;
    const char lead[] = { 1, 0, (char)(length & 0xff), (char)(length >> 8) };
    text_bytes(text, MAGIC, MAGIC_BYTES);
    text_bytes(text, lead, sizeof lead);
    text_bytes(text, dict, used);
    for (size_t at = used; at + 1 < length; at++)
        text_raw(text, " ");
    text_raw(text, "\n");
}
