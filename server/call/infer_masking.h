/* SPDX-License-Identifier: Apache-2.0 */
/* infer_masking.h - which keys a row sees and what is added to its scores: kv_len, the mask,
 * slopes, sinks and the model's relative position bias, from what was asked to the problem of the
 * library. */
#ifndef ATTND_INFER_MASKING_H
#define ATTND_INFER_MASKING_H

#include "call/infer.h"
#include "work.h"

/* Checks kv_len, mask, alibi_slopes and sinks and puts them into the problem; the model's slopes
 * and sinks stand where the request has none. The item's lengths and its layer are settled. */
bool infer_plan_masking(struct infer_item *item, struct attn_layer_problem *problem,
                        struct fault *fault);

/* Replaces the problem's mask by item->bias where the item's layer has a bias. Where item->bias is
 * NULL, allocates it in the request's arena, to be filled by the tasks below: each head has its
 * bias, so mask plus bias is a mask of every head, [q_heads][q_len][kv_len]. False where the arena
 * has no room for it, or the bias does not reach so far. */
bool infer_plan_bias(struct infer_request *request, struct infer_item *item,
                     struct attn_layer_problem *problem, struct fault *fault);

/* Writes `count` rows of one head of that sum. mask: as of a problem, or absent. The item's lengths
 * and its layer, which has a bias, are settled. */
void infer_bias_fill(const struct infer_item *item, const struct attn_tensor *mask, int64_t head,
                     int64_t first, int64_t count, float *sum);

/* The tasks that fill the bias of a planned item, which are to be run before its first stage; 0: it
 * has none. And their work, as that of whoever else fills it. */
int64_t infer_bias_tasks(const struct infer_item *item);
void infer_bias_run(const struct infer_item *item, int64_t task);
void infer_bias_work(const struct infer_item *item, struct attn_work *work);

#endif
