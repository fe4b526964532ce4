/* SPDX-License-Identifier: Apache-2.0 */
/* infer_plan.c - from what was asked to a plan that cannot fail.
 *
 * Heads and lengths come from the arrays' shapes and the model; every disagreement is a fault that
 * names the field, its value and what was expected. What the library would refuse is refused here
 * first, with the names of the client's fields. */
#include "call/infer.h"
#include "call/infer_results.h"

#include "call/infer_gradient.h"
#include "call/infer_masking.h"
#include "call/infer_merge.h"
#include "call/model_access.h"
#include "models/model/model_layers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* One input in the form the library takes. */
struct planned_input {
    const char *name;    /* "query" */
    const char *pointer; /* "/query" */
    const struct array *array;
    int64_t heads; /* 0: rows of columns, not cut into heads */
    int64_t length;
    int64_t columns; /* of a row, or head_dim */
    struct attn_tensor tensor;
};

/* ---------------------------------------------------------------- inputs -- */

/* Takes [length][columns], where flat is true [columns] as one row, and where heads is true
 * [heads][length][head_dim]. An empty array has no rows and fits every width: columns is 0 then. */
static bool read_input(struct planned_input *input, const struct array *array, bool flat,
                       bool heads, struct fault *fault)
{
    const int64_t *shape = array->shape;
    *input =
        (struct planned_input){ .name = input->name, .pointer = input->pointer, .array = array };
    if (array_is_empty(array))
        return true;
    if (array->rank == 1 && flat) {
        input->length = 1;
        input->columns = shape[0];
    } else if (array->rank == 2) {
        input->length = shape[0];
        input->columns = shape[1];
    } else if (array->rank == 3 && heads) {
        input->heads = shape[0];
        input->length = shape[1];
        input->columns = shape[2];
    } else {
        return fault_set_at(fault, input->pointer, FAULT_SHAPE,
                            "%s has %d dimensions; expected %s[length][columns]%s", input->name,
                            array->rank, flat ? "[columns] or " : "",
                            heads ? " or [heads][length][head_dim]" : "");
    }
    if (input->columns == 0)
        return fault_set_at(fault, input->pointer, FAULT_SHAPE,
                            "%s has rows of 0 columns; expected 1 or more", input->name);
    return true;
}

static void set_view(struct planned_input *input)
{
    input->tensor =
        attn_tensor_dense((void *)input->array->data, input->array->dtype, 1,
                          input->heads ? input->heads : 1, input->length, input->columns);
}

static bool expect_columns(struct planned_input *input, int64_t expected,
                           const struct infer_item *item, struct fault *fault)
{
    if (input->columns == 0)
        input->columns = expected; /* no rows fit every width */
    if (input->columns != expected)
        return fault_set_at(fault, input->pointer, FAULT_SHAPE,
                            "%s has %" PRId64 " columns; model '%s' takes %" PRId64, input->name,
                            input->columns, item->model->name, expected);
    return true;
}

struct planned_inputs {
    struct planned_input query, key, value;
};

static bool read_inputs(struct planned_inputs *inputs, const struct infer_item *item, bool heads,
                        struct fault *fault)
{
    const struct array *key = item->key.data ? &item->key : &item->query;
    const struct array *value = item->value.data ? &item->value : key;
    inputs->query = (struct planned_input){ .name = item->is_input ? "input" : "query",
                                            .pointer = item->is_input ? "/input" : "/query" };
    inputs->key = (struct planned_input){ .name = "key", .pointer = "/key" };
    inputs->value = (struct planned_input){ .name = "value", .pointer = "/value" };
    if (key == &item->query)
        inputs->key.pointer = inputs->query.pointer;
    if (value == &item->query || value == &item->key)
        inputs->value.pointer = value == &item->key ? "/key" : inputs->query.pointer;
    if (!item->query.data)
        return fault_set_at(fault, "/query", FAULT_FIELD, "query is missing");
    if (!read_input(&inputs->query, &item->query, true, heads, fault)
        || !read_input(&inputs->key, key, key == &item->query, heads, fault)
        || !read_input(&inputs->value, value, value == &item->query, heads, fault))
        return false;
    if (inputs->value.length != inputs->key.length)
        return fault_set_at(fault, inputs->value.pointer, FAULT_SHAPE,
                            "value has %" PRId64 " rows; key has %" PRId64, inputs->value.length,
                            inputs->key.length);
    return true;
}

static void set_views(struct planned_inputs *inputs)
{
    set_view(&inputs->query);
    set_view(&inputs->key);
    set_view(&inputs->value);
}

/* ------------------------------------------------ a model with parameters -- */

