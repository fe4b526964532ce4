/* model_describe.h - the description of a model that is not there, in the form of
 * model_describe(). */
#ifndef ATTND_MODEL_DESCRIBE_H
#define ATTND_MODEL_DESCRIBE_H

#include "model.h"

void model_describe_absent(const char *name, const char *source, const char *state,
                           const char *reason, struct text *text);

#endif
