/* SPDX-License-Identifier: Apache-2.0 */
/* What is predicted for a request that shares its products: its part of the parameters, its own
 * rows while it waits, and nothing for a product that a batch has already made. Also for a
 * packed answer, which corrects the predicted cost of packing. */
#include "call/infer_cost.h"
#include "models/model/model.h"
#include "test.h"

enum { D_MODEL = 512, HEADS = 8, ROWS = 2 };

static float numbers[64]; /* what shapes of any size point at: nothing here is computed */

struct request {
    struct attn_layer layer;
    struct infer_item items[2];
    struct infer_request request;
    struct infer_cost cost;
};

static void request_init(struct request *request, int64_t item_count)
{
    const struct attn_linear linear = { .weight = numbers, .in = D_MODEL, .out = D_MODEL };
    const struct attn_tensor rows =
        attn_tensor_dense(numbers, ATTN_F32, 1, 1, ROWS, (int64_t)D_MODEL);
    const char *where;
    memset(request, 0, sizeof *request);
    request->layer = (struct attn_layer){ .q_heads = HEADS,
                                          .kv_heads = HEADS,
                                          .head_dim = D_MODEL / HEADS,
                                          .v_head_dim = D_MODEL / HEADS,
                                          .q_proj = linear,
                                          .k_proj = linear,
                                          .v_proj = linear,
                                          .o_proj = linear };
    const struct attn_layer_problem problem = { .layer = &request->layer,
                                                .options = attn_options_default(D_MODEL / HEADS),
                                                .query = rows,
                                                .key = rows,
                                                .value = rows,
                                                .context = numbers };
    for (int64_t i = 0; i < item_count; i++) {
        request->items[i].answer_bytes = sizeof(float) * ROWS * D_MODEL;
        assert_int_equal(attn_layer_plan_init(&request->items[i].plan, &problem, &where), ATTN_OK);
    }
    request->request = (struct infer_request){ .items = request->items,
                                               .item_count = item_count,
                                               .number_bytes = sizeof(float) };
    infer_cost_plan(&request->cost, &request->request, CODING_IDENTITY);
}

static void assert_near(int64_t ns, int64_t expected)
{
    assert_in_range(ns, expected - 5, expected + 5);
}

/* Of relative positions that depend on query and key a product of each is computed where the
 * request is read, and then for each pair two sums over a head. */
TEST(distances_are_priced)
{
    struct model_layer layer = {
        .relative_bias = { .values = numbers, .by_query = true, .by_key = true, .count = 4 }
    };
    struct model model = { .layers = &layer, .layer_count = 1 };
    struct request request, plain;
    request_init(&plain, 1);
    request_init(&request, 1);
    struct infer_item *item = &request.items[0];
    item->model = &model;
    item->layer = request.layer;
    item->q_len = item->kv_len_max = ROWS;
    item->plan.problem.kernels = attn_kernels_available()[0];
    item->bias = item->bias_sum = item->projected = numbers;
    memset(&request.cost, 0, sizeof request.cost);
    infer_cost_plan(&request.cost, &request.request, CODING_IDENTITY);
    const double *read = request.cost.phases[INFER_READ].amount;
    const double *computed = request.cost.phases[INFER_COMPUTE].amount;
    const double *before = plain.cost.phases[INFER_COMPUTE].amount;
    assert_true(read[COST_PROJECT] == 2 * 2.0 * ROWS * D_MODEL * D_MODEL);
    assert_true(computed[COST_DOUBLE] == 2.0 * ROWS * ROWS * D_MODEL);
    assert_true(computed[COST_MOVE] == before[COST_MOVE] + (double)ROWS * ROWS * HEADS);
}

TEST(a_part_of_the_parameters)
{
    struct request request;
    request_init(&request, 1);
    struct infer_cost *cost = &request.cost;
    const int64_t alone_ns = infer_cost_ns(cost), left_ns = infer_cost_left_ns(cost);
    const int64_t inputs_ns = cost_parameters_ns(&cost->products[ATTN_PRODUCT_INPUTS]);
    const int64_t output_ns = cost_parameters_ns(&cost->products[ATTN_PRODUCT_OUTPUT]);
    assert_near(inputs_ns, 3 * output_ns);
    infer_cost_expect_part(cost, ATTN_PRODUCT_INPUTS, 1);
    assert_int_equal(infer_cost_ns(cost), alone_ns);
    infer_cost_expect_part(cost, ATTN_PRODUCT_INPUTS, 0.25);
    infer_cost_expect_part(cost, ATTN_PRODUCT_OUTPUT, 0.5);
    assert_near(infer_cost_ns(cost), alone_ns - inputs_ns * 3 / 4 - output_ns / 2);
    assert_near(infer_cost_left_ns(cost), left_ns - inputs_ns * 3 / 4 - output_ns / 2);
}

