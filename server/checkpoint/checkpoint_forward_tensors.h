/* checkpoint_forward_tensors.h - gets matrices, tables and norms of a whole pass by the names that
 * a row of checkpoint_forward.h has for them.
 *
 * Every function returns false with a fault that names the tensor: it is missing, has another shape
 * or a dtype that is no parameter's. A width of 0 is what the tensor has. */
#ifndef ATTND_CHECKPOINT_FORWARD_TENSORS_H
#define ATTND_CHECKPOINT_FORWARD_TENSORS_H

#include "checkpoint/checkpoint_forward.h"

struct checkpoint_forward_reader {
    struct checkpoint_forward_row row; /* as adjust() left it */
    const struct checkpoint_run *run;  /* the stream's layers of self attention */
    struct model_parameters *parameters;
    int64_t block;  /* tensors are of this block; -1: of none */
    int64_t expert; /* and of this expert; -1: of none */
    double norm_eps;
    bool norm_has_bias, has_biases;
    struct fault *fault;

    /* Addresses of all numbers that were got, malloc'd. */
    const void **addresses;
    int64_t address_count, address_capacity;
};

/* Whether the file has the tensor names + ".weight". False for names of NULL. */
bool checkpoint_forward_has(const struct checkpoint_forward_reader *reader, const char *names);

/* The same by whole names. */
bool checkpoint_forward_has_values(const struct checkpoint_forward_reader *reader,
                                   const char *names);

/* A matrix [out, in], or [in, out] where in_out, without a bias. */
bool checkpoint_forward_matrix(struct checkpoint_forward_reader *reader, struct attn_linear *linear,
                               const char *names, int64_t out, int64_t in, bool in_out);

/* The same with the bias of that name. Without has_bias a bias in the file is a fault. */
bool checkpoint_forward_linear(struct checkpoint_forward_reader *reader, struct attn_linear *linear,
                               const char *names, int64_t out, int64_t in, bool in_out,
                               bool has_bias);

/* A convolution [out, columns, ...] as a matrix [out, in]. */
bool checkpoint_forward_convolution(struct checkpoint_forward_reader *reader,
                                    struct attn_linear *linear, const char *names, int64_t out,
                                    int64_t in, bool has_bias);

/* Two matrices of one width from one tensor [2 * out, in]: first the outputs of gate, then those of
 * up. */
bool checkpoint_forward_gated(struct checkpoint_forward_reader *reader, struct attn_linear *gate,
                              struct attn_linear *up, const char *names, int64_t in, bool has_bias);

/* A table [count, width]. */
bool checkpoint_forward_table(struct checkpoint_forward_reader *reader, struct model_table *table,
                              const char *names, int64_t width);

/* A norm of rows of width numbers; none for names of NULL. */
bool checkpoint_forward_norm(struct checkpoint_forward_reader *reader, struct attn_norm *norm,
                             const char *names, int64_t width);

/* The count numbers of a tensor of any shape, by its whole name. */
bool checkpoint_forward_values(struct checkpoint_forward_reader *reader, const float **values,
                               const char *names, int64_t count);

/* The same at once, for a caller that copies them: of a tensor that is got in no other way. */
bool checkpoint_forward_values_now(struct checkpoint_forward_reader *reader, const float **values,
                                   const char *names, int64_t count);

#endif
