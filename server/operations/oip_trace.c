/* SPDX-License-Identifier: Apache-2.0 */
/* oip_trace.c - inputs and outputs of the whole pass of a model. Tokens that attention_mask hides
 * are in the pass like all others, but no token attends to them. */
#include "operations/oip.h"
#include "operations/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ----------------------------------------------------------------- inputs -- */

/* The slot of an input that came; -1: it did not. */
static int slot_of(const struct oip_call *oip, enum oip_trace_input input)
{
    for (int i = 0; i < oip->request.signature->input_count; i++)
        if (oip->trace->input_of[i] == input)
            return oip->inputs[i].given ? i : -1;
    return -1;
}

static bool check_shape(const struct oip_call *oip, int slot, struct fault *fault)
{
    const struct oip_tensor *known = &oip->request.signature->inputs[slot];
    const struct array *array = &oip->inputs[slot].array;
    char expected[96];
    bool fits = array->rank == known->rank;
    for (int i = 0; fits && i < known->rank; i++)
        fits = known->shape[i] < 0 || known->shape[i] == array->shape[i];
    if (fits)
        return true;
    oip_shape_text(expected, sizeof expected, known->shape, known->rank);
    return oip_unexpected_shape(&oip->request, slot, expected, fault);
}

/* The input that has one row for each token of a list of ids or mask. */
static int rows_slot(const struct oip_call *oip, enum oip_trace_input input)
{
    if (input == OIP_DECODER_ATTENTION_MASK)
        return slot_of(oip, OIP_DECODER_INPUT_IDS);
    const int ids = slot_of(oip, OIP_INPUT_IDS);
    return ids >= 0 ? ids : slot_of(oip, OIP_INPUTS_EMBEDS);
}

/* A list about tokens has as many entries as there are tokens. */
static bool check_length(const struct oip_call *oip, int slot, struct fault *fault)
{
    const enum oip_trace_input input = oip->trace->input_of[slot];
    const int64_t length = oip->inputs[slot].array.shape[1];
    if (input != OIP_ATTENTION_MASK && input != OIP_TOKEN_TYPE_IDS && input != OIP_POSITION_IDS
        && input != OIP_DECODER_ATTENTION_MASK)
        return true;
    const int rows = rows_slot(oip, input);
    if (rows < 0)
        return oip_input_fault(&oip->request, slot, fault, FAULT_FIELD,
                               "came without the tokens it is of");
    if (oip->inputs[rows].array.shape[1] == length)
        return true;
    return oip_input_fault(
        &oip->request, slot, fault, FAULT_SHAPE, "has %" PRId64 " tokens; input '%s' has %" PRId64,
        length, oip->request.signature->inputs[rows].name, oip->inputs[rows].array.shape[1]);
}

static bool check_shapes(struct oip_call *oip, struct fault *fault)
{
    int first = -1;
    for (int i = 0; i < oip->request.signature->input_count; i++) {
        const struct oip_input *input = &oip->inputs[i];
        if (!input->given)
            continue;
        if (!check_shape(oip, i, fault) || !check_length(oip, i, fault))
            return false;
        first = first < 0 ? i : first;
        if (input->array.shape[0] != oip->inputs[first].array.shape[0])
            return oip_input_fault(
                &oip->request, i, fault, FAULT_SHAPE,
                "batch size does not match other inputs for '%s': %" PRId64 ", %s has %" PRId64,
                oip->model->name, input->array.shape[0], oip->request.signature->inputs[first].name,
                oip->inputs[first].array.shape[0]);
    }
    if (first < 0)
        return fault_set_at(fault, "/inputs", FAULT_FIELD, "no input of the model's pass is given");
    oip->batch = oip->inputs[first].array.shape[0];
    if (oip->batch < 1 || oip->batch > TRACE_ITEMS_MAX)
        return oip_input_fault(
            &oip->request, first, fault, oip->batch < 1 ? FAULT_SHAPE : FAULT_TOO_LARGE,
            "has a batch of %" PRId64 "; expected 1 to %d", oip->batch, TRACE_ITEMS_MAX);
    return true;
}

/* ----------------------------------------------------------------- values -- */

static bool check_range(const struct oip_call *oip, enum oip_trace_input input, int64_t count,
                        struct fault *fault)
{
    const int slot = slot_of(oip, input);
    for (int64_t i = 0; slot >= 0 && i < oip->inputs[slot].count; i++) {
        const int64_t value = oip->inputs[slot].integers[i];
        if (value < 0 || value >= count)
            return oip_input_fault(&oip->request, slot, fault, FAULT_OPTION,
                                   "is %" PRId64 " at element %" PRId64
                                   "; model '%s' takes 0 to %" PRId64,
                                   value, i, oip->model->name, count - 1);
    }
    return true;
}