TEST(what_is_left_in_and_after_a_batch)
{
    struct request request;
    request_init(&request, 1);
    struct infer_cost *cost = &request.cost;
    const struct cost inputs = cost->products[ATTN_PRODUCT_INPUTS];
    const struct cost output = cost->products[ATTN_PRODUCT_OUTPUT];
    const int64_t left_ns = infer_cost_left_ns(cost), write_ns = cost->ns[INFER_WRITE];
    assert_near(infer_cost_joined_ns(cost, ATTN_PRODUCT_INPUTS),
                left_ns - cost_parameters_ns(&inputs));
    assert_near(infer_cost_was_shared(cost, ATTN_PRODUCT_INPUTS, 1000), left_ns - cost_ns(&inputs));
    assert_near(infer_cost_joined_ns(cost, ATTN_PRODUCT_OUTPUT),
                cost_ns(&output) - cost_parameters_ns(&output) + write_ns);
    assert_int_equal(infer_cost_was_shared(cost, ATTN_PRODUCT_OUTPUT, 1000), write_ns);
    assert_true(cost->phases[INFER_COMPUTE].amount[COST_PROJECT] == 0);
    assert_true(cost->flops >= 4 * 2.0 * ROWS * D_MODEL * D_MODEL); /* by itself or a batch */
}

TEST(several_items_share_with_nobody)
{
    struct request request;
    request_init(&request, 2);
    const int64_t alone_ns = infer_cost_ns(&request.cost);
    infer_cost_expect_part(&request.cost, ATTN_PRODUCT_INPUTS, 0.25);
    assert_int_equal(infer_cost_ns(&request.cost), alone_ns);
}

/* Packing took twice the time that was predicted for its bytes. Packing that produced nothing
 * changes no prediction. */
TEST(packing_is_learned_from)
{
    enum { BYTES = 1 << 20 };
    const struct cost pack = { .amount = { [COST_PACK] = BYTES } };
    const struct cost others = { .amount = { [COST_WRITE_TEXT] = BYTES, [COST_PROJECT] = BYTES } };
    const int64_t pack_ns = cost_ns(&pack), others_ns = cost_ns(&others);
    struct request request;
    request_init(&request, 1);
    struct infer_cost *cost = &request.cost;
    const int64_t plain_ns = infer_cost_left_ns(cost);
    request.request.number_bytes = 0;
    request.items[0].answer_bytes = BYTES;
    infer_cost_plan(cost, &request.request, CODING_GZIP);
    assert_true(cost->ns[INFER_PACK] > 0);
    assert_true(infer_cost_left_ns(cost) > plain_ns + cost->ns[INFER_PACK]);
    assert_true(cost->measured[INFER_PACK]);

    cost->measured[INFER_READ] = cost->measured[INFER_COMPUTE] = cost->measured[INFER_WRITE] =
        false;
    atomic_store(&cost->cpu_ns[INFER_PACK], 2 * pack_ns);
    atomic_store(&cost->clock_ns[INFER_PACK], 2 * pack_ns);
    infer_cost_was_packed(cost, BYTES);
    infer_cost_learn(cost);
    const int64_t learned_ns = cost_ns(&pack);
    assert_true(learned_ns > pack_ns && learned_ns < 2 * pack_ns);
    assert_int_equal(cost_ns(&others), others_ns);

    infer_cost_was_packed(cost, 0);
    infer_cost_learn(cost);
    assert_int_equal(cost_ns(&pack), learned_ns);
}

/* A packed body proves to be larger than was guessed: all of it text, or tensors after a header. */
TEST(an_unpacked_body_is_priced_anew)
{
    struct infer_cost cost = { 0 };
    double *amount = cost.phases[INFER_READ].amount;
    amount[COST_REQUEST] = 1;
    amount[COST_UNPACK] = amount[COST_READ_TEXT] = 174000;
    infer_cost_was_unpacked(&cost, 60000000);
    assert_true(amount[COST_UNPACK] == 60000000 && amount[COST_READ_TEXT] == 60000000);
    assert_true(amount[COST_READ_BYTES] == 0 && amount[COST_REQUEST] == 1);
    assert_int_equal(infer_cost_ns(&cost), cost_ns(&cost.phases[INFER_READ]));

    amount[COST_READ_TEXT] = 1000;
    amount[COST_READ_BYTES] = 173000;
    infer_cost_was_unpacked(&cost, 500000);
    assert_true(amount[COST_READ_TEXT] == 1000 && amount[COST_READ_BYTES] == 499000);
    infer_cost_was_unpacked(&cost, 300);
    assert_true(amount[COST_READ_TEXT] == 300 && amount[COST_READ_BYTES] == 0);
}

/* A call that waits for its turn is planned by a task of computing: that task began before it was
 * known that its phase is measured. */
TEST(planned_while_it_computes)
{
    struct infer_cost cost = { 0 };
    struct infer_stopwatch watch;
    memset(&watch, 0xa5, sizeof watch);
    infer_cost_start(&cost, INFER_COMPUTE, &watch);
    cost.measured[INFER_COMPUTE] = true;
    infer_cost_stop(&cost, INFER_COMPUTE, &watch);
    assert_int_equal(atomic_load(&cost.cpu_ns[INFER_COMPUTE]), 0);
    assert_int_equal(atomic_load(&cost.clock_ns[INFER_COMPUTE]), 0);
    infer_cost_start(&cost, INFER_COMPUTE, &watch);
    infer_cost_stop(&cost, INFER_COMPUTE, &watch);
    assert_in_range(atomic_load(&cost.clock_ns[INFER_COMPUTE]), 1, 10000000000);
}
