/* SPDX-License-Identifier: Apache-2.0 */
/* oip_read.c - the envelope of an inference request: which inputs come, and which outputs are asked
 * for. */
#include "base/names.h"
#include "formats/accept.h"
#include "formats/oip_internal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ----------------------------------------------------------- the headers -- */

static bool read_header_length(struct oip_request *oip, const char *header, struct fault *fault)
{
    char *end = NULL;
    errno = 0;
    oip->has_header_length = true;
    if (header[0] >= '0' && header[0] <= '9')
        oip->header_length = strtoull(header, &end, 10);
    return (end && !end[strspn(end, " \t")] && errno != ERANGE)
           || fault_set(fault, FAULT_BINARY,
                        "Inference-Header-Content-Length is '%.40s'; expected a number of bytes",
                        header);
}

/* application/octet-stream may be JSON alone: clients on aiohttp, such as tritonclient.http.aio,
 * send it so. */
bool oip_begin(struct oip_request *oip, const struct oip_headers *headers, struct fault *fault)
{
    static const char *const TYPES[] = { "application/octet-stream", "application/json" };
    const char *type = headers->content_type;
    oip->is_json_wanted = accept_choose(headers->accept, TYPES, 2, 0) == 1;
    oip->is_bytes = strcasecmp(type, TYPES[0]) == 0;
    if (headers->header_length && !read_header_length(oip, headers->header_length, fault))
        return false;
    return oip->is_bytes || !type[0] || strcasecmp(type, TYPES[1]) == 0
           || strcasecmp(type, "application/x-www-form-urlencoded") == 0
           || fault_set(fault, FAULT_CONTENT_TYPE,
                        "Content-Type is '%.60s'; expected application/json or "
                        "application/octet-stream",
                        type);
}

bool oip_open(struct format_body *body, struct fault *fault)
{
    struct oip_request *oip = body->oip;
    struct format_body json = *body;
    if (oip->has_header_length && oip->header_length == 0)
        return true;
    if (oip->header_length > body->bytes.size)
        return fault_set(fault, FAULT_BINARY,
                         "inference header size should be in range (0, %zu), got: %zu",
                         body->bytes.size, oip->header_length);
    if (!oip->has_header_length)
        oip->header_length = body->bytes.size;
    json.bytes.size = oip->header_length;
    const bool good = format_json.read(&json, NULL, &oip->root, fault);
    body->documents = json.documents;
    body->document_count = json.document_count;
    if (good || !oip->is_bytes || oip->has_header_length || fault->code != FAULT_JSON)
        return good;
    return fault_set(fault, FAULT_BINARY,
                     "a body of application/octet-stream that is not JSON alone needs the header "
                     "Inference-Header-Content-Length");
}

/* --------------------------------------------------------------- entries -- */

/* A list of objects, such as inputs; NULL and a fault where it is not one. */
static const struct message *list_of(struct oip_reader *reader, const char *name)
{
    const struct value *value = message_member(&reader->oip->root, name);
    const struct message *list;
    char pointer[16];
    if (value && value_is_list(value, &list))
        return list;
    snprintf(pointer, sizeof pointer, "/%s", name);
    if (!value)
        fault_set_at(reader->fault, pointer, FAULT_FIELD, "%s is missing; expected an array", name);
    else
        fault_set_at(reader->fault, pointer, FAULT_TYPE, "%s is %s; expected an array of objects",
                     name, value_words(value));
    return NULL;
}

/* Begins an entry of a list, which has a name. */
static bool begin_entry(struct oip_reader *reader, const char *list, int64_t index,
                        const struct value *value)
{
    reader->list = list;
    reader->index = (int)index;
    reader->entry = &value->inner;
    reader->parameters = &oip_nothing;
    if (value->kind != VALUE_OBJECT)
        return oip_refuse(reader, "", FAULT_TYPE, "%s[%d] is %s; expected an object", list,
                          reader->index, value_words(value));
    reader->name = oip_string_member(reader, "name");
    return reader->name != NULL;
}

