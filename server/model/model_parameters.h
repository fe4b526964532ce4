/* model_parameters.h - a model's tensors as the library takes them: dense F32, or matrices of F16
 * or BF16.
 *
 * What is aligned to its numbers is used where it lies; the rest is converted, once for
 * each tensor however often a config names it, so that a small file cannot ask
 * for a large memory. What is large is converted when it is needed (model_converted.h). */
#ifndef ATTND_MODEL_PARAMETERS_H
#define ATTND_MODEL_PARAMETERS_H

#include "base/arena.h"
#include "model/model_converted.h"
#include "model/model_tensors.h"

/* A part of the outputs of a fused tensor, whose outputs lie in groups of group_size outputs, one
 * group after the other: count outputs of each group, from its output first on. groups 0: all
 * outputs of the tensor. */
struct model_slice {
    int64_t groups, group_size;
    int64_t first, count;
};

struct model_parameters {
    const struct model_tensors *tensors;
    struct arena *arena;            /* holds what is converted now, */
    struct model_converted *copies; /* and this what is later; NULL: all is now */
    const float **converted;        /* [tensors->entry_count], NULL where it is not; malloc'd */
    bool *is_counted;               /* [tensors->entry_count]; malloc'd */

    int64_t count;     /* numbers of the tensors used so far, */
    int64_t bytes;     /* and their bytes in the file */
    const char *dtype; /* of all of them, "mixed", or "" */
};

bool model_parameters_init(struct model_parameters *parameters, const struct model_tensors *tensors,
                           struct arena *arena, struct model_converted *copies,
                           struct fault *fault);
void model_parameters_free(struct model_parameters *parameters);

/* entry's numbers as floats; of any of F32, F16, BF16, F64, else the fault is dtype. */
bool model_parameters_get(struct model_parameters *parameters,
                          const struct safetensors_entry *entry, const float **values,
                          struct fault *fault);

/* The same for whoever reads them while the model is being made: they are converted now, however
 * many they are. Of a tensor that is got in no other way. */
bool model_parameters_get_now(struct model_parameters *parameters,
                              const struct safetensors_entry *entry, const float **values,
                              struct fault *fault);

/* The numbers of a slice of entry alone, dense. A matrix is [outputs, width], or [width, outputs]
 * where in_out; a bias has width 1. Outputs that do not lie together are copied.
 *
 * Those of a matrix may be F16 or BF16 in *dtype; with dtype NULL they are floats. */
bool model_parameters_get_slice(struct model_parameters *parameters,
                                const struct safetensors_entry *entry,
                                const struct model_slice *slice, int64_t width, bool in_out,
                                const void **values, enum attn_dtype *dtype, struct fault *fault);

#endif
