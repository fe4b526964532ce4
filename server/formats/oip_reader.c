/* SPDX-License-Identifier: Apache-2.0 */
/* oip_reader.c - members of the entries of an inference request, and faults that name them. */
#include "formats/oip_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct message oip_nothing = { .values = NULL };

/* ---------------------------------------------------------------- faults -- */

static bool refuse_at(struct fault *fault, const char *pointer, enum fault_code code,
                      const char *before, const char *format, va_list args)
{
    char message[FAULT_MESSAGE_MAX];
    vsnprintf(message, sizeof message, format, args);
    return fault_set_at(fault, pointer, code, "%s%s", before, message);
}

#undef oip_refuse
bool oip_refuse(const struct oip_reader *reader, const char *member, enum fault_code code,
                const char *format, ...)
{
    char pointer[FAULT_POINTER_MAX];
    va_list args;
    snprintf(pointer, sizeof pointer, "/%s/%d%s%s", reader->list, reader->index,
             member[0] ? "/" : "", member);
    va_start(args, format);
    refuse_at(reader->fault, pointer, code, "", format, args);
    va_end(args);
    return false;
}

bool oip_input_fault(const struct oip_request *oip, int slot, struct fault *fault,
                     enum fault_code code, const char *format, ...)
{
    char pointer[FAULT_POINTER_MAX] = "/inputs", before[64];
    va_list args;
    if (oip->inputs[slot])
        snprintf(pointer, sizeof pointer, "/inputs/%d", oip->input_index[slot]);
    snprintf(before, sizeof before, "input '%s' ", oip->signature->inputs[slot].name);
    va_start(args, format);
    refuse_at(fault, pointer, code, before, format, args);
    va_end(args);
    return false;
}

void oip_shape_text(char *out, size_t size, const int64_t *shape, int rank)
{
    size_t used = (size_t)snprintf(out, size, "[");
    for (int i = 0; i < rank && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%" PRId64, i > 0 ? "," : "", shape[i]);
    if (used < size)
        snprintf(out + used, size - used, "]");
}

bool oip_unexpected_shape(const struct oip_request *oip, int slot, const char *expected,
                          struct fault *fault)
{
    const struct tensor *tensor = oip->inputs[slot]->tensor;
    int64_t shape[ARRAY_RANK_MAX];
    char pointer[FAULT_POINTER_MAX], came[96];
    memcpy(shape, tensor->shape, sizeof shape);
    oip_shape_text(came, sizeof came, shape, (int)tensor->rank);
    snprintf(pointer, sizeof pointer, "/inputs/%d/shape", oip->input_index[slot]);
    return fault_set_at(fault, pointer, FAULT_SHAPE,
                        "unexpected shape for input '%s' for model '%s'. Expected %s, got %s",
                        oip->signature->inputs[slot].name, oip->signature->model, expected, came);
}

bool oip_at_parameter(struct fault *fault, const char *list, int index, const char *name)
{
    snprintf(fault->pointer, sizeof fault->pointer, "/%s/%d/parameters/%s", list, index, name);
    return false;
}

/* --------------------------------------------------------------- members -- */

const char *oip_string_member(const struct oip_reader *reader, const char *name)
{
    const struct value *value = message_member(reader->entry, name);
    if (value && value->kind == VALUE_STRING)
        return value->string;
    if (!value)
        oip_refuse(reader, name, FAULT_FIELD, "%s of %s[%d] is missing", name, reader->list,
                   reader->index);
    else
        oip_refuse(reader, name, FAULT_TYPE, "%s of %s[%d] is %s; expected a string", name,
                   reader->list, reader->index, value_words(value));
    return NULL;
}

bool oip_read_entry(struct oip_reader *reader)
{
    const struct value *value = message_member(reader->entry, "parameters");
    if (value && value->kind != VALUE_OBJECT)
        return oip_refuse(reader, "parameters", FAULT_TYPE,
                          "parameters of %s[%d] is %s; expected an object", reader->list,
                          reader->index, value_words(value));
    reader->parameters = value ? &value->inner : &oip_nothing;
    return true;
}
