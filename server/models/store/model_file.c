/* SPDX-License-Identifier: Apache-2.0 */
/* model_file.c - writes config and parameters as safetensors.
 *
 * The config goes into the metadata unchanged. Only mistakes that a safetensors file cannot have
 * are refused here: wrong kinds of JSON values, ragged rows, unknown names. The file is checked
 * like any other when it is opened. */
#include "models/store/model_file.h"

#include "base/names.h"
#include "formats/format.h"
#include "models/model/model_config.h"
#include "models/model/model_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void pointer_of(const char *name, char pointer[FAULT_POINTER_MAX])
{
    const int used = snprintf(pointer, FAULT_POINTER_MAX, "/parameters");
    fault_pointer_append(pointer, (size_t)used, name);
}

static bool read_parameter(struct safetensors_tensor *tensor, const struct value *value,
                           struct fault *fault)
{
    static const char EXPECTED[] = "an array of numbers";
    const char *name = value->name;
    struct field_reader reader = { .name = name, .fault = fault };
    pointer_of(name, reader.pointer);
    const struct json_numbers *numbers = field_find_rows(&reader, value, EXPECTED, false);
    if (!numbers || !field_expect_numbers(&reader, numbers, false)
        || !field_find_numbers(&reader, value, EXPECTED))
        return false;
    if (numbers->rank > 2)
        return fault_set_at(fault, reader.pointer, FAULT_SHAPE,
                            "%.60s has %d dimensions; expected rows of numbers, or for a bias one "
                            "row",
                            name, numbers->rank);
    *tensor = (struct safetensors_tensor){
        .name = name,
        .rank = numbers->rank,
        .shape = { numbers->shape[0], numbers->rank > 1 ? numbers->shape[1] : 0 },
        .values = numbers->values,
    };
    return true;
}

/* Where the config has no "tensors", every name must be one of ours. */
static bool check_name(const char *name, const struct model_config *config, struct fault *fault)
{
    char buffer[MODEL_NAMES_BYTES], pointer[FAULT_POINTER_MAX];
    const char *nearest;
    if (config->tensors
        || model_names_known(name, config->layers, config->attention->allowed, buffer, &nearest))
        return true;
    pointer_of(name, pointer);
    if (nearest)
        return fault_set_at(fault, pointer, FAULT_FIELD,
                            "%s attention has no parameter '%.60s'; did you mean '%s'?",
                            config->attention->name, name, nearest);
    return fault_set_at(
        fault, pointer, FAULT_FIELD, "%s attention has no parameter '%.60s'; expected %s%s, ...",
        config->attention->name, name, config->layers > 1 ? "layers.N." : "",
        config->attention->is_dot ? "q_proj.weight, k_proj.bias" : config->attention->widths);
}

static bool check_members(const cJSON *root, struct fault *fault)
{
    static const char *const KNOWN[] = { "config", "parameters" };
    char pointer[FAULT_POINTER_MAX];
    if (!cJSON_IsObject(root))
        return fault_set(fault, FAULT_TYPE,
                         "the body is not an object; expected {\"config\":..., "
                         "\"parameters\":...}");
    for (const cJSON *node = root->child; node; node = node->next) {
        if (strcmp(node->string, KNOWN[0]) == 0 || strcmp(node->string, KNOWN[1]) == 0)
            continue;
        const char *nearest = nearest_name(node->string, KNOWN, 2);
        snprintf(pointer, sizeof pointer, "/%.*s", (int)strcspn(node->string, "/~"), node->string);
        return fault_set_at(fault, pointer, FAULT_FIELD, "there is no field '%.60s'%s%s%s",
                            node->string, nearest ? "; did you mean '" : "; expected config and ",
                            nearest ? nearest : "parameters", nearest ? "'?" : "");
    }
    for (int i = 0; i < 2; i++) {
        const cJSON *node = cJSON_GetObjectItemCaseSensitive(root, KNOWN[i]);
        if (cJSON_IsObject(node))
            continue;
        snprintf(pointer, sizeof pointer, "/%s", KNOWN[i]);
        return node ? fault_set_at(fault, pointer, FAULT_TYPE, "%s is not an object", KNOWN[i])
                    : fault_set(fault, FAULT_FIELD, "%s is missing", KNOWN[i]);
    }
    return true;
}

