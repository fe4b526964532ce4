/* oip_envelope.c - the envelope of an inference request: which inputs come and which outputs are
 * asked for. Messages follow Triton's where it has one, because its users know them. */
#include "wire/oip_reader.h"

#include "base/names.h"
#include "wire/oip_region.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A list of objects, such as inputs; NULL and a fault where it is not one. */
static const cJSON *list_of(struct oip_reader *reader, const char *name)
{
    const cJSON *node = oip_member(reader->call->base.document.root, name);
    if (cJSON_IsArray(node)
        && !(node->child && json_numbers_of(&reader->call->base.document, node)))
        return node;
    char pointer[16];
    snprintf(pointer, sizeof pointer, "/%s", name);
    if (!node)
        fault_set_at(reader->fault, pointer, FAULT_FIELD, "%s is missing; expected an array", name);
    else
        fault_set_at(reader->fault, pointer, FAULT_TYPE, "%s is %s; expected an array of objects",
                     name, oip_kind_of(reader, node));
    return NULL;
}

/* ---------------------------------------------------------------- inputs -- */

static int find_tensor(const struct oip_tensor *tensors, int count, const char *name)
{
    int i = 0;
    while (i < count && strcmp(tensors[i].name, name) != 0)
        i++;
    return i < count ? i : -1;
}

/* Returns text, the names of the model's inputs. */
static const char *list_inputs(const struct oip *oip, char *text, size_t bytes)
{
    struct name_list list = name_list_in(text, bytes);
    for (int i = 0; i < oip->input_count; i++)
        name_list_add(&list, oip->inputs_known[i].name);
    name_list_end(&list);
    return text;
}

/* The slot of the input; -1 and a fault where there is no such input, or it came before. */
static int find_input(struct oip_reader *reader, int index, const cJSON *object)
{
    struct oip *oip = reader->oip;
    const char *name = oip_string_member(reader, "inputs", index, object, "name");
    if (!name)
        return -1;
    const int slot = find_tensor(oip->inputs_known, oip->input_count, name);
    if (slot < 0) {
        char known[FAULT_MESSAGE_MAX / 2];
        oip_refuse(reader->fault, "inputs", index, "name", FAULT_FIELD,
                   "unexpected inference input '%.60s' for model '%s'; expected %s", name,
                   oip->model->name, list_inputs(oip, known, sizeof known));
    } else if (oip->inputs[slot].given) {
        oip_refuse(reader->fault, "inputs", index, "name", FAULT_DUPLICATE,
                   "input '%s' already exists in request", name);
        return -1;
    }
    return slot;
}

static bool read_input(struct oip_reader *reader, int index, const cJSON *object)
{
    const cJSON *size;
    struct oip_place place;
    const int slot = find_input(reader, index, object);
    if (slot < 0)
        return false;
    struct oip_input *input = &reader->oip->inputs[slot];
    const char *name = reader->oip->inputs_known[slot].name;
    *input = (struct oip_input){ .given = true, .index = index };
    if (!oip_read_datatype(reader, slot, object) || !oip_read_shape(reader, slot, object)
        || !oip_parameter_member(reader, "inputs", index, object, "binary_data_size", &size)
        || !oip_region_find(reader, "inputs", index, object, name, &place))
        return false;
    const cJSON *data = oip_member(object, "data");
    if ((data != NULL) + (size != NULL) + (place.region != NULL) > 1)
        return oip_refuse(
            reader->fault, "inputs", index, data ? "data" : "parameters/binary_data_size",
            FAULT_BINARY,
            "input '%s' must set only one of the fields 'data', 'binary_data_size' in "
            "'parameters' and 'shared_memory_region' in 'parameters', but sets several",
            name);
    if (place.region)
        return oip_region_read(reader, slot, &place);
    if (!data && !size)
        return oip_refuse(reader->fault, "inputs", index, "data", FAULT_FIELD,
                          "data of input '%s' is missing", name);
    return size ? oip_read_binary(reader, slot, size) : oip_read_data(reader, slot, data);
}

static bool lacks(const struct oip *oip, int slot)
{
    return !oip->inputs[slot].given && !oip->inputs_known[slot].optional;
}

static bool refuse_incomplete(const struct oip *oip, struct fault *fault)
{
    char missing[128] = "", got[128] = "";
    int required = 0, given = 0;
    for (int i = 0; i < oip->input_count; i++) {
        const char *name = oip->inputs_known[i].name;
        char *list = oip->inputs[i].given ? got : lacks(oip, i) ? missing : NULL;
        required += !oip->inputs_known[i].optional;
        given += oip->inputs[i].given;
        if (list)
            snprintf(list + strlen(list), sizeof got - strlen(list), "%s'%s'", list[0] ? "," : "",
                     name);
    }
    return fault_set_at(fault, "/inputs", FAULT_FIELD,
                        "expected %d inputs but got %d inputs for model '%s'. Got input(s) [%s], "
                        "but missing required input(s) [%s]",
                        required, given, oip->model->name, got, missing);
}

