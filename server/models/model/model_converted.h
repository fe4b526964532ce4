/* SPDX-License-Identifier: Apache-2.0 */
/* model_converted.h - converted copies, most of them floats, of parameters that cannot be used
 * where they lie in the file.
 *
 * A copy has its address from the start, so that layers can point into it while their model is
 * made. Its memory is taken, and filled from the mapped file, when a request first holds it. A copy
 * that no request holds may be emptied, the least recently held first, to keep all copies of the
 * process under a limit. Thread-safe, but for adding, sorting and freeing. */
#ifndef ATTND_MODEL_CONVERTED_H
#define ATTND_MODEL_CONVERTED_H

#include "base/dtype.h"
#include "base/fault.h"

struct model_copy; /* one copy, dense */

/* The copies of one model. A zeroed set is empty. */
struct model_converted {
    struct model_copy **copies; /* sorted by address once all are added */
    int64_t count, capacity;
};

/* What a copy is made of, a matrix in a file: number c of row r is number first + r * stride + c
 * from bytes on. */
struct model_converted_source {
    const void *bytes; /* must outlive the copy */
    enum attn_dtype dtype;
    int64_t rows, columns;
    int64_t first, stride;

    /* NULL: each number becomes a float. Else what makes decoded_bytes of a quantised matrix, with
     * scales, which must outlive the copy too, of scale_rows by scale_columns numbers each
     * (model_quantised.h). */
    void (*decode)(void *values, const struct model_converted_source *source);
    size_t decoded_bytes;
    const void *scales;
    enum attn_dtype scale_dtype;
    int64_t scale_rows, scale_columns;
};

/* The bytes of a copy. */
size_t model_converted_size(const struct model_converted_source *source);

/* Writes so many bytes to values: rows * columns floats, dense, or what decode makes. */
void model_converted_read(void *values, const struct model_converted_source *source);

/* Adds a copy, empty at first. Returns its address; NULL: no memory. */
const void *model_converted_add(struct model_converted *set,
                                const struct model_converted_source *source);

/* Call once, after the last copy is added and before the first is held. */
void model_converted_sort(struct model_converted *set);

/* Frees the copies of a set, which nothing holds. */
void model_converted_free(struct model_converted *set);

/* Fills the copies that these addresses lie in, and keeps them filled until each is dropped as
 * often as it was held. NULL and addresses outside the set's copies are passed over. On false the
 * fault is memory, the held copies of the process leaving no room below the limit, and nothing is
 * held. */
bool model_converted_hold(const struct model_converted *set, const void *const *addresses,
                          int count, struct fault *fault);
void model_converted_drop(const struct model_converted *set, const void *const *addresses,
                          int count);

/* The limit of all filled copies of the process in bytes; 0, as at first: none. */
void model_converted_limit(size_t bytes_max);

/* Bytes of all filled copies of the process. */
size_t model_converted_bytes(void);

#endif
