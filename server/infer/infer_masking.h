/* infer_masking.h - which keys a row sees and what is added to its scores: kv_len, the mask,
 * slopes, sinks and the model's relative position bias, from what was asked to the problem of the
 * library. */
#ifndef ATTND_INFER_MASKING_H
#define ATTND_INFER_MASKING_H

#include "infer/infer.h"

/* Checks kv_len, mask, alibi_slopes and sinks and puts them into the problem; the model's slopes
 * stand where the request has none. The item's lengths and its layer are settled. */
bool infer_plan_masking(struct infer_item *item, struct attn_layer_problem *problem,
                        struct fault *fault);

/* Replaces the problem's mask by mask plus bias where the item's layer has a bias. Each head has a
 * bias of its own, so the sum is a mask of every head, [q_heads][q_len][kv_len] in the request's
 * arena. False where the arena has no room for it, or the bias does not reach so far. */
bool infer_plan_bias(struct infer_request *request, const struct infer_item *item,
                     struct attn_layer_problem *problem, struct fault *fault);

#endif
