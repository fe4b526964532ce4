/* SPDX-License-Identifier: Apache-2.0 */
/* test_layer_shared.c - products that several calls of a layer run as one. The bits of each call
 * are those that it has alone, whichever calls are beside it, however many rows they bring, and
 * in whatever order the tasks run. */
#include "fill.h"
#include "kernel_tables.h"
#include "layer.h"
#include "number.h"
#include "test.h"

enum { CALLS = 5, D_MODEL = 72, HEADS = 4, KV_HEADS = 2, HEAD_DIM = 24, D_OUT = 80 };

/* Fewer rows than a block, a block, more; a call whose keys are of another length; and one that
 * asks for no context, so that its values are not projected. */
static const int64_t Q_LENS[CALLS] = { 1, 3, 64, 150, 7 };
static const int64_t KV_LENS[CALLS] = { 1, 3, 64, 20, 90 };

struct call {
    float *query, *key, *context, *lse, *alone_context, *alone_lse;
    struct attn_layer_plan plan;
    void *scratch, *workspace;
};

static float *numbers(struct fill *fill, int64_t count)
{
    float *data = malloc((size_t)count * sizeof *data);
    assert_non_null(data);
    fill_floats(fill, data, count, -1, 1);
    return data;
}

static struct attn_linear make_linear(struct fill *fill, enum attn_dtype dtype, int64_t out,
                                      int64_t in, bool in_out)
{
    const int64_t stride = (in_out ? out : in) + 3, count = (in_out ? in : out) * stride;
    float *weight = numbers(fill, count);
    for (int64_t i = 0; i < count && dtype != ATTN_F32; i++) /* in place: halves are behind */
        number_set(weight, dtype, i, (double)weight[i]);
    return (struct attn_linear){ .weight = weight,
                                 .dtype = dtype,
                                 .bias = numbers(fill, out),
                                 .out = out,
                                 .in = in,
                                 .in_out = in_out,
                                 .stride = stride };
}

static struct attn_layer make_layer(struct fill *fill, enum attn_dtype dtype, bool in_out)
{
    return (struct attn_layer){
        .q_heads = HEADS,
        .kv_heads = KV_HEADS,
        .head_dim = HEAD_DIM,
        .v_head_dim = HEAD_DIM,
        .q_proj = make_linear(fill, dtype, HEADS * HEAD_DIM, D_MODEL, in_out),
        .k_proj = make_linear(fill, dtype, KV_HEADS * HEAD_DIM, D_MODEL, in_out),
        .v_proj = make_linear(fill, dtype, KV_HEADS * HEAD_DIM, D_MODEL, in_out),
        .o_proj = make_linear(fill, dtype, D_OUT, HEADS * HEAD_DIM, in_out),
        .projected_max = 3,
    };
}

static void free_linear(struct attn_linear *linear)
{
    free((void *)linear->weight);
    free((void *)linear->bias);
}

static void make_call(struct fill *fill, const struct attn_layer *layer,
                      const struct attn_kernels *kernels, int index, struct call *call)
{
    const int64_t q_len = Q_LENS[index], kv_len = KV_LENS[index];
    const bool has_context = index != 4;
    *call = (struct call){
        .query = numbers(fill, q_len * D_MODEL),
        .key = numbers(fill, kv_len * D_MODEL),
        .context = numbers(fill, q_len * D_OUT),
        .lse = numbers(fill, HEADS * q_len),
        .alone_context = numbers(fill, q_len * D_OUT),
        .alone_lse = numbers(fill, HEADS * q_len),
    };
    const struct attn_layer_problem problem = {
        .layer = layer,
        .options = attn_options_default(HEAD_DIM),
        .query = attn_tensor_dense(call->query, ATTN_F32, 1, 1, q_len, D_MODEL),
        .key = attn_tensor_dense(call->key, ATTN_F32, 1, 1, kv_len, D_MODEL),
        .value = attn_tensor_dense(call->key, ATTN_F32, 1, 1, kv_len, D_MODEL),
        .context = has_context ? call->context : NULL,
        .lse = call->lse,
        .kernels = kernels,
    };
    assert_int_equal(attn_layer_plan_init(&call->plan, &problem, NULL), ATTN_OK);
    call->scratch = aligned_alloc(64, call->plan.scratch_bytes + 64);
    call->workspace = aligned_alloc(64, (call->plan.workspace_bytes + 127) / 64 * 64);
    assert_non_null(call->scratch);
    assert_non_null(call->workspace);
}

static void free_call(struct call *call)
{
    free(call->query);
    free(call->key);
    free(call->context);
    free(call->lse);
    free(call->alone_context);
    free(call->alone_lse);
    free(call->scratch);
    free(call->workspace);
}

static void run_alone(struct call *call, int stage)
{
    for (int64_t task = 0; task < call->plan.task_count[stage]; task++)
        attn_layer_run(&call->plan, stage, task, call->scratch, call->workspace);
}

/* Runs the product of every step-th call from first on as one, for the calls that have it. The
 * tasks run from the last to the first. */
static void run_shared(struct call *calls, enum attn_layer_product product, int first, int step)
{
    struct attn_layer_call members[CALLS];
    int count = 0;
    for (int i = first; i < CALLS; i += step)
        if (product == ATTN_PRODUCT_INPUTS || i != 4)
            members[count++] = (struct attn_layer_call){ &calls[i].plan, calls[i].scratch };
    if (count == 0)
        return;
    for (int64_t task = attn_layer_product_tasks(members, count, product) - 1; task >= 0; task--)
        attn_layer_product_run(members, count, product, task, calls[first].workspace);
}

