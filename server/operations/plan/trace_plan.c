/* SPDX-License-Identifier: Apache-2.0 */
/* trace_plan.c - plans items one by one, and groups short ones so that they share a pass. */
#include "operations/plan/trace_plan.h"

#include "call/infer_results.h"
#include "call/model_access.h"

#include <inttypes.h>
#include <stdio.h>

enum { GROUP_ROWS = 1024 }; /* of sequences that share a pass, at most */

static bool resolve_model(struct trace_item *item, struct infer_item *attention,
                          const struct infer_limits *limits, struct fault *fault)
{
    if (!item->model
        && !model_access_resolve(limits->store, limits->key, item->model_name, "", &item->model,
                                 fault)) {
        if (!fault->pointer[0])
            snprintf(fault->pointer, sizeof fault->pointer, "/model");
        return false;
    }
    attention->model = model_retain(item->model);
    if (item->model->forward)
        return true;
    return fault_set_at(fault, "/model", FAULT_OPTION, "model '%s' cannot be traced: %s",
                        item->model->name,
                        item->model->forward_reason ? item->model->forward_reason
                                                    : "it has attention layers alone");
}

/* Where weight maps are no choice of the client, as in a joined request, none is proposed. In a
 * batch it has to fit for all requests, as if each were like this one. Of vectors and classes there
 * can only be fewer. */
static bool refuse_answer(const struct trace_request *request, const struct trace_item *item,
                          const struct infer_limits *limits, size_t number_bytes, size_t bytes_left,
                          struct fault *fault)
{
    const size_t share =
        request->batch ? limits->answer_bytes_max / (size_t)request->item_count : bytes_left;
    const int64_t side = request->joined ? 0 : trace_pool_that_fits(item, number_bytes, share);
    char hint[128] = "";
    if (side > 0)
        snprintf(hint, sizeof hint, "; weight_map {\"pool\":[%" PRId64 ",%" PRId64 "]} would fit",
                 side, side);
    else if (item->hides_tokens && request->item_count > 1)
        snprintf(hint, sizeof hint, "; ask for fewer inputs at once");
    return fault_set(fault, FAULT_ANSWER_TOO_LARGE,
                     "the answer may take more than the %zu bytes that are given "
                     "(%zu for each number)%s",
                     limits->answer_bytes_max, number_bytes, hint);
}

/* Plans one item up to its results and adds the most bytes of its answer to *bytes_total. */
static bool plan_item(struct trace_request *request, int64_t i, const struct infer_limits *limits,
                      size_t *bytes_total, struct fault *fault)
{
    struct trace_item *item = &request->items[i];
    const size_t number_bytes =
        request->number_bytes ? request->number_bytes : INFER_ANSWER_BYTES_PER_NUMBER;
    if (!resolve_model(item, &request->attention.items[i], limits, fault)
        || !trace_take_sound(request, item, limits->kernels, fault)
        || !trace_plan_inputs(request, item, fault) || !trace_plan_spans(request, item, fault)
        || !trace_plan_edits(request, item, fault)
        || !trace_plan_results(item, request->arena, fault))
        return false;
    const size_t left = limits->answer_bytes_max - *bytes_total;
    item->answer_bytes = trace_answer_bytes(item, number_bytes);
    if (item->answer_bytes > left / (request->joined ? (size_t)(request->item_count - i) : 1))
        return refuse_answer(request, item, limits, number_bytes, left, fault);
    *bytes_total += item->answer_bytes;
    const struct trace_joint joint = { request->joined ? request->items : item,
                                       request->joined ? i : 0,
                                       request->joined ? request->item_count : 1 };
    return trace_allocate_results(item, &joint, request->arena, fault);
}

/* ------------------------------------------------------------------ groups -- */

/* Counts the work and the memory of a group by making its pass, and adds the group. */
static bool add_group(struct trace_groups *groups, const struct pass_group *group,
                      const struct infer_limits *limits, struct fault *fault)
{
    struct attn_work work = groups->work;
    struct arena arena;
    struct pass *pass = NULL;
    arena_init(&arena, limits->scratch_bytes_max);
    const bool made = pass_create(&pass, &arena, group, limits, &work, fault);
    const size_t bytes = arena.used;
    const int64_t steps = made ? pass_step_count(pass) : 0;
    const int64_t layers = made ? pass_layer_count(pass) : 0;
    arena_free(&arena);
    if (!made)
        return false;
    groups->pass_bytes = bytes > groups->pass_bytes ? bytes : groups->pass_bytes;
    groups->planned += steps * group->count;
    groups->steps += steps;
    groups->layers += layers;
    groups->work = work;
    groups->groups[groups->count++] = *group;
    return true;
}

/* Whether a fault of one item is one of the whole request. */
static bool is_of_all(const struct trace_request *request, const struct fault *fault)
{
    return !request->batch || fault->code == FAULT_ANSWER_TOO_LARGE || fault->code == FAULT_MEMORY;
}

