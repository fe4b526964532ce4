/* infer_weight_map.h - the smaller weight map of a call, between what was asked and its plan. */
#ifndef ATTND_INFER_WEIGHT_MAP_H
#define ATTND_INFER_WEIGHT_MAP_H

#include "infer/infer.h"

/* Whether the chosen heads and rows are there. The item's lengths and heads are settled. */
bool infer_check_weight_map(const struct infer_item *item, struct fault *fault);

/* Gives the map its memory, once the results are allocated, and puts it into the problem. */
bool infer_plan_weight_map(struct infer_request *request, struct infer_item *item,
                           struct attn_layer_problem *problem, const struct infer_limits *limits,
                           struct fault *fault);

#endif