static bool expect_heads(int64_t given, int64_t own, const char *name, const char *pointer,
                         const struct model *model, struct fault *fault)
{
    if (given && given != own)
        return fault_set_at(fault, pointer, FAULT_OPTION,
                            "%s is %" PRId64 "; model '%s' has %" PRId64, name, given, model->name,
                            own);
    return true;
}

/* Values that a layer makes of keys cannot be others. */
static bool check_value(const struct infer_item *item, const struct planned_input *value,
                        struct fault *fault)
{
    return item->layer.latent.rank == 0 || !item->value.data || value->length == 0
           || fault_set_at(fault, "/value", FAULT_OPTION,
                           "layer %" PRId64 " of model '%s' makes its values of the rows of key; "
                           "expected no value",
                           item->layer_index, item->model->name);
}

static bool plan_model_inputs(struct infer_item *item, struct planned_inputs *inputs,
                              struct fault *fault)
{
    struct model_layer layer;
    if (!read_inputs(inputs, item, false, fault))
        return false;
    const struct model_widths widths = { inputs->query.columns, inputs->key.columns,
                                         inputs->value.columns };
    if (!model_scores_fit(&layer, item->model, item->layer_index, &widths, fault))
        return false;
    item->layer = layer.layer;
    item->d_out = layer.d_out;
    return check_value(item, &inputs->value, fault)
           && expect_columns(&inputs->query, layer.d_query, item, fault)
           && expect_columns(&inputs->key, layer.d_key, item, fault)
           && expect_columns(&inputs->value, layer.d_value, item, fault)
           && expect_heads(item->q_heads, layer.layer.q_heads, "q_heads", "/q_heads", item->model,
                           fault)
           && expect_heads(item->kv_heads, layer.layer.kv_heads, "kv_heads", "/kv_heads",
                           item->model, fault);
}

/* --------------------------------------------- query, key, value as they are -- */

/* The heads of one input, from its own axis or from q_heads or kv_heads, and their head_dim. */
static bool settle_heads(struct planned_input *input, int64_t heads, const char *heads_name,
                         int64_t *head_dim, struct fault *fault)
{
    if (input->heads && input->heads != heads)
        return fault_set_at(fault, input->pointer, FAULT_SHAPE,
                            "%s has %" PRId64 " heads; %s is %" PRId64, input->name, input->heads,
                            heads_name, heads);
    if (!input->heads && input->columns % heads != 0)
        return fault_set_at(fault, input->pointer, FAULT_SHAPE,
                            "%s has %" PRId64 " columns, not a multiple of %s %" PRId64,
                            input->name, input->columns, heads_name, heads);
    *head_dim = input->heads ? input->columns : input->columns / heads;
    return true;
}

/* Inputs without rows get the widths of the others. */
static void settle_empty(struct planned_inputs *inputs, int64_t q_heads, int64_t kv_heads)
{
    struct planned_input *query = &inputs->query, *key = &inputs->key, *value = &inputs->value;
    const int64_t known = query->columns
                              ? (query->heads ? query->columns : query->columns / q_heads)
                          : key->columns ? (key->heads ? key->columns : key->columns / kv_heads)
                                         : 1;
    if (query->columns == 0)
        query->columns = known * q_heads;
    if (key->columns == 0)
        key->columns = known * kv_heads;
    if (value->columns == 0)
        value->columns = key->heads ? key->columns * kv_heads : key->columns;
}

static bool plan_plain_inputs(struct infer_item *item, struct planned_inputs *inputs,
                              struct fault *fault)
{
    if (!read_inputs(inputs, item, true, fault))
        return false;
    const int64_t q_heads = inputs->query.heads ? inputs->query.heads
                            : item->q_heads     ? item->q_heads
                                                : 1;
    const int64_t kv_heads = inputs->key.heads ? inputs->key.heads
                             : item->kv_heads  ? item->kv_heads
                                               : q_heads;
    struct attn_layer *layer = &item->layer;
    int64_t key_dim = 0;
    settle_empty(inputs, q_heads, kv_heads);
    if (!settle_heads(&inputs->query, item->q_heads ? item->q_heads : q_heads, "q_heads",
                      &layer->head_dim, fault)
        || !settle_heads(&inputs->key, item->kv_heads ? item->kv_heads : kv_heads, "kv_heads",
                         &key_dim, fault)
        || !settle_heads(&inputs->value, kv_heads, "kv_heads", &layer->v_head_dim, fault))
        return false;
    if (q_heads % kv_heads != 0)
        return fault_set_at(fault, item->kv_heads ? "/kv_heads" : inputs->key.pointer, FAULT_SHAPE,
                            "there are %" PRId64 " query heads, not a multiple of %" PRId64
                            " key/value heads",
                            q_heads, kv_heads);
    if (key_dim != layer->head_dim)
        return fault_set_at(fault, inputs->key.pointer, FAULT_SHAPE,
                            "key has rows of %" PRId64 " columns a head; query has %" PRId64,
                            key_dim, layer->head_dim);
    layer->q_heads = q_heads;
    layer->kv_heads = kv_heads;
    item->d_out = q_heads * layer->v_head_dim;
    return true;
}

