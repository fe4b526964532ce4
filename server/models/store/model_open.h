/* SPDX-License-Identifier: Apache-2.0 */
/* model_open.h - makes a model from bytes in memory or from files on disk. */
#ifndef ATTND_MODEL_OPEN_H
#define ATTND_MODEL_OPEN_H

#include "models/model/model.h"

/* Makes a model from the bytes of a safetensors or GGUF file. config is the JSON text of its
 * config, one of our own or that of a published checkpoint (checkpoint.h); NULL: the config is in
 * the metadata, under "attnd" or, of a GGUF file, all of it. The model uses the bytes in place
 * where it can, so they must stay until the model is freed, which calls release (may be NULL) with
 * context. On false nothing is kept and release is not called. */
bool model_create(struct model **model, const char *name, const char *source, const void *bytes,
                  size_t size, const char *config, void (*release)(void *context), void *context,
                  struct fault *fault);

/* A model's files on disk. */
struct model_files {
    const char *path;        /* a safetensors file, the index of its shards, or a GGUF file or the
                                first of its parts */
    const char *config_path; /* NULL: the config is in the metadata */
    const char *config;      /* the text of a config to use instead of any other; NULL: none */
    bool is_folder;          /* they are a folder's, where config.json may be */
    const char *root;        /* shards may link to files below it; NULL: the index's directory */
};

/* Makes a model from files on disk, which it maps. Clients are shown source as its origin. */
bool model_load_files(struct model **model, const char *name, const char *source,
                      const struct model_files *files, struct fault *fault);

/* The same with only a path and a config_path. */
bool model_load(struct model **model, const char *name, const char *source, const char *path,
                const char *config_path, struct fault *fault);

/* The two built-in models, which are always served. demo is the worked example of a well-known
 * tutorial, sdpa is attention without parameters. */
bool model_create_demo(struct model **model, struct fault *fault);
bool model_create_sdpa(struct model **model, struct fault *fault);

#endif
