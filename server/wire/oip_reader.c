/* oip_reader.c - members of the JSON of an inference request, and faults that name them. */
#include "wire/oip_reader.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* ---------------------------------------------------------------- faults -- */

bool oip_refuse(struct fault *fault, const char *list, int index, const char *member,
                enum fault_code code, const char *format, ...)
{
    char pointer[FAULT_POINTER_MAX], message[FAULT_MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    snprintf(pointer, sizeof pointer, "/%s/%d%s%s", list, index, member[0] ? "/" : "", member);
    return fault_set_at(fault, pointer, code, "%s", message);
}

bool oip_input_fault(const struct oip *oip, int slot, struct fault *fault, enum fault_code code,
                     const char *format, ...)
{
    char message[FAULT_MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    const char *name = oip->inputs_known[slot].name;
    if (!oip->inputs[slot].given)
        return fault_set_at(fault, "/inputs", code, "input '%s' %s", name, message);
    return oip_refuse(fault, "inputs", oip->inputs[slot].index, "", code, "input '%s' %s", name,
                      message);
}

bool oip_unexpected_shape(const struct oip *oip, int slot, const char *expected,
                          struct fault *fault)
{
    const struct oip_input *input = &oip->inputs[slot];
    char came[96];
    oip_shape_text(came, sizeof came, input->array.shape, input->array.rank);
    return oip_refuse(fault, "inputs", input->index, "shape", FAULT_SHAPE,
                      "unexpected shape for input '%s' for model '%s'. Expected %s, got %s",
                      oip->inputs_known[slot].name, oip->model->name, expected, came);
}

void oip_shape_text(char *out, size_t size, const int64_t *shape, int rank)
{
    size_t used = (size_t)snprintf(out, size, "[");
    for (int i = 0; i < rank && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%" PRId64, i > 0 ? "," : "", shape[i]);
    if (used < size)
        snprintf(out + used, size - used, "]");
}

/* --------------------------------------------------------------- members -- */

const char *oip_kind_of(const struct oip_reader *reader, const cJSON *node)
{
    return json_kind(&reader->call->base.document, node);
}

const cJSON *oip_member(const cJSON *object, const char *name)
{
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(object, name);
    return node && !cJSON_IsNull(node) ? node : NULL;
}

const char *oip_string_member(struct oip_reader *reader, const char *list, int index,
                              const cJSON *object, const char *name)
{
    if (!cJSON_IsObject(object)) {
        oip_refuse(reader->fault, list, index, "", FAULT_TYPE, "%s[%d] is %s; expected an object",
                   list, index, oip_kind_of(reader, object));
        return NULL;
    }
    const cJSON *node = oip_member(object, name);
    if (node && cJSON_IsString(node))
        return node->valuestring;
    if (!node)
        oip_refuse(reader->fault, list, index, name, FAULT_FIELD, "%s of %s[%d] is missing", name,
                   list, index);
    else
        oip_refuse(reader->fault, list, index, name, FAULT_TYPE,
                   "%s of %s[%d] is %s; expected a string", name, list, index,
                   oip_kind_of(reader, node));
    return NULL;
}

bool oip_parameter_member(struct oip_reader *reader, const char *list, int index,
                          const cJSON *object, const char *name, const cJSON **value)
{
    const cJSON *parameters = oip_member(object, "parameters");
    *value = NULL;
    if (parameters && !cJSON_IsObject(parameters))
        return oip_refuse(reader->fault, list, index, "parameters", FAULT_TYPE,
                          "parameters of %s[%d] is %s; expected an object", list, index,
                          oip_kind_of(reader, parameters));
    if (parameters)
        *value = oip_member(parameters, name);
    return true;
}
