/* model_attention.h - the table of score functions that a model can have (API_CALLS.md), each with
 * the parameters it takes.
 *
 * To add one: its row in model_attention.c and its name in model_attention_names(); how its layer
 * is built, in model_scores.c; numbers to compare with, in tests/unit/test_model_scores.c. The
 * table stands apart from model_scores.c because a config is read with the table alone, and layers
 * are built from a config. */
#ifndef ATTND_MODEL_ATTENTION_H
#define ATTND_MODEL_ATTENTION_H

#include "model/model_names.h"

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
