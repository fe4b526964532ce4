/* SPDX-License-Identifier: Apache-2.0 */
/* forward_hybrid.h - what the tests of decoders share some of whose layers keep a state in place of
 * keys: their layers in a pass in double, and what such models answer beside it. */
#ifndef FORWARD_HYBRID_H
#define FORWARD_HYBRID_H

#include "forward_decoder.h"

/* Adds a layer without attention to the pass, whose rows these are: as they enter the block, as
 * they enter the layer, and what it adds. Returns the last, edited. */
struct rows forward_hybrid_add(struct forward *forward, const char *kind, int layer,
                               struct rows hidden_states, struct rows inputs, struct rows output);

/* The same of a layer beside the block's attention. */
struct rows forward_hybrid_add_beside(struct forward *forward, const char *kind, int layer,
                                      struct rows hidden_states, struct rows inputs,
                                      struct rows output);

/* The same of a layer that is a feed-forward alone. */
void forward_hybrid_add_fed(struct forward *forward, struct rows hidden_states);

/* torch.nn.Conv1d of name.weight and, if the file has it, name.bias, with a group for each column
 * and a padding of taps - 1, cut to the length of x. */
struct rows forward_hybrid_convolve(struct rows x, const char *name, int layer);

/* Mamba-2's mixer behind begin, "model.layers.#.mamba.", with one torch.nn.Linear of the gate, x,
 * b, c and dt, whose state goes from row to row as the recurrent form of the paper has it (Dao and
 * Gu 2024). Its norm is of each of norm_groups parts of a row, behind the gate. */
struct hybrid_mamba {
    const char *begin;
    int64_t heads, groups, state;
    int64_t norm_groups; /* 0: there is no norm */
    double eps;
    bool norm_is_first;        /* before the gate */
    const double *multipliers; /* of gate, x, b, c and dt; NULL: none */
};
struct rows forward_hybrid_mamba(struct rows x, const struct hybrid_mamba *mamba, int layer);

/* Edits of the residual stream and of what layers without attention add, against the pass in
 * double; lenses; and what has no meaning for such layers: it must be refused by their kind. fields
 * name the tokens. */
void forward_hybrid_expect(const struct decoder_case *decoder, const char *fields,
                           const struct forward *forward);

#endif
