/* SPDX-License-Identifier: Apache-2.0 */
/* oip_model.h - finds the model and version that a path under /v2 names. */
#ifndef ATTND_OIP_MODEL_H
#define ATTND_OIP_MODEL_H

#include "http/http.h"
#include "models/store/model_store.h"

/* Finds the model of the exchange's {model} and {version} among those that view shows (NULL: all);
 * the caller releases it. False with a fault: loading, where the model or the daemon is not ready,
 * or not_found. */
bool oip_model_find(struct exchange *exchange, const struct model_view *view, struct model **model,
                    struct fault *fault);

#endif
