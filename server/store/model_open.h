/* model_open.h - a model from its bytes, or from its files on disk. */
#ifndef ATTND_MODEL_OPEN_H
#define ATTND_MODEL_OPEN_H

#include "model/model.h"

/* From the bytes of a safetensors file whose config is under "attnd" in its
 * metadata (config NULL), or with the JSON text of a config beside it: one of ours or that of a
 * published checkpoint (checkpoint.h). The model
 * copies nothing that it can view: bytes must stay until the model goes; release
 * (may be NULL) is then called with context. On false nothing is kept and release is not called. */
bool model_create(struct model **model, const char *name, const char *source, const void *bytes,
                  size_t size, const char *config, void (*release)(void *context), void *context,
                  struct fault *fault);

/* A model's files on disk. */
struct model_files {
    const char *path;        /* a safetensors file, or the index of its shards */
    const char *config_path; /* NULL: the config is in the metadata, */
    const char *config;      /* or this text, which comes first */
    const char *root;        /* shards may be links to what is below it; NULL: beside the index */
};

/* From files on disk, mapped; source is where the model says it is from. */
bool model_load_files(struct model **model, const char *name, const char *source,
                      const struct model_files *files, struct fault *fault);

/* The same of a path and a config_path. */
bool model_load(struct model **model, const char *name, const char *source, const char *path,
                const char *config_path, struct fault *fault);

#endif