/* Adds the group; where that fails, each of its items as its own group, so that the fault is
 * of the item that it belongs to. */
static bool add_items(const struct trace_request *request, struct trace_groups *groups,
                      const struct pass_group *group, const struct infer_limits *limits,
                      struct fault *fault)
{
    struct fault of_group = { .code = FAULT_NONE };
    if (group->count > 1 && add_group(groups, group, limits, &of_group))
        return true;
    for (int64_t i = 0, count; i < group->count; i += count) {
        count = group->items[i]->base ? 2 : 1;
        const struct pass_group one = { group->items + i, group->attention + i, count };
        struct fault *of_item = &group->items[i]->fault;
        if (!add_group(groups, &one, limits, of_item) && is_of_all(request, of_item)) {
            *fault = *of_item;
            return false;
        }
    }
    return true;
}

static int64_t rows_of(const struct trace_item *item)
{
    int64_t rows = 0;
    for (int i = 0; i < MODEL_STREAMS_MAX; i++)
        rows += item->streams[i].length * (item->base ? 2 : 1);
    return rows;
}

/* The last layer that is asked for; one more than all layers where something after them is. */
static int64_t last_layer(const struct trace_item *item)
{
    if (item->has_final_rows || trace_has_head(item) || trace_has_readout(item))
        return item->model->layer_count;
    const int64_t answered =
        item->answered_count > 0 ? item->answered[item->answered_count - 1].number : -1;
    return item->align && item->align->last_layer > answered ? item->align->last_layer : answered;
}

/* Short sequences share their passes: products of more rows read the parameters less often, and
 * have more tasks. They need to end at the same layer. Pixels, features and sound go
 * alone. */
static bool may_join(const struct trace_item *first, const struct trace_item *item, int64_t rows)
{
    return first->model == item->model && rows + rows_of(item) <= GROUP_ROWS && !item->pixels.data
           && !item->features.data && !first->pixels.data && !first->features.data
           && !item->sound.data && !first->sound.data && last_layer(first) == last_layer(item);
}

static bool form_groups(struct trace_request *request, struct trace_groups *groups,
                        const struct infer_limits *limits, struct fault *fault)
{
    struct trace_item **items =
        arena_calloc(request->arena, 2 * (size_t)request->item_count, sizeof(struct trace_item *));
    struct infer_item **attention =
        arena_calloc(request->arena, 2 * (size_t)request->item_count, sizeof(struct infer_item *));
    struct pass_group group = { items, attention, 0 };
    int64_t count = 0, rows = 0;
    if (!items || !attention)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < request->item_count; i++) {
        struct trace_item *item = &request->items[i];
        if (item->fault.code != FAULT_NONE)
            continue;
        if (group.count > 0 && !may_join(group.items[0], item, rows)) {
            if (!add_items(request, groups, &group, limits, fault))
                return false;
            group = (struct pass_group){ items + count, attention + count, 0 };
            rows = 0;
        }
        items[count] = item;
        attention[count++] = &request->attention.items[i];
        if (item->base) { /* a neighbour: see pass_head.c */
            items[count] = item->base;
            attention[count++] = item->base_attention;
        }
        group.count += item->base ? 2 : 1;
        rows += rows_of(item);
    }
    return group.count == 0 || add_items(request, groups, &group, limits, fault);
}

bool trace_plan(struct trace_request *request, struct trace_groups *groups,
                const struct infer_limits *limits, struct fault *fault)
{
    size_t bytes_total = 0;
    request->attention.items =
        arena_calloc(request->arena, (size_t)request->item_count, sizeof(struct infer_item));
    groups->groups =
        arena_calloc(request->arena, (size_t)request->item_count, sizeof *groups->groups);
    if (!request->attention.items || !groups->groups)
        return fault_no_memory(fault);
    request->attention.item_count = request->item_count;
    for (int64_t i = 0; i < request->item_count; i++) {
        struct trace_item *item = &request->items[i];
        if (request->stop.is_stopped && request->stop.is_stopped(request->stop.owner))
            return fault_set(fault, FAULT_LEFT, "the request was over before it was planned");
        if ((item->fault.code == FAULT_NONE
             && plan_item(request, i, limits, &bytes_total, &item->fault))
            || !is_of_all(request, &item->fault))
            continue;
        *fault = item->fault;
        return false;
    }
    return form_groups(request, groups, limits, fault);
}

void trace_request_free(struct trace_request *request)
{
    for (int64_t i = 0; i < request->item_count; i++) {
        edits_release(request->items[i].edits, request->items[i].planned_edit_count);
        model_release(request->items[i].model);
        request->items[i].model = NULL;
    }
    request->item_count = 0;
    infer_request_free(&request->attention);
    arena_free(request->arena);
    request->items = NULL;
}
