/* model_panels.h - parameters that cannot be used where they lie in the file, as floats, from when
 * a request first needs them until the room is needed for others.
 *
 * A panel's address is settled when the model is made, and so its layers can point into it; its
 * memory is only taken, and filled from the mapped file, when a request holds it. What no request
 * holds may be given back, the least recently used first, to keep all panels of the process under
 * a bound. Thread-safe, but for adding and freeing. */
#ifndef ATTND_MODEL_PANELS_H
#define ATTND_MODEL_PANELS_H

#include "base/dtype.h"
#include "base/fault.h"

struct model_panel;

/* The panels of one model. Zeroed is none. */
struct model_panels {
    struct model_panel **panels; /* by address, once sorted */
    int64_t count, capacity;
};

/* Runs of numbers in a file: row r is together numbers from number first + r * step on. */
struct model_panel_source {
    const void *bytes; /* must outlive the panel */
    enum attn_dtype dtype;
    int64_t rows, together;
    int64_t first, step;
};

/* The numbers as they are, dense, into values. */
void model_panel_read(float *values, const struct model_panel_source *source);

/* The address that they will be at, rows * together floats; NULL where there is no room. */
const float *model_panels_add(struct model_panels *panels, const struct model_panel_source *source);

/* After the last one was added. */
void model_panels_sort(struct model_panels *panels);

/* Nobody may hold one. */
void model_panels_free(struct model_panels *panels);

/* Fills those of these addresses that are in panels, and keeps them filled until they are dropped
 * as often as they were held. NULL and what is in no panel is passed over. False, with the fault
 * memory, where the bound leaves no room for what requests hold; then none of them is held. */
bool model_panels_hold(const struct model_panels *panels, const void *const *addresses, int count,
                       struct fault *fault);
void model_panels_drop(const struct model_panels *panels, const void *const *addresses, int count);

/* The bound of the process, 0: none, which it is at first; and what is filled now. */
void model_panels_limit(size_t bytes_max);
size_t model_panels_bytes(void);

#endif
