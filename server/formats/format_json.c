/* SPDX-License-Identifier: Apache-2.0 */
/* format_json.c - JSON to messages: the values of the tree, and arrays of numbers as the reader of
 * the text has made them.
 *
 * A value takes 32 bytes beside the 64 and more of its node. */
#include "formats/format.h"

#include "formats/writer.h"

#include <string.h>

static int64_t count_children(const cJSON *node)
{
    int64_t count = 0;
    for (const cJSON *child = node->child; child; child = child->next)
        count++;
    return count;
}

static bool read_node(const struct json_document *document, const cJSON *node, struct arena *arena,
                      struct value *value, struct fault *fault)
{
    const struct json_numbers *numbers = json_numbers_of(document, node);
    if (numbers) {
        value->kind = VALUE_NUMBERS;
        value->numbers = (struct json_numbers *)numbers;
        return true;
    }
    if (cJSON_IsString(node)) {
        value->kind = VALUE_STRING;
        value->string = node->valuestring;
        return true;
    }
    if (cJSON_IsArray(node) || cJSON_IsObject(node)) {
        value->kind = cJSON_IsArray(node) ? VALUE_LIST : VALUE_OBJECT;
        return format_json_message(document, node, arena, &value->inner, fault);
    }
    value->kind = cJSON_IsNumber(node) ? VALUE_NUMBER
                  : cJSON_IsBool(node) ? VALUE_BOOL
                                       : VALUE_NULL;
    if (value->kind == VALUE_BOOL)
        value->flag = cJSON_IsTrue(node);
    else
        value->number = node->valuedouble;
    return true;
}

bool format_json_message(const struct json_document *document, const cJSON *object,
                         struct arena *arena, struct message *message, struct fault *fault)
{
    message->count = count_children(object);
    message->values = arena_alloc(arena, (size_t)message->count * sizeof *message->values);
    if (!message->values)
        return fault_no_memory(fault);
    struct value *value = message->values;
    for (const cJSON *child = object->child; child; child = child->next, value++) {
        value->name = child->string;
        if (!read_node(document, child, arena, value, fault))
            return false;
    }
    return true;
}

static bool read_json(struct format_body *body, const struct field_table *table,
                      struct message *message, struct fault *fault)
{
    const struct json_options options = { .nonfinite_allowed = body->nonfinite_allowed,
                                          .nul_is_kept = body->nul_is_kept,
                                          .values_max = JSON_REQUEST_VALUES_MAX,
                                          .memory = body->memory };
    (void)table;
    body->documents = arena_calloc(body->arena, 1, sizeof *body->documents);
    if (!body->documents)
        return fault_no_memory(fault);
    struct json_document *document = &body->documents[body->document_count++];
    if (!json_read(document, body->bytes.data ? body->bytes.data : "", body->bytes.size, &options,
                   fault))
        return false;
    if (!cJSON_IsObject(document->root))
        return fault_set(fault, FAULT_TYPE, "the body is %s; expected an object",
                         json_kind(document, document->root));
    return format_json_message(document, document->root, body->arena, message, fault);
}

const struct format format_json = { .content_type = "application/json",
                                    .writer = &writer_json,
                                    .read = read_json };

/* ------------------------------------------------------- texts without types -- */

static bool has_nul(const struct safetensors_pair *pair)
{
    return strlen(pair->key) != pair->key_length || strlen(pair->value) != pair->value_length;
}

static bool read_text(struct format_body *body, const struct field_table *table, const char *place,
                      const struct safetensors_pair *pair, struct value *value, struct fault *fault)
{
    const struct json_options options = { .values_max = JSON_REQUEST_VALUES_MAX,
                                          .memory = body->memory };
    struct json_document *document = &body->documents[body->document_count];
    char pointer[FAULT_POINTER_MAX];
    *value = (struct value){ .name = pair->key, .kind = VALUE_STRING, .string = pair->value };
    fault_pointer_append(pointer, 0, pair->key);
    if (has_nul(pair))
        return fault_set_at(fault, pointer, FAULT_FIELD, "'%.60s' in %s holds a NUL character",
                            pair->key, place);
    if (field_is_text(table, pair->key))
        return true;
    if (json_read(document, pair->value, pair->value_length, &options, fault)) {
        body->document_count++;
        return read_node(document, document->root, body->arena, value, fault);
    }
    return fault->code != FAULT_MEMORY
           && fault_set_at(fault, pointer, FAULT_TYPE,
                           "%.60s in %s is '%.60s'; expected the field's value as JSON", pair->key,
                           place, pair->value);
}

bool format_read_texts(struct format_body *body, const struct field_table *table, const char *place,
                       const struct safetensors_pair *pairs, int64_t count, struct message *message,
                       struct fault *fault)
{
    const size_t own = (size_t)body->document_count;
    struct json_document *documents =
        arena_calloc(body->arena, own + (size_t)count, sizeof *documents);
    if (!documents)
        return fault_no_memory(fault);
    if (own > 0)
        memcpy(documents, body->documents, own * sizeof *documents);
    body->documents = documents;
    for (int64_t i = 0; i < count; i++) {
        if (strcmp(pairs[i].key, "format") == 0)
            continue;
        if (!read_text(body, table, place, &pairs[i], &message->values[message->count], fault))
            return false;
        message->count++;
    }
    return true;
}

void format_body_free(struct format_body *body)
{
    for (int64_t i = 0; i < body->document_count; i++)
        json_free(&body->documents[i]);
    body->document_count = 0;
    if (body->file)
        safetensors_free(body->file);
    body->file = NULL;
}
