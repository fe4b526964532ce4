/* infer_gradient.c - see infer_gradient.h.
 *
 * Every gradient that there is gets answered: of the three inputs, of a float mask, and of each
 * parameter of the layer. */
#include "infer_gradient.h"

#include "infer_results.h"

#include <inttypes.h>
#include <string.h>

const struct attn_linear *infer_gradient_linear(const struct attn_layer *layer,
                                                enum model_projection projection)
{
    const struct attn_linear *const linears[MODEL_PROJECTION_COUNT] = {
        [MODEL_Q] = &layer->q_proj,
        [MODEL_K] = &layer->k_proj,
        [MODEL_V] = &layer->v_proj,
        [MODEL_O] = &layer->o_proj,
    };
    return linears[projection];
}

/* Key and value absent: the query is all three. */
static bool is_self_attention(const struct infer_item *item)
{
    return !item->key.data && !item->value.data;
}

static bool has_mask(const struct infer_item *item, const struct attn_layer_problem *problem)
{
    return problem->mask.data && !item->mask_is_bool;
}

static int64_t count_of(const struct attn_tensor *tensor)
{
    return tensor->shape[0] * tensor->shape[1] * tensor->shape[2] * tensor->shape[3];
}

/* ---------------------------------------------------------------- checks -- */

/* What attention has and its gradients have not. */
static bool check_kind(const struct infer_item *item, struct fault *fault)
{
    const char *attention = item->model->attention;
    if (strcmp(attention, "scaled_dot_product") != 0 && strcmp(attention, "dot") != 0)
        return fault_set_at(fault, "/model", FAULT_OPTION,
                            "model '%s' has %s scores, whose gradients are not in this build",
                            item->model->name, attention);
    if (item->partial)
        return fault_set_at(fault, "/partial", FAULT_OPTION,
                            "partial is true; gradients are those of a whole answer");
    if (item->normalizer != ATTN_SOFTMAX)
        return fault_set_at(fault, "/normalizer", FAULT_OPTION,
                            "normalizer is sparsemax, whose gradients are not in this build");
    if (item->has_weight_map)
        return fault_set_at(fault, "/weight_map", FAULT_OPTION,
                            "weight_map is given; gradients have no map");
    return true;
}

static bool check_shape(const struct infer_item *item, struct fault *fault)
{
    const struct infer_array *gradient = &item->context_gradient;
    const int64_t *shape = gradient->shape;
    if (!gradient->data)
        return fault_set_at(fault, "/context_gradient", FAULT_FIELD,
                            "context_gradient is missing; expected [%" PRId64 "][%" PRId64
                            "], as the context is",
                            item->q_len, item->d_out);
    const bool is_empty = gradient->rank == 1 && shape[0] == 0 && item->q_len == 0;
    const bool is_flat =
        gradient->rank == 1 && item->query.rank == 1 && item->q_len == 1 && shape[0] == item->d_out;
    if (is_empty || is_flat)
        return true;
    if (gradient->rank != 2)
        return fault_set_at(fault, "/context_gradient", FAULT_SHAPE,
                            "context_gradient has %d dimensions; expected [%" PRId64 "][%" PRId64
                            "], as the context is",
                            gradient->rank, item->q_len, item->d_out);
    if (shape[0] != item->q_len || shape[1] != item->d_out)
        return fault_set_at(fault, "/context_gradient", FAULT_SHAPE,
                            "context_gradient is [%" PRId64 "][%" PRId64 "]; expected [%" PRId64
                            "][%" PRId64 "], as the context is",
                            shape[0], shape[1], item->q_len, item->d_out);
    return true;
}

bool infer_gradient_check(const struct infer_item *item, const struct attn_layer_problem *problem,
                          size_t *bytes, struct fault *fault)
{
    const struct attn_layer *layer = problem->layer;
    if (!check_kind(item, fault) || !check_shape(item, fault))
        return false;
    /* Each is the size of something that is in memory already. */
    int64_t count = count_of(&problem->query) + count_of(&problem->key) + count_of(&problem->value);
    if (is_self_attention(item))
        count += count_of(&problem->query);
    if (has_mask(item, problem))
        count += count_of(&problem->mask);
    for (int i = 0; i < MODEL_PROJECTION_COUNT; i++) {
        const struct attn_linear *linear = infer_gradient_linear(layer, i);
        if (linear->weight)
            count += linear->out * (linear->in + (linear->bias ? 1 : 0));
    }
    *bytes = (size_t)count * INFER_ANSWER_BYTES_PER_NUMBER;
    return true;
}

