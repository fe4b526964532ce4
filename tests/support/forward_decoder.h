/* SPDX-License-Identifier: Apache-2.0 */
/* forward_decoder.h - what the tests of decoders share: tokens, the attention of one block, and
 * the comparison of a whole pass with the daemon's. */
#ifndef FORWARD_DECODER_H
#define FORWARD_DECODER_H

#include "forward_reference.h"

/* The tokens of the case that is checked, of a vocabulary of 40. */
extern int64_t decoder_length;
const int *decoder_tokens(void);

/* Query, key and value of a block. */
struct decoder_projections {
    struct rows q, k, v;
};

/* The attention of a block after its projections: rotary embedding, then softmax. */
struct decoder_attention {
    struct published_attention attention; /* causal */
    int64_t rotary_dim;                   /* 0: no rotary embedding */
    double theta;
    bool is_every_two;         /* else rotate_half */
    const double *frequencies; /* of the pairs; NULL: as theta gives */
    double factor;             /* of what is rotated by them */
    void (*rotated)(struct decoder_projections projections, int layer); /* what follows; or NULL */
};

/* Rotates q and k in place, adds the layer to the pass, and returns what leaves the output
 * projection. */
struct rows decoder_attend(struct forward *forward, const struct decoder_attention *attention,
                           struct rows hidden_states, struct rows inputs,
                           struct decoder_projections projections, const char *output, int layer);

/* q_proj, k_proj and v_proj behind begin, "model.layers.#.self_attn.". */
struct decoder_projections decoder_project(struct rows x, const char *begin, int layer);

/* down_proj(activation(gate_proj(x)) * up_proj(x)) behind begin, "model.layers.#.mlp.". */
struct rows decoder_gated(struct rows x, const char *begin, const char *activation, int layer);

/* down(activation(up(x))). */
struct rows decoder_up_down(struct rows x, const char *up, const char *activation, const char *down,
                            int layer);

struct decoder_case {
    const char *name; /* of the model */
    const char *config, *tensors;
    int layers;
    void (*pass)(struct forward *forward);
    const char *dtype; /* of the file; NULL: F32 */
    int64_t length;    /* tokens; 0: 11, which are more than one window of 3 */
    bool is_bidirectional;
    bool norms_follow; /* a norm follows each sum with the residual, and the head has its own layer
                        */
};

/* Makes the checkpoint in the fixture's directory, serves it, and compares all that a trace
 * answers with the pass. The first tokens alone must have the same rows to the bit, all must be the
 * same in a batch, and a session must take the tokens in pieces (forward_session.h). */
void decoder_case_check(const struct decoder_case *decoder);

/* The same of a file of so many blocks, each of which is several of the layers. */
void decoder_case_check_blocks(const struct decoder_case *decoder, int blocks);

#endif
