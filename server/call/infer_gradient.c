/* SPDX-License-Identifier: Apache-2.0 */
/* infer_gradient.c - see infer_gradient.h.
 *
 * The answer has every gradient: of the three inputs, of a float mask, of slopes and sinks, and of
 * each parameter of the layer as the model's file has it. Only set_parameters() knows where the
 * layer uses a parameter in another form, for example one matrix as two projections. */
#include "call/infer_gradient.h"

#include "base/dtype.h"
#include "call/infer_results.h"

#include <inttypes.h>
#include <string.h>

static const struct model_layer *model_layer_of(const struct infer_item *item)
{
    return &item->model->layers[item->layer_index];
}

const struct model_tensor *infer_gradient_tensor(const struct infer_item *item,
                                                 enum model_projection projection, bool is_bias)
{
    return &model_layer_of(item)->tensors[projection][is_bias];
}

/* Without key and value the query is all three inputs. */
static bool is_self_attention(const struct infer_item *item)
{
    return !item->key.data && !item->value.data;
}

static int64_t count_of(const struct attn_tensor *tensor)
{
    return tensor->shape[0] * tensor->shape[1] * tensor->shape[2] * tensor->shape[3];
}

/* A bias gives the problem a mask even if the request has none. */
static bool has_bias(const struct infer_item *item, const struct attn_layer_problem *problem)
{
    return model_layer_of(item)->relative_bias.values && problem->mask.data;
}

static bool has_mask(const struct infer_item *item, const struct attn_layer_problem *problem)
{
    const bool is_given = !has_bias(item, problem) || item->mask.data;
    return problem->mask.data && is_given && !item->mask_is_bool;
}

/* Numbers of the request's mask: one mask for each head, or one for all heads. */
static int64_t mask_count(const struct infer_item *item, const struct attn_layer_problem *problem)
{
    const struct attn_tensor *mask = &problem->mask;
    const bool is_shared = has_bias(item, problem) && item->mask.rank == 2;
    return count_of(mask) / (is_shared && mask->shape[1] > 0 ? mask->shape[1] : 1);
}

static int64_t tensor_count(const struct model_tensor *tensor)
{
    return !tensor->name ? 0 : tensor->shape[0] * (tensor->rank == 2 ? tensor->shape[1] : 1);
}

/* ---------------------------------------------------------------- checks -- */

/* Refuses fields of attention that gradients do not have. */
static bool check_fields(const struct infer_item *item, struct fault *fault)
{
    if (item->partial)
        return fault_set_at(fault, "/partial", FAULT_OPTION,
                            "partial is true; gradients are those of a whole answer");
    if (item->has_weight_map)
        return fault_set_at(fault, "/weight_map", FAULT_OPTION,
                            "weight_map is given; gradients have no map");
    return true;
}

static bool check_shape(const struct infer_item *item, struct fault *fault)
{
    const struct array *gradient = &item->context_gradient;
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
    if (!check_fields(item, fault) || !check_shape(item, fault))
        return false;
    /* No overflow: each count is the size of something in memory. */
    int64_t count = count_of(&problem->query) + count_of(&problem->key) + count_of(&problem->value);
    if (is_self_attention(item))
        count += count_of(&problem->query);
    if (has_mask(item, problem))
        count += mask_count(item, problem);
    for (int i = 0; i < ATTN_PER_HEAD_COUNT; i++)
        count += problem->per_head[i] ? item->layer.q_heads : 0;
    for (int i = 0; i < 2 * MODEL_TENSOR_COUNT; i++)
        count += tensor_count(infer_gradient_tensor(item, i / 2, i % 2 != 0));
    count += item->layer.q_heads + 2 * item->layer.kv_heads; /* heads without rows are lists too */
    *bytes = (size_t)count * INFER_ANSWER_BYTES_PER_NUMBER;
    return true;
}

/* ----------------------------------------------------------------- plans -- */

static bool allocate(struct infer_request *request, float **numbers, int64_t count)
{
    *numbers = arena_alloc(request->arena, (size_t)count * sizeof(float));
    return *numbers != NULL;
}

