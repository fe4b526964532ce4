/* trace_plan.c - see trace_plan.h. */
#include "forward/trace_plan.h"

#include "infer/infer_results.h"
#include "service/model_access.h"

#include <inttypes.h>
#include <stdio.h>

static bool resolve(struct trace_item *item, struct infer_item *attention,
                    const struct infer_limits *limits, struct fault *fault)
{
    if (!item->model_name)
        return fault_set_at(fault, "/model", FAULT_FIELD, "model is missing");
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

static bool refuse_answer(const struct trace_item *item, const struct infer_limits *limits,
                          size_t number_bytes, size_t bytes_left, struct fault *fault)
{
    const int64_t side = trace_pool_that_fits(item, number_bytes, bytes_left);
    char hint[128] = "";
    if (side > 0)
        snprintf(hint, sizeof hint, "; weight_map {\"pool\":[%" PRId64 ",%" PRId64 "]} would fit",
                 side, side);
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
    if (!resolve(item, &request->attention.items[i], limits, fault)
        || !trace_plan_inputs(item, &request->arena, fault)
        || !trace_plan_spans(item, &request->arena, fault)
        || !trace_plan_results(item, &request->arena, fault))
        return false;
    const size_t left = limits->answer_bytes_max - *bytes_total;
    item->answer_bytes = trace_answer_bytes(item, number_bytes);
    if (item->answer_bytes > left)
        return refuse_answer(item, limits, number_bytes, left, fault);
    *bytes_total += item->answer_bytes;
    return trace_allocate_results(item, &request->arena, fault);
}

/* ------------------------------------------------------------------ groups -- */

/* Counts the work and the memory of a group by making its pass. */
static bool measure(struct trace_groups *groups, const struct pass_group *group,
                    const struct infer_limits *limits, struct fault *fault)
{
    struct arena arena;
    struct pass *pass = NULL;
    arena_init(&arena, limits->scratch_bytes_max);
    const bool made = pass_create(&pass, &arena, group, limits, &groups->work, fault);
    if (arena.used > groups->pass_bytes)
        groups->pass_bytes = arena.used;
    arena_free(&arena);
    return made;
}

static bool add_group(struct trace_request *request, struct trace_groups *groups, int64_t i,
                      const struct infer_limits *limits, struct fault *fault)
{
    struct pass_group *group = &groups->groups[groups->count];
    struct trace_item **items = arena_calloc(&request->arena, 1, sizeof *items);
    struct infer_item **attention = arena_calloc(&request->arena, 1, sizeof *attention);
    if (!items || !attention)
        return fault_no_memory(fault);
    items[0] = &request->items[i];
    attention[0] = &request->attention.items[i];
    *group = (struct pass_group){ items, attention, 1 };
    if (!measure(groups, group, limits, fault))
        return false;
    groups->count++;
    return true;
}

bool trace_plan(struct trace_request *request, struct trace_groups *groups,
                const struct infer_limits *limits, struct fault *fault)
{
    size_t bytes_total = 0;
    request->attention.items =
        arena_calloc(&request->arena, (size_t)request->item_count, sizeof(struct infer_item));
    groups->groups =
        arena_calloc(&request->arena, (size_t)request->item_count, sizeof *groups->groups);
    if (!request->attention.items || !groups->groups)
        return fault_no_memory(fault);
    request->attention.item_count = request->item_count;
    for (int64_t i = 0; i < request->item_count; i++) {
        struct trace_item *item = &request->items[i];
        if (item->fault.code == FAULT_NONE
            && plan_item(request, i, limits, &bytes_total, &item->fault)
            && add_group(request, groups, i, limits, &item->fault))
            continue;
        const enum fault_code code = item->fault.code;
        if (!request->batch || code == FAULT_ANSWER_TOO_LARGE || code == FAULT_MEMORY) {
            *fault = item->fault;
            return false;
        }
    }
    return true;
}

void trace_request_free(struct trace_request *request)
{
    for (int64_t i = 0; i < request->item_count; i++) {
        model_release(request->items[i].model);
        request->items[i].model = NULL;
    }
    request->item_count = 0;
    infer_request_free(&request->attention);
    arena_free(&request->arena);
    request->items = NULL;
}
