/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_gguf_fields.c - values of metadata as fields of a config.json. */
#include "models/checkpoint/checkpoint_gguf_row.h"

#include "models/model/model_config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES = 160 };

const struct gguf_value *checkpoint_gguf_find(const struct checkpoint_gguf_file *file,
                                              const char *key)
{
    char whole[KEY_BYTES];
    snprintf(whole, sizeof whole, "%.40s.%.100s", file->row->architecture, key);
    return gguf_find(file->metadata, whole);
}

bool checkpoint_gguf_has(const struct checkpoint_gguf_file *file, const char *name)
{
    return model_tensors_find(file->tensors, name) != NULL;
}

double checkpoint_gguf_number(const struct checkpoint_gguf_file *file, const char *key,
                              double otherwise)
{
    double number;
    const struct gguf_value *value = checkpoint_gguf_find(file, key);
    return value && gguf_number(value, &number) ? number : otherwise;
}

double checkpoint_gguf_number_of_layer(const struct checkpoint_gguf_file *file, const char *key,
                                       int64_t layer, double otherwise)
{
    const struct gguf_value *value = checkpoint_gguf_find(file, key);
    struct gguf_value element;
    double number = otherwise;
    bool flag;
    if (!value)
        return otherwise;
    element = *value;
    if (value->type == GGUF_ARRAY) {
        if (layer < 0 || layer >= value->count)
            return otherwise;
        element = gguf_element(value, layer);
    }
    if (gguf_flag(&element, &flag))
        return flag;
    return gguf_number(&element, &number) ? number : otherwise;
}

/* The decimal number of fewest digits that is this float; other doubles stay. */
static double shortest(double value)
{
    char text[40];
    if (value != (double)(float)value)
        return value;
    for (int digits = 1; digits < 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtof(text, NULL) == (float)value)
            return strtod(text, NULL);
    }
    return value;
}

bool checkpoint_gguf_add_item(const struct checkpoint_gguf_file *file, cJSON *object,
                              const char *name, cJSON *item)
{
    if (item && cJSON_AddItemToObject(object, name, item))
        return true;
    cJSON_Delete(item);
    return fault_no_memory(file->fault);
}

bool checkpoint_gguf_add_number(const struct checkpoint_gguf_file *file, cJSON *object,
                                const char *name, double value)
{
    return checkpoint_gguf_add_item(file, object, name, cJSON_CreateNumber(shortest(value)));
}

bool checkpoint_gguf_add_flag(const struct checkpoint_gguf_file *file, const char *name, bool flag)
{
    return checkpoint_gguf_add_item(file, file->config, name, cJSON_CreateBool(flag));
}

bool checkpoint_gguf_add_text(const struct checkpoint_gguf_file *file, const char *name,
                              const char *text)
{
    return checkpoint_gguf_add_item(file, file->config, name, cJSON_CreateString(text));
}

bool checkpoint_gguf_refuse(const struct checkpoint_gguf_file *file, const char *field,
                            const char *key, const char *what)
{
    char pointer[FAULT_POINTER_MAX];
    snprintf(pointer, sizeof pointer, "/config/%s", field);
    return fault_set_at(file->fault, pointer, FAULT_OPTION,
                        "the GGUF file's metadata %s '%s.%.60s', which is %.40s", what,
                        file->row->architecture, key, field);
}

/* Of a list with a value for each layer all must be equal. */
static bool take_element(struct gguf_value *value)
{
    const struct gguf_value list = *value;
    double first, other;
    if (list.count < 1)
        return false;
    *value = gguf_element(&list, 0);
    for (int64_t i = 1; i < list.count; i++) {
        const struct gguf_value next = gguf_element(&list, i);
        if (!gguf_number(value, &first) || !gguf_number(&next, &other) || first != other)
            return false;
    }
    return true;
}

bool checkpoint_gguf_add_value(const struct checkpoint_gguf_file *file, const char *field,
                               const char *key, const struct gguf_value *from)
{
    struct gguf_value value = *from;
    double number;
    bool flag;
    const char *text;
    size_t length;
    if (value.type == GGUF_ARRAY && !take_element(&value))
        return checkpoint_gguf_refuse(file, field, key,
                                      "has no single number for all layers under");
    if (gguf_flag(&value, &flag))
        return checkpoint_gguf_add_flag(file, field, flag);
    if (gguf_number(&value, &number))
        return isfinite(number) ? checkpoint_gguf_add_number(file, file->config, field, number)
                                : checkpoint_gguf_refuse(file, field, key,
                                                         "has a number that is not finite under");
    if (gguf_text(&value, &text, &length))
        return checkpoint_gguf_add_text(file, field, text);
    return checkpoint_gguf_refuse(file, field, key, "has no number, flag or string under");
}

bool checkpoint_gguf_add_types(const struct checkpoint_gguf_file *file, const char *key,
                               const char *set)
{
    const struct gguf_value *list = checkpoint_gguf_find(file, key);
    if (!list || list->type != GGUF_ARRAY)
        return true;
    cJSON *types = cJSON_AddArrayToObject(file->config, "layer_types");
    for (int64_t i = 0; types && i < list->count && i < MODEL_LAYERS_MAX; i++) {
        const struct gguf_value value = gguf_element(list, i);
        double number = 0;
        bool is_set = false;
        if (!gguf_flag(&value, &is_set) && gguf_number(&value, &number))
            is_set = number != 0;
        cJSON *type = cJSON_CreateString(is_set ? set : "full_attention");
        if (!type || !cJSON_AddItemToArray(types, type)) {
            cJSON_Delete(type);
            types = NULL;
        }
    }
    return types || fault_no_memory(file->fault);
}

bool checkpoint_gguf_add_layer_types(const struct checkpoint_gguf_file *file)
{
    return checkpoint_gguf_add_types(file, "attention.sliding_window_pattern", "sliding_attention");
}

double checkpoint_gguf_head_dim(const struct checkpoint_gguf_file *file)
{
    const double heads = checkpoint_gguf_number(file, "attention.head_count", 1);
    const double width = checkpoint_gguf_number(file, "embedding_length", 0);
    return checkpoint_gguf_number(file, "attention.key_length", heads >= 1 ? width / heads : 0);
}

bool checkpoint_gguf_add_head_dim(const struct checkpoint_gguf_file *file)
{
    return checkpoint_gguf_add_number(file, file->config, "head_dim",
                                      checkpoint_gguf_head_dim(file));
}

void checkpoint_gguf_amend_pairs(struct checkpoint_stack *stack)
{
    stack->interleaved = true;
}

void checkpoint_gguf_amend_llama(struct checkpoint_stack *stack)
{
    stack->interleaved = true;
    stack->more_biases_if = "attention_bias";
}

bool checkpoint_gguf_take_next_layers(const struct checkpoint_gguf_file *file)
{
    cJSON *layers = cJSON_GetObjectItemCaseSensitive(file->config, "num_hidden_layers");
    const double next = checkpoint_gguf_number(file, "nextn_predict_layers", 0);
    if (layers)
        cJSON_SetNumberValue(layers, layers->valuedouble - next);
    return true;
}

bool checkpoint_gguf_need_sigmoids(const struct checkpoint_gguf_file *file)
{
    static const char KEY[] = "expert_gating_func";
    return checkpoint_gguf_number(file, KEY, CHECKPOINT_GATE_SIGMOID) == CHECKPOINT_GATE_SIGMOID
           || checkpoint_gguf_refuse(file, "scoring_func", KEY, "has no sigmoids under");
}
