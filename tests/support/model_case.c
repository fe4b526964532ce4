/* SPDX-License-Identifier: Apache-2.0 */
/* model_case.c - see model_case.h. */
#include "model_case.h"
#include "test.h"

#include "fault_expect.h"
#include "models/store/model_open.h"

static bool make(struct model **model, const char *config, const char *tensors, struct fault *fault)
{
    size_t size;
    void *bytes = made_model(config, tensors, 0.5f, &size);
    if (model_create(model, "m", "test", bytes, size, NULL, free, bytes, fault))
        return true;
    free(bytes);
    return false;
}

struct model *model_case_make(const char *config, const char *tensors)
{
    struct model *model = NULL;
    struct fault fault;
    if (!make(&model, config, tensors, &fault))
        fail_msg("%s with %s: %s", config, tensors, fault.message);
    return model;
}

void model_case_expect_refused(const struct model_refusal *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct model_refusal *c = &cases[i];
        struct model *model;
        struct fault fault = { .code = FAULT_NONE };
        char what[512];
        snprintf(what, sizeof what, "%s with %s", c->config, c->tensors);
        if (make(&model, c->config, c->tensors, &fault))
            fail_msg("%s: taken", what);
        fault_expect(what, &fault, c->code, c->words, c->pointer);
    }
}
