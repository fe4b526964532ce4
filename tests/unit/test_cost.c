/* SPDX-License-Identifier: Apache-2.0 */
/* The work that is counted for known shapes is exact; more work never costs less; sizes beyond
 * any machine overflow nothing; and each measurement pulls a prediction towards it. */
#include "call/cost_fit.h"
#include "layer.h"
#include "scheduler/cost.h"
#include "test.h"

static float numbers[4096]; /* what shapes of any size point at: nothing here is computed */

/* ------------------------------------------------------------------ pairs -- */

/* One by one. */
static double pairs_counted(const struct attn_band *band, int64_t q_len, int64_t kv_len)
{
    double pairs = 0;
    for (int64_t i = 0; i < q_len; i++)
        for (int64_t j = 0; j < kv_len; j++)
            pairs += (double)j >= band->low + (double)i && (double)j < band->high + (double)i;
    return pairs;
}

TEST(pairs_of_every_band)
{
    static const double lows[] = { -INFINITY, -40, -7, -1, 0, 3, 12, 100 };
    static const double widths[] = { 1, 2, 9, 40, INFINITY };
    static const int64_t lengths[] = { 0, 1, 2, 7, 16, 33 };
    for (size_t l = 0; l < sizeof lows / sizeof lows[0]; l++)
        for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++)
            for (size_t q = 0; q < sizeof lengths / sizeof lengths[0]; q++)
                for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
                    struct attn_band band = { lows[l], lows[l] + widths[w] };
                    if (isinf(lows[l]))
                        band.high = isinf(widths[w]) ? INFINITY : widths[w] - 20;
                    const double expected = pairs_counted(&band, lengths[q], lengths[k]);
                    const double got =
                        attn_band_pairs(&band, (double)lengths[q], (double)lengths[k]);
                    if (got != expected)
                        fail_msg("%g to %g, %d rows, %d keys: %g, expected %g", band.low, band.high,
                                 (int)lengths[q], (int)lengths[k], got, expected);
                }
}

TEST(pairs_of_absurd_sizes)
{
    const double most = (double)INT64_MAX;
    const struct attn_band all = { -INFINITY, INFINITY }, causal = { -INFINITY, 1 };
    const struct attn_band none = { most, most + 1 };
    assert_true(attn_band_pairs(&all, most, most) == most * most);
    assert_true(attn_band_pairs(&causal, most, most) > 0.49 * most * most);
    assert_true(attn_band_pairs(&causal, most, most) < 0.51 * most * most);
    assert_true(attn_band_pairs(&none, 10, most) >= 0);
    assert_true(attn_band_pairs(&all, 0, most) == 0);
    assert_true(attn_band_pairs(&all, most, 0) == 0);
}

/* ------------------------------------------------------------- known work -- */

struct call {
    struct attn_layer layer;
    struct attn_layer_problem problem;
};

/* A layer with projections of d columns in and out. */
static void call_init(struct call *call, int64_t heads, int64_t head_dim, int64_t d, int64_t q_len,
                      int64_t kv_len)
{
    const struct attn_linear linear = { .weight = numbers, .in = d, .out = heads * head_dim };
    const struct attn_linear output = { .weight = numbers, .in = heads * head_dim, .out = d };
    memset(call, 0, sizeof *call);
    call->layer = (struct attn_layer){
        .q_heads = heads, .kv_heads = heads, .head_dim = head_dim, .v_head_dim = head_dim
    };
    const int64_t columns = d > 0 ? d : heads * head_dim;
    if (d > 0) {
        call->layer.q_proj = call->layer.k_proj = call->layer.v_proj = linear;
        call->layer.o_proj = output;
    }
    call->problem = (struct attn_layer_problem){
        .layer = &call->layer,
        .options = attn_options_default(head_dim),
        .query = attn_tensor_dense(numbers, ATTN_F32, 1, 1, q_len, columns),
        .key = attn_tensor_dense(numbers, ATTN_F32, 1, 1, kv_len, columns),
        .value = attn_tensor_dense(numbers, ATTN_F32, 1, 1, kv_len, columns),
        .context = numbers,
    };
}

static struct attn_work work_of(const struct call *call)
{
    struct attn_layer_plan plan;
    struct attn_work work = { 0 };
    const char *where = "";
    const enum attn_status status = attn_layer_plan_init(&plan, &call->problem, &where);
    if (status != ATTN_OK)
        fail_msg("%s at %s", attn_status_name(status), where);
    attn_layer_work(&plan, &work);
    return work;
}

