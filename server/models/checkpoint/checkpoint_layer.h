/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_layer.h - what config.json says of one layer of a published checkpoint. */
#ifndef ATTND_CHECKPOINT_LAYER_H
#define ATTND_CHECKPOINT_LAYER_H

#include "models/checkpoint/checkpoint.h"
#include "models/model/model_config.h"

struct checkpoint_layer {
    const struct checkpoint_run *run;
    int64_t index; /* in its run */
    bool has_window;
    bool looks_both_ways; /* because of the family's own flag */
    bool is_chunked;      /* in "layer_types", which need not say so */
    bool has_alibi, has_norms;
    bool lacks_rope;  /* whatever config.json says */
    bool shares_keys; /* those of layer keys_of of the run */
    int64_t keys_of;
    bool values_are_keys; /* before their norms: there is no projection of values */
    double alibi_max;
    double clip;   /* 0: none */
    int64_t width; /* columns of its inputs and of its context */
    unsigned biases;
    int64_t rank, query_rank, key_dim;    /* of a latent layer; rank 0: it is none */
    double positions, original_positions; /* of a scaled rotary embedding; 0: not said */
    bool is_unscaled;                     /* the embedding, whatever config.json says */
    double norm_eps;
    struct model_config config; /* heads, options, rotary embedding */
};

/* Reads the fields of layer number index of run. */
bool checkpoint_layer_read(struct checkpoint_layer *layer, const struct checkpoint_run *run,
                           int64_t index, struct fault *fault);

#endif
