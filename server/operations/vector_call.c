/* SPDX-License-Identifier: Apache-2.0 */
/* vector_call.c - see vector_call.h. */
#include "operations/vector_call.h"

#include "base/names.h"
#include "call/model_access.h"
#include "models/model/model_forward.h"
#include "models/tokenizer/tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *const vector_poolings[VECTOR_POOLINGS] = {
#define X(NAME, name) #name,
    MODEL_POOLING_MAP(X)
#undef X
};
const char *const vector_directions[VECTOR_DIRECTIONS] = { "right", "left", "Right", "Left" };
const char *const vector_encodings[VECTOR_ENCODINGS] = { "float", "base64" };

static void take_objects(struct vector_asked *asked)
{
    const struct vector_parameters *parameters = &asked->parameters;
    if (asked->compared.sentences.count > 0)
        asked->inputs = asked->compared.sentences;
    if (!asked->has_parameters)
        return;
    asked->prompt_name = parameters->prompt_name;
    asked->has_truncate = parameters->has_truncate;
    asked->truncate = parameters->truncate;
    asked->direction = parameters->direction;
}

struct vector_asked *vector_call_read(struct call *call, const struct field_table *table,
                                      const char *inputs_name, struct fault *fault)
{
    struct vector_asked *asked = arena_calloc(&call->arena, 1, sizeof *asked);
    char pointer[32];
    if (!asked) {
        fault_no_memory(fault);
        return NULL;
    }
    call->form.nul_is_kept = true;
    asked->inputs_name = inputs_name;
    trace_request_of(call)->asked = asked;
    if (!operation_read_fields(call, table, asked, fault))
        return NULL;
    take_objects(asked);
    if (asked->inputs.count > 0)
        return asked;
    snprintf(pointer, sizeof pointer, "/%s", inputs_name);
    fault_set_at(fault, pointer, FAULT_FIELD, "%s is missing", inputs_name);
    return NULL;
}

/* ---------------------------------------------------------------------- models -- */

bool vector_has_embedding(const struct model *model)
{
    const char *reason;
    return model->forward && model_find_readout(model, 0, &reason);
}

bool vector_has_classes(const struct model *model)
{
    return model->forward && model->forward->classes.count > 0
           && !model->forward->classes.is_of_rows;
}

bool vector_has_rank(const struct model *model)
{
    return vector_has_classes(model) && model->forward->classes.count == 1;
}

/* The models that fit: the first one's name, how many, and a list of them. */
struct fitting {
    vector_fits *fits;
    char name[MODEL_NAME_MAX + 1];
    int count;
    struct name_list list;
};

static void count_fitting(void *context, const struct model_listing *listing)
{
    struct fitting *fitting = context;
    if (!listing->model || !listing->is_default || !fitting->fits(listing->model))
        return;
    if (fitting->count++ == 0)
        snprintf(fitting->name, sizeof fitting->name, "%s", listing->name);
    name_list_add(&fitting->list, listing->name);
}

bool vector_call_find_model(const struct call *call, const struct vector_asked *asked,
                            vector_fits *fits, struct model **model, struct fault *fault)
{
    struct model_store *store = call->service->store;
    const struct model_view view = model_access_view(call->limits.key);
    char names[320] = "";
    struct fitting fitting = { .fits = fits, .list = name_list_in(names, sizeof names) };
    const char *name = asked->model_name;
    if (!name) {
        model_store_each(store, &view, count_fitting, &fitting);
        name_list_end(&fitting.list);
        name = fitting.count == 1 ? fitting.name : NULL;
    }
    if (fitting.count > 1)
        return fault_set_at(fault, "/model", FAULT_FIELD,
                            "model is missing; this can be asked of %s", names);
    if (model_access_resolve(store, call->limits.key, name, "", model, fault))
        return true;
    if (!fault->pointer[0])
        snprintf(fault->pointer, sizeof fault->pointer, "/model");
    return false;
}

