/* SPDX-License-Identifier: Apache-2.0 */
/* model_parameters.h - a model's tensors as the library takes them: dense F32, or matrices of F16
 * or BF16.
 *
 * A tensor of such a dtype that is aligned to its numbers is used where it lies in the file. Any
 * other is converted to F32, once however often the config names it, so that a small file cannot
 * ask for much memory. Large tensors are converted only when a request needs them
 * (model_converted.h). */
#ifndef ATTND_MODEL_PARAMETERS_H
#define ATTND_MODEL_PARAMETERS_H

#include "base/arena.h"
#include "models/model/model_converted.h"
#include "models/model/model_tensors.h"

/* A part of the outputs of a fused tensor, whose outputs lie in groups of group_size outputs, one
 * group after the other: count outputs of each group, from its output first on. groups 0: all
 * outputs of the tensor. Where the tensor is a stack of matrices of one size, [matrices, ...], all
 * this is of its number matrix; matrices 0: it is no stack. */
struct model_slice {
    int64_t groups, group_size;
    int64_t first, count;
    int64_t matrices, matrix;
};

struct model_parameters {
    const struct model_tensors *tensors;
    struct arena *arena;            /* of tensors that are converted at once */
    struct model_converted *copies; /* of those converted when needed; NULL: convert all at once */
    const float **converted;        /* [tensors->entry_count], malloc'd; NULL: not converted */
    bool *is_counted;               /* [tensors->entry_count], malloc'd: in count and bytes */

    /* Rows and columns of the numbers that one scale is for, in matrices of F8_E4M3; 0: there are
     * no such parameters. The scales of a tensor are in another one, its name with "_scale_inv". */
    int64_t fp8_block[2];

    int64_t count;     /* of numbers, in the tensors that were got so far */
    int64_t bytes;     /* of the same tensors, in the file */
    const char *dtype; /* of all these tensors; "mixed"; "" before the first */
};

bool model_parameters_init(struct model_parameters *parameters, const struct model_tensors *tensors,
                           struct arena *arena, struct model_converted *copies,
                           struct fault *fault);
void model_parameters_free(struct model_parameters *parameters);

/* The numbers of entry as floats. The fault is dtype unless entry is F32, F16, BF16 or F64, or
 * F8_E4M3 beside its scales. */
bool model_parameters_get(struct model_parameters *parameters, const struct model_entry *entry,
                          const float **values, struct fault *fault);

/* The same for a caller that reads the numbers while the model is being made: a tensor of any size
 * is converted at once. Only for tensors that are got in no other way. */
bool model_parameters_get_now(struct model_parameters *parameters, const struct model_entry *entry,
                              const float **values, struct fault *fault);

/* The numbers of a slice of entry, dense. A matrix is [outputs, width], or [width, outputs] where
 * in_out; a bias has width 1. Outputs that are not contiguous are copied.
 *
 * *dtype says whether the numbers are F32, F16 or BF16; with dtype NULL they are F32. */
bool model_parameters_get_slice(struct model_parameters *parameters,
                                const struct model_entry *entry, const struct model_slice *slice,
                                int64_t width, bool in_out, const void **values,
                                enum attn_dtype *dtype, struct fault *fault);

/* The numbers of MXFP4 in two tensors of bytes, blocks [..., 16] and scales [...], as blocks of
 * ATTN_MXFP4, dense, in a copy. */
bool model_parameters_get_mxfp4(struct model_parameters *parameters,
                                const struct model_entry *blocks, const struct model_entry *scales,
                                const void **values, struct fault *fault);

#endif