/* --------------------------------------------------------------- options -- */

/* Whether the call is one of a whole sequence through a layer of a decoder whose tokens can be
 * traced: a causal layer, or one of cross attention. There a row's bits are the same whatever
 * tokens come behind it, in a trace and here. */
static bool is_whole_sequence(const struct infer_item *item, const struct attn_options *options)
{
    const struct model_layer *layer = &item->model->layers[item->layer_index];
    const bool is_cross = strcmp(model_layer_kind(layer), "cross") == 0;
    return item->model->forward && item->past_len == 0 && item->masking.kv_offset == 0
           && (is_cross || (options->causal && item->q_len == item->kv_len_max));
}

/* That of the request, of the model, or of the daemon. */
static enum attn_precision plan_precision(const struct infer_item *item,
                                          const struct infer_limits *limits)
{
    const struct model_layer *layer = &item->model->layers[item->layer_index];
    return item->has_precision    ? item->precision
           : layer->has_precision ? layer->options.precision
                                  : limits->precision;
}

const char *infer_precision(const struct infer_item *item)
{
    if (!item->has_precision || item->gradient || item->parts)
        return NULL;
    return attn_precision_name(attn_layer_precision(&item->plan));
}

static struct attn_options plan_options(const struct infer_item *item,
                                        const struct infer_limits *limits)
{
    struct attn_options options = item->model->layers[item->layer_index].options;
    if (item->model->parameterless)
        options.scale = attn_options_default(item->layer.head_dim).scale;
    if (item->has_scale)
        options.scale = item->scale;
    if (item->has_softcap)
        options.softcap = item->softcap;
    if (item->has_causal)
        options.causal = item->causal;
    if (item->has_window_left)
        options.window_left = item->window_left;
    if (item->has_window_right)
        options.window_right = item->window_right;
    options.dropout = item->dropout;
    options.seed = item->seed;
    options.normalizer = item->normalizer;
    options.softmax_precision = item->softmax_precision;
    options.precision = plan_precision(item, limits);
    options.is_prefix_stable = is_whole_sequence(item, &options);
    return options;
}

/* ----------------------------------------------------------------- plans -- */

static bool resolve(const struct infer_request *request, struct infer_item *item,
                    const struct infer_limits *limits, struct fault *fault)
{
    if (!item->model && request->model)
        item->model = model_retain(request->model);
    if (!item->model
        && !model_access_resolve(limits->store, limits->key, item->model_name, "", &item->model,
                                 fault)) {
        if (!fault->pointer[0])
            snprintf(fault->pointer, sizeof fault->pointer, "/model");
        return false;
    }
    const int64_t layer_count = item->model->layer_count;
    if (item->layer_index >= layer_count)
        return fault_set_at(fault, "/layer", FAULT_NOT_FOUND,
                            "layer is %" PRId64 "; model '%s' has %" PRId64 ", counted from 0",
                            item->layer_index, item->model->name, layer_count);
    if (item->model->layers[item->layer_index].lacks_attention)
        return fault_set_at(fault, "/layer", FAULT_OPTION,
                            "layer %" PRId64 " of model '%s' is of the kind '%s' and has no "
                            "attention; a trace goes through it",
                            item->layer_index, item->model->name,
                            model_layer_kind(&item->model->layers[item->layer_index]));
    item->layer_held = model_hold_layer(item->model, item->layer_index, fault);
    return item->layer_held;
}

/* The keys of the item become those of its cache, with its own behind them. */
static bool plan_cache(struct infer_item *item, struct attn_layer_problem *problem,
                       struct fault *fault)
{
    return !item->cache
           || item->cache->open(item->cache, &item->layer, problem->key.shape[2], &problem->cache,
                                fault);
}

/* Settles shapes and options. Results are allocated later, when the sizes of all are known. */
static bool plan_shapes(struct infer_request *request, struct infer_item *item,
                        const struct infer_limits *limits, struct attn_layer_problem *problem,
                        struct fault *fault)
{
    struct planned_inputs inputs;
    if (!(item->model->parameterless ? plan_plain_inputs(item, &inputs, fault)
                                     : plan_model_inputs(item, &inputs, fault)))
        return false;
    set_views(&inputs);
    item->q_len = inputs.query.length;
    item->kv_len_max = inputs.key.length + (item->cache ? item->cache->length : 0);
    *problem = (struct attn_layer_problem){
        .layer = &item->layer,
        .options = plan_options(item, limits),
        .query = inputs.query.tensor,
        .key = inputs.key.tensor,
        .value = inputs.value.tensor,
        .past_len = item->past_len,
        .masking = item->masking,
        .given = item->given,
        .kernels = limits->kernels,
    };
    problem->partial = item->context_by_heads;
    return plan_cache(item, problem, fault) && infer_plan_masking(item, problem, fault)
           && infer_merge_plan_part(item, problem, fault) && infer_check_weight_map(item, fault)
           && infer_plan_selection(request, item, problem, fault);
}

