/* SPDX-License-Identifier: Apache-2.0 */
/* test_infer_plan.c - the tasks that fill a relative position bias: together, in any order, they
 * write each number of it once, whatever the shape. And a plan that nobody wants any more. */
#include "call/infer_masking.h"
#include "models/model/model.h"
#include "test.h"

enum { REACH = 40, HEADS = 3 };

static float table[HEADS * (2 * REACH + 1)];

static void check_shape(int64_t q_len, int64_t kv_len)
{
    struct model_layer layer = { .relative_bias = {
                                     .values = table, .count = 2 * REACH + 1, .reach = REACH } };
    struct model model = { .layers = &layer, .layer_count = 1 };
    const int64_t numbers = HEADS * q_len * kv_len;
    float *sum = malloc((size_t)numbers * sizeof *sum);
    float *whole = malloc((size_t)numbers * sizeof *whole);
    assert_true(sum && whole);
    struct infer_item item = { .model = &model,
                               .layer = { .q_heads = HEADS, .kv_heads = HEADS },
                               .q_len = q_len,
                               .kv_len_max = kv_len,
                               .bias_sum = sum };
    for (int64_t i = 0; i < numbers; i++)
        sum[i] = NAN;
    for (int64_t h = 0; h < HEADS; h++)
        infer_bias_fill(&item, &item.bias_mask, h, 0, q_len, whole);
    const int64_t tasks = infer_bias_tasks(&item);
    assert_true(tasks >= HEADS && tasks <= HEADS * q_len);
    for (int64_t task = tasks - 1; task >= 0; task--)
        infer_bias_run(&item, task);
    assert_memory_equal(sum, whole, (size_t)numbers * sizeof *sum);
    free(sum);
    free(whole);
}

TEST(each_number_once)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        table[i] = (float)i + 1;
    check_shape(1, 1);
    check_shape(7, 5);
    check_shape(300, 500);
    check_shape(2, 100000);
    check_shape(1001, 33);
}

/* Long rows are not one task. */
TEST(tasks_are_short)
{
    struct infer_item item = {
        .layer = { .q_heads = HEADS }, .q_len = 4096, .kv_len_max = 4096, .bias_sum = table
    };
    assert_true(infer_bias_tasks(&item) >= HEADS * 4096 / 8);
    item.bias_sum = NULL;
    assert_int_equal(infer_bias_tasks(&item), 0);
}

static bool is_over(void *count)
{
    return ++*(int *)count == 3;
}

/* It ends between two items: a batch may take long to be planned. */
TEST(over_before_it_is_planned)
{
    int asked = 0;
    struct infer_item items[8] = { { .q_len = 0 } };
    struct infer_request request = { .items = items, .item_count = 8, .batch = true };
    const struct infer_limits limits = { .is_over = is_over, .owner = &asked };
    struct fault fault = { .code = FAULT_NONE };
    for (int i = 0; i < 8; i++)
        items[i].fault.code = FAULT_SHAPE;
    assert_false(infer_plan(&request, &limits, &fault));
    assert_int_equal(fault.code, FAULT_LEFT);
    assert_int_equal(asked, 3);
}
