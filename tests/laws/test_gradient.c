/* SPDX-License-Identifier: Apache-2.0 */
/* test_gradient.c - the gradients of attention against finite differences of the double
 * reference, and the identities that the gradients must keep.
 *
 * Of small problems every number is compared, on every kernel table, under each kind of mask.
 * Larger problems have many tiles, some of them cut; of these, some numbers of each tensor are
 * compared. */
#include "gradient_case.h"
#include "kernel_tables.h"
#include "test.h"

static const struct attention_sizes SMALL[] = {
    { 1, 1, 1, 1, 1, 1, 1 },
    { 1, 1, 1, 3, 5, 2, 3 },
    { 2, 4, 2, 3, 4, 3, 2 },
    { 1, 6, 2, 5, 2, 1, 4 },
};

TEST(small)
{
    for (size_t s = 0; s < sizeof SMALL / sizeof SMALL[0]; s++)
        for (int layout = 0; layout < LAYOUT_BROADCAST; layout++) {
            struct gradient_case c;
            gradient_case_init(&c, &SMALL[s], layout, 100 + s);
            assert_int_equal(gradient_case_compare_tables(&c, 1), 0);
            attention_case_free(&c.forward);
        }
}

TEST(variants)
{
    static const struct attention_sizes small = { 2, 4, 2, 4, 5, 3, 2 };
    gradient_run_variants(&small, 0, 1, 500);
}

/* More than one tile of rows, of keys and of others. */
TEST(many_tiles)
{
    static const struct attention_sizes large = { 1, 2, 1, 70, 131, 5, 7 };
    gradient_run_variants(&large, 0, 3, 900);
}

/* ---------------------------------------------------------------------------- identities -- */

/* softmax does not change when all scores of a row change by the same amount: the gradients of a
 * row's masked scores sum to 0. Values shifted by a constant shift every context by it: the
 * gradients of the values sum to those of the context, over the rows that see something. */
TEST(sums)
{
    static const struct attention_sizes sizes = { 1, 3, 1, 70, 90, 8, 4 };
    struct gradient_case c;
    gradient_case_init(&c, &sizes, LAYOUT_DENSE, 7);
    gradient_case_add_mask(&c, (const int64_t[4]){ 1, 3, 70, 90 }, 7);
    gradient_case_run(&c, NULL);
    for (int64_t h = 0; h < 3; h++)
        for (int64_t i = 0; i < 70; i++) {
            double sum = 0;
            for (int64_t j = 0; j < 90; j++)
                sum += (double)*attention_at(&c.problem.mask_gradient, 0, h, i, j);
            assert_true(fabs(sum) < 1e-6);
        }
    for (int64_t d = 0; d < 4; d++) {
        double values = 0, contexts = 0;
        for (int64_t j = 0; j < 90; j++)
            values += (double)*attention_at(&c.problem.value_gradient, 0, 0, j, d);
        for (int64_t i = 0; i < 3 * 70; i++)
            contexts += (double)*attention_at(&c.problem.context_gradient, 0, i / 70, i % 70, d);
        assert_true(fabs(values - contexts) < 1e-4);
    }
    attention_case_free(&c.forward);
}

static void expect_zero(const struct attn_tensor *gradient, int64_t first, int64_t end)
{
    for (int64_t b = 0; b < gradient->shape[0]; b++)
        for (int64_t h = 0; h < gradient->shape[1]; h++)
            for (int64_t i = first; i < end; i++)
                for (int64_t d = 0; d < gradient->shape[3]; d++)
                    assert_true(*attention_at(gradient, b, h, i, d) == 0.0f);
}

static void poison(const struct attn_tensor *tensor, int64_t first, int64_t end)
{
    static const float bad[3] = { NAN, INFINITY, -INFINITY };
    for (int64_t h = 0; h < tensor->shape[1]; h++)
        for (int64_t i = first; i < end; i++)
            for (int64_t d = 0; d < tensor->shape[3]; d++)
                *attention_at(tensor, 0, h, i, d) = bad[(h + i + d) % 3];
}

/* Hidden keys and values, and the queries and gradients of rows that see nothing, may hold
 * anything. None of it reaches a gradient: the others keep their bits, their own is 0. */
