/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_case.c - a step of a pipeline on its own. */
#include "pipeline_case.h"
#include "test.h"

char *pipeline_case_json(const char *text)
{
    char *json = strdup(text);
    assert_non_null(json);
    for (char *c = json; *c; c++)
        if (*c == '`')
            *c = '"';
    return json;
}

void pipeline_case_open(struct pipeline_case *step, const char *node)
{
    char *json = pipeline_case_json(node);
    *step = (struct pipeline_case){ 0 };
    arena_init(&step->arena, SIZE_MAX);
    work_limit_init(&step->limit, NULL);
    if (!json_read(&step->document, json, strlen(json), &(struct json_options){ 0 }, &step->fault))
        fail_msg("%s: %s", json, step->fault.message);
    free(json);
    step->node = step->document.root;
    step->build = (struct pipeline_build){
        .file = "tokenizer.json",
        .document = &step->document,
        .arena = &step->arena,
        .vocabulary = &step->vocabulary,
        .fault = &step->fault,
    };
}

void pipeline_case_free(struct pipeline_case *step)
{
    for (int64_t i = 0; i < step->build.regex_count; i++)
        regex_free(step->build.regexes[i]);
    free(step->build.regexes);
    vocabulary_free(&step->vocabulary);
    arena_free(&step->arena);
    json_free(&step->document);
}

void pipeline_case_assert(const struct pipeline_case *step, bool is_read)
{
    if (!is_read)
        fail_msg("%s", step->fault.message);
}

void pipeline_case_assert_refused(const struct pipeline_case *step, bool is_read, const char *part)
{
    if (is_read)
        fail_msg("a node is taken that must be refused: \"%s\"", part);
    if (!strstr(step->fault.message, part))
        fail_msg("\"%s\" is not in \"%s\"", part, step->fault.message);
}
