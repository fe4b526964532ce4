/* trace_safetensors.c - see trace_safetensors.h: reads a body. */
#include "wire/trace_safetensors.h"

#include "base/names.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

/* A tensor of a body: an array, or a list of integers. */
struct tensor {
    const char *name;
    size_t array;                /* offset in struct trace_item of its infer_array; else 0 */
    size_t has, integers, count; /* offsets of the members of a list */
    bool may_be_negative;
};

#define ARRAY(name)                                                                                \
    {                                                                                              \
#name, offsetof(struct trace_item, name), 0, 0, 0, false                                   \
    }
#define LIST(list, one, may_be_negative)                                                           \
    {                                                                                              \
#list, 0, offsetof(struct trace_item, has_##list), offsetof(struct trace_item, list),      \
            offsetof(struct trace_item, one##_count), may_be_negative                              \
    }

static const struct tensor TENSORS[] = {
    LIST(tokens, token, false),
    LIST(token_types, token_type, false),
    LIST(decoder_tokens, decoder_token, false),
    ARRAY(pixels),
    ARRAY(features),
    ARRAY(embeddings),
    LIST(layers, layer, false),
    LIST(rows, row, true),
    LIST(positions, position, true),
};

enum { TENSOR_COUNT = sizeof TENSORS / sizeof TENSORS[0] };

bool trace_safetensors_fields(struct trace_call *call, const struct safetensors *file,
                              struct text *json, struct fault *fault)
{
    static const char *const TEXTS[] = { "model", "text", "pair", "decoder_text", NULL };
    struct v1_reader reader = { .arena = &call->request.arena, .fault = fault };
    return safetensors_body_fields(&reader, file->metadata, file->metadata_count, "__metadata__",
                                   TEXTS, json);
}

static bool read_list(struct v1_reader *reader, const struct tensor *tensor,
                      const struct safetensors_entry *entry, struct trace_item *item)
{
    bool *has = (bool *)((char *)item + tensor->has);
    const int64_t **list = (const int64_t **)((char *)item + tensor->integers);
    int64_t *count = (int64_t *)((char *)item + tensor->count), *integers;
    struct infer_array shape = { .data = NULL };
    if (*has)
        return safetensors_body_twice(reader);
    if (!safetensors_body_integers(reader, entry, &shape, &integers))
        return false;
    if (shape.rank != 1)
        return fault_set_at(reader->fault, reader->pointer, FAULT_SHAPE,
                            "%s has %d dimensions; expected one", reader->name, shape.rank);
    for (int64_t i = 0; i < shape.shape[0] && !tensor->may_be_negative; i++)
        if (integers[i] < 0)
            return fault_set_at(reader->fault, reader->pointer, FAULT_OPTION,
                                "%s is %" PRId64 " at element %" PRId64 "; expected 0 or more",
                                reader->name, integers[i], i);
    *has = true;
    *list = integers;
    *count = shape.shape[0];
    return true;
}

static bool unknown_tensor(struct v1_reader *reader)
{
    const char *known[TENSOR_COUNT];
    for (int i = 0; i < TENSOR_COUNT; i++)
        known[i] = TENSORS[i].name;
    const char *near = nearest_name(reader->name, known, TENSOR_COUNT);
    return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD,
                        "there is no tensor '%.60s'%s%s%s", reader->name,
                        near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static bool read_tensor(struct v1_reader *reader, const struct safetensors_entry *entry,
                        struct trace_item *item)
{
    int i = 0;
    v1_point_to(reader, entry->name);
    while (i < TENSOR_COUNT
           && (strlen(TENSORS[i].name) != entry->name_length
               || strcmp(TENSORS[i].name, entry->name) != 0))
        i++;
    if (i == TENSOR_COUNT)
        return unknown_tensor(reader);
    if (TENSORS[i].integers > 0)
        return read_list(reader, &TENSORS[i], entry, item);
    return safetensors_body_numbers(reader, entry, false,
                                    (struct infer_array *)((char *)item + TENSORS[i].array));
}

bool trace_safetensors_tensors(struct trace_call *call, const struct safetensors *file,
                               struct fault *fault)
{
    struct v1_reader reader = { .arena = &call->request.arena, .fault = fault };
    for (int64_t i = 0; i < file->entry_count; i++)
        if (!read_tensor(&reader, &file->entries[i], &call->request.items[0]))
            return false;
    return true;
}
