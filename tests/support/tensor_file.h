/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_file.h - reads the .safetensors files that come with the tests.
 *
 * It is for files that we wrote and trust. The daemon has a reader of its own, which must refuse
 * bad files; so neither reader can hide a mistake of the other. If something is wrong, the
 * program ends and prints the reason. */
#ifndef TENSOR_FILE_H
#define TENSOR_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

enum tensor_type { TENSOR_F32, TENSOR_F16, TENSOR_BOOL, TENSOR_I64, TENSOR_U8 };
enum { TENSOR_RANK_MAX = 4 };

struct tensor {
    enum tensor_type type;
    int rank;
    int64_t shape[TENSOR_RANK_MAX];
    int64_t count;    /* of elements */
    const void *data; /* in the memory of the file; of any alignment */
};

struct tensor_file {
    const char *path;
    unsigned char *bytes;
    const unsigned char *data; /* after the header */
    cJSON *header;
};

/* path must outlive the file. */
void tensor_file_open(struct tensor_file *file, const char *path);
void tensor_file_close(struct tensor_file *file);

/* False if there is no tensor of this name. */
bool tensor_file_find(const struct tensor_file *file, const char *name, struct tensor *tensor);
/* Ends the program if there is none. */
struct tensor tensor_file_get(const struct tensor_file *file, const char *name);
/* A string of __metadata__, or NULL. */
const char *tensor_file_metadata(const struct tensor_file *file, const char *key);

/* A malloced copy as float: F32 as it is, F16 widened. */
float *tensor_floats(const struct tensor *tensor);
/* Element i of an I64 tensor. */
int64_t tensor_integer(const struct tensor *tensor, int64_t i);

/* IEEE binary16 to float; exact. */
float tensor_half(uint16_t half);

/* The bytes of a file with a zero after them, malloced; *size may be NULL. */
unsigned char *tensor_read_bytes(const char *path, size_t *size);

#endif
