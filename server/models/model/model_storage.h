/* SPDX-License-Identifier: Apache-2.0 */
/* model_storage.h - the private part of a model, for the files that make and free one. */
#ifndef ATTND_MODEL_STORAGE_H
#define ATTND_MODEL_STORAGE_H

#include "base/arena.h"
#include "models/model/model.h"
#include "models/model/model_converted.h"
#include "models/model/model_mapping.h"

#include <stdatomic.h>

struct model_storage {
    _Atomic int references;
    struct arena arena; /* layers, small converted parameters, source */
    struct model_converted copies;
    void (*release)(void *context);
    void *context;
    struct model_mapping *mapping; /* of its files; NULL: none is mapped */
    bool is_retired;               /* its files count in model_retired_bytes() */

    /* Of model_identity(). */
    _Atomic int identity_state;
    char identity[SHA256_HEX_BYTES];
};

/* Makes a model of layer_count layers, all zero, with one reference, which is the caller's. */
bool model_storage_create(struct model **model, const char *name, const char *source,
                          int64_t layer_count, struct fault *fault);

#endif