/* The plan of attention, without its scratch. */
static bool plan_attention(struct infer_request *request, struct infer_item *item,
                           struct attn_layer_problem *problem, const struct infer_limits *limits,
                           struct fault *fault)
{
    if (!infer_allocate_results(request, item, fault))
        return false;
    problem->output_dtype = item->result_dtype;
    memcpy(problem->out, item->results, sizeof problem->out);
    if (!infer_plan_weight_map(request, item, problem, limits, fault))
        return false;
    const char *where = "";
    const enum attn_status status = item->parts
                                        ? infer_merge_plan(item, limits->kernels, &where)
                                        : attn_layer_plan_init(&item->plan, problem, &where);
    return status == ATTN_OK || fault_from_attn(fault, status, where);
}

static bool plan_run(struct infer_request *request, struct infer_item *item,
                     struct attn_layer_problem *problem, const struct infer_limits *limits,
                     struct fault *fault)
{
    return (request->gradients ? infer_gradient_plan(request, item, problem, fault)
                               : plan_attention(request, item, problem, limits, fault))
           && infer_allocate_scratch(request, item, limits, fault);
}

bool infer_plan_layer(struct infer_request *request, struct infer_item *item,
                      const struct infer_limits *limits, struct fault *fault)
{
    struct attn_layer_problem problem = { 0 };
    return infer_convert_inputs(request, item, fault)
           && plan_shapes(request, item, limits, &problem, fault)
           && infer_plan_bias(request, item, &problem, fault)
           && plan_attention(request, item, &problem, limits, fault);
}

/* Plans the item and adds the most bytes of its answer to *bytes_total. */
static bool plan_item(struct infer_request *request, struct infer_item *item,
                      const struct infer_limits *limits, size_t *bytes_total, struct fault *fault)
{
    struct attn_layer_problem problem = { 0 };
    size_t bytes;
    if (!resolve(request, item, limits, fault) || !infer_convert_inputs(request, item, fault))
        return false;
    if (!(item->parts ? infer_merge_shapes(request, item, fault)
                      : plan_shapes(request, item, limits, &problem, fault)))
        return false;
    if (!item->parts && !infer_plan_bias(request, item, &problem, fault))
        return false;
    if (request->gradients)
        problem.options.precision = ATTN_PRECISION_HIGHEST; /* of the formulas in float */
    if (request->gradients && !infer_gradient_check(item, &problem, &bytes, fault))
        return false;
    if ((!request->gradients && !infer_answer_bytes(request, item, &bytes))
        || bytes > limits->answer_bytes_max || (*bytes_total += bytes) > limits->answer_bytes_max)
        return fault_set(fault, FAULT_ANSWER_TOO_LARGE,
                         "the answer may take more than the %zu bytes that are given "
                         "(%zu for each number)",
                         limits->answer_bytes_max, infer_number_bytes(request));
    item->answer_bytes = bytes;
    return plan_run(request, item, &problem, limits, fault);
}

bool infer_plan(struct infer_request *request, const struct infer_limits *limits,
                struct fault *fault)
{
    size_t bytes_total = 0;
    for (int64_t i = 0; i < request->item_count; i++) {
        struct infer_item *item = &request->items[i];
        if (limits->is_over && limits->is_over(limits->owner))
            return fault_set(fault, FAULT_LEFT, "the request was over before it was planned");
        if (item->fault.code == FAULT_NONE
            && plan_item(request, item, limits, &bytes_total, &item->fault))
            continue;
        const enum fault_code code = item->fault.code;
        if (!request->batch || code == FAULT_ANSWER_TOO_LARGE || code == FAULT_MEMORY) {
            *fault = item->fault;
            return false;
        }
        item->plan.stage_count = 0;
    }
    return true;
}

void infer_request_free(struct infer_request *request)
{
    for (int64_t i = 0; i < request->item_count; i++) {
        struct infer_item *item = &request->items[i];
        if (item->layer_held)
            model_drop_layer(item->model, item->layer_index);
        model_release(item->model);
    }
    model_release(request->model);
    request->model = NULL;
    arena_free(request->arena);
    request->items = NULL;
    request->item_count = 0;
}
