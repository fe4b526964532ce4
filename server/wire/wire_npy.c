/* wire_npy.c - see wire_npy.h. */
#include "wire/wire_npy.h"

#include "infer/infer_results.h"
#include "wire/npy_body.h"
#include "wire/safetensors_body.h"
#include "wire/wire_v1.h"

#include <string.h>

struct state {
    struct safetensors_forms others; /* first: the call is one of wire_safetensors.h too */
    struct npy_forms forms;
};

static const struct state *state_of(const struct infer_call *call)
{
    return call->state;
}

bool wire_npy_begin(struct infer_call *call, const struct exchange *exchange, struct fault *fault)
{
    static const char *const NAMES[] = { "model",        "layer",      "outputs",   "causal",
                                         "kv_len",       "past_len",   "kv_offset", "window_left",
                                         "window_right", "normalizer", "precision", "scale",
                                         "softcap",      "q_heads",    "kv_heads" };
    struct arena *arena = &call->request.arena;
    struct state *state = arena_calloc(arena, 1, sizeof *state);
    if (!state)
        return fault_no_memory(fault);
    call->state = state;
    if (!npy_forms_read(&state->forms, exchange, NAMES, sizeof NAMES / sizeof NAMES[0], arena,
                        fault))
        return false;
    if (!state->forms.is_body
        && !safetensors_forms_read(
            &state->others, exchange,
            "application/json, application/x-safetensors or application/x-npy", fault))
        return false;
    state->others.is_answer =
        !state->forms.is_answer && safetensors_forms_is_answer(exchange, state->others.is_body);
    return true;
}

bool wire_npy_is_body(const struct infer_call *call)
{
    return state_of(call) && state_of(call)->forms.is_body;
}

bool wire_npy_is_answer(const struct infer_call *call)
{
    return state_of(call) && state_of(call)->forms.is_answer;
}

static bool read_fields(struct infer_call *call, struct v1_reader *reader)
{
    struct text text;
    text_init(&text, SIZE_MAX);
    const bool good = npy_body_fields(reader, &state_of(call)->forms, &text)
                      && infer_wire_read_json(call, text.data, text.used, reader->fault)
                      && wire_v1_read(&call->request, false, &call->base.document, reader->fault);
    text_free(&text);
    return good;
}

bool wire_npy_read(struct infer_call *call, struct fault *fault)
{
    struct v1_reader reader = { .arena = &call->request.arena,
                                .request = &call->request,
                                .fault = fault };
    return read_fields(call, &reader)
           && npy_body_numbers(&reader, call->base.body, &call->request.items[0].query);
}

/* -------------------------------------------------------------- the answer -- */

static int first_output(const struct infer_item *item)
{
    int output = 0;
    while (output < ATTN_OUTPUT_COUNT - 1 && !item->outputs[output])
        output++;
    return output;
}

static bool not_one(struct fault *fault, const char *what)
{
    return fault_set_at(fault, "/outputs", FAULT_OPTION,
                        "an .npy file holds one tensor, and %s; expected one of outputs, or "
                        "Accept: application/x-safetensors",
                        what);
}

bool wire_npy_settle_answer(struct infer_call *call, struct fault *fault)
{
    struct infer_item *item = &call->request.items[0];
    const cJSON *given = cJSON_GetObjectItemCaseSensitive(call->base.document.root, "outputs");
    int count = 0;
    if (!given || cJSON_IsNull(given)) {
        memset(item->outputs, 0, sizeof item->outputs);
        item->outputs[ATTN_OUTPUT_CONTEXT] = true;
    }
    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++)
        count += item->outputs[i];
    if (item->partial)
        return not_one(fault, "a partial answer is context and lse");
    if (count != 1)
        return not_one(fault, count == 0 ? "outputs names none" : "outputs names several");
    if (item->outputs[ATTN_OUTPUT_WEIGHTS] && item->weight_map.top_k > 0)
        return not_one(fault, "a top_k is indices and values");
    if (item->query.data && infer_output_dtype(item->query.dtype, first_output(item)) == ATTN_BF16)
        return fault_set_at(fault, "/query", FAULT_DTYPE,
                            "query is BF16, which .npy files have no dtype for; expected F32, F16 "
                            "or F64, or Accept: application/x-safetensors");
    return true;
}

bool wire_npy_write(struct infer_call *call, struct fault *fault)
{
    struct infer_item *item = &call->request.items[0];
    const int output = first_output(item);
    struct infer_array array = { .dtype = infer_output_dtype(item->answer_dtype, output) };
    if (!infer_convert_results(&call->request, item, item->answer_dtype, fault))
        return false;
    array.data = item->results[output];
    array.rank = infer_output_shape(item, output, array.shape);
    return npy_answer_make(&call->base, &call->request.arena, &array, fault);
}
