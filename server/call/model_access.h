/* SPDX-License-Identifier: Apache-2.0 */
/* model_access.h - the models that a key may see and call, by the patterns of its scope infer. A
 * key of NULL, where no keys are in use, may see and call all. */
#ifndef ATTND_MODEL_ACCESS_H
#define ATTND_MODEL_ACCESS_H

#include "access/access_key.h"
#include "models/store/model_store.h"

/* What the store shows to a key. The key must outlive the view. */
struct model_view model_access_view(const struct access_key *key);

/* Finds a model by its name and version for a call, as model_store_resolve_version() does. For a
 * model that the key may not call the fault is `scope`, whether there is such a model or not. */
bool model_access_resolve(struct model_store *store, const struct access_key *key, const char *name,
                          const char *version, struct model **model, struct fault *fault);

#endif
