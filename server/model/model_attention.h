/* model_attention.h - the score functions a model can have (API.md section 2), and the parameters
 * each of them takes. */
#ifndef ATTND_MODEL_ATTENTION_H
#define ATTND_MODEL_ATTENTION_H

#include "model/model_names.h"

struct model_attention {
    const char *name;   /* "scaled_dot_product" */
    unsigned required;  /* parameters it cannot do without, model_parameter_bit() of each */
    unsigned allowed;   /* all that it may have, the required ones included */
    bool is_dot;        /* a dot product of heads */
    bool is_scaled;     /* by 1/sqrt(head_dim), unless the config gives a scale */
    const char *widths; /* what its required parameters are, for messages; "" without any */
};

static inline unsigned model_parameter_bit(enum model_projection projection)
{
    return 1u << projection;
}

/* The one of this name, or NULL. */
const struct model_attention *model_attention_find(const char *name);

/* "scaled_dot_product, dot, ...", for messages. */
const char *model_attention_names(void);

#endif
