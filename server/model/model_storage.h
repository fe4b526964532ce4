/* model_storage.h - what a model keeps to itself, between model*.c only. */
#ifndef ATTND_MODEL_STORAGE_H
#define ATTND_MODEL_STORAGE_H

#include "base/arena.h"
#include "model/model.h"
#include "model/model_converted.h"
#include "model/model_mapping.h"

#include <stdatomic.h>

struct model_storage {
    _Atomic int references;
    struct arena arena; /* layers, converted parameters, source */
    struct model_converted copies;
    void (*release)(void *context);
    void *context;
    struct model_mapping *mapping; /* of its files, or NULL */
};

/* A model of so many layers, all zero, that nobody else knows yet; one reference. */
bool model_storage_create(struct model **model, const char *name, const char *source,
                          int64_t layer_count, struct fault *fault);

#endif
