/* oip_model.h - the model and version that a path of /v2 names. */
#ifndef ATTND_OIP_MODEL_H
#define ATTND_OIP_MODEL_H

#include "http/http.h"
#include "model/model.h"

/* The model of an exchange's {model} and {version}, retained. Its own faults are loading, where it
 * or the daemon is not ready, and not_found. */
bool oip_model_find(struct exchange *exchange, struct model **model, struct fault *fault);

#endif
