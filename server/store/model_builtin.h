/* model_builtin.h - the two built-in models, which are always served. demo is the worked example of
 * a well-known tutorial, sdpa is attention without parameters. */
#ifndef ATTND_MODEL_BUILTIN_H
#define ATTND_MODEL_BUILTIN_H

#include "model/model.h"

bool model_create_demo(struct model **model, struct fault *fault);
bool model_create_sdpa(struct model **model, struct fault *fault);

#endif
