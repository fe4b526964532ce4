/* SPDX-License-Identifier: Apache-2.0 */
/* model_access.c - see model_access.h. */
#include "call/model_access.h"

#include "access/access_key.h"

static bool shows(const void *key, const char *name)
{
    return access_key_may_infer(key, name);
}

struct model_view model_access_view(const struct access_key *key)
{
    return (struct model_view){ shows, key };
}

bool model_access_resolve(struct model_store *store, const struct access_key *key, const char *name,
                          const char *version, struct model **model, struct fault *fault)
{
    const struct model_view view = model_access_view(key);
    if (name && !access_check_model(key, name, fault))
        return false;
    return model_store_resolve_version(store, &view, name, version, model, fault);
}