static bool allocate_bias(struct infer_request *request, const struct infer_item *item,
                          const struct attn_layer_problem *problem)
{
    struct infer_gradient *gradient = item->gradient;
    const size_t sums =
        (size_t)(model_layer_of(item)->relative_bias.table_rows * item->layer.q_heads);
    gradient->bias_sums = arena_calloc(request->arena, sums, sizeof *gradient->bias_sums);
    return gradient->bias_sums
           && allocate(request, &gradient->biased_mask, count_of(&problem->mask));
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
        done = allocate(request, &gradient->mask, mask_count(item, problem));
    if (done && has_bias(item, problem))
        done = allocate_bias(request, item, problem);
    for (int i = 0; done && i < ATTN_PER_HEAD_COUNT; i++)
        if (problem->per_head[i])
            done = allocate(request, &gradient->per_head[i], item->layer.q_heads);
    for (int i = 0; done && i < 2 * MODEL_TENSOR_COUNT; i++) {
        const struct model_tensor *tensor = infer_gradient_tensor(item, i / 2, i % 2 != 0);
        if (tensor->name)
            done = allocate(request, &gradient->parameters[i / 2][i % 2], tensor_count(tensor));
    }
    return done || fault_no_memory(fault);
}

static struct attn_linear_gradient linear(const struct infer_gradient *gradient,
                                          enum model_projection projection)
{
    return (struct attn_linear_gradient){ gradient->parameters[projection][0],
                                          gradient->parameters[projection][1] };
}

static struct attn_norm_gradient norm(const struct infer_gradient *gradient,
                                      enum model_projection which)
{
    return (struct attn_norm_gradient){ gradient->parameters[which][0],
                                        gradient->parameters[which][1] };
}

/* Sets where the gradients of the layer's parameters go. */
static void set_parameters(const struct infer_item *item, struct attn_layer_gradient_problem *whole)
{
    const struct infer_gradient *gradient = item->gradient;
    const struct attn_linear *concat_proj = &model_layer_of(item)->concat_proj;
    float *score = gradient->parameters[MODEL_SCORE][0];
    whole->q_proj = linear(gradient, MODEL_Q);
    whole->k_proj = linear(gradient, MODEL_K);
    whole->v_proj = linear(gradient, MODEL_V);
    whole->o_proj = linear(gradient, MODEL_O);
    whole->q_norm = norm(gradient, MODEL_Q_NORM);
    whole->k_norm = norm(gradient, MODEL_K_NORM);
    if (concat_proj->weight) {
        const struct attn_linear_gradient joined = linear(gradient, MODEL_CONCAT);
        attn_linear_gradient_split(concat_proj, item->layer.k_proj.in, &joined, &whole->k_proj,
                                   &whole->q_proj);
    }
    if (item->layer.additive_weight)
        whole->additive_weight = score;
    else if (score)
        whole->q_proj.weight = score; /* of general scores */
}

static bool check_not_latent(const struct infer_item *item, struct fault *fault)
{
    return item->layer.latent.rank == 0
           || fault_set(fault, FAULT_OPTION,
                        "layer %" PRId64 " of model '%s' has latent rows, whose gradients are not "
                        "computed; take a model that projects query, key and value each on its own",
                        item->layer_index, item->model->name);
}

/* Numbers in blocks have no gradient, for none of them can change alone. */
static bool check_no_blocks(const struct infer_item *item, struct fault *fault)
{
    const struct attn_layer *layer = &item->layer;
    const struct attn_linear *const linears[] = { &layer->q_proj, &layer->k_proj, &layer->v_proj,
                                                  &layer->o_proj };
    for (size_t i = 0; i < sizeof linears / sizeof linears[0]; i++)
        if (linears[i]->weight && dtype_is_blocks(linears[i]->dtype))
            return fault_set(fault, FAULT_DTYPE,
                             "the parameters of this layer are %s, which has no gradients; take "
                             "the model in F32, F16 or BF16",
                             dtype_name(linears[i]->dtype));
    return true;
}

static bool check_no_gate(const struct infer_item *item, struct fault *fault)
{
    return !item->layer.gate_proj.weight
           || fault_set_at(fault, "/layer", FAULT_OPTION,
                           "layer %" PRId64 " of model '%s' has a gate of its context, whose "
                           "gradients are not computed; a layer without one has them",
                           item->layer_index, item->model->name);
}

