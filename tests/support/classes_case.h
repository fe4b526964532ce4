/* SPDX-License-Identifier: Apache-2.0 */
/* classes_case.h - logits of classes of the daemon against a head in double, over the rows that the
 * daemon answers, which test_trace_*.c hold to their families' sources. */
#ifndef CLASSES_CASE_H
#define CLASSES_CASE_H

#include "forward_reference.h"

#include <cjson/cJSON.h>

/* What a model answers: logits of a text, or of each token where is_of_rows; labels as JSON. */
struct classes_case {
    bool is_of_rows;
    const char *labels, *activation;
};

/* The member, which there must be. */
const cJSON *classes_case_member(const cJSON *object, const char *name);

/* final_hidden_states of a trace of these fields. */
struct rows classes_case_rows(const char *model, const char *fields);

/* The logits of the trace must be want, and the probabilities what activation makes of it. */
void classes_case_expect(const char *model, const char *fields, const struct classes_case *of,
                         struct rows want);

/* Makes the checkpoint, serves it and compares it with its head over the rows. */
void classes_case_check(const char *name, const char *config, const char *tensors,
                        const char *fields, const struct classes_case *of,
                        struct rows (*head)(struct rows rows));

#endif
