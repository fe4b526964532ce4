/* SPDX-License-Identifier: Apache-2.0 */
/* model_names.h - the names of a model's parameters: "q_proj.weight", "o_proj.bias", with
 * "layers.3." in front where the model has several layers (API_MODELS.md, "Our own config"); and
 * the table of score functions that a model can have (API_CALLS.md), each with the parameters that
 * it takes. */
#ifndef ATTND_MODEL_NAMES_H
#define ATTND_MODEL_NAMES_H

#include <stdbool.h>
#include <stdint.h>

/* The parameters of a layer: its projections, then those of score functions that are no dot
 * product. */
enum model_projection {
    MODEL_Q,
    MODEL_K,
    MODEL_V,
    MODEL_O,
    MODEL_PROJECTION_COUNT,
    MODEL_CONCAT = MODEL_PROJECTION_COUNT, /* "concat_proj", in place of q_proj and k_proj */
    MODEL_SCORE,                           /* "score", which has no bias */
    MODEL_PARAMETER_COUNT,

    /* Only in published checkpoints, under the checkpoint's own names. */
    MODEL_Q_NORM = MODEL_PARAMETER_COUNT,
    MODEL_K_NORM,
    MODEL_POSITION_BIAS, /* up to two tables, in the places of weight and bias */
    MODEL_TENSOR_COUNT
};

enum { MODEL_NAMES_BYTES = 64 }; /* of the longest name with its NUL byte */

/* "q_proj" */
const char *model_names_projection(enum model_projection projection);

/* Writes the name of the matrix or bias of a projection, in layer number layer of layers. */
void model_names_write(char name[MODEL_NAMES_BYTES], int64_t layer, int64_t layers,
                       enum model_projection projection, bool is_bias);

/* Whether name is a parameter of a model with this number of layers and with the parameters in
 * allowed, 1 << projection each. On false *nearest is the name that was probably meant, in buffer;
 * NULL: no name is near. */
bool model_names_known(const char *name, int64_t layers, unsigned allowed,
                       char buffer[MODEL_NAMES_BYTES], const char **nearest);

/* A score function. To add one: its row in model_names.c and its name in model_attention_names();
 * how its layer is built, in model_layers.c; numbers to compare with, in
 * tests/unit/test_model_scores.c.
 */
struct model_attention {
    const char *name;   /* "scaled_dot_product" */
    unsigned required;  /* parameters that it needs, model_parameter_bit() of each */
    unsigned allowed;   /* parameters that it may have, including the required ones */
    bool is_dot;        /* a dot product of heads */
    bool is_scaled;     /* by 1/sqrt(head_dim), unless the config gives a scale */
    const char *widths; /* names and shapes of the required parameters, for messages; "": none */
};

static inline unsigned model_parameter_bit(enum model_projection projection)
{
    return 1u << projection;
}

/* The score function of this name, or NULL. */
const struct model_attention *model_attention_find(const char *name);

/* "scaled_dot_product, dot, ...", for messages. */
const char *model_attention_names(void);

#endif
