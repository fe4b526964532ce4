/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.h - the safetensors file format: a bounded reader over bytes, and a writer.
 *
 * Source: the README of huggingface/safetensors, "Format". The reader checks every rule before it
 * uses anything of a file. Where the README and the reference parser differ, the reader follows the
 * README: no name, metadata key or member occurs twice, and metadata is an object of strings.
 * Reading never copies tensor data: entries are views. The reader keeps a private copy of the
 * header, so that a file that changes on disk later cannot change what was checked. */
#ifndef ATTND_SAFETENSORS_H
#define ATTND_SAFETENSORS_H

#include "base/fault.h"

enum {
    SAFETENSORS_LENGTH_BYTES = 8, /* of the header's length, which begins a file */
    SAFETENSORS_HEADER_BYTES_MAX = 100 * 1000 * 1000, /* of the header; readers refuse more */
};

struct safetensors_entry {
    const char *name;   /* ends with a NUL byte and may contain others */
    size_t name_length; /* in bytes */
    const char *dtype;  /* "F32", "BF16", "I64", ... one of the format's */
    int64_t rank;       /* has no limit; safetensors_shape() gives the dimensions */
    const void *data;   /* in the bytes given, any alignment; row-major, little-endian */
    size_t size;        /* of data, in bytes */

    /* Private. */
    const char *shape_text;
    uint64_t begin, end;
};

struct safetensors_pair {
    const char *key, *value; /* end with a NUL byte and may contain others */
    size_t key_length, value_length;
};

struct safetensors {
    struct safetensors_entry *entries; /* in data order */
    int64_t entry_count;
    struct safetensors_pair *metadata; /* in the header's order */
    int64_t metadata_count;
    size_t header_size; /* in bytes, with its padding */

    /* Private. */
    char *header;
    uint32_t *by_name; /* indices of entries, sorted by name */
};

/* Reads a file of size bytes, which must outlive the reader. Where it returns false, the fault
 * (binary, json, duplicate or memory) says which tensor breaks which rule, and file is empty. */
bool safetensors_read(struct safetensors *file, const void *bytes, size_t size,
                      struct fault *fault);
void safetensors_free(struct safetensors *file);

/* The entry of a tensor; NULL where no tensor has this name. */
const struct safetensors_entry *safetensors_find(const struct safetensors *file, const char *name);

/* The pair of metadata with this key; NULL where there is none. */
const struct safetensors_pair *safetensors_metadata(const struct safetensors *file,
                                                    const char *key);

/* Sets shape to the first count dimensions of entry, count <= rank. A dimension can be any 64-bit
 * number where another dimension is 0. */
void safetensors_shape(const struct safetensors_entry *entry, uint64_t *shape, int64_t count);

/* The bits of one element; dtype is one of the format's. */
unsigned safetensors_dtype_bits(const char *dtype);

/* A tensor for the writer. */
struct safetensors_tensor {
    const char *name;
    int rank;
    int64_t shape[4];
    const void *values;
    const char *dtype; /* NULL: "F32" */
};

/* Sets *bytes to the size of a tensor's values; false where it overflows. */
bool safetensors_tensor_bytes(const struct safetensors_tensor *tensor, int64_t *bytes);

/* Writes the head of a file of these tensors to an empty text. The caller must write the tensors'
 * values behind it, one after the other. Keys and values of metadata end at their first NUL byte.
 */
struct text;
bool safetensors_write_head(struct text *text, const struct safetensors_tensor *tensors,
                            int64_t tensor_count, const struct safetensors_pair *metadata,
                            int64_t metadata_count, struct fault *fault);

/* Makes a whole file with one string of metadata; the tensors stay in the order given. *bytes is
 * malloc'd and the caller's. */
bool safetensors_write(void **bytes, size_t *size, const struct safetensors_tensor *tensors,
                       int64_t tensor_count, const char *metadata_key, const char *metadata_value,
                       struct fault *fault);

#endif
