/* model_describe.h - a model as its clients see it. */
#ifndef ATTND_MODEL_DESCRIBE_H
#define ATTND_MODEL_DESCRIBE_H

#include "model/model.h"

/* The JSON object of GET /v1/models/{model} (API.md section 2). */
void model_describe(const struct model *model, struct text *text);

/* The same of a model that is not there. */
void model_describe_absent(const char *name, const char *source, const char *state,
                           const char *reason, struct text *text);

#endif
