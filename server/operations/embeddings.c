/* SPDX-License-Identifier: Apache-2.0 */
/* embeddings.c - vectors of texts: /v1/embeddings in the form of OpenAI, and /embed in that of
 * text-embeddings-inference; in that form too the rows of their tokens, /embed_all. */
#include "operations/vector_call.h"

#include "base/base64.h"

#include <stddef.h>

#define AT(member)      offsetof(struct vector_asked, member)
#define COUNT_OF(array) ((int)(sizeof(array) / sizeof(array)[0]))

static bool read_inputs(struct field_reader *reader, const struct value *value, void *into)
{
    return prompts_read(reader, value, &((struct vector_asked *)into)->inputs);
}

#define ENUM_OF(NAME, NAMES, COUNT)                                                                \
    .name = #NAME, .kind = FIELD_ENUM, .names = (NAMES), .name_count = (COUNT)
#define COMMON_ROWS                                                                                \
    { .name = "model", .kind = FIELD_STRING, .offset = AT(model_name) },                           \
        { ENUM_OF(pooling, vector_poolings, VECTOR_POOLINGS), .offset = AT(pooling),               \
          .has = AT(has_pooling) },                                                                \
    {                                                                                              \
        .name = "dimensions", .kind = FIELD_INTEGER, .offset = AT(dimensions), .least = 1,         \
        .code = FAULT_OPTION                                                                       \
    }

static const struct field OPENAI_ROWS[] = {
    { .name = "input", .kind = FIELD_OWN, .own = read_inputs },
    { ENUM_OF(encoding_format, vector_encodings, VECTOR_ENCODINGS), .offset = AT(encoding) },
    { .name = "user", .kind = FIELD_STRING, .offset = AT(user) },
    COMMON_ROWS,
};

#define TEXT_ROWS                                                                                  \
    { .name = "inputs", .kind = FIELD_OWN, .own = read_inputs },                                   \
        { .name = "truncate",                                                                      \
          .kind = FIELD_BOOL,                                                                      \
          .offset = AT(truncate),                                                                  \
          .has = AT(has_truncate) },                                                               \
        { ENUM_OF(truncation_direction, vector_directions, VECTOR_DIRECTIONS),                     \
          .offset = AT(direction) },                                                               \
    {                                                                                              \
        .name = "prompt_name", .kind = FIELD_STRING, .offset = AT(prompt_name)                     \
    }

static const struct field EMBED_ROWS[] = {
    TEXT_ROWS,
    { .name = "normalize", .kind = FIELD_BOOL, .offset = AT(normalize), .has = AT(has_normalize) },
    COMMON_ROWS,
};

static const struct field ALL_ROWS[] = {
    TEXT_ROWS,
    { .name = "model", .kind = FIELD_STRING, .offset = AT(model_name) },
};

static const struct field_table openai_fields = { .rows = OPENAI_ROWS,
                                                  .count = COUNT_OF(OPENAI_ROWS),
                                                  .policy = FIELDS_LISTED,
                                                  .bytes = sizeof(struct vector_asked) };
static const struct field_table embed_fields = { .rows = EMBED_ROWS,
                                                 .count = COUNT_OF(EMBED_ROWS),
                                                 .policy = FIELDS_LISTED,
                                                 .bytes = sizeof(struct vector_asked) };

static const struct field_table all_fields = { .rows = ALL_ROWS,
                                               .count = COUNT_OF(ALL_ROWS),
                                               .policy = FIELDS_LISTED,
                                               .bytes = sizeof(struct vector_asked) };

static bool read_body(struct call *call, const struct field_table *table, const char *inputs_name,
                      struct fault *fault)
{
    struct vector_asked *asked = vector_call_read(call, table, inputs_name, fault);
    struct model *model;
    if (!asked || !vector_call_find_model(call, asked, vector_has_embedding, &model, fault)
        || !vector_call_make_items(call, asked, model, fault))
        return false;
    if (table == &all_fields)
        vector_call_answer_rows(call);
    else
        vector_call_embed(call, asked);
    return true;
}