static bool expect_required(const struct oip *oip, struct fault *fault)
{
    for (int i = 0; i < oip->input_count; i++)
        if (lacks(oip, i))
            return refuse_incomplete(oip, fault);
    return true;
}

static bool read_inputs(struct oip_reader *reader)
{
    const cJSON *inputs = list_of(reader, "inputs"), *object;
    int index = 0;
    if (!inputs)
        return false;
    cJSON_ArrayForEach(object, inputs) {
        if (!read_input(reader, index++, object))
            return false;
    }
    if (!expect_required(reader->oip, reader->fault))
        return false;
    if (reader->tail_used < reader->tail_size)
        return fault_set(reader->fault, FAULT_BINARY,
                         "unexpected additional input data for model '%s': %zu bytes",
                         reader->oip->model->name, reader->tail_size - reader->tail_used);
    return true;
}

/* --------------------------------------------------------------- outputs -- */

/* Shared memory takes the numbers of a tensor, and nothing made of them. */
static bool check_place(struct oip_reader *reader, int index, const char *name,
                        const struct oip_output *output, bool asks_classes)
{
    if (!output->place.region || (!output->binary && !asks_classes))
        return true;
    return oip_refuse(reader->fault, "outputs", index, "parameters/shared_memory_region",
                      FAULT_OPTION, "output '%s' can't set both 'shared_memory_region' and '%s'",
                      name, asks_classes ? "classification" : "binary_data");
}

static bool read_classification(struct oip_reader *reader, int index, const char *name,
                                const cJSON *node, struct oip_output *output)
{
    const double number = cJSON_IsNumber(node) ? node->valuedouble : -1;
    if (!(number >= 0) || !isfinite(number) || number != floor(number))
        return oip_refuse(reader->fault, "outputs", index, "parameters/classification",
                          FAULT_OPTION,
                          "classification of output '%s' is not an integer of 0 or more", name);
    output->classification = (int64_t)fmin(number, (double)OIP_INTEGER_MAX);
    return true;
}

/* How the output is to be answered. */
static bool read_output_parameters(struct oip_reader *reader, int index, const cJSON *object,
                                   const char *name, struct oip_output *output)
{
    const cJSON *binary, *classification;
    if (!oip_parameter_member(reader, "outputs", index, object, "binary_data", &binary)
        || !oip_parameter_member(reader, "outputs", index, object, "classification",
                                 &classification)
        || !oip_region_find(reader, "outputs", index, object, name, &output->place))
        return false;
    if (binary && !cJSON_IsBool(binary))
        return oip_refuse(reader->fault, "outputs", index, "parameters/binary_data", FAULT_TYPE,
                          "binary_data of output '%s' is %s; expected true or false", name,
                          oip_kind_of(reader, binary));
    if (binary)
        output->binary = cJSON_IsTrue(binary);
    else if (output->place.region)
        output->binary = false; /* the request's own word is for the other outputs */
    return check_place(reader, index, name, output, classification != NULL)
           && (!classification || read_classification(reader, index, name, classification, output));
}

static bool read_output(struct oip_reader *reader, int index, const cJSON *object)
{
    struct oip *oip = reader->oip;
    const char *name = oip_string_member(reader, "outputs", index, object, "name");
    if (!name)
        return false;
    struct oip_output output = { .slot = find_tensor(oip->outputs_known, oip->output_count, name),
                                 .index = index,
                                 .binary = oip->binary_output };
    if (output.slot < 0)
        return oip_refuse(reader->fault, "outputs", index, "name", FAULT_FIELD,
                          "unexpected inference output '%.60s' for model '%s'", name,
                          oip->model->name);
    for (int i = 0; i < oip->asked_count; i++)
        if (oip->outputs[i].slot == output.slot)
            return oip_refuse(reader->fault, "outputs", index, "name", FAULT_DUPLICATE,
                              "output '%s' already exists in request", name);
    if (!read_output_parameters(reader, index, object, name, &output))
        return false;
    oip->outputs[oip->asked_count++] = output;
    return true;
}

static bool allocate_outputs(struct infer_call *call, struct oip *oip, struct fault *fault)
{
    oip->outputs =
        arena_calloc(&call->request.arena, (size_t)oip->output_count, sizeof *oip->outputs);
    return oip->outputs || fault_no_memory(fault);
}