/* ----------------------------------------------------------------------- items -- */

bool vector_call_make_items(struct call *call, struct vector_asked *asked, struct model *model,
                            struct fault *fault)
{
    struct trace_request *request = trace_request_of(call);
    const int64_t count = asked->inputs.count;
    request->items = arena_calloc(request->arena, (size_t)count, sizeof *request->items);
    for (int64_t i = 0; request->items && i < count; i++) {
        const struct prompt *input = &asked->inputs.list[i];
        request->items[i] = (struct trace_item){ .model = model_retain(model),
                                                 .model_name = model->name,
                                                 .input_name = asked->inputs_name,
                                                 .text = input->text,
                                                 .pair = input->pair,
                                                 .has_tokens = !input->text.data,
                                                 .tokens = input->ids,
                                                 .token_count = input->id_count,
                                                 .has_outputs = true,
                                                 .has_layers = true,
                                                 .hides_tokens = true,
                                                 .length_most = model_length_whole(model),
                                                 .at = -1 };
        request->item_count++;
    }
    model_release(model);
    return request->items || fault_no_memory(fault);
}

void vector_call_cut(const struct call *call, const struct vector_asked *asked)
{
    const struct trace_request *request = trace_request_of(call);
    for (int64_t i = 0; i < request->item_count && (!asked->has_truncate || asked->truncate); i++) {
        request->items[i].tokens_max = model_length_cut(request->items[0].model);
        request->items[i].cuts_first = asked->direction % 2 == 1;
    }
}

/* --------------------------------------------------------------------- prompts -- */

static const char *find_prompt(const struct model *model, const struct vector_asked *asked,
                               struct fault *fault)
{
    const struct model_vectors *vectors = model->vectors;
    char names[160] = "";
    size_t used = 0;
    for (int i = 0; vectors && i < vectors->prompt_count; i++) {
        if (strcmp(vectors->prompts[i].name, asked->prompt_name) == 0)
            return vectors->prompts[i].text;
        if (used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                                     vectors->prompts[i].name);
    }
    fault_set_at(fault, "/prompt_name", FAULT_OPTION, "model '%s' has no prompt '%.60s'; it has %s",
                 model->name, asked->prompt_name, names[0] ? names : "none");
    return NULL;
}

/* The rows of a prompt: its tokens, without a last one that is special. */
static bool count_prompt(struct call *call, const struct model *model, struct byte_slice prompt,
                         int64_t *rows, struct fault *fault)
{
    struct token_list list = { NULL, 0 };
    if (!tokenizer_encode(model->tokenizer, NULL, prompt, NULL, true, &call->arena, &list, fault))
        return false;
    *rows = list.count - (list.count > 0 && list.tokens[list.count - 1].is_special);
    return true;
}

static bool join(struct arena *arena, const char *prompt, struct byte_slice *text,
                 struct fault *fault)
{
    const size_t before = strlen(prompt);
    char *joined = arena_alloc(arena, before + text->size);
    if (!joined)
        return fault_no_memory(fault);
    /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): a slice has no NUL byte */
    memcpy(joined, prompt, before);
    memcpy(joined + before, text->data, text->size);
    *text = (struct byte_slice){ joined, before + text->size };
    return true;
}

bool vector_call_add_prompt(struct call *call, const struct vector_asked *asked,
                            struct fault *fault)
{
    const struct trace_request *request = trace_request_of(call);
    const struct model *model = request->items[0].model;
    const char *prompt = asked->prompt_name ? find_prompt(model, asked, fault) : NULL;
    int64_t rows = 0;
    if (!prompt)
        return fault->code == FAULT_NONE;
    if (!request->items[0].text.data)
        return fault_set_at(fault, "/prompt_name", FAULT_OPTION,
                            "a prompt stands before texts, and ids of tokens came");
    if (model->vectors->leaves_prompt_out && model->tokenizer
        && !count_prompt(call, model, (struct byte_slice){ prompt, strlen(prompt) }, &rows, fault))
        return false;
    for (int64_t i = 0; i < request->item_count; i++) {
        request->items[i].prompt_rows = rows;
        if (!join(request->arena, prompt, &request->items[i].text, fault))
            return false;
    }
    return true;
}