static int find_tensor(const struct oip_tensor *tensors, int count, const char *name)
{
    int i = count - 1;
    while (i >= 0 && strcmp(tensors[i].name, name) != 0)
        i--;
    return i;
}

static bool came_twice(const struct oip_reader *reader, const char *what)
{
    return oip_refuse(reader, "name", FAULT_DUPLICATE, "%s '%s' already exists in request", what,
                      reader->name);
}

/* ---------------------------------------------------------------- inputs -- */

static bool unknown_input(const struct oip_reader *reader)
{
    const struct oip_signature *signature = reader->oip->signature;
    char known[FAULT_MESSAGE_MAX / 2];
    struct name_list list = name_list_in(known, sizeof known);
    for (int i = 0; i < signature->input_count; i++)
        name_list_add(&list, signature->inputs[i].name);
    name_list_end(&list);
    return oip_refuse(reader, "name", FAULT_FIELD,
                      "unexpected inference input '%.60s' for model '%s'; expected %s",
                      reader->name, signature->model, known);
}

static bool read_input(struct oip_reader *reader, struct value *value, struct tensor *tensor)
{
    struct oip_request *oip = reader->oip;
    const struct oip_signature *signature = oip->signature;
    const int slot = find_tensor(signature->inputs, signature->input_count, reader->name);
    if (slot < 0)
        return unknown_input(reader);
    if (oip->inputs[slot])
        return came_twice(reader, "input");
    *value = (struct value){ signature->inputs[slot].name, VALUE_TENSOR, { .tensor = tensor } };
    oip->inputs[slot] = value;
    oip->input_index[slot] = reader->index;
    reader->name = value->name;
    return oip_read_tensor(reader, &signature->inputs[slot], tensor);
}

static bool lacks(const struct oip_request *oip, int slot)
{
    return !oip->inputs[slot] && !oip->signature->inputs[slot].optional;
}

static bool refuse_incomplete(const struct oip_request *oip, struct fault *fault)
{
    const struct oip_signature *signature = oip->signature;
    char missing[128] = "", got[128] = "";
    int required = 0, given = 0;
    for (int i = 0; i < signature->input_count; i++) {
        char *list = oip->inputs[i] ? got : lacks(oip, i) ? missing : NULL;
        required += !signature->inputs[i].optional;
        given += oip->inputs[i] != NULL;
        if (list)
            snprintf(list + strlen(list), sizeof got - strlen(list), "%s'%s'", list[0] ? "," : "",
                     signature->inputs[i].name);
    }
    return fault_set_at(fault, "/inputs", FAULT_FIELD,
                        "expected %d inputs but got %d inputs for model '%s'. Got input(s) [%s], "
                        "but missing required input(s) [%s]",
                        required, given, signature->model, got, missing);
}

static bool make_message(const struct oip_reader *reader, int count, struct message *message,
                         struct tensor **tensors)
{
    struct arena *arena = reader->body->arena;
    *tensors = arena_calloc(arena, (size_t)count, sizeof **tensors);
    *message = (struct message){ arena_calloc(arena, (size_t)count, sizeof *message->values), 0 };
    return (*tensors && message->values) || fault_no_memory(reader->fault);
}

static bool read_inputs(struct oip_reader *reader, struct message *message)
{
    const struct message *list = list_of(reader, "inputs");
    const int most = reader->oip->signature->input_count;
    struct tensor *tensors;
    if (!list || !make_message(reader, most, message, &tensors))
        return false;
    for (int64_t i = 0; i < list->count; i++) {
        const int64_t n = message->count < most ? message->count : most - 1; /* then a fault */
        if (!begin_entry(reader, "inputs", i, &list->values[i])
            || !read_input(reader, &message->values[n], &tensors[n]))
            return false;
        message->count++;
    }
    for (int i = 0; i < most; i++)
        if (lacks(reader->oip, i))
            return refuse_incomplete(reader->oip, reader->fault);
    return reader->tail_used == reader->tail_size
           || fault_set(reader->fault, FAULT_BINARY,
                        "unexpected additional input data for model '%s': %zu bytes",
                        reader->oip->signature->model, reader->tail_size - reader->tail_used);
}