TEST(poison)
{
    static const struct attention_sizes sizes = { 1, 4, 2, 77, 120, 6, 5 };
    const struct attn_kernels *const *tables = kernel_tables();
    for (int t = 0; tables[t] != NULL; t++)
        for (int by_mask = 0; by_mask < 2; by_mask++) {
            struct gradient_case clean, dirty;
            gradient_case_init(&clean, &sizes, LAYOUT_DENSE, 11);
            gradient_case_init(&dirty, &sizes, LAYOUT_DENSE, 11);
            int64_t lengths[77];
            for (int i = 0; i < 77; i++)
                lengths[i] = i < 50 ? 100 : 0;
            static unsigned char allowed[77 * 120];
            for (int i = 0; i < 77 * 120; i++)
                allowed[i] = i / 120 < 50 && i % 120 < 100;
            struct gradient_case *const both[2] = { &clean, &dirty };
            for (int k = 0; k < 2; k++) {
                both[k]->forward.problem.options.softcap = 1;
                if (by_mask)
                    both[k]->forward.problem.mask =
                        attn_tensor_dense(allowed, ATTN_BOOL, 1, 1, 77, 120);
                else
                    both[k]->forward.problem.row_kv_len = lengths;
            }
            poison(&dirty.forward.problem.key, 100, 120);
            poison(&dirty.forward.problem.value, 100, 120);
            poison(&dirty.forward.problem.query, 50, 77);
            poison(&dirty.problem.context_gradient, 50, 77);
            gradient_case_run(&clean, tables[t]);
            gradient_case_run(&dirty, tables[t]);
            expect_zero(&dirty.problem.query_gradient, 50, 77);
            expect_zero(&dirty.problem.key_gradient, 100, 120);
            expect_zero(&dirty.problem.value_gradient, 100, 120);
            for (int g = 0; g < 3; g++) {
                const struct attn_tensor *a = &clean.problem.query_gradient + g;
                const struct attn_tensor *b = &dirty.problem.query_gradient + g;
                for (int64_t h = 0; h < a->shape[1]; h++)
                    for (int64_t i = 0; i < a->shape[2]; i++)
                        for (int64_t d = 0; d < a->shape[3]; d++) {
                            const double x = (double)*attention_at(a, 0, h, i, d);
                            const double y = (double)*attention_at(b, 0, h, i, d);
                            assert_true(fabs(x - y) <= 1e-6);
                        }
            }
            attention_case_free(&clean.forward);
            attention_case_free(&dirty.forward);
        }
}

/* Scores are in the thousands: weights are 0 and 1, and a large lse loses no gradient. */
TEST(large_scores)
{
    static const struct attention_sizes sizes = { 1, 1, 1, 3, 4, 2, 3 };
    struct gradient_case c;
    gradient_case_init(&c, &sizes, LAYOUT_DENSE, 21);
    /* Every key is the same, so every weight is 1/4 however large the scores are. */
    for (int64_t j = 0; j < 4; j++)
        for (int64_t d = 0; d < 2; d++)
            *attention_at(&c.forward.problem.key, 0, 0, j, d) = d == 0 ? 300.0f : 0.0f;
    c.forward.problem.options.scale = 40;
    gradient_case_run(&c, NULL);
    for (int64_t j = 0; j < 4; j++)
        for (int64_t d = 0; d < 3; d++) {
            double want = 0;
            for (int64_t i = 0; i < 3; i++)
                want += 0.25 * (double)*attention_at(&c.problem.context_gradient, 0, 0, i, d);
            assert_true(fabs((double)*attention_at(&c.problem.value_gradient, 0, 0, j, d) - want)
                        <= 1e-6);
        }
    attention_case_free(&c.forward);
}

/* ------------------------------------------------------------------------------- empties -- */

TEST(empty)
{
    static const struct attention_sizes no_rows = { 1, 2, 1, 0, 9, 3, 2 };
    static const struct attention_sizes no_keys = { 1, 2, 1, 5, 0, 3, 2 };
    struct gradient_case c;
    gradient_case_init(&c, &no_rows, LAYOUT_DENSE, 41);
    gradient_case_run(&c, NULL);
    expect_zero(&c.problem.key_gradient, 0, 9);
    expect_zero(&c.problem.value_gradient, 0, 9);
    attention_case_free(&c.forward);
    gradient_case_init(&c, &no_keys, LAYOUT_DENSE, 42);
    gradient_case_run(&c, NULL);
    expect_zero(&c.problem.query_gradient, 0, 5);
    attention_case_free(&c.forward);
}
