/* SPDX-License-Identifier: Apache-2.0 */
/* test_layer_merge.c - partial calls of a layer, merged, give the same as the call of the whole.
 *
 * The layer has everything: projections with biases, grouped heads, rotary embedding and an
 * output projection. Rotary embedding turns the keys of a part to their positions in the whole.
 * The output projection comes after the merge. The result is compared with the double reference. */
#include "attention_case.h"
#include "layer.h"
#include "test.h"

#include <cblas.h>

static const double TOLERANCE = 2e-5;

enum { Q_HEADS = 4, KV_HEADS = 2, HEAD_DIM = 8, V_HEAD_DIM = 6, D_MODEL = 10, D_OUT = 7 };
enum { ROWS_MAX = 600, KEYS_MAX = 90, PARTS_MAX = 4 };

static float q_weight[Q_HEADS * HEAD_DIM * D_MODEL], q_bias[Q_HEADS * HEAD_DIM];
static float k_weight[KV_HEADS * HEAD_DIM * D_MODEL], k_bias[KV_HEADS * HEAD_DIM];
static float v_weight[KV_HEADS * V_HEAD_DIM * D_MODEL], v_bias[KV_HEADS * V_HEAD_DIM];
static float o_weight[D_OUT * Q_HEADS * V_HEAD_DIM], o_bias[D_OUT];
static float query[ROWS_MAX * D_MODEL], key[KEYS_MAX * D_MODEL];
static const float slopes[Q_HEADS] = { 0.25f, 0.125f, 0.0625f, 0.03125f };
static const float sinks[Q_HEADS] = { 0.5f, -1.0f, 2.0f, -INFINITY };

static struct attn_layer make_layer(void)
{
    struct fill fill = { 41 };
    fill_floats(&fill, q_weight, Q_HEADS * HEAD_DIM * D_MODEL, -0.4f, 0.4f);
    fill_floats(&fill, k_weight, KV_HEADS * HEAD_DIM * D_MODEL, -0.4f, 0.4f);
    fill_floats(&fill, v_weight, KV_HEADS * V_HEAD_DIM * D_MODEL, -0.4f, 0.4f);
    fill_floats(&fill, o_weight, D_OUT * Q_HEADS * V_HEAD_DIM, -0.4f, 0.4f);
    fill_floats(&fill, q_bias, Q_HEADS * HEAD_DIM, -1, 1);
    fill_floats(&fill, k_bias, KV_HEADS * HEAD_DIM, -1, 1);
    fill_floats(&fill, v_bias, KV_HEADS * V_HEAD_DIM, -1, 1);
    fill_floats(&fill, o_bias, D_OUT, -1, 1);
    fill_floats(&fill, query, ROWS_MAX * D_MODEL, -1, 1);
    fill_floats(&fill, key, KEYS_MAX * D_MODEL, -1, 1);
    return (struct attn_layer){
        .q_heads = Q_HEADS,
        .kv_heads = KV_HEADS,
        .head_dim = HEAD_DIM,
        .v_head_dim = V_HEAD_DIM,
        .q_proj = { q_weight, q_bias, Q_HEADS * HEAD_DIM, D_MODEL, false },
        .k_proj = { k_weight, k_bias, KV_HEADS * HEAD_DIM, D_MODEL, false },
        .v_proj = { v_weight, v_bias, KV_HEADS * V_HEAD_DIM, D_MODEL, false },
        .o_proj = { o_weight, o_bias, D_OUT, Q_HEADS * V_HEAD_DIM, false },
        .rope = { .dim = HEAD_DIM, .theta = 10000.0, .interleaved = true },
    };
}

static struct attn_layer_problem make_problem(const struct attn_layer *layer, int64_t q_len,
                                              int64_t kv_len)
{
    struct attn_layer_problem problem = {
        .layer = layer,
        .options = attn_options_default(HEAD_DIM),
        .query = attn_tensor_dense(query, ATTN_F32, 1, 1, q_len, D_MODEL),
        .key = attn_tensor_dense(key, ATTN_F32, 1, 1, kv_len, D_MODEL),
        .value = attn_tensor_dense(key, ATTN_F32, 1, 1, kv_len, D_MODEL),
        .past_len = kv_len / 2,
        .kv_offset = 3,
        .alibi_slopes = slopes,
        .sinks = sinks,
    };
    problem.options.causal = true;
    problem.options.window_left = 60;
    return problem;
}

