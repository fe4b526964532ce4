/* SPDX-License-Identifier: Apache-2.0 */
/* infer_merge.h - partial answers: plans that compute one, and plans that merge several. */
#ifndef ATTND_INFER_MERGE_H
#define ATTND_INFER_MERGE_H

#include "call/infer.h"

/* If the item asks for a partial answer, sets problem->partial and adds lse to the outputs. */
bool infer_merge_plan_part(struct infer_item *item, struct attn_layer_problem *problem,
                           struct fault *fault);

/* Settles heads and lengths by the parts' shapes and the model, which is resolved. Fills
 * item->merge except for its outputs. */
bool infer_merge_shapes(struct infer_request *request, struct infer_item *item,
                        struct fault *fault);

/* Plans the merge. The results are allocated. */
enum attn_status infer_merge_plan(struct infer_item *item, const struct attn_kernels *kernels,
                                  const char **where);

#endif