/* Tokens have the positions 0, 1, ...; those of a token that is hidden mean nothing. */
static bool check_positions(const struct oip_call *oip, struct fault *fault)
{
    const int slot = slot_of(oip, OIP_POSITION_IDS), mask = slot_of(oip, OIP_ATTENTION_MASK);
    for (int64_t i = 0; slot >= 0 && i < oip->inputs[slot].count; i++) {
        const int64_t position = i % oip->inputs[slot].array.shape[1];
        if (oip->inputs[slot].integers[i] != position
            && (mask < 0 || oip->inputs[mask].integers[i] != 0))
            return oip_input_fault(&oip->request, slot, fault, FAULT_OPTION,
                                   "is %" PRId64 " at element %" PRId64
                                   "; tokens of model '%s' have the positions 0, 1, 2 and so on",
                                   oip->inputs[slot].integers[i], i, oip->model->name);
    }
    return true;
}

/* Padding behind the tokens of a decoder changes none of their rows, since each row sees only what
 * comes before it. Padding before or between tokens would. */
static bool check_decoder_mask(const struct oip_call *oip, struct fault *fault)
{
    const int slot = slot_of(oip, OIP_DECODER_ATTENTION_MASK);
    const struct oip_input *mask = &oip->inputs[slot < 0 ? 0 : slot];
    for (int64_t i = 1; slot >= 0 && i < mask->count; i++)
        if (i % mask->array.shape[1] != 0 && mask->integers[i] != 0 && mask->integers[i - 1] == 0)
            return oip_input_fault(&oip->request, slot, fault, FAULT_OPTION,
                                   "hides element %" PRId64
                                   " and not the next; only tokens at the end can be hidden",
                                   i - 1);
    return true;
}

static bool check_values(const struct oip_call *oip, struct fault *fault)
{
    const struct model_forward *forward = oip->model->forward;
    for (int i = 0; i < forward->stream_count; i++) {
        const struct model_embedding *embedding = &forward->streams[i].embedding;
        const bool is_decoder = forward->is_encoder_decoder && i == 1;
        if (embedding->input == MODEL_INPUT_TOKENS
            && (!check_range(oip, is_decoder ? OIP_DECODER_INPUT_IDS : OIP_INPUT_IDS,
                             embedding->tokens.count, fault)
                || (!is_decoder
                    && !check_range(oip, OIP_TOKEN_TYPE_IDS, embedding->types.count, fault))))
            return false;
    }
    return check_positions(oip, fault) && check_decoder_mask(oip, fault);
}

/* ------------------------------------------------------------------ items -- */

static void set_list(const struct oip_call *oip, enum oip_trace_input input, int64_t b, bool *has,
                     const int64_t **list, int64_t *count)
{
    const int slot = slot_of(oip, input);
    if (slot < 0)
        return;
    *has = true;
    *count = oip->inputs[slot].array.shape[1];
    *list = oip->inputs[slot].integers + b * *count;
}

static void set_array(const struct oip_call *oip, enum oip_trace_input input, int64_t b,
                      struct array *array)
{
    const int slot = slot_of(oip, input);
    if (slot >= 0)
        *array = oip_entry(&oip->inputs[slot].array, b);
}

static void set_inputs(const struct oip_call *oip, struct trace_item *item, int64_t b)
{
    set_list(oip, OIP_INPUT_IDS, b, &item->has_tokens, &item->tokens, &item->token_count);
    set_list(oip, OIP_ATTENTION_MASK, b, &item->has_attention_mask, &item->attention_mask,
             &item->attention_mask_count);
    set_list(oip, OIP_TOKEN_TYPE_IDS, b, &item->has_token_types, &item->token_types,
             &item->token_type_count);
    set_list(oip, OIP_DECODER_INPUT_IDS, b, &item->has_decoder_tokens, &item->decoder_tokens,
             &item->decoder_token_count);
    set_array(oip, OIP_PIXEL_VALUES, b, &item->pixels);
    set_array(oip, OIP_INPUT_FEATURES, b, &item->features);
    set_array(oip, OIP_INPUT_VALUES, b, &item->sound);
    item->sound_is_prepared = true;
    set_array(oip, OIP_INPUTS_EMBEDS, b, &item->embeddings);
}

/* The stream that an output is of. Of streams that stand apart, the inputs choose one. */
static int stream_of(const struct oip_call *oip, const struct oip_trace_output *output)
{
    if (output->stream >= 0)
        return output->stream;
    return slot_of(oip, OIP_INPUT_IDS) >= 0 || slot_of(oip, OIP_INPUTS_EMBEDS) >= 0 ? 0 : 1;
}

