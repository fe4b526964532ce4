/* SPDX-License-Identifier: Apache-2.0 */
/* gguf.h - the GGUF file format of ggml: a bounded reader over bytes.
 *
 * Source: ggml's docs/gguf.md and the reader in its src/gguf.cpp. The reader takes versions 2 and
 * 3, little-endian, and checks every rule before it uses anything of a file. Where the document and
 * ggml's reader differ, the stricter rule holds, but for arrays in arrays, which only the document
 * has. Reading never copies tensor data: tensors are views. The reader keeps a private copy of the
 * metadata and of the tensor table, so that a file that changes on disk later cannot change what
 * was checked. */
#ifndef ATTND_GGUF_H
#define ATTND_GGUF_H

#include "base/fault.h"

enum { GGUF_RANK_MAX = 4, GGUF_ARRAY_DEPTH_MAX = 4 };

/* The types of metadata by their numbers in a file. */
enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPE_COUNT
};

/* A value of metadata, or an element of an array. */
struct gguf_value {
    enum gguf_type type, element_type; /* the latter of an array */
    int64_t count;                     /* of elements, where it is an array */

    /* Private. */
    const char *bytes; /* a number, the first number of an array, or a string */
    size_t size;       /* of a string */
    union {
        const uint32_t *starts; /* of an array's strings, from bytes: count + 1 */
        const struct gguf_value *arrays;
    };
    uint32_t at, first; /* places of the above while the file is read */
};

struct gguf_pair {
    const char *key; /* ends with a NUL byte and contains no other; UTF-8 */
    size_t key_length;
    struct gguf_value value;

    /* Private. */
    uint32_t key_at;
};

struct gguf_tensor {
    const char *name; /* ends with a NUL byte and contains no other; UTF-8 */
    size_t name_length;
    int rank;                     /* 1 to GGUF_RANK_MAX, as the file says it */
    int64_t shape[GGUF_RANK_MAX]; /* row-major, the last dimension contiguous: ggml's, reversed */
    const char *type;             /* ggml's name in capitals: "F32", "Q4_K" */
    int64_t block_count;          /* elements of a block; divides the last dimension */
    size_t block_bytes;
    const void *data; /* in the bytes given */
    size_t size;      /* of data, in bytes */

    /* Private. */
    uint32_t name_at;
    uint64_t offset;
};

struct gguf {
    struct gguf_pair *pairs; /* in the file's order */
    int64_t pair_count;
    struct gguf_tensor *tensors; /* in data order */
    int64_t tensor_count;
    uint32_t version, alignment;
    size_t header_size; /* in bytes, without the padding before the data */

    /* Private. */
    char *header;              /* the copy, whose strings end with a NUL byte */
    uint32_t *starts;          /* of the strings of all arrays */
    struct gguf_value *arrays; /* that lie in arrays */
    uint32_t *pairs_by_key, *tensors_by_name;
};

/* Reads a file of size bytes, which must outlive the reader. Bytes may follow the last tensor.
 * Where it returns false, the fault (binary, dtype, duplicate or memory) says which key or tensor
 * breaks which rule, and file is empty. */
bool gguf_read(struct gguf *file, const void *bytes, size_t size, struct fault *fault);
void gguf_free(struct gguf *file);

/* The value of a key, or the tensor of a name; NULL where there is none. */
const struct gguf_value *gguf_find(const struct gguf *file, const char *key);
const struct gguf_tensor *gguf_tensor_find(const struct gguf *file, const char *name);

/* What a value is, for a message: "u32", "string", "array of string". */
const char *gguf_type_name(const struct gguf_value *value);

/* Each is false where the value is of another type, and for an integer past int64. An integer is a
 * number too; a flag is a bool alone. A text ends with a NUL byte and may contain others; a file's
 * writer may have left any bytes in it. */
bool gguf_text(const struct gguf_value *value, const char **text, size_t *length);
bool gguf_integer(const struct gguf_value *value, int64_t *integer);
bool gguf_number(const struct gguf_value *value, double *number);
bool gguf_flag(const struct gguf_value *value, bool *flag);

/* Element i of an array, 0 <= i < count; in constant time. */
struct gguf_value gguf_element(const struct gguf_value *array, int64_t i);

/* A type of tensors. */
struct gguf_tensor_type {
    const char *name; /* in capitals */
    int64_t block_count;
    size_t block_bytes; /* 0: ggml has removed the type */
};

/* By its number in a file; NULL where ggml knows none. */
const struct gguf_tensor_type *gguf_tensor_type(uint32_t number);

#endif
