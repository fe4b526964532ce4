/* wire_merge.c - see wire_merge.h. */
#include "wire/wire_merge.h"

#include "wire/v1_fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Reads one member of a part; the reader points at it. */
static bool read_member(struct v1_reader *reader, const cJSON *node, struct infer_part *part)
{
    static const char *const known[] = { "context", "lse" };
    if (strcmp(node->string, "context") == 0)
        return v1_read_array(reader, node, false, &part->context);
    if (strcmp(node->string, "lse") == 0)
        return v1_read_array(reader, node, true, &part->lse);
    return v1_unknown_field(reader, node->string, known, 2);
}

static bool read_part(struct v1_reader *reader, const cJSON *object, struct infer_part *part)
{
    const cJSON *node;
    if (!cJSON_IsObject(object)) {
        reader->name = "this part";
        return v1_wrong_type(reader, object, "an object of context and lse");
    }
    cJSON_ArrayForEach(node, object)
    {
        v1_point_to(reader, node->string);
        if (!read_member(reader, node, part))
            return false;
    }
    v1_point_to(reader, !part->context.data ? "context" : "lse");
    if (!part->context.data || !part->lse.data)
        return fault_set_at(reader->fault, reader->pointer, FAULT_FIELD, "%s is missing",
                            reader->name);
    return true;
}

static bool read_parts(struct v1_reader *reader, const cJSON *array)
{
    struct infer_item *item = reader->item;
    const cJSON *node;
    if (!cJSON_IsArray(array)
        || (cJSON_GetArraySize(array) && json_numbers_of(reader->document, array)))
        return v1_wrong_type(reader, array, "an array of parts");
    item->part_count = cJSON_GetArraySize(array);
    item->parts = arena_calloc(reader->arena, (size_t)item->part_count, sizeof *item->parts);
    if (!item->parts)
        return fault_no_memory(reader->fault);
    int64_t index = 0;
    cJSON_ArrayForEach(node, array)
    {
        char prefix[40];
        snprintf(prefix, sizeof prefix, "/parts/%" PRId64, index);
        reader->pointer[0] = '\0';
        if (!read_part(reader, node, &item->parts[index])) {
            fault_prefix_pointer(reader->fault, prefix);
            return false;
        }
        index++;
    }
    return true;
}

static bool read_field(struct v1_reader *reader, const cJSON *node)
{
    static const char *const known[] = { "model", "layer", "parts" };
    v1_point_to(reader, node->string);
    if (strcmp(node->string, "parts") == 0)
        return cJSON_IsNull(node) || read_parts(reader, node);
    if (strcmp(node->string, "model") == 0)
        return cJSON_IsNull(node) || v1_read_model(reader, node);
    if (strcmp(node->string, "layer") == 0)
        return cJSON_IsNull(node) || v1_read_layer(reader, node);
    return v1_unknown_field(reader, node->string, known, 3);
}

bool wire_merge_read_fields(struct infer_request *request, const struct json_document *document,
                            struct fault *fault)
{
    struct v1_reader reader = { .document = document,
                                .arena = &request->arena,
                                .nonfinite_allowed = request->nonfinite_allowed,
                                .request = request,
                                .fault = fault };
    const cJSON *node;
    if (!cJSON_IsObject(document->root))
        return fault_set(fault, FAULT_TYPE, "the body is %s; expected an object",
                         json_kind(document, document->root));
    request->items = arena_calloc(&request->arena, 1, sizeof *request->items);
    if (!request->items)
        return fault_no_memory(fault);
    request->item_count = 1;
    reader.item = &request->items[0];
    reader.item->outputs[ATTN_OUTPUT_CONTEXT] = true;
    reader.item->outputs[ATTN_OUTPUT_LSE] = true;
    cJSON_ArrayForEach(node, document->root)
    {
        if (!read_field(&reader, node))
            return false;
    }
    return true;
}

bool wire_merge_read(struct infer_request *request, const struct json_document *document,
                     struct fault *fault)
{
    if (!wire_merge_read_fields(request, document, fault))
        return false;
    if (!request->items[0].parts)
        return fault_set_at(fault, "/parts", FAULT_FIELD, "parts is missing");
    if (request->items[0].part_count == 0)
        return fault_set_at(fault, "/parts", FAULT_SHAPE, "parts is empty; expected one or more");
    return true;
}

static void write_output(const struct infer_item *item, enum attn_output output, struct text *text)
{
    int64_t shape[3];
    const int rank = infer_output_shape(item, output, shape);
    text_key(text, infer_output_names[output]);
    text_tensor(text, item->results[output], rank, shape);
}

void wire_merge_write(const struct infer_request *request, struct text *text)
{
    const struct infer_item *item = &request->items[0];
    text_raw(text, "{");
    write_output(item, ATTN_OUTPUT_CONTEXT, text);
    text_raw(text, ",");
    write_output(item, ATTN_OUTPUT_LSE, text);
    text_raw(text, "}\n");
}