void vector_call_embed(const struct call *call, const struct vector_asked *asked)
{
    const struct trace_request *request = trace_request_of(call);
    for (int64_t i = 0; i < request->item_count; i++) {
        struct trace_item *item = &request->items[i];
        item->outputs[TRACE_OUTPUT_EMBEDDING] = true;
        item->has_pooling = asked->has_pooling;
        item->pooling = asked->pooling;
        item->has_normalize = true;
        item->normalize = !asked->has_normalize || asked->normalize;
        item->dimensions = asked->dimensions;
    }
}

void vector_call_answer_rows(const struct call *call)
{
    const struct trace_request *request = trace_request_of(call);
    for (int64_t i = 0; i < request->item_count; i++)
        request->items[i].final_rows = true;
}

/* ---------------------------------------------------------------------- faults -- */

/* Faults of a trace are at the names of its fields, or at those of the inputs: "/text",
 * "/tokens/3", "/input/3". */
void vector_call_explain(const struct call *call, struct fault *fault)
{
    const struct trace_request *request = trace_request_of(call);
    const struct vector_asked *asked = vector_asked_of(call);
    char pointer[FAULT_POINTER_MAX], place[24] = "";
    const char *const name = fault->pointer[0] ? fault->pointer + 1 : "";
    const size_t length = strcspn(name, "/");
    int64_t i = 0;
    while (i < request->item_count && request->items[i].fault.code == FAULT_NONE)
        i++;
    if (strncmp(name, "outputs", length) == 0 && length > 0) {
        snprintf(fault->pointer, sizeof fault->pointer, "/model");
        return;
    }
    if (asked->query.data && strcmp(name, "text") == 0 && fault->code != FAULT_LENGTH) {
        snprintf(fault->pointer, sizeof fault->pointer, "/query");
        return;
    }
    const bool is_input = strncmp(name, "text", length) == 0 || strncmp(name, "tokens", length) == 0
                          || strncmp(name, "pair", length) == 0
                          || strncmp(name, asked->inputs_name, length) == 0;
    if (i == request->item_count || length == 0 || !is_input)
        return;
    if (asked->inputs.is_list)
        snprintf(place, sizeof place, "/%" PRId64, i);
    snprintf(pointer, sizeof pointer, "/%s%s%s", asked->inputs_name, place, name + length);
    snprintf(fault->pointer, sizeof fault->pointer, "%s", pointer);
}

/* The first stream that has tokens: of an encoder-decoder the encoder. */
static int64_t count_tokens(const struct trace_item *item)
{
    int i = 0;
    while (i < MODEL_STREAMS_MAX - 1 && !item->streams[i].tokens.tokens)
        i++;
    return item->streams[i].tokens.count;
}

int64_t vector_call_tokens(const struct call *call)
{
    const struct trace_request *request = trace_request_of(call);
    int64_t count = 0;
    for (int64_t i = 0; i < request->item_count; i++)
        count += count_tokens(&request->items[i]);
    return count;
}

const struct trace_tensor *vector_call_at(const struct call *call, int64_t i)
{
    const struct trace_stream *streams = trace_request_of(call)->items[i].streams;
    int s = 0;
    while (s < MODEL_STREAMS_MAX - 1 && !streams[s].vector.numbers.values)
        s++;
    return &streams[s].vector.numbers;
}

const struct trace_tensor *vector_call_rows_at(const struct call *call, int64_t i)
{
    const struct trace_stream *streams = trace_request_of(call)->items[i].streams;
    int s = 0;
    while (s < MODEL_STREAMS_MAX - 1 && !streams[s].rows.values)
        s++;
    return &streams[s].rows;
}