static bool write_file(void **bytes, size_t *size, const struct json_document *document,
                       const cJSON *parameters, const char *config_text,
                       const struct model_config *config, struct fault *fault)
{
    struct message message;
    struct arena arena;
    arena_init(&arena, SIZE_MAX);
    bool good = format_json_message(document, parameters, &arena, &message, fault);
    struct safetensors_tensor *tensors =
        good ? arena_calloc(&arena, (size_t)message.count, sizeof *tensors) : NULL;
    if (good && !tensors)
        good = fault_no_memory(fault);
    for (int64_t i = 0; good && i < message.count; i++)
        good = check_name(message.values[i].name, config, fault)
               && read_parameter(&tensors[i], &message.values[i], fault);
    good =
        good && safetensors_write(bytes, size, tensors, message.count, "attnd", config_text, fault);
    arena_free(&arena);
    return good;
}

/* Puts a list of numbers in place of the node that represents it in the parsed document. */
static bool restore_list(cJSON *object, cJSON *node, const struct json_numbers *numbers,
                         struct fault *fault)
{
    if (numbers->rank != 1 || numbers->has_bool || numbers->ragged_depth > 0
        || numbers->count > MODEL_ROPE_PAIRS_MAX)
        return fault_set(fault, FAULT_TYPE, "%.60s is not a list of at most %d numbers",
                         node->string, MODEL_ROPE_PAIRS_MAX);
    cJSON *list = cJSON_CreateFloatArray(numbers->values, (int)numbers->count);
    if (cJSON_ReplaceItemInObjectCaseSensitive(object, node->string, list))
        return true;
    cJSON_Delete(list);
    return fault_no_memory(fault);
}

/* Restores the lists of numbers in a copy of an object. Other lists are in the copy already. */
static bool restore_lists(const struct json_document *document, cJSON *object, struct fault *fault)
{
    for (cJSON *node = object->child, *next; node; node = next) {
        const struct json_numbers *numbers = json_numbers_of(document, node);
        next = node->next;
        if (numbers && numbers->count > 0 && !restore_list(object, node, numbers, fault))
            return false;
        if (cJSON_IsObject(node) && !restore_lists(document, node, fault))
            return false;
    }
    return true;
}

/* The config as JSON text; malloc'd, the caller's; NULL at a fault. */
static char *write_config(const struct json_document *document, struct fault *fault)
{
    const cJSON *config = cJSON_GetObjectItemCaseSensitive(document->root, "config");
    cJSON *copy = cJSON_Duplicate(config, true);
    char *text = NULL;
    const bool is_whole =
        copy && json_check_finite(document, config, fault) && restore_lists(document, copy, fault);
    if (is_whole)
        text = cJSON_PrintUnformatted(copy);
    if (!copy || (is_whole && !text))
        fault_no_memory(fault);
    else if (!is_whole && fault->code != FAULT_MEMORY)
        fault_prefix_pointer(fault, "/config");
    cJSON_Delete(copy);
    return text;
}

bool model_file_from_json(void **bytes, size_t *size, const struct json_document *document,
                          struct fault *fault)
{
    struct model_config config;
    if (!check_members(document->root, fault))
        return false;
    char *text = write_config(document, fault);
    if (!text)
        return false;
    bool good = model_config_read(&config, text, strlen(text), fault);
    if (good) {
        const cJSON *parameters = cJSON_GetObjectItemCaseSensitive(document->root, "parameters");
        good = write_file(bytes, size, document, parameters, text, &config, fault);
        model_config_free(&config);
    }
    free(text);
    return good;
}
