/* infer_merge.h - partial answers: a plan that gives one, and a plan that merges them. */
#ifndef ATTND_INFER_MERGE_H
#define ATTND_INFER_MERGE_H

#include "infer/infer.h"

/* What it means for a call that its answer is a part: problem->partial, and lse with it. */
bool infer_merge_plan_part(struct infer_item *item, struct attn_layer_problem *problem,
                           struct fault *fault);

/* Settles heads and lengths by the parts' shapes and the model, which is resolved, and fills
 * item->merge but for its outputs. */
bool infer_merge_shapes(struct infer_request *request, struct infer_item *item,
                        struct fault *fault);

/* The plan, once the results are allocated. */
enum attn_status infer_merge_plan(struct infer_item *item, const struct attn_kernels *kernels,
                                  const char **where);

#endif