bool infer_gradient_plan(struct infer_request *request, struct infer_item *item,
                         const struct attn_layer_problem *problem, struct fault *fault)
{
    if (!check_not_latent(item, fault) || !check_no_blocks(item, fault)
        || !check_no_gate(item, fault))
        return false;
    item->gradient = arena_calloc(request->arena, 1, sizeof *item->gradient);
    if (!item->gradient)
        return fault_no_memory(fault);
    if (!allocate_results(request, item, problem, fault))
        return false;
    const struct infer_gradient *gradient = item->gradient;
    struct attn_layer_gradient_problem whole = {
        .layer = *problem,
        .context_gradient = item->context_gradient.data,
        .query = gradient->inputs[INFER_QUERY],
        .key = gradient->inputs[INFER_KEY],
        .value = gradient->inputs[INFER_VALUE],
        .mask = gradient->biased_mask ? gradient->biased_mask : gradient->mask,
    };
    const char *where = "";
    memcpy(whole.per_head, gradient->per_head, sizeof whole.per_head);
    set_parameters(item, &whole);
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
    const struct array *key = item->key.data ? &item->key : &item->query;
    const struct array *const arrays[INFER_INPUT_COUNT] = { &item->query, key,
                                                            item->value.data ? &item->value : key };
    const struct attn_tensor *const tensors[INFER_INPUT_COUNT] = { &problem->query, &problem->key,
                                                                   &problem->value };
    return shape_of(tensors[input], arrays[input]->rank, shape);
}

int infer_gradient_mask_shape(const struct infer_item *item, int64_t shape[3])
{
    return shape_of(&item->gradient->plan.problem.layer.mask, item->mask.rank, shape);
}

/* Adds the gradient of parameter i to that of an earlier parameter that is the same tensor. */
static void join_parameter(const struct infer_item *item, int i)
{
    float **values = &item->gradient->parameters[i / 2][i % 2];
    const struct model_tensor *tensor = infer_gradient_tensor(item, i / 2, i % 2 != 0);
    for (int k = 0; k < i && *values; k++) {
        float *first = item->gradient->parameters[k / 2][k % 2];
        if (!first
            || strcmp(infer_gradient_tensor(item, k / 2, k % 2 != 0)->name, tensor->name) != 0)
            continue;
        for (int64_t n = 0; n < tensor_count(tensor); n++)
            first[n] += (*values)[n];
        *values = NULL;
    }
}

/* Adds each gradient of the biased mask to that of its mask number and of its row in the table. */
static void finish_bias(struct infer_item *item)
{
    struct infer_gradient *gradient = item->gradient;
    const struct attn_tensor *mask = &gradient->plan.problem.layer.mask;
    const struct model_relative_bias *bias = &model_layer_of(item)->relative_bias;
    const int64_t heads = mask->shape[1], q_len = mask->shape[2], kv_len = mask->shape[3];
    const float *from = gradient->biased_mask;
    const int64_t mask_heads = item->mask.rank == 3 ? heads : 1;
    if (gradient->mask)
        memset(gradient->mask, 0, (size_t)(mask_heads * q_len * kv_len) * sizeof *from);
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < q_len; i++)
            for (int64_t j = 0; j < kv_len; j++, from++) {
                const int64_t column =
                    model_bias_column(bias, item->past_len + i, item->masking.kv_offset + j);
                const int64_t row = bias->row_of ? bias->row_of[column] : column;
                gradient->bias_sums[row * heads + h] += (double)*from;
                if (gradient->mask)
                    gradient->mask[(h % mask_heads * q_len + i) * kv_len + j] += *from;
            }
}

/* The gradients of the tables; 0 for a row without a pair. */
static void write_tables(const struct infer_item *item)
{
    const struct infer_gradient *gradient = item->gradient;
    for (int i = 0; i < 2; i++) {
        float *values = gradient->parameters[MODEL_POSITION_BIAS][i];
        const int64_t count = tensor_count(infer_gradient_tensor(item, MODEL_POSITION_BIAS, i));
        for (int64_t n = 0; values && n < count; n++)
            values[n] = gradient->bias_sums ? (float)gradient->bias_sums[n] : 0.0f;
    }
}

void infer_gradient_finish(struct infer_item *item)
{
    struct infer_gradient *gradient = item->gradient;
    const int64_t count = count_of(&gradient->plan.problem.layer.query);
    for (int64_t i = 0; gradient->input && i < count; i++)
        gradient->input[i] = gradient->inputs[INFER_QUERY][i] + gradient->inputs[INFER_KEY][i]
                             + gradient->inputs[INFER_VALUE][i];
    if (gradient->biased_mask)
        finish_bias(item);
    write_tables(item);
    for (int i = 1; i < 2 * MODEL_TENSOR_COUNT; i++)
        join_parameter(item, i);
}
