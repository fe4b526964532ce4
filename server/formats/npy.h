/* SPDX-License-Identifier: Apache-2.0 */
/* npy.h - the file of one array that numpy.save() writes: a bounded reader, and a writer.
 *
 * Source: numpy's specification of the format, versions 1.0, 2.0 and 3.0 (the documentation of
 * numpy.lib.format). The header is a dict as Python writes it. It is read as the three members that
 * the specification names, in any order, and never run. Taken are little-endian floats in rows
 * ('<f4', '<f2' and '<f8'). */
#ifndef ATTND_NPY_H
#define ATTND_NPY_H

#include "base/bytes.h"
#include "base/fault.h"

enum { NPY_RANK_MAX = 8, NPY_HEADER_BYTES_MAX = 10000 /* as numpy.load() has it */ };

struct npy_array {
    enum attn_dtype dtype; /* F32, F16 or F64 */
    int rank;
    int64_t shape[NPY_RANK_MAX]; /* each at most INT32_MAX */
    int64_t count;               /* of numbers */
    const void *data;            /* in the file, any alignment */
    size_t size;                 /* of data, in bytes */
};

/* Reads a file. Where it returns false, the fault (binary, dtype, shape) says what breaks which
 * rule. */
bool npy_read(struct npy_array *array, struct byte_slice file, struct fault *fault);

/* Writes all that comes before the numbers, whose dtype is F32, F16 or F64: BF16 has none. */
struct text;
void npy_write_head(struct text *text, enum attn_dtype dtype, int rank, const int64_t *shape);

#endif
