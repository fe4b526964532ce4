/* SPDX-License-Identifier: Apache-2.0 */
/* model_case.h - a model made of a config and a list of tensors, or the fault that refuses them. */
#ifndef MODEL_CASE_H
#define MODEL_CASE_H

#include "made_model.h"
#include "models/model/model.h"

/* The model of made_model(). The model owns the file's bytes, and every number is 0.5. Fails the
 * test if the model is refused. */
struct model *model_case_make(const char *config, const char *tensors);

struct model_refusal {
    const char *config, *tensors;
    enum fault_code code;
    const char *words, *pointer;
};

/* Fails the test unless each case is refused with its fault. */
void model_case_expect_refused(const struct model_refusal *cases, size_t count);

#endif
