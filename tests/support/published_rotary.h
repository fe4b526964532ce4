/* SPDX-License-Identifier: Apache-2.0 */
/* published_rotary.h - the attention that most published decoders have: q_proj, k_proj, v_proj and
 * an output projection around rotary attention, written with the functions of published.h.
 *
 * Each difference between families is a field. The test that sets a field says where the
 * family's source does so. */
#ifndef PUBLISHED_ROTARY_H
#define PUBLISHED_ROTARY_H

#include "published.h"

/* q_proj, k_proj, v_proj and an output projection of rotary attention. */
struct published_rotary {
    const char *begin, *output;
    const char *projections[3]; /* NULL: q_proj, k_proj and v_proj */
    int64_t width, heads, kv_heads, rotary_dim;
    double theta, scale, softcap;
    bool is_every_two;         /* else rotate_half */
    const double *frequencies; /* of the pairs; NULL: as theta gives */
    double factor;             /* of what is rotated by them */
    int64_t window;
    bool is_bidirectional;
    int64_t reach;   /* of bidirectional attention; 0: all */
    bool has_sinks;  /* a tensor "sinks" of every layer */
    double norm_eps; /* of q_norm and k_norm; 0: there are none */
    double norm_offset;
};

/* Compares layer number layer of the model, which is of kind "self". */
void published_expect_rotary(const struct published_rotary *rotary, int layer);

/* Opens a checkpoint of two layers, as published_open() does, compares both and closes it. */
void published_compare_rotary(const char *config, const char *tensors, const char *dtype,
                              const struct published_rotary *rotary);

/* Four query heads of 4 columns over two key/value heads: the tensors under Llama's names, the
 * fields of config.json for them, and what the layer computes with them. */
#define PUBLISHED_GROUPED                                                                          \
    "model.layers.#.self_attn.q_proj.weight 16x16, model.layers.#.self_attn.k_proj.weight 8x16, "  \
    "model.layers.#.self_attn.v_proj.weight 8x16, model.layers.#.self_attn.o_proj.weight 16x16"

#define PUBLISHED_GROUPED_FIELDS                                                                   \
    "\"hidden_size\":16,\"num_attention_heads\":4,\"num_key_value_heads\":2,"                      \
    "\"num_hidden_layers\":2"

/* A config.json of these fields and the fields above. */
#define PUBLISHED_GROUPED_CONFIG(fields) "{" fields "," PUBLISHED_GROUPED_FIELDS "}"

extern const struct published_rotary PUBLISHED_LLAMA;

#endif
