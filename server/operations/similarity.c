/* SPDX-License-Identifier: Apache-2.0 */
/* similarity.c - how near texts are to another, in the form of text-embeddings-inference:
 * /similarity. The sentences are the first items, and the one that they are compared with is the
 * last. */
#include "operations/trace.h"
#include "operations/vector_call.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Members of "inputs". */
#define SENTENCES "inputs/sentences"
#define SOURCE    "/inputs/source_sentence"

#define AT(member)            offsetof(struct vector_asked, member)
#define OF_INPUTS(member)     offsetof(struct vector_compared, member)
#define OF_PARAMETERS(member) offsetof(struct vector_parameters, member)
#define COUNT_OF(array)       ((int)(sizeof(array) / sizeof(array)[0]))

/* With room for the other sentence. */
static bool read_sentences(struct field_reader *reader, const struct value *value, void *into)
{
    struct prompts *inputs = &((struct vector_compared *)into)->sentences;
    const struct byte_slice *texts;
    int64_t count;
    if (!trace_read_byte_slices(reader, value, &texts, &count))
        return false;
    if (count < 1 || count >= PROMPTS_MAX)
        return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                            "%s has %" PRId64 " members; expected 1 to %d", reader->name, count,
                            PROMPTS_MAX - 1);
    inputs->list = arena_calloc(reader->arena, (size_t)count + 1, sizeof *inputs->list);
    if (!inputs->list)
        return fault_no_memory(reader->fault);
    inputs->count = count;
    inputs->is_list = true;
    for (int64_t i = 0; i < count; i++)
        inputs->list[i].text = texts[i];
    return true;
}

static const struct field INPUTS_ROWS[] = {
    { .name = "source_sentence", .kind = FIELD_BYTES, .offset = OF_INPUTS(source) },
    { .name = "sentences", .kind = FIELD_OWN, .own = read_sentences },
};
static const struct field_table inputs_fields = { .rows = INPUTS_ROWS,
                                                  .count = COUNT_OF(INPUTS_ROWS),
                                                  .policy = FIELDS_LISTED,
                                                  .bytes = sizeof(struct vector_compared) };

static const struct field PARAMETERS_ROWS[] = {
    { .name = "truncate",
      .kind = FIELD_BOOL,
      .offset = OF_PARAMETERS(truncate),
      .has = OF_PARAMETERS(has_truncate) },
    { .name = "truncation_direction",
      .kind = FIELD_ENUM,
      .offset = OF_PARAMETERS(direction),
      .names = vector_directions,
      .name_count = VECTOR_DIRECTIONS },
    { .name = "prompt_name", .kind = FIELD_STRING, .offset = OF_PARAMETERS(prompt_name) },
};
static const struct field_table parameters_fields = { .rows = PARAMETERS_ROWS,
                                                      .count = COUNT_OF(PARAMETERS_ROWS),
                                                      .policy = FIELDS_LISTED,
                                                      .bytes = sizeof(struct vector_parameters) };

static const struct field ROWS[] = {
    { .name = "inputs", .kind = FIELD_OBJECT, .offset = AT(compared), .inner = &inputs_fields },
    { .name = "parameters",
      .kind = FIELD_OBJECT,
      .offset = AT(parameters),
      .has = AT(has_parameters),
      .inner = &parameters_fields },
    { .name = "model", .kind = FIELD_STRING, .offset = AT(model_name) },
    { .name = "pooling",
      .kind = FIELD_ENUM,
      .offset = AT(pooling),
      .has = AT(has_pooling),
      .names = vector_poolings,
      .name_count = VECTOR_POOLINGS },
};
static const struct field_table similarity_fields = { .rows = ROWS,
                                                      .count = COUNT_OF(ROWS),
                                                      .policy = FIELDS_LISTED,
                                                      .bytes = sizeof(struct vector_asked) };

/* A fault at the prompt's name is at that of its object; false. */
static bool name_prompt(struct fault *fault)
{
    if (strcmp(fault->pointer, "/prompt_name") == 0)
        snprintf(fault->pointer, sizeof fault->pointer, "/parameters/prompt_name");
    return false;
}

static bool read_similarity(struct call *call, struct fault *fault)
{
    struct vector_asked *asked = vector_call_read(call, &similarity_fields, SENTENCES, fault);
    struct model *model;
    if (!asked)
        return false;
    if (!asked->compared.source.data)
        return fault_set_at(fault, SOURCE, FAULT_FIELD, "source_sentence is missing");
    asked->inputs.list[asked->inputs.count++].text = asked->compared.source;
    if (!vector_call_find_model(call, asked, vector_has_embedding, &model, fault)
        || !vector_call_make_items(call, asked, model, fault))
        return false;
    vector_call_embed(call, asked);
    vector_call_cut(call, asked);
    return vector_call_add_prompt(call, asked, fault) || name_prompt(fault);
}

/* Faults of the last item are of the source. */
static void explain_similarity(const struct call *call, struct fault *fault)
{
    const struct trace_request *request = trace_request_of(call);
    char last[FAULT_POINTER_MAX];
    if (strncmp(fault->pointer, "/inputs", strlen("/inputs")) == 0)
        return;
    vector_call_explain(call, fault);
    snprintf(last, sizeof last, "/" SENTENCES "/%" PRId64, request->item_count - 1);
    if (request->item_count > 0 && strncmp(fault->pointer, last, strlen(last)) == 0)
        snprintf(fault->pointer, sizeof fault->pointer, SOURCE);
}

/* The cosine of two vectors whose length is 1. */
static float dot(const struct trace_tensor *a, const struct trace_tensor *b)
{
    double sum = 0;
    for (int64_t i = 0; i < a->shape[0]; i++)
        sum += (double)a->values[i] * (double)b->values[i];
    return (float)sum;
}

static bool write_similarity(struct call *call, struct fault *fault)
{
    const int64_t sentences = trace_request_of(call)->item_count - 1;
    struct text *text = &call->text;
    text_raw(text, "[");
    for (int64_t i = 0; i < sentences; i++) {
        text_raw(text, i > 0 ? "," : "");
        text_float(text, dot(vector_call_at(call, i), vector_call_at(call, sentences)));
    }
    text_raw(text, "]\n");
    return text_finish(text, fault);
}

const struct operation similarity_call = { .kind = &trace_kind,
                                           .formats = operation_formats_json,
                                           .read = read_similarity,
                                           .explain = explain_similarity,
                                           .finish = write_similarity };
