/* infer_gradient.h - the gradients that an item asks for in place of attention. */
#ifndef ATTND_INFER_GRADIENT_H
#define ATTND_INFER_GRADIENT_H

#include "infer/infer.h"
#include "layer_gradient.h"

/* The inputs of an item, and where their gradients are. */
enum infer_input { INFER_QUERY, INFER_KEY, INFER_VALUE, INFER_INPUT_COUNT };

struct infer_gradient {
    struct attn_layer_gradient_plan plan;
    float *inputs[INFER_INPUT_COUNT];
    float *input;                /* their sum in self-attention, else NULL */
    float *mask;                 /* NULL where no float mask was given */
    float *biased_mask;          /* of mask and relative position bias together; NULL: no bias */
    double *bias_sums;           /* [table_rows, q_heads], zero until infer_gradient_finish() */
    float *alibi_slopes, *sinks; /* NULL where none were given */
    /* Weight and bias of each parameter, as in struct model_layer; NULL where there is none. */
    float *parameters[MODEL_TENSOR_COUNT][2];
};

/* Checks the context's gradient against the shapes of the item's problem; *bytes is the most that
 * the answer may take. */
bool infer_gradient_check(const struct infer_item *item, const struct attn_layer_problem *problem,
                          size_t *bytes, struct fault *fault);

/* Allocates item->gradient and all its results in the arena, and plans. */
bool infer_gradient_plan(struct infer_request *request, struct infer_item *item,
                         const struct attn_layer_problem *problem, struct fault *fault);

/* The shape of an input's gradient as it is answered; returns its rank. A flat query is one row. */
int infer_gradient_shape(const struct infer_item *item, enum infer_input input, int64_t shape[3]);

/* The same for the mask's. */
int infer_gradient_mask_shape(const struct infer_item *item, int64_t shape[3]);

/* What the tasks leave to be summed up: gradient->input, what mask and tables of a relative
 * position bias have of biased_mask, and the parameters that are one tensor of the model's file,
 * all but the first of which become NULL. */
void infer_gradient_finish(struct infer_item *item);

/* The tensors of the item's layer, as in struct model_layer. */
const struct model_tensor *infer_gradient_tensor(const struct infer_item *item,
                                                 enum model_projection projection, bool is_bias);

#endif
