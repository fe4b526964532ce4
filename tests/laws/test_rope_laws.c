/* SPDX-License-Identifier: Apache-2.0 */
/* test_rope_laws.c - what holds of rotary embedding under every scaling: scores depend on
 * distance, lengths stay the same, the transposed rotation undoes the rotation, numbers are
 * rounded once, parts of keys merge into the whole, and gradients are those of the double
 * reference. */
#include "attention_case.h"
#include "difference.h"
#include "layer.h"
#include "layer_gradient.h"
#include "test.h"

enum { DIM_MAX = 32, TYPES = ATTN_ROPE_LONGROPE + 1 };

/* The factors of a rope stay valid until the next call. */
static struct attn_rope random_rope(enum attn_rope_type type, int64_t head_dim, struct fill *fill)
{
    static double factors[2][DIM_MAX / 2];
    struct attn_rope rope = {
        .dim = 2 + 2 * fill_below(fill, head_dim / 2),
        .theta = (double)fill_float(fill, 50, 20000),
        .interleaved = fill_below(fill, 2) != 0,
        .scaling = attn_rope_scaling_default(type),
    };
    rope.scaling.factor = (double)fill_float(fill, 1, 40);
    rope.scaling.original_max_position_embeddings = (double)(16 + fill_below(fill, 4000));
    rope.scaling.truncate = fill_below(fill, 2) != 0;
    rope.scaling.short_factor = factors[0];
    rope.scaling.long_factor = factors[1];
    for (int i = 0; i < DIM_MAX; i++)
        factors[i % 2][i / 2] = (double)fill_float(fill, 0.5f, i % 2 ? 60 : 2);
    if (fill_below(fill, 3) == 0)
        rope.scaling.attention_factor = (double)fill_float(fill, 0.25f, 2);
    assert_int_equal(attn_rope_check(&rope, head_dim, NULL), ATTN_OK);
    return rope;
}

static void turn(const struct attn_rope *rope, float *row, int64_t head_dim, double position,
                 bool transposed)
{
    const struct attn_rope_rows rows = {
        .data = row,
        .row_stride = head_dim,
        .row_count = 1,
        .heads = 1,
        .head_dim = head_dim,
        .first_position = position,
        .sequence_length = 5000,
        .transposed = transposed,
    };
    attn_rope_rotate(rope, &rows);
}