/* The number of the layer that the output is of. */
static int64_t layer_of(const struct oip_call *oip, const struct oip_trace_output *output)
{
    const struct model_stream *stream = &oip->model->forward->streams[stream_of(oip, output)];
    if (output->block >= stream->block_count)
        return -1;
    const struct model_block *block = &stream->blocks[output->block];
    return output->source == OIP_CROSS_ATTENTIONS || block->self_layer < 0 ? block->cross_layer
                                                                           : block->self_layer;
}

static bool add_layer(const struct oip_call *oip, int slot, struct trace_item *item,
                      int64_t *layers, struct fault *fault)
{
    const int64_t layer = layer_of(oip, &oip->trace->made_of[slot]);
    if (layer < 0)
        return fault_set_at(fault, "/outputs", FAULT_FIELD,
                            "unexpected inference output '%s' for model '%s' with these inputs",
                            oip->request.signature->outputs[slot].name, oip->model->name);
    layers[item->layer_count++] = layer;
    return true;
}

/* Asks for logits of all positions. */
static bool add_logits(struct arena *arena, const struct oip_call *oip, struct trace_item *item,
                       struct fault *fault)
{
    const struct model_forward *forward = oip->model->forward;
    const int slot = forward->is_encoder_decoder ? slot_of(oip, OIP_DECODER_INPUT_IDS)
                                                 : rows_slot(oip, OIP_INPUT_IDS);
    item->position_count = slot >= 0 ? oip->inputs[slot].array.shape[1] : 1;
    int64_t *positions = arena_calloc(arena, (size_t)item->position_count, sizeof *positions);
    if (!positions)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < item->position_count; i++)
        positions[i] = i;
    item->logits = item->has_positions = true;
    item->positions = positions;
    return true;
}

static bool set_outputs(struct arena *arena, const struct oip_call *oip, struct trace_item *item,
                        struct fault *fault)
{
    int64_t *layers = arena_calloc(arena, (size_t)oip->request.asked_count, sizeof *layers);
    if (!layers)
        return fault_no_memory(fault);
    item->has_layers = item->has_outputs = true;
    item->layers = layers;
    for (int i = 0; i < oip->request.asked_count; i++) {
        const int slot = oip->request.outputs[i].slot;
        const enum oip_trace_source source = oip->trace->made_of[slot].source;
        item->final_rows = item->final_rows || source == OIP_LAST_ROWS;
        if (source == OIP_LOGITS && !add_logits(arena, oip, item, fault))
            return false;
        if (source == OIP_LAST_ROWS || source == OIP_LOGITS)
            continue;
        item->outputs[source == OIP_ROWS ? TRACE_OUTPUT_HIDDEN_STATES : TRACE_OUTPUT_WEIGHTS] =
            true;
        if (!add_layer(oip, slot, item, layers, fault))
            return false;
    }
    return true;
}

static bool check_inputs(struct oip_call *oip, struct fault *fault)
{
    const struct model_forward *forward = oip->model->forward;
    const bool has_tokens =
        slot_of(oip, OIP_INPUT_IDS) >= 0 || slot_of(oip, OIP_INPUTS_EMBEDS) >= 0;
    const bool has_others = slot_of(oip, OIP_PIXEL_VALUES) >= 0
                            || slot_of(oip, OIP_INPUT_FEATURES) >= 0
                            || slot_of(oip, OIP_INPUT_VALUES) >= 0;
    const bool stand_apart = forward->stream_count > 1 && !forward->is_encoder_decoder;
    if (!has_tokens && !has_others)
        return fault_set_at(fault, "/inputs", FAULT_FIELD,
                            "missing required input '%s' for model '%s'",
                            oip->request.signature->inputs[0].name, oip->model->name);
    if (has_tokens && has_others && stand_apart)
        return fault_set_at(fault, "/inputs", FAULT_FIELD,
                            "model '%s' takes input_ids or pixel_values, not both, since outputs "
                            "of both would have the same names",
                            oip->model->name);
    return check_shapes(oip, fault) && check_values(oip, fault);
}

/* --------------------------------------------------------------- parameters -- */

/* A parameter of the protocol is no list, so edits come as text of JSON. */
static const struct field TEXT_ROWS[] = {
    { .name = "edits", .kind = FIELD_ELSEWHERE, .flags = FIELD_PARAMETER },
};

/* Before the pointer of a fault of edits stands where they came. */
static bool point_to_parameter(struct fault *fault)
{
    char of_edits[FAULT_POINTER_MAX];
    memcpy(of_edits, fault->pointer, sizeof of_edits);
    snprintf(fault->pointer, sizeof fault->pointer, "/parameters%.*s",
             FAULT_POINTER_MAX - (int)sizeof "/parameters", of_edits);
    return false;
}

