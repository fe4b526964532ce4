/* model.h - one loaded model: validated layers over a mapped file, refcounted.
 *
 * A model is immutable once made. Whoever resolves one holds a reference until
 * its answer has been computed, so a swap or a delete never pulls parameters
 * from under a request. */
#ifndef ATTND_MODEL_H
#define ATTND_MODEL_H

#include "base/fault.h"
#include "layer.h"
#include "model/model_bias.h"
#include "model/model_names.h"
#include "text/text.h"

enum { MODEL_NAME_MAX = 128 };

/* One of a layer's parameters as the model's file has it. */
struct model_tensor {
    const char *name; /* NULL: the layer has no such parameter */
    int rank;         /* 1 or 2 */
    int64_t shape[2];
};

struct model_layer {
    struct attn_layer layer;     /* as the library takes it; parameters borrowed from the model */
    struct attn_options options; /* the model's own scale, softcap, causal, windows */

    /* -1: left open by the model and settled by each call (model_scores.h). */
    int64_t d_query, d_key, d_value, d_out;
    struct attn_linear concat_proj; /* over key and query joined; weight NULL: not of this kind */
    struct model_tensor tensors[MODEL_TENSOR_COUNT][2]; /* weight and bias of each; the name of
                                                           a part of one is "qkv.weight[q_proj]" */

    const char *kind;          /* "encoder", "cross", ...; NULL: as the widths say */
    const float *alibi_slopes; /* [q_heads], the model's own, or NULL */
    struct model_relative_bias relative_bias;
};

struct model {
    char name[MODEL_NAME_MAX + 1];
    int64_t version;       /* of its numbered folder; else 1 */
    const char *attention; /* "scaled_dot_product" or another of model_attention.h */
    const char *dtype;     /* of the file's parameters: "F32", "BF16", ...; "" without any */
    char *source;          /* "built-in", or its path in the models' directory */
    bool built_in;
    bool parameterless; /* sdpa: query, key and value are used as they are, heads from the
                           request; layers[0] then says nothing but its options */
    int64_t parameter_count;
    int64_t parameter_bytes; /* in the file */
    struct model_layer *layers;
    int64_t layer_count;
    struct model_statistics *statistics; /* changes while all else stays */
    /* private: mapping, converted parameters, reference count */
    struct model_storage *storage;
};

struct model *model_retain(struct model *model);
void model_release(struct model *model); /* NULL is fine; the last one frees */

/* What a layer points at may be read only between these two: parameters that cannot be used where
 * they lie in the file are converted when they are first needed, and may go when nobody needs them
 * (model_converted.h). The fault is memory. */
bool model_hold_layer(struct model *model, int64_t layer, struct fault *fault);
void model_drop_layer(struct model *model, int64_t layer);

/* Why the model cannot be used any more: a mapped file of it was cut short or written into. NULL:
 * it can. What was computed with it before that was looked for is not to be answered. */
const char *model_damage(const struct model *model);

#endif