static void run_merge(const struct attn_layer_merge *merge)
{
    struct attn_layer_plan plan;
    const char *where = "nothing";
    assert_int_equal(attn_layer_merge_plan_init(&plan, merge, &where), ATTN_OK);
    struct guard_buffer scratch = guard_alloc((plan.scratch_bytes + 63) / 64 * 64);
    struct guard_buffer workspace = guard_alloc((plan.workspace_bytes + 63) / 64 * 64);
    memset(scratch.data, 0xFF, plan.scratch_bytes);
    for (int stage = 0; stage < plan.stage_count; stage++)
        for (int64_t task = plan.task_count[stage] - 1; task >= 0; task--) {
            memset(workspace.data, 0xFF, plan.workspace_bytes);
            attn_layer_run(&plan, stage, task, scratch.data, workspace.data);
        }
    guard_free(&scratch);
    guard_free(&workspace);
}

static void expect_near(const float *got, const double *want, int64_t count, const char *name)
{
    for (int64_t i = 0; i < count; i++)
        if (isinf(want[i]) ? (double)got[i] != want[i]
                           : !(fabs((double)got[i] - want[i]) <= TOLERANCE * (1 + fabs(want[i]))))
            fail_msg("%s[%d] = %.9g, want %.9g", name, (int)i, (double)got[i], want[i]);
}

static float part_context[PARTS_MAX][Q_HEADS * ROWS_MAX * V_HEAD_DIM];
static float part_lse[PARTS_MAX][Q_HEADS * ROWS_MAX];

/* Keys [first, end) of the whole, into part i. */
static void run_part(const struct attn_layer_problem *whole, int i, int64_t first, int64_t end)
{
    struct attn_layer_problem part = *whole;
    part.key = attn_tensor_dense(key + first * D_MODEL, ATTN_F32, 1, 1, end - first, D_MODEL);
    part.value = part.key;
    part.kv_offset += first;
    part.sinks = i == 1 ? whole->sinks : NULL;
    part.partial = true;
    part.context = part_context[i];
    part.lse = part_lse[i];
    attention_run_layer(&part);
}

static void check_split(const struct attn_layer *layer, int64_t q_len, int64_t kv_len)
{
    const struct attn_layer_problem whole = make_problem(layer, q_len, kv_len);
    const int64_t cuts[PARTS_MAX + 1] = { 0, kv_len / 3, kv_len / 3, kv_len - 1, kv_len };
    struct attn_part parts[PARTS_MAX];
    struct reference reference;
    static float context[ROWS_MAX * Q_HEADS * V_HEAD_DIM], lse[Q_HEADS * ROWS_MAX];
    static float alone[ROWS_MAX * Q_HEADS * V_HEAD_DIM];
    reference_layer(&whole, &reference);
    for (int i = 0; i < PARTS_MAX; i++) {
        run_part(&whole, i, cuts[i], cuts[i + 1]);
        parts[PARTS_MAX - 1 - i] = (struct attn_part){ part_context[i], part_lse[i] };
    }
    struct attn_layer_merge merge = { layer, parts, PARTS_MAX, q_len, context, lse, NULL };
    run_merge(&merge);
    expect_near(context, reference.projected, q_len * attn_layer_d_out(layer), "context");
    expect_near(lse, reference.lse, Q_HEADS * q_len, "lse");
    merge.lse = NULL; /* each output alone has the same bits */
    merge.context = alone;
    run_merge(&merge);
    assert_memory_equal(alone, context, (size_t)(q_len * attn_layer_d_out(layer)) * sizeof(float));
    merge.context = NULL;
    merge.lse = alone;
    run_merge(&merge);
    assert_memory_equal(alone, lse, (size_t)(Q_HEADS * q_len) * sizeof(float));
    reference_free(&reference);
}