/* --------------------------------------------------------------- outputs -- */

static bool read_classification(struct oip_reader *reader, const struct value *value,
                                struct oip_output *output)
{
    const double number = value->kind == VALUE_NUMBER ? value->number : -1;
    if (!(number >= 0) || !isfinite(number) || number != floor(number))
        return oip_refuse(reader, "parameters/classification", FAULT_OPTION,
                          "classification of output '%s' is not an integer of 0 or more",
                          reader->name);
    output->classification = (int64_t)fmin(number, (double)OIP_INTEGER_MAX);
    return true;
}

/* How the output is to be answered. Shared memory takes the numbers of a tensor, and nothing made
 * of them; the request's own word on binary outputs is for the others. */
static bool read_output_parameters(struct oip_reader *reader, struct oip_output *output)
{
    if (!oip_read_entry(reader) || !oip_find_region(reader, output))
        return false;
    const struct value *binary = message_member(reader->parameters, "binary_data");
    const struct value *classes = message_member(reader->parameters, "classification");
    if (binary && binary->kind != VALUE_BOOL)
        return oip_refuse(reader, "parameters/binary_data", FAULT_TYPE,
                          "binary_data of output '%s' is %s; expected true or false", reader->name,
                          value_words(binary));
    output->binary = binary ? binary->flag : !output->region && reader->oip->binary_output;
    if (output->region && (output->binary || classes))
        return oip_refuse(reader, "parameters/" OIP_REGION, FAULT_OPTION,
                          "output '%s' can't set both 'shared_memory_region' and '%s'",
                          reader->name, classes ? "classification" : "binary_data");
    return !classes || read_classification(reader, classes, output);
}

static bool read_output(struct oip_reader *reader)
{
    struct oip_request *oip = reader->oip;
    const struct oip_signature *signature = oip->signature;
    struct oip_output *output = &oip->outputs[oip->asked_count];
    const int slot = find_tensor(signature->outputs, signature->output_count, reader->name);
    if (slot < 0)
        return oip_refuse(reader, "name", FAULT_FIELD,
                          "unexpected inference output '%.60s' for model '%s'", reader->name,
                          signature->model);
    for (int i = 0; i < oip->asked_count; i++)
        if (oip->outputs[i].slot == slot)
            return came_twice(reader, "output");
    *output = (struct oip_output){ .slot = slot, .index = reader->index };
    oip->asked_count++;
    return read_output_parameters(reader, output);
}

/* Those that a request names, or the defaults. */
static bool read_outputs(struct oip_reader *reader)
{
    struct oip_request *oip = reader->oip;
    const struct value *outputs = message_member(&oip->root, "outputs");
    const struct message *list = &oip_nothing;
    oip->outputs = arena_calloc(reader->body->arena, (size_t)oip->signature->output_count,
                                sizeof *oip->outputs);
    if (!oip->outputs)
        return fault_no_memory(reader->fault);
    if (outputs && !(list = list_of(reader, "outputs")))
        return false;
    for (int64_t i = 0; i < list->count; i++)
        if (!begin_entry(reader, "outputs", i, &list->values[i]) || !read_output(reader))
            return false;
    for (int i = 0; list->count == 0 && i < oip->signature->default_count; i++)
        oip->outputs[oip->asked_count++] =
            (struct oip_output){ .slot = i, .binary = oip->binary_output };
    return true;
}

/* ----------------------------------------------------------------- whole -- */