/* 128 rows are whole tiles of every table of kernels. */
TEST(flops_of_a_layer)
{
    struct call call;
    call_init(&call, 4, 64, 256, 128, 384);
    struct attn_work work = work_of(&call);
    assert_true(work.projection_flops
                == 2.0 * 256 * 256 * (128 + 384 + 384) + 2.0 * 256 * 256 * 128);
    assert_true(work.parameter_bytes == 4.0 * 256 * 256 * (1 + 2 + 2 + 1));
    assert_true(work.tile_flops == 4.0 * 4 * 64 * 128 * 384);
    assert_true(work.pairs == 4.0 * 128 * 384);
    assert_true(work.decode_flops == 0 && work.stream_bytes == 0 && work.double_flops == 0);
    assert_true(work.map_bytes == 0 && work.tanhs == 0 && work.gradient_flops == 0);

    call.problem.weights = numbers;
    work = work_of(&call);
    assert_true(work.map_bytes == 4.0 * 4 * 128 * 384);
}

/* Spans may overlap, and then are more numbers to sum up than the map has. */
TEST(spans_of_a_map)
{
    static const int64_t ROWS[] = { 5, 100 };
    static const struct attn_map_range SPANS[] = { { 0, 384 }, { 0, 384 }, { 7, 7 }, { 100, 200 } };
    struct call call;
    call_init(&call, 4, 64, 256, 128, 384);
    struct attn_weight_map map = { .spans = SPANS, .values = numbers };
    map.row_list = ROWS;
    map.row_count = 2;
    call.problem.weight_map = &map;
    const double without = work_of(&call).map_bytes;
    map.span_count = 4;
    assert_true(work_of(&call).map_bytes == without + 4.0 * 4 * 2 * (384 + 384 + 100));
}

TEST(flops_of_one_row)
{
    struct call call;
    call_init(&call, 4, 64, 0, 1, 1000);
    struct attn_work work = work_of(&call);
    assert_true(work.decode_flops == 4.0 * 4 * 64 * 1000);
    assert_true(work.stream_bytes == 2.0 * 4 * 4 * 64 * 1000);
    assert_true(work.tile_flops == 0 && work.projection_flops == 0);

    /* Half as much for 16-bit keys and values. */
    call.problem.key.dtype = call.problem.value.dtype = ATTN_BF16;
    work = work_of(&call);
    assert_true(work.stream_bytes == 2.0 * 2 * 4 * 64 * 1000);

    /* Hidden keys are not read. */
    int64_t kv_len = 250;
    call.problem.kv_len = &kv_len;
    work = work_of(&call);
    assert_true(work.decode_flops == 4.0 * 4 * 64 * 250);
    call.problem.options.window_left = 99;
    call.problem.past_len = 150;
    work = work_of(&call);
    assert_true(work.decode_flops == 4.0 * 4 * 64 * 199);
}

TEST(other_paths)
{
    struct call call;
    call_init(&call, 2, 32, 0, 128, 128);
    call.problem.options.softmax_precision = ATTN_F64;
    struct attn_work work = work_of(&call);
    assert_true(work.double_flops > 2.0 * 128 * 128 * 6 * 32 && work.tile_flops == 0);

    call_init(&call, 2, 32, 0, 128, 128);
    call.layer.additive_weight = numbers;
    work = work_of(&call);
    assert_true(work.tanhs == 2.0 * 32 * 128 * 128);
    assert_true(work.tile_flops == 2.0 * 2 * 32 * 128 * 128); /* the context */

    const struct attn_part parts[3] = { { numbers, numbers },
                                        { numbers, numbers },
                                        { numbers, numbers } };
    call_init(&call, 2, 32, 0, 10, 10);
    const struct attn_layer_merge merge = {
        .layer = &call.layer, .parts = parts, .part_count = 3, .q_len = 10, .context = numbers
    };
    struct attn_layer_plan plan;
    const char *where;
    memset(&work, 0, sizeof work);
    assert_int_equal(attn_layer_merge_plan_init(&plan, &merge, &where), ATTN_OK);
    attn_layer_work(&plan, &work);
    assert_true(work.stream_bytes == 3.0 * 2 * 10 * (32 + 1) * 4);
    assert_true(work.projection_flops == 0);
}

TEST(a_gradient_costs_more)
{
    struct call call;
    call_init(&call, 2, 64, 128, 128, 128);
    const struct attn_work forward = work_of(&call);
    struct attn_layer_gradient_problem problem = { .layer = call.problem };
    problem.context_gradient = problem.query = problem.key = problem.value = numbers;
    problem.q_proj.weight = numbers;
    struct attn_layer_gradient_plan plan;
    struct attn_work work = { 0 };
    const char *where;
    assert_int_equal(attn_layer_gradient_plan_init(&plan, &problem, &where), ATTN_OK);
    attn_layer_gradient_work(&plan, &work);
    /* Three projections, four gradients of inputs, one of a weight. */
    assert_true(work.projection_flops == 8 * 2.0 * 128 * 128 * 128);
    /* Attention's two products, and five of their size that go back from its answer. */
    assert_true(work.tile_flops == forward.tile_flops);
    assert_true(work.gradient_flops == 2.5 * forward.tile_flops);
}

