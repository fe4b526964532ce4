/* SPDX-License-Identifier: Apache-2.0 */
/* infer_merge.c - see infer_merge.h.
 *
 * The first part that saw a key gives the numbers of heads, rows and columns that the model does
 * not give; all others have to agree with it. Only a part that saw no key may have other columns:
 * it may not know the columns of values that it does not have. */
#include "call/infer_merge.h"

#include "models/model/model_layers.h"

#include <inttypes.h>
#include <math.h>
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
    item->outputs[ATTN_OUTPUT_LSE] = true;
    return true;
}

struct part_shape {
    int64_t q_heads, q_len, v_head_dim; /* v_head_dim 0: not known, there are no rows */
    bool is_certain;                    /* the part saw a key */
};

static bool refuse(struct fault *fault, int64_t index, const char *member, const char *expected)
{
    char pointer[FAULT_POINTER_MAX];
    snprintf(pointer, sizeof pointer, "/parts/%" PRId64 "/%s", index, member);
    return fault_set_at(fault, pointer, FAULT_SHAPE, "parts[%" PRId64 "].%s is not %s", index,
                        member, expected);
}

static bool saw_nothing(const struct infer_part *part)
{
    const float *lse = part->lse.data;
    int64_t count = 1;
    for (int d = 0; d < part->lse.rank; d++)
        count *= part->lse.shape[d];
    for (int64_t i = 0; i < count; i++)
        if (lse[i] != -INFINITY)
            return false;
    return true;
}

/* context [q_heads][q_len][v_head_dim] and lse [q_heads][q_len]; without rows both are
 * [q_heads][0]. */
static bool read_shape(const struct infer_part *part, int64_t index, struct part_shape *shape,
                       struct fault *fault)
{
    const struct array *context = &part->context, *lse = &part->lse;
    const bool is_rowless = context->rank == 2 && context->shape[1] == 0;
    if ((context->rank != 3 && !is_rowless) || context->shape[0] == 0
        || (!is_rowless && context->shape[2] == 0))
        return refuse(fault, index, "context", "[q_heads][q_len][v_head_dim]");
    *shape = (struct part_shape){ context->shape[0], context->shape[1],
                                  is_rowless ? 0 : context->shape[2], !saw_nothing(part) };
    if (lse->rank != 2 || lse->shape[0] != shape->q_heads || lse->shape[1] != shape->q_len) {
        char expected[96];
        snprintf(expected, sizeof expected,
                 "[q_heads %" PRId64 "][q_len %" PRId64 "], as its context is", shape->q_heads,
                 shape->q_len);
        return refuse(fault, index, "lse", expected);
    }
    return true;
}

static bool agree_with_model(const struct infer_item *item, int64_t index,
                             const struct part_shape *shape, struct fault *fault)
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
    return refuse(fault, index, "context", expected);
}

/* Settles what a merge needs of the layer. */
static bool settle_layer(struct infer_item *item, const struct part_shape *shape,
                         struct fault *fault)
{
    struct model_layer fitted = item->model->layers[item->layer_index];
    const struct model_widths widths = { .value = shape->v_head_dim };
    if (item->model->parameterless) {
        fitted.layer.q_heads = shape->q_heads;
        fitted.layer.v_head_dim = shape->v_head_dim > 0 ? shape->v_head_dim : 1;
        fitted.d_out = fitted.layer.q_heads * fitted.layer.v_head_dim;
    } else if (!model_scores_fit(&fitted, item->model, item->layer_index, &widths, fault)) {
        return false;
    }
    item->layer = fitted.layer;
    item->d_out = fitted.d_out;
    return true;
}

/* The part that gives the shape of the whole: the first that saw a key, else the first. */
static int64_t find_teller(const struct infer_item *item)
{
    for (int64_t i = 0; i < item->part_count; i++)
        if (!saw_nothing(&item->parts[i]))
            return i;
    return 0;
}

/* Checks that a part fits the whole. *counts: the part saw a key, so it counts in the result. */
static bool read_part(const struct infer_item *item, int64_t index, const struct part_shape *whole,
                      bool *counts, struct fault *fault)
{
    struct part_shape shape = { 0 };
    if (!read_shape(&item->parts[index], index, &shape, fault))
        return false;
    *counts = shape.is_certain;
    if (shape.q_heads != whole->q_heads || shape.q_len != whole->q_len
        || ((*counts || !whole->is_certain) && shape.v_head_dim != whole->v_head_dim))
        return refuse(fault, index, "context", "of the shape of the other parts' contexts");
    return true;
}

bool infer_merge_shapes(struct infer_request *request, struct infer_item *item, struct fault *fault)
{
    const int64_t teller = find_teller(item);
    struct part_shape whole = { 0 };
    int64_t count = 0;
    struct attn_part *parts = arena_calloc(request->arena, (size_t)item->part_count, sizeof *parts);
    if (!parts)
        return fault_no_memory(fault);
    if (!read_shape(&item->parts[teller], teller, &whole, fault)
        || !settle_layer(item, &whole, fault) || !agree_with_model(item, teller, &whole, fault))
        return false;
    for (int64_t i = 0; i < item->part_count; i++) {
        const struct infer_part *part = &item->parts[i];
        bool counts = false;
        if (!read_part(item, i, &whole, &counts, fault))
            return false;
        if (counts)
            parts[count++] = (struct attn_part){ part->context.data, part->lse.data };
    }
    item->q_len = whole.q_len;
    item->merge = (struct attn_layer_merge){
        .layer = &item->layer,
        .parts = parts,
        .part_count = count,
        .q_len = whole.q_len,
    };
    return true;
}

enum attn_status infer_merge_plan(struct infer_item *item, const struct attn_kernels *kernels,
                                  const char **where)
{
    item->merge.kernels = kernels;
    item->merge.context = item->results[ATTN_OUTPUT_CONTEXT];
    item->merge.lse = item->results[ATTN_OUTPUT_LSE];
    return attn_layer_merge_plan_init(&item->plan, &item->merge, where);
}
