/* infer_selection.h - an item that reads only the keys which can matter (select.h). */
#ifndef ATTND_INFER_SELECTION_H
#define ATTND_INFER_SELECTION_H

#include "infer/infer.h"

/* Checks what goes with a selection, allocates its outputs and puts it into the problem, whose
 * masking is planned. Does nothing for an item without one. */
bool infer_plan_selection(struct infer_request *request, struct infer_item *item,
                          struct attn_layer_problem *problem, struct fault *fault);

/* Numbers of mass_left in the answer; 0 without a selection. */
size_t infer_selection_count(const struct infer_item *item);

/* Keys that were read and that there were to see, over all rows and key/value heads. */
void infer_selection_keys(const struct infer_item *item, int64_t *read, int64_t *seen);

#endif
