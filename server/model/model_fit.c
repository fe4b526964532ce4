/* model_fit.c - see model_fit.h. */
#include "model/model_fit.h"

#include <inttypes.h>

/* The columns of the key, first in the joined rows; of two inputs without rows any will do. */
static bool fit_concat(struct model_layer *fitted, const struct model *model,
                       const struct model_widths *widths, struct fault *fault)
{
    const int64_t joined = fitted->concat_proj.in;
    const int64_t key = widths->key     ? widths->key
                        : widths->query ? joined - widths->query
                                        : joined - 1;
    const int64_t query = widths->query ? widths->query : joined - key;
    if (key < 1 || query < 1 || query != joined - key)
        return fault_set_at(fault, "/query", FAULT_SHAPE,
                            "key has %" PRId64 " columns and query has %" PRId64
                            "; model '%s' takes %" PRId64 " in both together",
                            widths->key, widths->query, model->name, joined);
    fitted->d_key = key;
    fitted->d_query = query;
    attn_linear_split(&fitted->concat_proj, key, &fitted->layer.k_proj, &fitted->layer.q_proj);
    return true;
}

bool model_fit(struct model_layer *fitted, const struct model *model, int64_t layer_index,
               const struct model_widths *widths, struct fault *fault)
{
    *fitted = model->layers[layer_index];
    if (fitted->concat_proj.weight && !fit_concat(fitted, model, widths, fault))
        return false;
    if (fitted->d_value < 0) {
        fitted->d_value = widths->value ? widths->value : fitted->d_key;
        fitted->d_out = fitted->layer.v_head_dim = fitted->d_value;
    }
    return true;
}
