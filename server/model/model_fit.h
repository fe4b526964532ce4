/* model_fit.h - what a layer leaves open, settled by the widths of one call. */
#ifndef ATTND_MODEL_FIT_H
#define ATTND_MODEL_FIT_H

#include "model/model.h"

/* Columns of the inputs of one call; 0: it has no rows, and then no width of its own. */
struct model_widths {
    int64_t query, key, value;
};

/* Copies layer layer_index of model to *fitted, with all widths known: query and key of a concat
 * layer, which together must be as wide as its matrix takes, and a value that is not projected.
 * Widths that the model knows are not compared with the call's. On false the fault is shape. */
bool model_fit(struct model_layer *fitted, const struct model *model, int64_t layer_index,
               const struct model_widths *widths, struct fault *fault);

#endif