static bool read_openai(struct call *call, struct fault *fault)
{
    return read_body(call, &openai_fields, "input", fault);
}

static bool read_texts(struct call *call, const struct field_table *table, struct fault *fault)
{
    if (!read_body(call, table, "inputs", fault))
        return false;
    vector_call_cut(call, vector_asked_of(call));
    return vector_call_add_prompt(call, vector_asked_of(call), fault);
}

static bool read_embed(struct call *call, struct fault *fault)
{
    return read_texts(call, &embed_fields, fault);
}

static bool read_all(struct call *call, struct fault *fault)
{
    return read_texts(call, &all_fields, fault);
}

/* -------------------------------------------------------------------- answers -- */

/* The floats, little-endian as they lie in memory, in base64. */
static void write_base64(struct text *text, const struct trace_tensor *vector)
{
    const struct byte_slice bytes = { vector->values, (size_t)vector->shape[0] * sizeof(float) };
    const size_t length = base64_length(bytes.size);
    char *room = text_reserve(text, length + 2);
    if (!room)
        return;
    room[0] = room[length + 1] = '"';
    base64_encode(room + 1, bytes);
    text->used += length + 2;
}

static bool write_openai(struct call *call, struct fault *fault)
{
    const struct trace_request *request = trace_request_of(call);
    struct text *text = &call->text;
    const int64_t tokens = vector_call_tokens(call);
    text_raw(text, "{\"object\":\"list\",\"data\":[");
    for (int64_t i = 0; i < request->item_count; i++) {
        const struct trace_tensor *vector = vector_call_at(call, i);
        text_raw(text, i > 0 ? "," : "");
        text_raw(text, "{\"object\":\"embedding\",\"index\":");
        text_integer(text, i);
        text_raw(text, ",\"embedding\":");
        if (vector_asked_of(call)->encoding == VECTOR_BASE64)
            write_base64(text, vector);
        else
            text_tensor(text, vector->values, 1, vector->shape);
        text_raw(text, "}");
    }
    text_raw(text, "],\"model\":");
    text_string(text, request->items[0].model->name);
    text_raw(text, ",\"usage\":{\"prompt_tokens\":");
    text_integer(text, tokens);
    text_raw(text, ",\"total_tokens\":");
    text_integer(text, tokens);
    text_raw(text, "}}\n");
    return text_finish(text, fault);
}

/* The tensor of each item. */
static bool write_tensors(struct call *call, vector_tensor *tensor, struct fault *fault)
{
    struct text *text = &call->text;
    text_raw(text, "[");
    for (int64_t i = 0; i < trace_request_of(call)->item_count; i++) {
        const struct trace_tensor *numbers = tensor(call, i);
        text_raw(text, i > 0 ? "," : "");
        text_tensor(text, numbers->values, numbers->rank, numbers->shape);
    }
    text_raw(text, "]\n");
    return text_finish(text, fault);
}

static bool write_embed(struct call *call, struct fault *fault)
{
    return write_tensors(call, vector_call_at, fault);
}

static bool write_all(struct call *call, struct fault *fault)
{
    return write_tensors(call, vector_call_rows_at, fault);
}

const struct operation embeddings_call = { .kind = &trace_kind,
                                           .formats = operation_formats_json,
                                           .read = read_openai,
                                           .explain = vector_call_explain,
                                           .finish = write_openai };
const struct operation embed_call = { .kind = &trace_kind,
                                      .formats = operation_formats_json,
                                      .read = read_embed,
                                      .explain = vector_call_explain,
                                      .finish = write_embed };
const struct operation embed_all_call = { .kind = &trace_kind,
                                          .formats = operation_formats_json,
                                          .read = read_all,
                                          .explain = vector_call_explain,
                                          .finish = write_all };