/* Where the request names no outputs. */
static void ask_defaults(struct oip *oip)
{
    oip->asked_count = 0;
    for (int i = 0; i < oip->default_count; i++)
        oip->outputs[oip->asked_count++] =
            (struct oip_output){ .slot = i, .binary = oip->binary_output };
}

static bool read_outputs(struct oip_reader *reader)
{
    const cJSON *outputs = oip_member(reader->call->base.document.root, "outputs"), *object;
    int index = 0;
    if (!allocate_outputs(reader->call, reader->oip, reader->fault))
        return false;
    if (!outputs || (cJSON_IsArray(outputs) && !outputs->child)) {
        ask_defaults(reader->oip);
        return true;
    }
    outputs = list_of(reader, "outputs");
    if (!outputs)
        return false;
    cJSON_ArrayForEach(object, outputs) {
        if (!read_output(reader, index++, object))
            return false;
    }
    return true;
}

/* ----------------------------------------------------------------- whole -- */

static bool read_id_and_parameters(struct oip_reader *reader)
{
    struct oip *oip = reader->oip;
    const cJSON *root = reader->call->base.document.root;
    if (!cJSON_IsObject(root))
        return fault_set(reader->fault, FAULT_TYPE, "the body is %s; expected an object",
                         oip_kind_of(reader, root));
    const cJSON *id = oip_member(root, "id");
    if (id && !cJSON_IsString(id))
        return fault_set_at(reader->fault, "/id", FAULT_TYPE, "id is %s; expected a string",
                            oip_kind_of(reader, id));
    oip->id = id ? id->valuestring : NULL;
    oip->parameters = oip_member(root, "parameters");
    if (!oip->parameters)
        return true;
    if (!cJSON_IsObject(oip->parameters))
        return fault_set_at(reader->fault, "/parameters", FAULT_TYPE,
                            "parameters is %s; expected an object",
                            oip_kind_of(reader, oip->parameters));
    const cJSON *binary = oip_member(oip->parameters, "binary_data_output");
    if (binary && !cJSON_IsBool(binary))
        return fault_set_at(reader->fault, "/parameters/binary_data_output", FAULT_TYPE,
                            "binary_data_output is %s; expected true or false",
                            oip_kind_of(reader, binary));
    oip->binary_output = binary && cJSON_IsTrue(binary);
    return true;
}

bool oip_read_envelope(struct infer_call *call, struct oip *oip, struct fault *fault)
{
    struct oip_reader reader = {
        .call = call,
        .oip = oip,
        .fault = fault,
        .tail = (const char *)call->base.body.data + oip->header_length,
        .tail_size = call->base.body.size - oip->header_length,
    };
    return read_id_and_parameters(&reader) && read_inputs(&reader) && read_outputs(&reader);
}

bool oip_is_all_binary(const struct oip *oip)
{
    for (int i = 0; i < oip->asked_count; i++)
        if (!oip->outputs[i].place.region
            && (!oip->outputs[i].binary || oip->outputs[i].classification > 0))
            return false;
    return true;
}

bool oip_read_raw(struct infer_call *call, struct oip *oip, struct fault *fault)
{
    struct oip_reader reader = { .call = call, .oip = oip, .fault = fault };
    const int64_t columns = oip->inputs_known[0].shape[2];
    const size_t row = (size_t)columns * sizeof(float);
    oip->is_raw = true;
    oip->binary_output = !oip->is_json_wanted;
    if (!allocate_outputs(call, oip, fault))
        return false;
    ask_defaults(oip);
    if (oip->model->parameterless || columns < 1)
        return fault_set(fault, FAULT_BINARY,
                         "a raw binary request is for models of one input with one variable "
                         "dimension; model '%s' has others",
                         oip->model->name);
    if (call->base.body.size == 0 || call->base.body.size % row != 0)
        return fault_set(fault, FAULT_BINARY,
                         "input byte size mismatch for input 'query' for model '%s'. Expected a "
                         "multiple of %zu, got %zu",
                         oip->model->name, row, call->base.body.size);
    oip->inputs[0] = (struct oip_input){
        .given = true,
        .datatype = oip_datatype_find("FP32"),
        .array = { .dtype = ATTN_F32,
                   .rank = 3,
                   .shape = { 1, (int64_t)(call->base.body.size / row), columns } },
        .count = (int64_t)(call->base.body.size / sizeof(float)),
    };
    return oip_take_bytes(&reader, 0, call->base.body.data);
}
