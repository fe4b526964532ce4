/* SPDX-License-Identifier: Apache-2.0 */
/* model_store_internal.h - the inside of the store, for model_store*.c only.
 *
 * There are two locks. "lock" guards the table and is held for moments: many threads may read at
 * once, and a change only swaps pointers. "changing" is held by a thread that changes the directory
 * and the table, so that both change in the same order. "changing" is taken before "lock". */
#ifndef ATTND_MODEL_STORE_INTERNAL_H
#define ATTND_MODEL_STORE_INTERNAL_H

#include "models/store/model_directory.h"
#include "models/store/model_store.h"
#include "models/store/model_table.h"

#include <pthread.h>

enum { MODEL_STORE_NAMES_BYTES = 200 };

struct model_store {
    const char *directory;                      /* borrowed from the options; NULL: none */
    bool is_one_model;                          /* the directory is itself one model */
    char failed_names[MODEL_STORE_NAMES_BYTES]; /* of the models that did not load at the start */
    pthread_rwlock_t lock;
    pthread_mutex_t changing;
    struct model_table table;
};

/* Sets the fault not_found, with the names that the view shows, and returns false. The caller
 * holds "lock" or "changing". */
bool model_store_unknown(const struct model_store *store, const struct model_view *view,
                         const char *name, struct fault *fault);

/* Loads the model at place and sets its version. The fault says why it was not loaded. */
bool model_store_read(const struct model_store *store, struct model **model,
                      const struct model_place *place, const char *config, struct fault *fault);

/* Whether a model can have the place's name; where none can, that is logged. */
bool model_store_has_name(const struct model_place *place);

/* Fills the row of a place with its model, or with the reason why there is none; model is then
 * NULL. The reference to model passes to the row, also on false. */
bool model_store_row(struct model_row *row, const struct model_place *place, struct model *model,
                     const char *reason, struct fault *fault);

/* Tells the metrics how many models there are. The caller holds "lock". */
void model_store_count(const struct model_store *store);

#endif
