/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_fields.c - finds a field by the names that it has had, and its default.
 *
 * Source of the activations: ACT2FN of transformers' activations.py at 00e12e7c5459. gelu_new,
 * gelu_fast, gelu_pytorch_tanh and gelu_accurate are ways to write one function. */
#include "models/checkpoint/checkpoint_fields.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 64 };

static const cJSON *get_field(const cJSON *section, const char *name, size_t length)
{
    char copy[NAME_BYTES];
    snprintf(copy, sizeof copy, "%.*s", (int)length, name);
    char *dot = strchr(copy, '.');
    if (!dot)
        return cJSON_GetObjectItemCaseSensitive(section, copy);
    *dot = '\0';
    return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(section, copy),
                                            dot + 1);
}

/* The value of field in section, and its *name; NULL: it is left out, *name is NULL, and *otherwise
 * is what follows its "=". */
static const cJSON *find_named_field(const cJSON *section, const char *field, const char **name,
                                     const char **otherwise)
{
    *otherwise = "";
    *name = NULL;
    while (field && *field) {
        const size_t length = strcspn(field, "|=");
        const cJSON *node = length > 0 ? get_field(section, field, length) : NULL;
        const bool may_be_another = field[length] == '|' && cJSON_IsNull(node);
        if (node && !may_be_another) {
            *name = field;
            return node;
        }
        if (field[length] == '=') {
            *otherwise = field + length + 1;
            return NULL;
        }
        field += length + (field[length] == '|');
    }
    return NULL;
}

static const cJSON *find_field(const cJSON *section, const char *field, const char **otherwise)
{
    const char *name;
    return find_named_field(section, field, &name, otherwise);
}

const char *checkpoint_field_name(const cJSON *section, const char *field)
{
    const char *name, *otherwise;
    if (find_named_field(section, field, &name, &otherwise))
        return name;
    return field ? field : "";
}

#define OF_CONFIG "config.json's "

static bool refuse_field(const cJSON *node, enum fault_code code, const char *expected,
                         struct fault *fault)
{
    char pointer[FAULT_POINTER_MAX], value[NAME_BYTES];
    snprintf(pointer, sizeof pointer, "/config/%s", node->string);
    if (cJSON_IsNumber(node))
        snprintf(value, sizeof value, "%.17g", node->valuedouble);
    else
        snprintf(value, sizeof value, "%s",
                 cJSON_IsString(node) ? "a string"
                 : cJSON_IsBool(node) ? "a boolean"
                                      : "a list or an object");
    return fault_set_at(fault, pointer, code, OF_CONFIG "%.60s is %s; expected %s", node->string,
                        value, expected);
}

void checkpoint_fields_name_file(struct fault *fault, const char *file)
{
    const size_t length = sizeof OF_CONFIG - 1;
    if (strncmp(fault->message, OF_CONFIG, length) == 0)
        fault_set_at(fault, fault->pointer, fault->code, "%s's %s", file, fault->message + length);
}

bool checkpoint_read_number(const cJSON *section, const char *field, double *value,
                            struct fault *fault)
{
    const char *otherwise;
    const cJSON *node = find_field(section, field, &otherwise);
    *value = node ? 0 : strtod(otherwise, NULL);
    if (!node || cJSON_IsNull(node))
        return true;
    if (!cJSON_IsNumber(node))
        return refuse_field(node, FAULT_TYPE, "a number", fault);
    *value = node->valuedouble;
    return (isfinite((float)*value) && *value >= 0)
           || refuse_field(node, FAULT_OPTION, "a number of 0 or more, as a 32-bit float", fault);
}

bool checkpoint_read_factor(const cJSON *section, const char *field, double *factor,
                            struct fault *fault)
{
    const char *otherwise;
    *factor = 1;
    return !field
           || (checkpoint_read_number(section, field, factor, fault)
               && ((float)*factor > 0
                   || refuse_field(find_field(section, field, &otherwise), FAULT_OPTION,
                                   "a number above 0, as a 32-bit float", fault)));
}

bool checkpoint_read_factors(const struct json_document *document, const cJSON *section,
                             const char *field, float *factors, int64_t count, struct fault *fault)
{
    const char *otherwise;
    const cJSON *node = find_field(section, field, &otherwise);
    const struct json_numbers *numbers = json_numbers_of(document, node);
    for (int64_t i = 0; i < count; i++)
        factors[i] = 1;
    if (!node || cJSON_IsNull(node))
        return true;
    bool good = numbers && numbers->rank == 1 && numbers->count == count;
    for (int64_t i = 0; good && i < count; i++) {
        factors[i] = numbers->values[i];
        good = factors[i] > 0 && factors[i] < INFINITY;
    }
    char expected[64];
    snprintf(expected, sizeof expected, "a list of %d numbers above 0", (int)count);
    return good || refuse_field(node, FAULT_OPTION, expected, fault);
}