/* ----------------------------------------------------------------- plans -- */

static bool allocate(struct infer_request *request, float **numbers, int64_t count)
{
    *numbers = arena_alloc(&request->arena, (size_t)count * sizeof(float));
    return *numbers != NULL;
}

static bool allocate_results(struct infer_request *request, struct infer_item *item,
                             const struct attn_layer_problem *problem, struct fault *fault)
{
    struct infer_gradient *gradient = item->gradient;
    bool done = allocate(request, &gradient->inputs[INFER_QUERY], count_of(&problem->query))
                && allocate(request, &gradient->inputs[INFER_KEY], count_of(&problem->key))
                && allocate(request, &gradient->inputs[INFER_VALUE], count_of(&problem->value));
    if (done && is_self_attention(item))
        done = allocate(request, &gradient->input, count_of(&problem->query));
    if (done && has_mask(item, problem))
        done = allocate(request, &gradient->mask, count_of(&problem->mask));
    for (int i = 0; done && i < MODEL_PROJECTION_COUNT; i++) {
        const struct attn_linear *linear = infer_gradient_linear(problem->layer, i);
        struct attn_linear_gradient *projection = &gradient->projections[i];
        if (linear->weight)
            done = allocate(request, &projection->weight, linear->out * linear->in);
        if (done && linear->bias)
            done = allocate(request, &projection->bias, linear->out);
    }
    return done || fault_no_memory(fault);
}

bool infer_gradient_plan(struct infer_request *request, struct infer_item *item,
                         const struct attn_layer_problem *problem, struct fault *fault)
{
    item->gradient = arena_calloc(&request->arena, 1, sizeof *item->gradient);
    if (!item->gradient)
        return fault_no_memory(fault);
    if (!allocate_results(request, item, problem, fault))
        return false;
    const struct infer_gradient *gradient = item->gradient;
    const struct attn_layer_gradient_problem whole = {
        .layer = *problem,
        .context_gradient = item->context_gradient.data,
        .query = gradient->inputs[INFER_QUERY],
        .key = gradient->inputs[INFER_KEY],
        .value = gradient->inputs[INFER_VALUE],
        .mask = gradient->mask,
        .q_proj = gradient->projections[MODEL_Q],
        .k_proj = gradient->projections[MODEL_K],
        .v_proj = gradient->projections[MODEL_V],
        .o_proj = gradient->projections[MODEL_O],
    };
    const char *where = "";
    const enum attn_status status =
        attn_layer_gradient_plan_init(&item->gradient->plan, &whole, &where);
    return status == ATTN_OK || fault_from_attn(fault, status, where);
}

/* --------------------------------------------------------------- answers -- */

static int shape_of(const struct attn_tensor *tensor, int rank, int64_t shape[3])
{
    if (rank == 3) {
        shape[0] = tensor->shape[1];
        shape[1] = tensor->shape[2];
        shape[2] = tensor->shape[3];
        return 3;
    }
    shape[0] = tensor->shape[2];
    shape[1] = tensor->shape[3];
    return 2;
}

int infer_gradient_shape(const struct infer_item *item, enum infer_input input, int64_t shape[3])
{
    const struct attn_layer_problem *problem = &item->gradient->plan.problem.layer;
    const struct infer_array *key = item->key.data ? &item->key : &item->query;
    const struct infer_array *const arrays[INFER_INPUT_COUNT] = { &item->query, key,
                                                                  item->value.data ? &item->value
                                                                                   : key };
    const struct attn_tensor *const tensors[INFER_INPUT_COUNT] = { &problem->query, &problem->key,
                                                                   &problem->value };
    return shape_of(tensors[input], arrays[input]->rank, shape);
}

int infer_gradient_mask_shape(const struct infer_item *item, int64_t shape[3])
{
    return shape_of(&item->gradient->plan.problem.layer.mask, item->mask.rank, shape);
}

void infer_gradient_finish(struct infer_gradient *gradient)
{
    const int64_t count = count_of(&gradient->plan.problem.layer.query);
    for (int64_t i = 0; gradient->input && i < count; i++)
        gradient->input[i] = gradient->inputs[INFER_QUERY][i] + gradient->inputs[INFER_KEY][i]
                             + gradient->inputs[INFER_VALUE][i];
}