/* Runs every stage of all calls, and the products of every step-th call as one. */
static void run_all(struct call *calls, int step)
{
    for (int first = 0; first < step; first++)
        run_shared(calls, ATTN_PRODUCT_INPUTS, first, step);
    for (int i = 0; i < CALLS; i++)
        for (int stage = 0; stage < calls[i].plan.stage_count; stage++)
            if (attn_layer_product(&calls[i].plan, stage) == ATTN_PRODUCT_NONE)
                run_alone(&calls[i], stage);
    for (int first = 0; first < step; first++)
        run_shared(calls, ATTN_PRODUCT_OUTPUT, first, step);
}

static void expect_same(const struct call *call, int index)
{
    const size_t q_len = (size_t)Q_LENS[index];
    if (index != 4)
        assert_memory_equal(call->context, call->alone_context, q_len * D_OUT * sizeof(float));
    assert_memory_equal(call->lse, call->alone_lse, q_len * HEADS * sizeof(float));
}

static void check(const struct attn_kernels *kernels, enum attn_dtype dtype, bool in_out)
{
    struct fill fill = { 5 };
    struct attn_layer layer = make_layer(&fill, dtype, in_out);
    struct call calls[CALLS];
    for (int i = 0; i < CALLS; i++) {
        make_call(&fill, &layer, kernels, i, &calls[i]);
        for (int stage = 0; stage < calls[i].plan.stage_count; stage++)
            run_alone(&calls[i], stage);
        memcpy(calls[i].alone_context, calls[i].context, (size_t)Q_LENS[i] * D_OUT * sizeof(float));
        memcpy(calls[i].alone_lse, calls[i].lse, (size_t)Q_LENS[i] * HEADS * sizeof(float));
    }
    for (int step = 1; step <= CALLS; step++) {
        for (int i = 0; i < CALLS; i++) {
            fill_floats(&fill, calls[i].context, Q_LENS[i] * D_OUT, -1, 1);
            fill_floats(&fill, calls[i].lse, Q_LENS[i] * HEADS, -1, 1);
        }
        run_all(calls, step);
        for (int i = 0; i < CALLS; i++)
            expect_same(&calls[i], i);
    }
    for (int i = 0; i < CALLS; i++)
        free_call(&calls[i]);
    free_linear(&layer.q_proj);
    free_linear(&layer.k_proj);
    free_linear(&layer.v_proj);
    free_linear(&layer.o_proj);
}

TEST(calls_keep_their_bits)
{
    for (const struct attn_kernels *const *table = kernel_tables(); *table; table++) {
        check(*table, ATTN_F32, false);
        check(*table, ATTN_F32, true);
        check(*table, ATTN_BF16, false);
        check(*table, ATTN_F16, true);
    }
}

TEST(rows_of_a_call)
{
    struct fill fill = { 6 };
    struct attn_layer layer = make_layer(&fill, ATTN_F32, false);
    struct call calls[CALLS];
    for (int i = 0; i < CALLS; i++) {
        make_call(&fill, &layer, NULL, i, &calls[i]);
        const struct attn_layer_call call = { &calls[i].plan, calls[i].scratch };
        const int64_t longest = Q_LENS[i] > KV_LENS[i] ? Q_LENS[i] : KV_LENS[i];
        assert_int_equal(attn_layer_product_rows(&call, ATTN_PRODUCT_INPUTS), longest);
        assert_int_equal(attn_layer_product_rows(&call, ATTN_PRODUCT_OUTPUT),
                         i == 4 ? 0 : Q_LENS[i]);
        free_call(&calls[i]);
    }
    assert_int_equal(attn_layer_product_parameters(&layer, ATTN_PRODUCT_INPUTS),
                     (HEADS + 2 * KV_HEADS) * HEAD_DIM * D_MODEL);
    free_linear(&layer.q_proj);
    free_linear(&layer.k_proj);
    free_linear(&layer.v_proj);
    free_linear(&layer.o_proj);
}

/* Two layers are told apart by what a product reads of them, and by nothing else. */
TEST(products_are_told_apart)
{
    static const float weight[16], bias[4];
    const struct attn_linear linear = { .weight = weight, .bias = bias, .out = 4, .in = 4 };
    const struct attn_layer layer = { .q_proj = linear, .k_proj = linear, .o_proj = linear };
    struct attn_layer others[] = { layer, layer, layer, layer, layer, layer, layer, layer, layer };
    others[0].q_proj.weight = weight + 1;
    others[1].k_proj.bias = NULL;
    others[2].q_proj.in_out = true;
    others[3].k_proj.stride = 5;
    others[4].projected_max = 1;
    others[5].v_proj = linear;
    others[6].q_proj.out = 3;
    others[7].k_proj.dtype = ATTN_BF16;
    others[8].gate_proj = linear;
    for (int i = 0; i < 9; i++) {
        assert_false(attn_layer_same_product(&layer, &others[i], ATTN_PRODUCT_INPUTS));
        assert_true(attn_layer_same_product(&layer, &others[i], ATTN_PRODUCT_OUTPUT));
    }
    others[0] = layer;
    others[0].o_proj.bias = NULL;
    others[0].q_heads = 9;
    others[0].q_proj.stride = 4; /* 0 means the same */
    assert_true(attn_layer_same_product(&layer, &others[0], ATTN_PRODUCT_INPUTS));
    assert_false(attn_layer_same_product(&layer, &others[0], ATTN_PRODUCT_OUTPUT));
}
