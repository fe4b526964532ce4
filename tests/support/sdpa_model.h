/* SPDX-License-Identifier: Apache-2.0 */
/* sdpa_model.h - the model sdpa, for tests of what holds a model in the test's own process. */
#ifndef SDPA_MODEL_H
#define SDPA_MODEL_H

#include "models/store/model_store.h"

/* Makes a store without a directory, and gives its sdpa, held. A failure fails the test. */
struct model *sdpa_model_open(struct model_store **models);

/* Releases the model and frees its store. */
void sdpa_model_close(struct model_store *models, struct model *model);

#endif