static bool read_edits(struct call *call, struct trace_item *item, struct fault *fault)
{
    const struct value *text = message_member(oip_call_of(call)->request.parameters, "edits");
    const struct field_table table = { .rows = field_find(&trace_fields, NAMED_AS_FIELDS, "edits"),
                                       .count = 1 };
    struct field_reader reader = { .arena = call->form.arena, .fault = fault };
    struct safetensors_pair pair = { .key = "edits", .key_length = strlen("edits") };
    struct value edits;
    struct message message = { &edits, 0 };
    if (!text)
        return true;
    if (text->kind != VALUE_STRING)
        return fault_set_at(fault, "/parameters/edits", FAULT_TYPE,
                            "edits is %s; expected a string, the JSON text of a list of edits",
                            value_words(text));
    pair.value = text->string;
    pair.value_length = strlen(text->string);
    return (format_read_texts(&call->form, &table, "parameters", &pair, 1, &message, fault)
            && fields_read(&reader, &message, (struct field_target){ &table, item },
                           (struct field_target){ NULL, NULL }))
           || point_to_parameter(fault);
}

static bool read(struct call *call, struct fault *fault)
{
    static const struct field_table TEXTS = { .rows = TEXT_ROWS, .count = 1 };
    struct oip_call *oip = oip_call_of(call);
    struct trace_request *request = trace_request_of(call);
    struct trace_item shared = { .model_name = oip->model_name };
    if (!oip_read_parameters(call, &TEXTS, &shared, fault) || !check_inputs(oip, fault)
        || !read_edits(call, &shared, fault) || !set_outputs(request->arena, oip, &shared, fault))
        return false;
    request->joined = true;
    request->number_bytes = oip_number_bytes(&oip->request) ? sizeof(float) : 0;
    request->items = arena_calloc(request->arena, (size_t)oip->batch, sizeof *request->items);
    if (!request->items)
        return fault_no_memory(fault);
    for (int64_t b = 0; b < oip->batch; b++) {
        request->items[b] = shared;
        request->items[b].model = model_retain((struct model *)oip->model);
        request->item_count = b + 1;
        set_inputs(oip, &request->items[b], b);
    }
    return true;
}

/* ---------------------------------------------------------------- results -- */

static const struct trace_tensor *tensor_of(const struct trace_item *item,
                                            const struct oip_call *oip, int slot)
{
    const struct oip_trace_output *output = &oip->trace->made_of[slot];
    if (output->source == OIP_LAST_ROWS)
        return &item->streams[stream_of(oip, output)].rows;
    if (output->source == OIP_LOGITS)
        return &item->logit_rows;
    const int64_t layer = layer_of(oip, output);
    int64_t i = 0;
    while (item->answered[i].number != layer)
        i++;
    return &item->answered[i]
                .tensors[output->source == OIP_ROWS ? TRACE_HIDDEN_STATES : TRACE_WEIGHTS];
}

static void say(const struct call *call, struct writer *writer)
{
    const struct oip_call *oip = oip_call_of(call);
    const struct trace_item *first = trace_request_of(call)->items;
    for (int i = 0; i < oip->request.asked_count; i++) {
        const int slot = oip->request.outputs[i].slot;
        const struct trace_tensor *tensor = tensor_of(first, oip, slot);
        struct array result = { tensor->values, ATTN_F32, tensor->rank + 1, { oip->batch } };
        memcpy(result.shape + 1, tensor->shape, (size_t)tensor->rank * sizeof *tensor->shape);
        writer->kind->array(writer, oip->trace->outputs[slot].name, &result);
    }
}

/* A fault of the plan points to a field of the native API; here to the input of that field. */
static void explain(const struct call *call, struct fault *fault)
{
    static const struct {
        const char *field;
        enum oip_trace_input input;
    } FIELDS[] = {
        { "/tokens", OIP_INPUT_IDS },
        { "/token_types", OIP_TOKEN_TYPE_IDS },
        { "/attention_mask", OIP_ATTENTION_MASK },
        { "/decoder_tokens", OIP_DECODER_INPUT_IDS },
        { "/pixels", OIP_PIXEL_VALUES },
        { "/features", OIP_INPUT_FEATURES },
        { "/sound", OIP_INPUT_VALUES },
        { "/embeddings", OIP_INPUTS_EMBEDS },
    };
    const struct oip_call *oip = oip_call_of(call);
    char pointer[FAULT_POINTER_MAX] = "";
    if (strncmp(fault->pointer, "/edits", strlen("/edits")) == 0) {
        point_to_parameter(fault);
        return;
    }
    for (size_t i = 0; i < sizeof FIELDS / sizeof FIELDS[0]; i++) {
        const int slot = slot_of(oip, FIELDS[i].input);
        if (slot >= 0 && strcmp(FIELDS[i].field, fault->pointer) == 0)
            snprintf(pointer, sizeof pointer, "/inputs/%d", oip->request.input_index[slot]);
    }
    memcpy(fault->pointer, pointer, sizeof pointer);
}

const struct operation oip_trace = {
    .kind = &trace_kind, .read = read, .explain = explain, .say = say
};