static double dot(const float *a, const float *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* This holds of dynamic scaling too, in calls of one length. */
TEST(scores_go_by_distance)
{
    for (int k = 0; k < 300; k++) {
        struct fill fill = { (uint64_t)k };
        const int64_t head_dim = 2 + fill_below(&fill, DIM_MAX - 1);
        const struct attn_rope rope =
            random_rope((enum attn_rope_type)(k % TYPES), head_dim, &fill);
        const double distance = (double)(fill_below(&fill, 4000) - 2000);
        float query[DIM_MAX], key[DIM_MAX];
        double first = 0;
        fill_floats(&fill, query, head_dim, -1, 1);
        fill_floats(&fill, key, head_dim, -1, 1);
        for (int place = 0; place < 5; place++) {
            const double p = place == 0 ? 0 : (double)(fill_below(&fill, 2000000) - 1000000);
            float q[DIM_MAX], t[DIM_MAX];
            memcpy(q, query, sizeof q);
            memcpy(t, key, sizeof t);
            turn(&rope, q, head_dim, p + distance, false);
            turn(&rope, t, head_dim, p, false);
            const double score = dot(q, t, head_dim);
            if (place == 0)
                first = score;
            assert_true(fabs(score - first) <= 1e-5);
        }
    }
}

TEST(lengths_and_the_way_back)
{
    for (int k = 0; k < 300; k++) {
        struct fill fill = { (uint64_t)(1000 + k) };
        const int64_t head_dim = 2 + fill_below(&fill, DIM_MAX - 1);
        const struct attn_rope rope =
            random_rope((enum attn_rope_type)(k % TYPES), head_dim, &fill);
        const double position = (double)(fill_below(&fill, 2000000) - 1000000);
        const double factor = attn_rope_attention_factor(&rope);
        float row[DIM_MAX], turned[DIM_MAX];
        fill_floats(&fill, row, head_dim, -1, 1);
        memcpy(turned, row, sizeof turned);
        turn(&rope, turned, head_dim, position, false);
        const double before = sqrt(dot(row, row, rope.dim));
        const double after = sqrt(dot(turned, turned, rope.dim));
        assert_true(fabs(after - factor * before) <= 1e-6 * (1 + after));
        turn(&rope, turned, head_dim, position, true);
        for (int64_t d = 0; d < head_dim; d++) {
            const double scale = d < rope.dim ? factor * factor : 1;
            assert_true(fabs((double)turned[d] - scale * (double)row[d]) <= 2e-6);
        }
        if (k % TYPES == ATTN_ROPE_YARN || k % TYPES == ATTN_ROPE_LONGROPE)
            assert_true(factor != 1.0 || rope.scaling.factor == 1.0);
    }
}

/* A rotated number is the nearest float, also far away. */
TEST(rounded_once)
{
    for (int k = 0; k < 300; k++) {
        struct fill fill = { (uint64_t)(4000 + k) };
        const int64_t head_dim = 2 + fill_below(&fill, DIM_MAX - 1);
        const struct attn_rope rope =
            random_rope((enum attn_rope_type)(k % TYPES), head_dim, &fill);
        const int64_t position = fill_below(&fill, 3000000) - 1500000;
        float row[DIM_MAX];
        double want[DIM_MAX];
        fill_floats(&fill, row, head_dim, -1, 1);
        for (int64_t d = 0; d < head_dim; d++)
            want[d] = (double)row[d];
        reference_rope(&rope, position, 5000, want);
        turn(&rope, row, head_dim, (double)position, false);
        for (int64_t d = 0; d < head_dim; d++)
            assert_true(fabs((double)row[d] - want[d]) <= 0x1p-24 * fabs(want[d]) + 2e-9);
    }
}

/* ------------------------------------------------------------ parts of keys -- */

enum { HEADS = 2, HEAD_DIM = 12, Q_LEN = 7, KV_LEN = 90, PARTS = 5 };

/* Runs keys [first, end) of problem; writes their context and lse where it says. */
static void run_part(const struct attn_layer_problem *problem, int64_t first, int64_t end,
                     float *context, float *lse)
{
    struct attn_layer_problem part = *problem;
    part.key = attn_tensor_dense((float *)problem->key.data + first * HEADS * HEAD_DIM, ATTN_F32, 1,
                                 1, end - first, HEADS * HEAD_DIM);
    part.value = attn_tensor_dense((float *)problem->value.data + first * HEADS * HEAD_DIM,
                                   ATTN_F32, 1, 1, end - first, HEADS * HEAD_DIM);
    part.kv_offset += first;
    part.partial = true;
    part.context = context;
    part.lse = lse;
    attention_run_layer(&part);
}

static void merge_parts(const struct attn_layer *layer, const struct attn_part *parts,
                        float *context)
{
    const struct attn_layer_merge merge = {
        .layer = layer, .parts = parts, .part_count = PARTS, .q_len = Q_LEN, .context = context
    };
    struct attn_layer_plan plan;
    assert_int_equal(attn_layer_merge_plan_init(&plan, &merge, NULL), ATTN_OK);
    struct guard_buffer scratch = guard_alloc(plan.scratch_bytes);
    struct guard_buffer workspace = guard_alloc((plan.workspace_bytes + 63) / 64 * 64);
    for (int stage = 0; stage < plan.stage_count; stage++)
        for (int64_t task = 0; task < plan.task_count[stage]; task++)
            attn_layer_run(&plan, stage, task, scratch.data, workspace.data);
    guard_free(&scratch);
    guard_free(&workspace);
}

/* The query stands at the end: with dynamic scaling, this is what makes parts agree. */
TEST(parts_merge)
{
    enum { COLUMNS = HEADS * HEAD_DIM };
    static float query[Q_LEN * COLUMNS], key[KV_LEN * COLUMNS], value[KV_LEN * COLUMNS];
    static float whole[Q_LEN * COLUMNS], merged[Q_LEN * COLUMNS];
    static float contexts[PARTS][Q_LEN * COLUMNS], lses[PARTS][HEADS * Q_LEN];
    for (int k = 0; k < 60; k++) {
        struct fill fill = { (uint64_t)(2000 + k) };
        struct attn_layer layer = {
            .q_heads = HEADS, .kv_heads = HEADS, .head_dim = HEAD_DIM, .v_head_dim = HEAD_DIM
        };
        layer.rope = random_rope((enum attn_rope_type)(k % TYPES), HEAD_DIM, &fill);
        const int64_t offset = fill_below(&fill, 3000) - 100;
        fill_floats(&fill, query, Q_LEN * COLUMNS, -1, 1);
        fill_floats(&fill, key, KV_LEN * COLUMNS, -1, 1);
        fill_floats(&fill, value, KV_LEN * COLUMNS, -1, 1);
        struct attn_layer_problem problem = {
            .layer = &layer,
            .options = attn_options_default(HEAD_DIM),
            .query = attn_tensor_dense(query, ATTN_F32, 1, 1, Q_LEN, COLUMNS),
            .key = attn_tensor_dense(key, ATTN_F32, 1, 1, KV_LEN, COLUMNS),
            .value = attn_tensor_dense(value, ATTN_F32, 1, 1, KV_LEN, COLUMNS),
            .past_len = offset + KV_LEN - Q_LEN,
            .kv_offset = offset,
            .context = whole,
        };
        problem.options.causal = fill_below(&fill, 2) != 0;
        problem.options.window_left = fill_below(&fill, 2) ? -1 : fill_below(&fill, 80);
        attention_run_layer(&problem);
        struct attn_part parts[PARTS];
        int64_t first = 0;
        for (int i = 0; i < PARTS; i++) {
            const int64_t end = i == PARTS - 1 ? KV_LEN : first + fill_below(&fill, 30) % 23;
            run_part(&problem, first, end, contexts[i], lses[i]);
            parts[i] = (struct attn_part){ contexts[i], lses[i] };
            first = end;
        }
        merge_parts(&layer, parts, merged);
        for (int i = 0; i < Q_LEN * COLUMNS; i++)
            assert_true(fabs((double)merged[i] - (double)whole[i]) <= 2e-6);
    }
}

/* ------------------------------------------------------------------ gradients -- */

static void run_gradient(const struct attn_layer_gradient_problem *problem)
{
    struct attn_layer_gradient_plan plan;
    assert_int_equal(attn_layer_gradient_plan_init(&plan, problem, NULL), ATTN_OK);
    struct guard_buffer scratch = guard_alloc((plan.scratch_bytes + 63) / 64 * 64);
    struct guard_buffer workspace = guard_alloc((plan.workspace_bytes + 63) / 64 * 64);
    for (int stage = 0; stage < plan.stage_count; stage++)
        for (int64_t task = 0; task < plan.task_count[stage]; task++)
            attn_layer_gradient_run(&plan, stage, task, scratch.data, workspace.data);
    guard_free(&scratch);
    guard_free(&workspace);
}

static void check_gradient(const struct attn_layer_gradient_problem *problem, float *input,
                           const float *gradient, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const double want =
            difference_layer_by(&problem->layer, problem->context_gradient, input + i);
        if (!(fabs((double)gradient[i] - want) <= 5e-5 * (1 + fabs(want))))
            fail_msg("rope type %d, number %d: %.9g, want %.9g",
                     (int)problem->layer.layer->rope.scaling.type, (int)i, (double)gradient[i],
                     want);
    }
}

