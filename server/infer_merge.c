/* infer_merge.c - see infer_merge.h.
 *
 * The first part says how many heads, rows and columns there are, as far as the model does not;
 * all others have to agree with it. */
#include "infer_merge.h"

#include <inttypes.h>
#include <stdio.h>

bool infer_merge_plan_part(struct infer_item *item, struct attn_layer_problem *problem,
                           struct fault *fault)
{
    if (!item->partial)
        return true;
    if (item->normalizer != ATTN_SOFTMAX)
        return fault_set_at(fault, "/partial", FAULT_OPTION,
                            "partial is true and normalizer is not softmax; only answers of a "
                            "softmax can be merged");
    problem->partial = true;
    item->outputs[INFER_LSE] = true;
    return true;
}

struct part_shape {
    int64_t q_heads, q_len, v_head_dim; /* v_head_dim 0: there are no rows to tell it from */
};

static bool refuse(struct fault *fault, int64_t index, const char *member, const char *expected)
{
    char pointer[FAULT_POINTER_MAX];
    snprintf(pointer, sizeof pointer, "/parts/%" PRId64 "/%s", index, member);
    return fault_set_at(fault, pointer, FAULT_SHAPE, "parts[%" PRId64 "].%s is not %s", index,
                        member, expected);
}

/* context [q_heads][q_len][v_head_dim] and lse [q_heads][q_len]; without rows both are
 * [q_heads][0]. */
static bool read_shape(const struct infer_part *part, int64_t index, struct part_shape *shape,
                       struct fault *fault)
{
    const struct infer_array *context = &part->context, *lse = &part->lse;
    const bool is_rowless = context->rank == 2 && context->shape[1] == 0;
    if ((context->rank != 3 && !is_rowless) || context->shape[0] == 0
        || (!is_rowless && context->shape[2] == 0))
        return refuse(fault, index, "context", "[q_heads][q_len][v_head_dim]");
    *shape = (struct part_shape){ context->shape[0], context->shape[1],
                                  is_rowless ? 0 : context->shape[2] };
    if (lse->rank != 2 || lse->shape[0] != shape->q_heads || lse->shape[1] != shape->q_len) {
        char expected[96];
        snprintf(expected, sizeof expected,
                 "[q_heads %" PRId64 "][q_len %" PRId64 "], as its context is", shape->q_heads,
                 shape->q_len);
        return refuse(fault, index, "lse", expected);
    }
    return true;
}

static bool agree_with_model(const struct infer_item *item, const struct part_shape *shape,
                             struct fault *fault)
{
    const struct attn_layer *layer = &item->layer;
    char expected[128];
    if (item->model->parameterless
        || (shape->q_heads == layer->q_heads
            && (shape->v_head_dim == 0 || shape->v_head_dim == layer->v_head_dim)))
        return true;
    snprintf(expected, sizeof expected,
             "[%" PRId64 "][q_len][%" PRId64 "]; the model has that many heads and columns",
             layer->q_heads, layer->v_head_dim);
    return refuse(fault, 0, "context", expected);
}

/* The layer as far as a merge needs it. */
static void settle_layer(struct infer_item *item, const struct part_shape *shape)
{
    const struct model_layer *of_model = &item->model->layers[item->layer_index];
    item->layer = of_model->layer;
    item->d_out = of_model->d_out;
    if (!item->model->parameterless)
        return;
    item->layer.q_heads = shape->q_heads;
    item->layer.v_head_dim = shape->v_head_dim > 0 ? shape->v_head_dim : 1;
    item->d_out = item->layer.q_heads * item->layer.v_head_dim;
}

static bool same(const struct part_shape *a, const struct part_shape *b)
{
    return a->q_heads == b->q_heads && a->q_len == b->q_len && a->v_head_dim == b->v_head_dim;
}

bool infer_merge_shapes(struct infer_request *request, struct infer_item *item, struct fault *fault)
{
    struct part_shape first = { 0, 0, 0 };
    struct attn_part *parts =
        arena_calloc(&request->arena, (size_t)item->part_count, sizeof *parts);
    if (!parts)
        return fault_no_memory(fault);
    for (int64_t i = 0; i < item->part_count; i++) {
        struct part_shape shape = { 0, 0, 0 };
        if (!read_shape(&item->parts[i], i, &shape, fault))
            return false;
        if (i == 0) {
            first = shape;
            settle_layer(item, &first);
            if (!agree_with_model(item, &first, fault))
                return false;
        } else if (!same(&shape, &first)) {
            return refuse(fault, i, "context", "of the shape of parts[0].context");
        }
        parts[i] = (struct attn_part){ item->parts[i].context.data, item->parts[i].lse.data };
    }
    item->q_len = first.q_len;
    item->merge = (struct attn_layer_merge){
        .layer = &item->layer,
        .parts = parts,
        .part_count = item->part_count,
        .q_len = first.q_len,
    };
    return true;
}

enum attn_status infer_merge_plan(struct infer_item *item, const char **where)
{
    item->merge.context = item->results[INFER_CONTEXT];
    item->merge.lse = item->results[INFER_LSE];
    return attn_layer_merge_plan_init(&item->plan, &item->merge, where);
}
