/* gguf_family.h - a checkpoint in safetensors and its twin as a GGUF file, and their traces, which
 * must be the same. */
#ifndef GGUF_FAMILY_H
#define GGUF_FAMILY_H

#include "gguf_twin.h"

struct gguf_family {
    const char *name, *config, *tensors; /* as published_open() takes them */
    struct gguf_twin twin;
    double tolerance;   /* of a number, times 1 + its size; 0: to the bit */
    const char *fields; /* of the request, NULL: tokens of a decoder */
    bool has_no_head;
};

/* Serves both from the fixture's directory, as NAME and NAME_gguf, and compares their traces. */
void gguf_family_check(const struct gguf_family *family);

/* Compares the traces of two models that are served. */
void gguf_family_compare(const char *model, const char *twin, const char *fields, bool has_no_head,
                         double tolerance);

/* "blk.0.attn_q.weight=NAME.weight blk.0.attn_q.bias=NAME.bias " */
#define GGUF_BOTH(of_file, of_family)                                                              \
    of_file ".weight=" of_family ".weight " of_file ".bias=" of_family ".bias "

/* Keys that say the eps of a norm. */
#define GGUF_RMS(eps)        "f:attention.layer_norm_rms_epsilon=" eps " "
#define GGUF_LAYER_NORM(eps) "f:attention.layer_norm_epsilon=" eps " "

#endif
