/* model_options.h - how a layer of a model computes, beside its widths, for those who ask. */
#ifndef ATTND_MODEL_OPTIONS_H
#define ATTND_MODEL_OPTIONS_H

#include "model/model.h"

/* The member "options" of a layer as a JSON object (API.md section 2, GET /v1/models/{model}). */
void model_options_describe(const struct model_layer *layer, struct text *text);

#endif