TEST(split_layer)
{
    static const int64_t q_lens[] = { 1, 5, 66, 256, 600 };
    struct attn_layer layer = make_layer();
    for (int output = 1; output >= 0; output--) {
        if (!output)
            layer.o_proj = (struct attn_linear){ 0 };
        for (size_t i = 0; i < sizeof q_lens / sizeof q_lens[0]; i++)
            check_split(&layer, q_lens[i], i % 2 ? 90 : 31);
    }
}

/* A partial call gives the context that the reference has before the output projection. */
TEST(partial)
{
    const struct attn_layer layer = make_layer();
    struct attn_layer_problem problem = make_problem(&layer, 40, 50);
    struct reference reference;
    problem.partial = true;
    problem.context = part_context[0];
    problem.lse = part_lse[0];
    attention_run_layer(&problem);
    reference_layer(&problem, &reference);
    expect_near(part_context[0], reference.context, Q_HEADS * 40 * V_HEAD_DIM, "context");
    expect_near(part_lse[0], reference.lse, Q_HEADS * 40, "lse");
    reference_free(&reference);
}

TEST(faults)
{
    const struct attn_layer good = make_layer();
    const struct attn_part part = { part_context[0], part_lse[0] };
    const struct attn_part no_context = { NULL, part_lse[0] }, no_lse = { part_context[0], NULL };
    const struct attn_layer_merge valid = {
        &good, &part, 1, 3, part_context[1], part_lse[1], NULL
    };
    struct attn_layer_plan plan;
    struct attn_layer layers[5] = { good, good, good, good, good };
    layers[0].q_heads = 0;
    layers[1].v_head_dim = -1;
    layers[2].o_proj.in = 25;
    layers[3].o_proj.out = 0;
    layers[4].v_head_dim = INT64_MAX / 2;
    struct attn_layer_merge bads[10];
    for (int i = 0; i < 10; i++)
        bads[i] = valid;
    for (int i = 0; i < 5; i++)
        bads[i].layer = &layers[i];
    bads[5].part_count = -1;
    bads[6].q_len = -1;
    bads[7].q_len = INT64_MAX / 8;
    bads[8].parts = &no_context;
    bads[9].parts = &no_lse;
    static const struct {
        enum attn_status status;
        const char *where;
    } want[10] = {
        { ATTN_ERR_SHAPE, "layer.q_heads" },
        { ATTN_ERR_SHAPE, "layer.v_head_dim" },
        { ATTN_ERR_SHAPE, "layer.o_proj.in" },
        { ATTN_ERR_SHAPE, "layer.o_proj.out" },
        { ATTN_ERR_TOO_LARGE, "layer.v_head_dim" },
        { ATTN_ERR_SHAPE, "part_count" },
        { ATTN_ERR_SHAPE, "q_len" },
        { ATTN_ERR_TOO_LARGE, "q_len" },
        { ATTN_ERR_NO_DATA, "parts.context" },
        { ATTN_ERR_NO_DATA, "parts.lse" },
    };
    assert_int_equal(attn_layer_merge_plan_init(&plan, &valid, NULL), ATTN_OK);
    for (int i = 0; i < 10; i++) {
        const char *where = "nothing";
        assert_int_equal(attn_layer_merge_plan_init(&plan, &bads[i], &where), want[i].status);
        assert_string_equal(where, want[i].where);
    }
}

TEST(nothing_to_merge)
{
    const struct attn_layer layer = make_layer();
    struct attn_layer_plan plan;
    struct attn_layer_merge merge = { &layer, NULL, 0, 0, part_context[1], part_lse[1], NULL };
    assert_int_equal(attn_layer_merge_plan_init(&plan, &merge, NULL), ATTN_OK);
    assert_int_equal(plan.stage_count, 0);
    merge.q_len = 2; /* no parts: the rows saw no keys, so the output is the bias */
    run_merge(&merge);
    assert_true(merge.lse[0] == -INFINITY);
    assert_memory_equal(merge.context, o_bias, sizeof o_bias);
}

int main(void)
{
    openblas_set_num_threads(1);
    return test_run(NULL);
}
