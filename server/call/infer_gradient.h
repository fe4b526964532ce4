/* SPDX-License-Identifier: Apache-2.0 */
/* infer_gradient.h - the gradients of an item that asks for them instead of attention. */
#ifndef ATTND_INFER_GRADIENT_H
#define ATTND_INFER_GRADIENT_H

#include "call/infer.h"
#include "layer_gradient.h"

/* The inputs of an item: indices of their gradients. */
enum infer_input { INFER_QUERY, INFER_KEY, INFER_VALUE, INFER_INPUT_COUNT };

struct infer_gradient {
    struct attn_layer_gradient_plan plan;
    float *inputs[INFER_INPUT_COUNT];
    float *input;       /* the sum of all inputs in self-attention, else NULL */
    float *mask;        /* NULL without a float mask */
    float *biased_mask; /* of mask plus relative position bias; NULL: no bias */
    double *bias_sums;  /* [table_rows, q_heads], zero until infer_gradient_finish() */
    float *per_head[ATTN_PER_HEAD_COUNT]; /* NULL where the problem has none */
    /* Weight and bias of each parameter, as in struct model_layer; NULL where there is none. */
    float *parameters[MODEL_TENSOR_COUNT][2];
};

/* Checks the context's gradient against the shapes of the item's problem. Sets *bytes to the most
 * bytes of the answer. */
bool infer_gradient_check(const struct infer_item *item, const struct attn_layer_problem *problem,
                          size_t *bytes, struct fault *fault);

/* Allocates item->gradient and all its results in the arena, and plans. */
bool infer_gradient_plan(struct infer_request *request, struct infer_item *item,
                         const struct attn_layer_problem *problem, struct fault *fault);

/* The shape of an input's gradient in the answer; returns its rank. A flat query is one row. */
int infer_gradient_shape(const struct infer_item *item, enum infer_input input, int64_t shape[3]);

/* The same for the mask's gradient. */
int infer_gradient_mask_shape(const struct infer_item *item, int64_t shape[3]);

/* Sums up what the tasks have computed: gradient->input; the gradients of mask and tables of a
 * relative position bias, from biased_mask; and the parameters that are one tensor of the model's
 * file, all but the first of which become NULL. */
void infer_gradient_finish(struct infer_item *item);

/* The tensors of the item's layer, as in struct model_layer. */
const struct model_tensor *infer_gradient_tensor(const struct infer_item *item,
                                                 enum model_projection projection, bool is_bias);

#endif