bool checkpoint_read_integer(const cJSON *section, const char *field, int64_t *value,
                             struct fault *fault)
{
    const char *otherwise;
    const cJSON *node = find_field(section, field, &otherwise);
    double number;
    *value = 0;
    if (!checkpoint_read_number(section, field, &number, fault))
        return false;
    if (number > INT32_MAX || number != floor(number))
        return refuse_field(node, FAULT_OPTION, "an integer from 0 to 2147483647", fault);
    *value = (int64_t)number;
    return true;
}

bool checkpoint_read_pair(const struct json_document *document, const cJSON *section,
                          const char *field, int64_t pair[2], struct fault *fault)
{
    const char *otherwise;
    const cJSON *node = find_field(section, field, &otherwise);
    const struct json_numbers *numbers = json_numbers_of(document, node);
    if (!numbers) {
        const bool good = checkpoint_read_integer(section, field, &pair[0], fault);
        pair[1] = pair[0];
        return good;
    }
    for (int i = 0; i < 2; i++) {
        const float number = numbers->count == 2 && numbers->rank == 1 ? numbers->values[i] : -1;
        if (!(number >= 0 && number < 0x1p24f && number == floorf(number)))
            return refuse_field(node, FAULT_OPTION, "an integer from 0 to 2147483647, or two",
                                fault);
        pair[i] = (int64_t)number;
    }
    return true;
}

bool checkpoint_read_flag(const cJSON *section, const char *field, bool *value, struct fault *fault)
{
    const char *otherwise;
    const cJSON *node = find_field(section, field, &otherwise);
    *value = node ? cJSON_IsTrue(node) : strcmp(otherwise, "true") == 0;
    return !node || cJSON_IsBool(node) || cJSON_IsNull(node)
           || refuse_field(node, FAULT_TYPE, "true or false", fault);
}

/* What follows "=" is the end of field, so that the default is a string too. */
bool checkpoint_read_string(const cJSON *section, const char *field, const char **value,
                            struct fault *fault)
{
    const char *otherwise;
    const cJSON *node = find_field(section, field, &otherwise);
    if (cJSON_IsNull(node)) {
        otherwise = field + strcspn(field, "=");
        otherwise += *otherwise == '=';
        node = NULL;
    }
    *value = node ? node->valuestring : otherwise;
    return !node || cJSON_IsString(node) || refuse_field(node, FAULT_TYPE, "a string", fault);
}

const cJSON *checkpoint_find_object(const cJSON *section, const char *names)
{
    while (names && *names) {
        const size_t length = strcspn(names, "|");
        const cJSON *node = get_field(section, names, length);
        if (cJSON_IsObject(node))
            return node;
        names += length + (names[length] == '|');
    }
    return NULL;
}

const cJSON *checkpoint_find_set(const cJSON *section, const char *names)
{
    while (names && *names) {
        const size_t length = strcspn(names, "|");
        const cJSON *node = get_field(section, names, length);
        const bool is_unset = !node || cJSON_IsNull(node) || cJSON_IsFalse(node)
                              || (cJSON_IsNumber(node) && node->valuedouble == 0);
        if (!is_unset)
            return node;
        names += length + (names[length] == '|');
    }
    return NULL;
}

static const struct {
    const char *name;
    enum attn_activation activation;
} ACTIVATIONS[] = {
    { "gelu", ATTN_GELU },
    { "gelu_python", ATTN_GELU },
    { "gelu_new", ATTN_GELU_TANH },
    { "gelu_fast", ATTN_GELU_TANH },
    { "gelu_accurate", ATTN_GELU_TANH },
    { "gelu_pytorch_tanh", ATTN_GELU_TANH },
    { "gelu_python_tanh", ATTN_GELU_TANH },
    { "quick_gelu", ATTN_GELU_QUICK },
    { "relu", ATTN_RELU },
    { "relu2", ATTN_RELU_SQUARED },
    { "sigmoid", ATTN_SIGMOID },
    { "silu", ATTN_SILU },
    { "swish", ATTN_SILU },
    { "tanh", ATTN_TANH },
    { "linear", ATTN_NO_ACTIVATION },
};

bool checkpoint_read_activation(const cJSON *section, const char *field,
                                enum attn_activation *activation, struct fault *fault)
{
    const char *name;
    if (!checkpoint_read_string(section, field, &name, fault))
        return false;
    for (size_t i = 0; i < sizeof ACTIVATIONS / sizeof ACTIVATIONS[0]; i++)
        if (strcmp(ACTIVATIONS[i].name, name) == 0) {
            *activation = ACTIVATIONS[i].activation;
            return true;
        }
    return fault_set(fault, FAULT_OPTION,
                     "config.json's %.*s is '%.40s', an activation that is "
                     "not computed here",
                     CHECKPOINT_FIELD_NAME(section, field), name);
}
