/* safetensors.h - the safetensors file format, as a bounded reader over bytes, and
 * its writer.
 *
 * Source: huggingface/safetensors README, "Format"; every rule is checked before
 * anything is believed. Where the README and the reference parser part ways the
 * README is followed: no name, metadata key or member stands twice, metadata is an
 * object of strings. Reading never copies tensor data: entries are views. What
 * an entry says is kept in a private copy of the header, so that a file that
 * changes on disk later cannot change what was checked. */
#ifndef ATTND_SAFETENSORS_H
#define ATTND_SAFETENSORS_H

#include "base/fault.h"

enum { SAFETENSORS_LENGTH_BYTES = 8 }; /* the header's length, with which a file begins */

struct safetensors_entry {
    const char *name;   /* ends with a NUL byte and may hold others */
    size_t name_length; /* in bytes */
    const char *dtype;  /* "F32", "BF16", "I64", ... one of the format's */
    int64_t rank;       /* no limit; the dimensions by safetensors_shape() */
    const void *data;   /* in the bytes given, any alignment; row-major, little-endian */
    size_t size;        /* of data, in bytes */

    /* Private. */
    const char *shape_text;
    uint64_t begin, end;
};

struct safetensors_pair {
    const char *key, *value; /* end with a NUL byte and may hold others */
    size_t key_length, value_length;
};

struct safetensors {
    struct safetensors_entry *entries; /* in data order */
    int64_t entry_count;
    struct safetensors_pair *metadata; /* in the header's order */
    int64_t metadata_count;
    size_t header_size; /* in bytes, padding included */

    /* Private. */
    char *header;
    uint32_t *by_name; /* indices of entries, sorted by name */
};

/* bytes must outlive the reader. On false the fault (code binary, json, duplicate or memory) says
 * which rule was broken by which tensor, and file is empty. */
bool safetensors_read(struct safetensors *file, const void *bytes, size_t size,
                      struct fault *fault);
void safetensors_free(struct safetensors *file);

/* NULL where there is none of that name. */
const struct safetensors_entry *safetensors_find(const struct safetensors *file, const char *name);

/* The metadata under key; NULL where there is none. */
const struct safetensors_pair *safetensors_metadata(const struct safetensors *file,
                                                    const char *key);

/* The first count of entry's dimensions, count <= rank. A dimension may be any 64-bit number
 * where another one is 0. */
void safetensors_shape(const struct safetensors_entry *entry, uint64_t *shape, int64_t count);

/* What an element of a dtype of the format takes. */
unsigned safetensors_dtype_bits(const char *dtype);

struct safetensors_tensor {
    const char *name;
    int rank;
    int64_t shape[4];
    const void *values;
    const char *dtype; /* NULL: "F32" */
};

/* The bytes of a tensor's values; false where they overflow. */
bool safetensors_tensor_bytes(const struct safetensors_tensor *tensor, int64_t *bytes);

/* Writes the head of a file of these tensors to an empty text; their values, one after the other,
 * have to follow it. Keys and values of metadata end at their NUL bytes. */
struct text;
bool safetensors_write_head(struct text *text, const struct safetensors_tensor *tensors,
                            int64_t tensor_count, const struct safetensors_pair *metadata,
                            int64_t metadata_count, struct fault *fault);

/* A whole file, with one metadata string, in the order given. *bytes is malloc'd, the caller's. */
bool safetensors_write(void **bytes, size_t *size, const struct safetensors_tensor *tensors,
                       int64_t tensor_count, const char *metadata_key, const char *metadata_value,
                       struct fault *fault);

#endif
