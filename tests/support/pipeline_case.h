/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_case.h - one step of a tokenizer's pipeline, made from its node in JSON. */
#ifndef ATTND_PIPELINE_CASE_H
#define ATTND_PIPELINE_CASE_H

#include "models/tokenizer/pipeline.h"

struct pipeline_case {
    struct json_document document;
    const cJSON *node;
    struct arena arena;
    struct vocabulary vocabulary;
    struct pipeline_build build; /* for the function that reads the node */
    struct work_limit limit;     /* of a text that goes through the step */
    struct fault fault;
};

/* Returns a malloc'd copy of the text with each ` replaced by ", for JSON that is easy to read in
 * C. */
char *pipeline_case_json(const char *text);

/* Reads a node, written with ` for ". What is no JSON fails the test. */
void pipeline_case_open(struct pipeline_case *step, const char *node);
void pipeline_case_free(struct pipeline_case *step);

/* Fails the test unless `read` made the step, or refused it with a message that has `part`. */
void pipeline_case_assert(const struct pipeline_case *step, bool is_read);
void pipeline_case_assert_refused(const struct pipeline_case *step, bool is_read, const char *part);

#endif
