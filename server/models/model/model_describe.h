/* SPDX-License-Identifier: Apache-2.0 */
/* model_describe.h - a model as JSON, as its clients see it. */
#ifndef ATTND_MODEL_DESCRIBE_H
#define ATTND_MODEL_DESCRIBE_H

#include "models/model/model.h"

/* The JSON object of GET /v1/models/{model} (API_MODELS.md). */
void model_describe(const struct model *model, struct text *text);

/* The same object for a name that has no model: state and reason say why. */
void model_describe_absent(const char *name, const char *source, const char *state,
                           const char *reason, struct text *text);

/* Names what a trace of the model takes beside embeddings: "text", "tokens", "pixels", "features",
 * "sound", "decoder". Returns how many; 0: it has no trace. */
enum { MODEL_INPUTS_MAX = 4 };
int model_inputs(const struct model *model, const char *names[MODEL_INPUTS_MAX]);

/* The name of a class that the model's head tells; of a letter that of the model's tokenizer. */
const char *model_class_label(const struct model *model, int64_t i);

/* The member "options" of a layer, a JSON object: how the layer computes, beside its widths. */
void model_describe_options(const struct model_layer *layer, struct text *text);

#endif
