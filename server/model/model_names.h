/* model_names.h - the names of a model's parameters: "q_proj.weight", "o_proj.bias", and
 * "layers.3." before them where there are several layers (API.md section 2). */
#ifndef ATTND_MODEL_NAMES_H
#define ATTND_MODEL_NAMES_H

#include <stdbool.h>
#include <stdint.h>

/* The projections of a layer, and what the score functions beside the dot product have. */
enum model_projection {
    MODEL_Q,
    MODEL_K,
    MODEL_V,
    MODEL_O,
    MODEL_PROJECTION_COUNT,
    MODEL_CONCAT = MODEL_PROJECTION_COUNT, /* "concat_proj", in place of q_proj and k_proj */
    MODEL_SCORE,                           /* "score", which has no bias */
    MODEL_PARAMETER_COUNT,

    /* What a published checkpoint may have besides, under its own names alone. */
    MODEL_Q_NORM = MODEL_PARAMETER_COUNT,
    MODEL_K_NORM,
    MODEL_POSITION_BIAS, /* in the places of weight and bias: a table, and another one */
    MODEL_TENSOR_COUNT
};

enum { MODEL_NAMES_BYTES = 64 }; /* of the longest, with its NUL byte */

/* "q_proj" */
const char *model_names_projection(enum model_projection projection);

/* The name of projection's matrix or bias in one of so many layers. */
void model_names_write(char name[MODEL_NAMES_BYTES], int64_t layer, int64_t layers,
                       enum model_projection projection, bool is_bias);

/* Whether name is a parameter of a model of so many layers that has the parameters whose bits,
 * 1 << projection, are in allowed. Where it is none, *nearest is the one that may have been meant,
 * in buffer, or NULL. */
bool model_names_known(const char *name, int64_t layers, unsigned allowed,
                       char buffer[MODEL_NAMES_BYTES], const char **nearest);

#endif
