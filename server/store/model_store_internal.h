/* model_store_internal.h - the inside of the store, between model_store*.c only.
 *
 * Two locks. "lock" guards the table and is held for moments: many may read, and a
 * change is a swap of pointers. "changing" is held by whoever changes the directory
 * and the table, so that both always end in the same order. */
#ifndef ATTND_MODEL_STORE_INTERNAL_H
#define ATTND_MODEL_STORE_INTERNAL_H

#include "store/model_directory.h"
#include "store/model_store.h"
#include "store/model_table.h"

#include <pthread.h>

struct model_store {
    const char *directory; /* borrowed from the options; NULL: none */
    bool is_one_model;     /* the directory itself */
    pthread_rwlock_t lock;
    pthread_mutex_t changing;
    struct model_table table;
};

/* Sets not_found, which names what there is. With "lock" held. Returns false. */
bool model_store_unknown(const struct model_store *store, const char *name, struct fault *fault);

/* Reads the model at place, whose version is set. The fault says why it was not loaded. */
bool model_store_read(const struct model_store *store, struct model **model,
                      const struct model_place *place, const char *config, struct fault *fault);

/* The row of a place: of its model, whose reference passes to the row also on false, or of the
 * reason why there is none. */
bool model_store_row(struct model_row *row, const struct model_place *place, struct model *model,
                     const char *reason, struct fault *fault);

/* Tells the metrics how many models there are. With "lock" held. */
void model_store_count(const struct model_store *store);

#endif
