/* infer_merge.h - from partial answers to a plan that merges them. */
#ifndef ATTND_INFER_MERGE_H
#define ATTND_INFER_MERGE_H

#include "infer.h"

/* Settles heads and lengths by the parts' shapes and the model, which is resolved, and fills
 * item->merge but for its outputs. */
bool infer_merge_shapes(struct infer_request *request, struct infer_item *item,
                        struct fault *fault);

/* The plan, once the results are allocated. */
enum attn_status infer_merge_plan(struct infer_item *item, const char **where);

#endif