/* -------------------------------------------------------------- predicting -- */

static int64_t predicted(const struct call *call)
{
    const struct attn_work work = work_of(call);
    struct cost cost = { { 0 } };
    cost_add_work(&cost, &work);
    return cost_ns(&cost);
}

static int64_t predicted_for(int64_t heads, int64_t head_dim, int64_t d, int64_t q_len,
                             int64_t kv_len)
{
    struct call call;
    call_init(&call, heads, head_dim, d, q_len, kv_len);
    return predicted(&call);
}

/* Rows fill tiles, so one more row may cost nothing more; one more tile costs more. Few rows
 * take another path; they are left out here. */
TEST(longer_is_not_cheaper)
{
    int64_t last = 0;
    for (int64_t length = 64; length <= 1 << 20; length *= 2) {
        const int64_t ns = predicted_for(4, 64, 256, length, 512);
        assert_true(ns > last);
        last = ns;
    }
    last = 0;
    for (int64_t length = 1; length <= 1 << 24; length *= 2) {
        const int64_t ns = predicted_for(4, 64, 256, 64, length);
        assert_true(ns > last);
        last = ns;
    }
    last = 0;
    for (int64_t length = 1; length <= 1 << 24; length *= 2) {
        const int64_t ns = predicted_for(4, 64, 0, 1, length);
        assert_true(ns > last);
        last = ns;
    }
    for (last = 0; last < 4096; last += 64)
        assert_true(predicted_for(2, 64, 128, 64, last + 64) > predicted_for(2, 64, 128, 64, last));
    assert_true(predicted_for(8, 64, 256, 64, 64) > predicted_for(4, 64, 256, 64, 64));
    assert_true(predicted_for(4, 128, 256, 64, 64) > predicted_for(4, 64, 256, 64, 64));
    assert_true(predicted_for(4, 64, 512, 64, 64) > predicted_for(4, 64, 256, 64, 64));
    assert_int_equal(predicted_for(4, 64, 256, 0, 100), 0);
    assert_true(predicted_for(4, 64, 256, 64, 0) > 0);
}

TEST(causal_is_cheaper)
{
    struct call call;
    call_init(&call, 4, 64, 0, 2048, 2048);
    const int64_t all = predicted(&call);
    call.problem.options.causal = true;
    const int64_t causal = predicted(&call);
    assert_true(causal > all / 2 && causal < all * 6 / 10);
    call.problem.options.window_left = 255;
    const int64_t window = predicted(&call);
    assert_true(window > all / 9 && window < all / 5);
}

TEST(predictions_are_bounded)
{
    struct cost cost = { { 0 } };
    assert_int_equal(cost_ns(&cost), 0);
    for (int i = 0; i < COST_TERM_COUNT; i++)
        cost.amount[i] = 1e300;
    assert_true(cost_ns(&cost) == COST_NS_MAX);
    struct cost twice = cost;
    cost_add(&twice, &cost);
    assert_true(cost_ns(&twice) == COST_NS_MAX);
    /* Sums of some hundred of them do not overflow. */
    assert_true(COST_NS_MAX * 512 > 0);
}

/* If a prediction has two terms, the larger term is blamed more for an error. */
TEST(blame_is_shared_by_size)
{
    struct cost both = { { 0 } }, large = { { 0 } }, small = { { 0 } };
    both.amount[COST_TILE] = large.amount[COST_TILE] = 1e9;
    both.amount[COST_TASK] = small.amount[COST_TASK] = 100;
    const double large_ns = (double)cost_ns(&large), small_ns = (double)cost_ns(&small);
    assert_true(large_ns > 20 * small_ns);
    for (int i = 0; i < 100; i++)
        cost_observe(&both, (int64_t)(2 * (large_ns + small_ns)));
    assert_true((double)cost_ns(&large) > 1.8 * large_ns);
    assert_true((double)cost_ns(&small) < 1.1 * small_ns);
}

/* Several requests that share a product read the parameters once. */
TEST(products_that_are_shared)
{
    struct cost one = { { 0 } }, sum = { { 0 } };
    one.amount[COST_PROJECT] = 1e8;
    one.amount[COST_PARAMETER] = 1e6;
    one.amount[COST_PARAMETER_FAR] = 5e6;
    const int64_t alone_ns = cost_ns(&one), parameters_ns = cost_parameters_ns(&one);
    assert_true(parameters_ns > 0 && parameters_ns < alone_ns);
    for (int i = 0; i < 7; i++)
        cost_share(&sum, &one);
    assert_true(sum.amount[COST_PROJECT] == 7e8);
    assert_true(sum.amount[COST_PARAMETER] == 1e6 && sum.amount[COST_PARAMETER_FAR] == 5e6);
    assert_in_range(cost_ns(&sum), 7 * alone_ns - 6 * parameters_ns - 9,
                    7 * alone_ns - 6 * parameters_ns + 9);
    cost_remove(&sum, &one);
    assert_true(sum.amount[COST_PROJECT] == 6e8);
    assert_int_equal(cost_parameters_ns(&sum), 0);
}

