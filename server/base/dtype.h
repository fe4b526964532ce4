/* SPDX-License-Identifier: Apache-2.0 */
/* dtype.h - numbers of every dtype that a file or a wire can carry, from and to float.
 *
 * All bytes are little-endian: files, wires and the machines that this runs on are. */
#ifndef ATTND_DTYPE_H
#define ATTND_DTYPE_H

#include "attn.h"

/* The dtypes of numbers, and all dtypes, for messages. */
#define DTYPE_NUMBERS "F32, F16, BF16 or F64"
#define DTYPE_ALL     "F32, F16, BF16, F64 or BOOL"

/* Finds the dtype that has this name ("F32") in files of models; false where none has. Those with
 * blocks, which only weights can have, are found too, as GGUF files name them ("Q4_K"). */
bool dtype_find(const char *name, enum attn_dtype *dtype);

/* The same without those that have blocks. */
bool dtype_find_plain(const char *name, enum attn_dtype *dtype);

/* Whether numbers of this dtype lie in blocks. */
bool dtype_is_blocks(enum attn_dtype dtype);

/* The name of a dtype in files of models. */
const char *dtype_name(enum attn_dtype dtype);

/* Reads count numbers of dtype, which may begin at any byte, as floats; BOOL becomes 1 and 0, and
 * of a dtype with blocks they are whole blocks. A double is rounded to nearest, ties to even, and
 * to infinity beyond the range of a float. */
void dtype_read(float *values, const void *bytes, enum attn_dtype dtype, size_t count);

/* Writes count floats as numbers of dtype, rounded to nearest, ties to even; a float beyond the
 * dtype's range becomes infinite. dtype is not BOOL. */
void dtype_write(void *bytes, enum attn_dtype dtype, const float *values, size_t count);

/* The integers that files and wires carry: "I8" to "I64" and "U8" to "U64". */
struct dtype_integer {
    size_t size; /* in bytes */
    bool is_unsigned;
};

/* Finds the integers of this name in safetensors files; false where it names none. */
bool dtype_integer_find(const char *name, struct dtype_integer *integer);

/* Reads an integer, which may begin at any byte; above INT64_MAX it becomes that. */
int64_t dtype_integer_read(const void *bytes, struct dtype_integer integer);

/* For messages. */
#define PRECISION_NAMES "highest, high or medium"

/* Sets *precision to that of this name. False where there is none. */
bool precision_find(const char *name, enum attn_precision *precision);

#endif
