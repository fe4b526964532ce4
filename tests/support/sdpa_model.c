/* SPDX-License-Identifier: Apache-2.0 */
#include "sdpa_model.h"
#include "test.h"

struct model *sdpa_model_open(struct model_store **models)
{
    const struct model_store_options no_directory = { .directory = NULL };
    struct model *model;
    struct fault fault;
    int failed_count;
    assert_true(model_store_create(models, &no_directory, &failed_count, &fault));
    assert_true(model_store_resolve_version(*models, NULL, "sdpa", "", &model, &fault));
    return model;
}

void sdpa_model_close(struct model_store *models, struct model *model)
{
    model_release(model);
    model_store_free(models);
}
