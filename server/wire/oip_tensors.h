/* oip_tensors.h - a model's inputs and outputs in the words of the Open Inference Protocol v2: what
 * its metadata says and what its inference takes. */
#ifndef ATTND_OIP_TENSORS_H
#define ATTND_OIP_TENSORS_H

#include "infer/infer.h"

enum { OIP_TENSORS_MAX = 8, OIP_RANK_MAX = 4 };

/* The shapes are those of a batch. Without its first dimension a tensor of a model with parameters
 * is that of one call; Q, K and V of sdpa may also be [batch, length, heads * head_dim]. */
struct oip_tensor {
    const char *name;
    const char *datatype; /* "FP32": what metadata names; the other floating ones are taken too */
    bool optional;        /* of an input */
    int rank;
    int64_t shape[OIP_RANK_MAX]; /* -1: each call's own */
    bool is_mask;                /* an input that may be BOOL too; null forbids in its JSON */
};

/* Fill tensors with the model's inputs, its outputs; return how many. */
int oip_inputs(const struct model *model, struct oip_tensor tensors[OIP_TENSORS_MAX]);
int oip_outputs(const struct model *model, struct oip_tensor tensors[OIP_TENSORS_MAX]);

/* "attnd_sdpa", "attnd_scaled_dot_product" or another of model_attention.h: <project>_<format>. */
void oip_platform(const struct model *model, char *platform, size_t size);

#endif
