/* infer_per_head.h - the fields of a request that have one number for each query head. */
#ifndef ATTND_INFER_PER_HEAD_H
#define ATTND_INFER_PER_HEAD_H

#include "infer/infer.h"

/* Puts alibi_slopes, the request's or else the model's own, and sinks into the problem; item->layer
 * is known by then. */
bool infer_plan_per_head(const struct infer_item *item, struct attn_layer_problem *problem,
                         struct fault *fault);

#endif
