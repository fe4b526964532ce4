/* SPDX-License-Identifier: Apache-2.0 */
/* model_store.h - the models that are served: the built-in ones and those of a directory.
 *
 * A new model is made whole and then swapped in under a lock: a name resolves to the old model or
 * to the new one, never to something in between. Thread-safe. Functions that change the models may
 * take long, so a connection's thread must not call them. */
#ifndef ATTND_MODEL_STORE_H
#define ATTND_MODEL_STORE_H

#include "models/model/model.h"

/* The models that a caller may see. Functions that take a view treat all other models as if they
 * were not there. */
struct model_view {
    bool (*shows)(const void *context, const char *name);
    const void *context;
};

/* Whether a view shows the models of a name; a view of NULL shows all. */
static inline bool model_view_shows(const struct model_view *view, const char *name)
{
    return !view || view->shows(view->context, name);
}

struct model_store;

struct model_store_options {
    const char *directory;  /* must outlive the store; NULL: the built-in models alone */
    const char *model_name; /* for a directory that is itself one model; NULL: its own name */
};

/* Creates the store with the built-in models and loads those of the directory, in the order of
 * their names. A version that fails to load is listed as UNAVAILABLE with the reason, one whose
 * name no model can have is only logged; *failed_count is the number of both. False only where
 * there can be no store: no memory, or a directory that cannot be read. */
bool model_store_create(struct model_store **store, const struct model_store_options *options,
                        int *failed_count, struct fault *fault);
void model_store_free(struct model_store *store);

/* "a, b and 7 more": the models that failed to load when the store was created. "": none. */
const char *model_store_failed_names(const struct model_store *store);

/* Finds the model of that name, the highest version that can be used, and retains it for the
 * caller; name NULL: the only model that is not built in. Looks only at what the view shows. The
 * fault is not_found, with the names that there are; field, where name is NULL and there is not one
 * such model; or loading, with the reason why the model cannot be used. */
bool model_store_resolve(struct model_store *store, const struct model_view *view, const char *name,
                         struct model **model, struct fault *fault);

/* The same for one version, a decimal number as in a path; "": the highest that can be used. */
bool model_store_resolve_version(struct model_store *store, const struct model_view *view,
                                 const char *name, const char *version, struct model **model,
                                 struct fault *fault);

/* Validates bytes (a safetensors or GGUF file) whole, writes it to <directory>/<name>.safetensors
 * or <name>.gguf by temporary file, fsync and rename, and swaps it in. *created: there was none of
 * that name. *model is the new model, retained for the caller. */
bool model_store_put(struct model_store *store, const char *name, const void *bytes, size_t size,
                     bool *created, struct model **model, struct fault *fault);

bool model_store_delete(struct model_store *store, const char *name, struct fault *fault);

/* Reads all versions of that name from the directory, also those that are served already, and swaps
 * them in. The old model of a version serves until then. Where the new one cannot be loaded, the
 * old one keeps serving and is listed with the reason. A version whose files were removed is taken
 * out, unless nothing else of that name can serve. config is the JSON text of a config to use in
 * place of the model's own until the next load; NULL: the model's own. */
bool model_store_load(struct model_store *store, const char *name, const char *config,
                      struct fault *fault);

/* Takes a model out of service, all its versions; its files and its name in the listings stay. */
bool model_store_unload(struct model_store *store, const char *name, struct fault *fault);

/* Makes the store follow the directory: loads models that are new, have changed or did not load
 * before, as model_store_load() does, and takes out models whose files were removed. Unloaded
 * models stay unloaded. Asks should_stop (may be NULL) before each model, and ends early where it
 * is true. False where the directory cannot be read, or has become one model or stopped being one:
 * that is logged, and the models go on serving and are listed with the reason. */
bool model_store_rescan(struct model_store *store, bool (*should_stop)(void));

/* The objects of GET /v1/models and GET /v1/models/{model}. */
void model_store_describe_all(struct model_store *store, const struct model_view *view,
                              struct text *text);
bool model_store_describe(struct model_store *store, const struct model_view *view,
                          const char *name, struct text *text, struct fault *fault);

/* The versions of a name that can be used, as a JSON array of strings. */
void model_store_versions(struct model_store *store, const char *name, struct text *text);

/* One version of a name. */
struct model_listing {
    const char *name;
    int64_t version;
    bool is_default;           /* the name alone means it */
    const char *state;         /* "READY", "LOADING" or "UNAVAILABLE" */
    const struct model *model; /* NULL unless it is READY */
    const char *reason;        /* NULL where it is READY */
    const char *refused;       /* READY, but not what is on disk now: the reason; else NULL */
};

/* Calls visit for every version, in the order of names and versions. The store is locked meanwhile:
 * visit must not call it. */
void model_store_each(struct model_store *store, const struct model_view *view,
                      void (*visit)(void *context, const struct model_listing *listing),
                      void *context);

#endif
