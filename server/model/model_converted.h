/* model_converted.h - parameters that cannot be used where they lie in the file, as floats, from
 * when a request first needs them until the room is needed for others.
 *
 * A copy's address is settled when the model is made, and so its layers can point into it; its
 * memory is only taken, and filled from the mapped file, when a request holds it. What no request
 * holds may be given back, the least recently used first, to keep all copies of the process under
 * a bound. Thread-safe, but for adding and freeing. */
#ifndef ATTND_MODEL_CONVERTED_H
#define ATTND_MODEL_CONVERTED_H

#include "base/dtype.h"
#include "base/fault.h"

struct model_copy;

/* The copies of one model. Zeroed is none. */
struct model_converted {
    struct model_copy **copies; /* by address, once sorted */
    int64_t count, capacity;
};

/* Runs of numbers in a file: row r is together numbers from number first + r * step on. */
struct model_converted_source {
    const void *bytes; /* must outlive the copy */
    enum attn_dtype dtype;
    int64_t rows, together;
    int64_t first, step;
};

/* The numbers as they are, dense, into values. */
void model_converted_read(float *values, const struct model_converted_source *source);

/* The address that they will be at, rows * together floats; NULL where there is no room. */
const float *model_converted_add(struct model_converted *copies,
                                 const struct model_converted_source *source);

/* After the last one was added. */
void model_converted_sort(struct model_converted *copies);

/* Nobody may hold one. */
void model_converted_free(struct model_converted *copies);

/* Fills those of these addresses that are in copies, and keeps them filled until they are dropped
 * as often as they were held. NULL and what is in no copy is passed over. False, with the fault
 * memory, where the bound leaves no room for what requests hold; then none of them is held. */
bool model_converted_hold(const struct model_converted *copies, const void *const *addresses,
                          int count, struct fault *fault);
void model_converted_drop(const struct model_converted *copies, const void *const *addresses,
                          int count);

/* The bound of the process, 0: none, which it is at first; and what is filled now. */
void model_converted_limit(size_t bytes_max);
size_t model_converted_bytes(void);

#endif
