/* SPDX-License-Identifier: Apache-2.0 */
/* forward_reference.h - the whole pass of a published model in double, written with the functions
 * of published.h and these.
 *
 * A test makes a checkpoint with published_open() and writes the model's pass as its family's
 * source does, one function for each function of PyTorch. The pass fills in a struct forward,
 * which trace_client.h compares with an answer of POST /v1/trace. Nothing here knows how the
 * daemon computes a pass. Rows are valid until published_close(). */
#ifndef FORWARD_REFERENCE_H
#define FORWARD_REFERENCE_H

#include "published.h"

enum { FORWARD_LAYERS_MAX = 32 };

/* For published_open(): one tensor, one that is three times as large, the tensors of a
 * torch.nn.Linear, and those of a torch.nn.LayerNorm, whose weight is large enough that activations
 * leave the part where they look alike. */
#define FORWARD_TENSOR(name, shape)   name " " #shape ", "
#define FORWARD_TABLE(name, shape)    name " " #shape "*3, "
#define FORWARD_LINEAR(name, out, in) name ".weight " #out "x" #in ", " name ".bias " #out ", "
#define FORWARD_NORM(name, size)      name ".weight " #size "*4, " name ".bias " #size ", "

#define FORWARD_NONE ((struct rows){ 0, 0, NULL })

/* What a pass computes in one attention layer. */
struct forward_layer {
    const char *kind; /* "self", "encoder", ... */
    int64_t heads;
    struct rows hidden_states;    /* as they enter the block */
    struct rows inputs;           /* what the projections take */
    bool is_beside;               /* a recurrence beside the block's attention */
    struct rows key_inputs;       /* of cross-attention; elsewhere there is no data */
    struct published_answer maps; /* its context is after the output projection */
};

struct forward {
    struct forward_layer layers[FORWARD_LAYERS_MAX];
    int layer_count;
    int first_layer;   /* the model's number of layers[0] */
    bool reads_tokens; /* also behind the first rows, so that these alone are refused */
    struct rows final_hidden_states;
    struct rows encoder_hidden_states; /* of an encoder-decoder; elsewhere there is no data */
    struct rows logits;                /* of every position; no data where there is no head */
};

/* Adds a layer to the pass. */
struct forward_layer *forward_add_layer(struct forward *forward, struct forward_layer layer);

/* The layer of this place, which the caller fills in. */
struct forward_layer *forward_layer_at(struct forward *forward, int place);

/* New rows: those of x from first on; x + y; x + the one row y; x * y; x * factor. */
struct rows forward_slice(struct rows x, int64_t first, int64_t count);
struct rows forward_add(struct rows x, struct rows y);
struct rows forward_add_row(struct rows x, struct rows y);
struct rows forward_multiply(struct rows x, struct rows y);
struct rows forward_scale(struct rows x, double factor);

/* First the rows of x, then those of y. */
struct rows forward_join(struct rows x, struct rows y);

/* The rows of x that ids name, torch.nn.Embedding. */
struct rows forward_embed(struct rows table, const int *ids, int64_t count);

/* x as rows of so many columns, in the same order. */
struct rows forward_view(struct rows x, int64_t columns);

/* x . w^T, without a bias. */
struct rows forward_product(struct rows x, struct rows w);

/* torch.nn.LayerNorm of name.weight and, if it exists, name.bias, which old checkpoints call gamma
 * and beta; RMSNorm of name.weight, with offset added to the weight. */
struct rows forward_layer_norm(struct rows x, const char *name, int layer, double eps);
struct rows forward_rms_norm(struct rows x, const char *name, int layer, double eps, double offset);

/* The function of ACT2FN that has this name: "gelu", "gelu_new", "gelu_pytorch_tanh",
 * "quick_gelu", "relu", "relu2", "silu" or "tanh". */
struct rows forward_activation(struct rows x, const char *name);

/* torch.log_softmax of each row. */
struct rows forward_log_softmax(struct rows x);

/* The attention of q, k and v, and the linear layer called output of its context. */
struct published_answer forward_attend(const struct published_attention *attention, struct rows q,
                                       struct rows k, struct rows v, const char *output, int layer);

/* The length of each value behind a head's part of the output projection, [heads][keys]; its weight
 * as torch.nn.Linear has it, or as Conv1D, in_out. */
double *forward_value_norms(const struct published_attention *attention, struct rows v,
                            struct rows weight, bool in_out);

#endif