TEST(gradients)
{
    enum { Q = 3, KV = 4, D = 6, COLUMNS = 2 * D };
    for (int k = 0; k < 4 * TYPES; k++) {
        struct fill fill = { (uint64_t)(3000 + k) };
        float query[Q * COLUMNS], key[KV * D], value[KV * D], loss[Q * COLUMNS];
        float query_gradient[Q * COLUMNS], key_gradient[KV * D];
        struct attn_layer layer = { .q_heads = 2, .kv_heads = 1, .head_dim = D, .v_head_dim = D };
        layer.rope = random_rope((enum attn_rope_type)(k % TYPES), D, &fill);
        difference_fill(&fill, query, Q * COLUMNS);
        difference_fill(&fill, key, KV * D);
        difference_fill(&fill, value, KV * D);
        difference_fill(&fill, loss, Q * COLUMNS);
        struct attn_layer_gradient_problem problem = {
            .layer = { .layer = &layer,
                       .options = attn_options_default(D),
                       .query = attn_tensor_dense(query, ATTN_F32, 1, 1, Q, COLUMNS),
                       .key = attn_tensor_dense(key, ATTN_F32, 1, 1, KV, D),
                       .value = attn_tensor_dense(value, ATTN_F32, 1, 1, KV, D),
                       .past_len = fill_below(&fill, 6000),
                       .kv_offset = fill_below(&fill, 6000) - 1000 },
            .context_gradient = loss,
            .query = query_gradient,
            .key = key_gradient,
        };
        run_gradient(&problem);
        check_gradient(&problem, query, query_gradient, Q * COLUMNS);
        check_gradient(&problem, key, key_gradient, KV * D);
    }
}
