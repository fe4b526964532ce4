/* model_scores.h - layers of the score functions general, additive and concat, which are no dot
 * product of heads; and the widths that such a layer leaves open until a call settles them.
 *
 * An open width is -1: those of key and query under a concat_proj, whose matrix knows only their
 * sum, and that of a value that is not projected.
 *
 * The table of score functions is a file of its own, model_attention.c: the config is read with it,
 * and the layers here are built from a config, so one file would need itself. */
#ifndef ATTND_MODEL_SCORES_H
#define ATTND_MODEL_SCORES_H

#include "model/model.h"

struct model_builder;

/* The three steps of model_layers_build_one() for such a layer: finds score.weight; settles heads
 * and widths, v_head_dim being 0 where each call has its own; sets what differs from a dot product.
 */
bool model_scores_find(struct model_builder *builder);
bool model_scores_settle(struct model_builder *builder);
bool model_scores_set(struct model_builder *builder, struct model_layer *layer);

/* Columns of the inputs of one call; 0: an input without rows, whose width may be any. */
struct model_widths {
    int64_t query, key, value;
};

/* Copies layer layer_index of model, of any score function, to *fitted and settles its open widths
 * by those of a call. Query and key of a concat layer must together be as wide as its matrix takes.
 * Does not compare the widths that the model knows with the call's. On false the fault is shape. */
bool model_scores_fit(struct model_layer *fitted, const struct model *model, int64_t layer_index,
                      const struct model_widths *widths, struct fault *fault);

#endif
