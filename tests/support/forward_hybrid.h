/* forward_hybrid.h - what the tests of decoders share some of whose layers keep a state in place of
 * keys: their layers in a pass in double, and what such models answer beside it. */
#ifndef FORWARD_HYBRID_H
#define FORWARD_HYBRID_H

#include "forward_decoder.h"

/* Adds a layer without attention to the pass, whose rows these are: as they enter the block, as
 * they enter the layer, and what it adds. Returns the last, edited. */
struct rows forward_hybrid_add(struct forward *forward, const char *kind, int layer,
                               struct rows hidden_states, struct rows inputs, struct rows output);

/* torch.nn.Conv1d of name.weight and, if the file has it, name.bias, with a group for each column
 * and a padding of taps - 1, cut to the length of x. */
struct rows forward_hybrid_convolve(struct rows x, const char *name, int layer);

/* Edits of the residual stream and of what layers without attention add, against the pass in
 * double; lenses; and what has no meaning for such layers: it must be refused by their kind. fields
 * name the tokens. */
void forward_hybrid_expect(const struct decoder_case *decoder, const char *fields,
                           const struct forward *forward);

#endif