static bool wrong_type(const struct oip_reader *reader, const char *pointer, const char *name,
                       const struct value *value, const char *expected)
{
    return fault_set_at(reader->fault, pointer, FAULT_TYPE, "%s is %s; expected %s", name,
                        value_words(value), expected);
}

static bool read_id_and_parameters(struct oip_reader *reader)
{
    struct oip_request *oip = reader->oip;
    const struct value *id = message_member(&oip->root, "id");
    const struct value *parameters = message_member(&oip->root, "parameters");
    if (id && id->kind != VALUE_STRING)
        return wrong_type(reader, "/id", "id", id, "a string");
    oip->id = id ? id->string : NULL;
    oip->parameters = parameters ? &parameters->inner : &oip_nothing;
    if (parameters && parameters->kind != VALUE_OBJECT)
        return wrong_type(reader, "/parameters", "parameters", parameters, "an object");
    const struct value *binary = message_member(oip->parameters, "binary_data_output");
    if (binary && binary->kind != VALUE_BOOL)
        return wrong_type(reader, "/parameters/binary_data_output", "binary_data_output", binary,
                          "true or false");
    oip->binary_output = binary && binary->flag;
    return true;
}

/* Reads a body that is the bytes of the one input and nothing else. */
static bool read_raw(struct oip_reader *reader, struct message *message)
{
    struct oip_request *oip = reader->oip;
    const struct byte_slice bytes = reader->body->bytes;
    const int64_t columns = oip->signature->inputs[0].shape[2];
    const size_t row = (size_t)columns * sizeof(float);
    struct tensor *tensor;
    oip->parameters = &oip_nothing;
    oip->binary_output = !oip->is_json_wanted;
    if (!read_outputs(reader) || !make_message(reader, 1, message, &tensor))
        return false;
    if (columns < 1)
        return fault_set(reader->fault, FAULT_BINARY,
                         "a raw binary request is for models of one input with one variable "
                         "dimension; model '%s' has others",
                         oip->signature->model);
    if (bytes.size == 0 || bytes.size % row != 0)
        return fault_set(reader->fault, FAULT_BINARY,
                         "input byte size mismatch for input 'query' for model '%s'. Expected a "
                         "multiple of %zu, got %zu",
                         oip->signature->model, row, bytes.size);
    *tensor = (struct tensor){ .size = bytes.size, .rank = 3 };
    tensor->shape[0] = 1;
    tensor->shape[1] = bytes.size / row;
    tensor->shape[2] = (uint64_t)columns;
    message->values[message->count++] =
        (struct value){ oip->signature->inputs[0].name, VALUE_TENSOR, { .tensor = tensor } };
    oip->inputs[0] = message->values;
    return oip_take_bytes(reader, oip_datatype_of(ATTN_F32), bytes.data, tensor);
}

static bool read_oip(struct format_body *body, const struct field_table *table,
                     struct message *message, struct fault *fault)
{
    struct oip_request *oip = body->oip;
    struct oip_reader reader = { .body = body,
                                 .oip = oip,
                                 .fault = fault,
                                 .tail = (const char *)body->bytes.data + oip->header_length,
                                 .tail_size = body->bytes.size - oip->header_length };
    (void)table;
    if (oip->has_header_length && oip->header_length == 0)
        return read_raw(&reader, message);
    return read_id_and_parameters(&reader) && read_inputs(&reader, message)
           && read_outputs(&reader);
}

size_t oip_number_bytes(const struct oip_request *oip)
{
    for (int i = 0; i < oip->asked_count; i++)
        if (!oip->outputs[i].region
            && (!oip->outputs[i].binary || oip->outputs[i].classification > 0))
            return 0;
    return sizeof(double);
}

const struct format format_oip = { .content_type = "application/json",
                                   .keeps_bytes = true,
                                   .number_bytes = sizeof(double),
                                   .writer = &writer_oip,
                                   .read = read_oip };
