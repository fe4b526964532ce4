/* model_store.h - the models that are served: the built-in ones and a directory.
 *
 * Every change is made whole and swapped in under one lock: a name resolves to
 * the old model or to the new one, never to something between. Thread-safe. */
#ifndef ATTND_MODEL_STORE_H
#define ATTND_MODEL_STORE_H

#include "model/model.h"

struct model_store;

/* What changes the models may take its time: none of it is for a connection's thread. */
struct model_store_options {
    const char *directory;  /* must outlive the store; NULL: the built-in models alone */
    const char *model_name; /* for a directory that is itself one model; NULL: its own name */
};

/* Creates the store with the built-in models and loads the directory, in name order. A version that
 * fails to load is listed as UNAVAILABLE with its reason; *failed_count says how many. False only
 * where the store cannot be at all (no memory, a directory that cannot be read). */
bool model_store_create(struct model_store **store, const struct model_store_options *options,
                        int *failed_count, struct fault *fault);
void model_store_free(struct model_store *store);

/* The model of that name, its highest version that loaded, retained; name NULL: the only model that
 * is not built in. not_found names what there is; a model that failed to load is 503 loading with
 * its reason. */
bool model_store_resolve(struct model_store *store, const char *name, struct model **model,
                         struct fault *fault);

/* The same of a version as it is written in a path, in decimal; "" is the highest that loaded. */
bool model_store_resolve_version(struct model_store *store, const char *name, const char *version,
                                 struct model **model, struct fault *fault);

/* Validates bytes (a safetensors file) whole, writes it to <directory>/<name>.safetensors by
 * temporary file, fsync and rename, and swaps it in. *created: there was none of that name. */
bool model_store_put(struct model_store *store, const char *name, const void *bytes, size_t size,
                     bool *created, struct model **model, struct fault *fault);

bool model_store_delete(struct model_store *store, const char *name, struct fault *fault);

/* Reads all versions of that name from the directory, whether they are served already or not, and
 * swaps them in; until then, and where one is not good, the old one serves and is listed with the
 * reason. A version that has gone from the disk is taken out, unless nothing else of that name can
 * serve. config (may be NULL) is the JSON text of a config that stands in for the model's own until
 * it is loaded again. */
bool model_store_load(struct model_store *store, const char *name, const char *config,
                      struct fault *fault);

/* Takes a model out of service, all its versions; its files and its name in the listings stay. */
bool model_store_unload(struct model_store *store, const char *name, struct fault *fault);

/* Makes the store what the directory is now: reads what is new, what has changed and what did not
 * load before, as model_store_load() does, and takes out the models whose files are gone. What was
 * unloaded stays so. Ends early, between two models, where should_stop (may be NULL) says so. False
 * where the directory cannot be read, which is logged, and nothing has changed. */
bool model_store_rescan(struct model_store *store, bool (*should_stop)(void));

/* The objects of GET /v1/models and GET /v1/models/{model}. */
void model_store_describe_all(struct model_store *store, struct text *text);
bool model_store_describe(struct model_store *store, const char *name, struct text *text,
                          struct fault *fault);

/* The versions of a name that can be used, as a JSON array of strings. */
void model_store_versions(struct model_store *store, const char *name, struct text *text);

/* A version of a name of the store. */
struct model_listing {
    const char *name;
    int64_t version;
    bool is_default;           /* what the name alone stands for */
    const char *state;         /* "READY", "LOADING" or "UNAVAILABLE" */
    const struct model *model; /* NULL unless it is READY */
    const char *reason;        /* NULL where it is READY */
    const char *refused; /* READY, but what is on disk now is not what serves: why; else NULL */
};

/* Calls visit for every version, by name and version. */
void model_store_each(struct model_store *store,
                      void (*visit)(void *context, const struct model_listing *listing),
                      void *context);

#endif