/* Both products of a layer are all of its flops and parameters. */
TEST(products_of_a_layer)
{
    struct call call;
    struct attn_layer_plan plan;
    struct attn_work products = { 0 };
    const char *where;
    call_init(&call, 4, 64, 256, 128, 384);
    const struct attn_work all = work_of(&call);
    assert_int_equal(attn_layer_plan_init(&plan, &call.problem, &where), ATTN_OK);
    attn_layer_product_work(&plan, ATTN_PRODUCT_NONE, &products);
    assert_true(products.projection_flops == 0);
    attn_layer_product_work(&plan, ATTN_PRODUCT_OUTPUT, &products);
    assert_true(products.projection_flops == 2.0 * 256 * 256 * 128);
    assert_true(products.parameter_bytes == 4.0 * 256 * 256);
    attn_layer_product_work(&plan, ATTN_PRODUCT_INPUTS, &products);
    assert_true(products.projection_flops == all.projection_flops);
    assert_true(products.parameter_bytes == all.parameter_bytes);
    assert_true(products.tile_flops == 0 && products.tasks == 0);
}

TEST(what_is_measured_pulls)
{
    struct cost cost = { { 0 } }, other = { { 0 } };
    cost.amount[COST_READ_TEXT] = 1e6;
    other.amount[COST_WRITE_TEXT] = 1e6;
    const int64_t before = cost_ns(&cost), untouched = cost_ns(&other);
    const int64_t by_size = cost_by_size_ns(&cost);
    cost_observe(&cost, 3 * before);
    const int64_t once = cost_ns(&cost);
    assert_true(once > before && once < before * 11 / 10); /* one may be an accident */
    for (int i = 0; i < 200; i++)
        cost_observe(&cost, 3 * before);
    assert_in_range(cost_ns(&cost), before * 29 / 10, before * 31 / 10);
    assert_int_equal(cost_by_size_ns(&cost), by_size);
    assert_in_range(by_size, 1099999, 1100001);
    assert_int_equal(cost_ns(&other), untouched);
    for (int i = 0; i < 200; i++)
        cost_observe(&cost, before);
    assert_in_range(cost_ns(&cost), before * 9 / 10, before * 11 / 10);

    /* An empty cost teaches nothing, and nothing drives a rate to 0 or beyond all bounds. */
    const struct cost nothing = { { 0 } };
    cost_observe(&nothing, 1000);
    cost_observe(&cost, 0);
    cost_observe(&cost, -5);
    for (int i = 0; i < 100000; i++)
        cost_observe(&cost, 1);
    assert_true(cost_ns(&cost) > 0);
    for (int i = 0; i < 100000; i++)
        cost_observe(&cost, INT64_MAX);
    assert_true(cost_ns(&cost) < COST_NS_MAX);
    cost_fit_rates(&cost, before);
    assert_in_range(cost_ns(&cost), before - before / 100, before + before / 100);
}

TEST(slowdown_weighs_time)
{
    assert_true(cost_slowdown() == 1);
    /* One in a hundred of many short tasks waits for long: together they run at half the speed. */
    for (int i = 0; i < 200000; i++)
        cost_observe_clock(20000, i % 100 == 0 ? 2020000 : 20000);
    assert_true(cost_slowdown() > 1.8 && cost_slowdown() < 2.2);
    for (int i = 0; i < 20; i++)
        cost_observe_clock(1000000000, 1000000000);
    assert_true(cost_slowdown() >= 1 && cost_slowdown() < 1.01);
    cost_observe_clock(0, 1000);
    cost_observe_clock(1000, 0);
    assert_true(cost_slowdown() >= 1);
}

/* Every table of kernels is fitted on this machine. The test asserts no times, only that there
 * are some. */
TEST(fitting)
{
    for (const struct attn_kernels *const *table = attn_kernels_available(); *table; table++) {
        struct text text;
        cost_fit(*table);
        struct cost cost = { { 0 } };
        for (int i = 0; i < COST_TERM_COUNT; i++) {
            cost.amount[i] = 1e6;
            const int64_t ns = cost_ns(&cost);
            assert_true(ns > 0 && ns < COST_NS_MAX);
            cost.amount[i] = 0;
        }
        text_init(&text, 1 << 16);
        cost_write_metrics(&text);
        assert_int_equal(text.failed, FAULT_NONE);
        text_free(&text);
    }
}
