/* infer_bias.h - a model's relative position bias, as a part of the mask of one call. */
#ifndef ATTND_INFER_BIAS_H
#define ATTND_INFER_BIAS_H

#include "infer/infer.h"

/* Puts mask plus bias in place of the problem's mask where the item's layer has a bias. On false
 * there is no room for it among what one request may take, or rows stand where it has none. */
bool infer_plan_bias(struct infer_request *request, const struct infer_item *item,
                     struct attn_layer_problem *problem, struct fault *fault);

#endif
