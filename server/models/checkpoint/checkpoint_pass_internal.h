/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_pass_internal.h - gets matrices, tables and norms of a whole pass by the names that a
 * row has for them, and builds the embedding; for checkpoint_pass*.c.
 *
 * Every function returns false with a fault that names the tensor: it is missing, has another shape
 * or a dtype that is no parameter's. A width of 0 is what the tensor has. */
#ifndef ATTND_CHECKPOINT_PASS_INTERNAL_H
#define ATTND_CHECKPOINT_PASS_INTERNAL_H

#include "models/checkpoint/checkpoint.h"

struct checkpoint_pass_reader {
    struct checkpoint_pass pass;      /* as adjust() left it */
    const struct checkpoint_run *run; /* the stream's layers of self attention */
    const char *checkpoint_type;      /* the model_type of config.json */
    struct model_parameters *parameters;
    int64_t block;    /* tensors are of this block; -1: of none */
    const char *feed; /* what precedes their names in it, such as the row's expert; NULL: nothing */
    int64_t expert;   /* in place of the % of feed */
    double norm_eps;
    bool norm_has_bias, has_biases;
    struct fault *fault;

    /* Addresses of all numbers that were got, malloc'd. */
    const void **addresses;
    int64_t address_count, address_capacity;
};

/* Whether the file has the tensor names + ".weight". False for names of NULL. */
bool checkpoint_pass_has(const struct checkpoint_pass_reader *reader, const char *names);

/* The same where names may end without ".weight"; and by whole names. */
bool checkpoint_pass_has_stacked(const struct checkpoint_pass_reader *reader, const char *names);
bool checkpoint_pass_has_values(const struct checkpoint_pass_reader *reader, const char *names);

/* A matrix [out, in], or [in, out] where in_out, without a bias. */
bool checkpoint_pass_matrix(struct checkpoint_pass_reader *reader, struct attn_linear *linear,
                            const char *names, int64_t out, int64_t in, bool in_out);

/* The same with the bias of that name. Without has_bias a bias in the file is a fault. */
bool checkpoint_pass_linear(struct checkpoint_pass_reader *reader, struct attn_linear *linear,
                            const char *names, int64_t out, int64_t in, bool in_out, bool has_bias);

/* A convolution [out, columns, ...] as a matrix [out, in]. */
bool checkpoint_pass_convolution(struct checkpoint_pass_reader *reader, struct attn_linear *linear,
                                 const char *names, int64_t out, int64_t in, bool has_bias);

/* Two matrices of one width from one tensor [2 * out, in]: first the outputs of gate, then those of
 * up. */
bool checkpoint_pass_gated(struct checkpoint_pass_reader *reader, struct attn_linear *gate,
                           struct attn_linear *up, const char *names, int64_t in, bool has_bias);

/* Matrix number reader->expert of a tensor [count, out, in]; and two matrices, as above, of a
 * tensor [count, 2 * out, in]. Their names may end without ".weight". */
bool checkpoint_pass_stacked(struct checkpoint_pass_reader *reader, struct attn_linear *linear,
                             const char *names, int64_t count, int64_t out, int64_t in);
bool checkpoint_pass_stacked_gated(struct checkpoint_pass_reader *reader, struct attn_linear *gate,
                                   struct attn_linear *up, const char *names, int64_t count,
                                   int64_t in);

/* A table [count, width]. */
bool checkpoint_pass_table(struct checkpoint_pass_reader *reader, struct model_table *table,
                           const char *names, int64_t width);

/* A norm of rows of width numbers; none for names of NULL. */
bool checkpoint_pass_norm(struct checkpoint_pass_reader *reader, struct attn_norm *norm,
                          const char *names, int64_t width);

/* The same of a norm without a bias, whose rows are multiplied by scale. */
bool checkpoint_pass_scaled_norm(struct checkpoint_pass_reader *reader, struct attn_norm *norm,
                                 const char *names, int64_t width, double scale);

/* The count numbers of a tensor of any shape, by its whole name. */
bool checkpoint_pass_values(struct checkpoint_pass_reader *reader, const float **values,
                            const char *names, int64_t count);

/* The same at once, for a caller that copies them: of a tensor that is got in no other way. */
bool checkpoint_pass_values_now(struct checkpoint_pass_reader *reader, const float **values,
                                const char *names, int64_t count);

/* How the input becomes rows: fills stream->embedding and the lengths
 * (checkpoint_pass_input.c). */
bool checkpoint_pass_build_embedding(struct model_stream *stream,
                                     struct checkpoint_pass_reader *reader);

/* The same of samples of sound (checkpoint_sound.c). */
bool checkpoint_sound_build(struct model_stream *stream, struct checkpoint_pass_reader *reader);

/* Several rows of a token, and gates that are mostly 0, of a family that has both
 * (checkpoint_altup.c): of the stream, once its embedding is built; of a block; of a block's
 * feed-forward. Else they do nothing. */
bool checkpoint_altup_build_stream(struct model_stream *stream,
                                   struct checkpoint_pass_reader *reader);
bool checkpoint_altup_build_block(struct model_block *block, struct checkpoint_pass_reader *reader,
                                  const struct model_stream *stream);
bool checkpoint_altup_read_sparsity(struct model_feed_forward *dense,
                                    struct checkpoint_pass_reader *reader);

/* The head of the last stream, and the regression over maps of all its layers, where the file has
 * them (checkpoint_pass_head.c). */
bool checkpoint_pass_build_head(struct model_head *head, struct checkpoint_pass_reader *reader,
                                const struct model_stream *stream, bool is_causal);
bool checkpoint_pass_build_contacts(struct model_contacts *contacts,
                                    struct checkpoint_pass_reader *reader,
                                    const struct model_stream *stream, int64_t heads);

/* The stream's pooler, where the file has one (checkpoint_readout.c). One that is not understood is
 * a reason in forward; the fault is memory. */
bool checkpoint_readout_build(struct model_forward *forward, int stream,
                              struct checkpoint_pass_reader *reader);

/* A pooler that is attention of a probe (checkpoint_probe.c). */
bool checkpoint_probe_build(struct model_readout *readout, struct checkpoint_pass_reader *reader,
                            int64_t width);

/* The same of a head over classes of the stream (checkpoint_classes.c), once its pooler is built.
 */
bool checkpoint_classes_build(struct model_forward *forward, int stream,
                              struct checkpoint_pass_reader *reader, bool is_causal);

#endif
