/* SPDX-License-Identifier: Apache-2.0 */
/* test_attn_matrix.c - plans of the matrix units, on models in C and, where this CPU has a unit, on
 * itself: parts and joins, rows alone, bases that are raised, numbers that tiles
 * cannot multiply, and which problems the rule gives to it. */
#include "attention_case.h"
#include "kernel_tables.h"
#include "number.h"
#include "test.h"

#include "base/internal.h"
#include "kernels/kernels.h"

#include <float.h>

enum { CONTEXT_AND_LSE = OUT_CONTEXT | OUT_LSE };

/* Several joins, a ragged last group, several chunks of 512 keys, columns that are padded. */
static const struct attention_sizes SIZES = { 2, 4, 2, 150, 700, 40, 24 };

static const struct attn_kernels *(*table_of_unit)(void) = kernel_table_of_model;

static const struct attn_kernels *table_or_skip(void)
{
    const struct attn_kernels *table = table_of_unit();
    if (table == NULL)
        skip();
    return table;
}

static void make(struct attention_case *c, const struct attention_sizes *sizes,
                 const struct attn_kernels *kernels)
{
    attention_case_init(c, sizes, LAYOUT_DENSE, 31);
    c->problem.kernels = kernels;
    c->problem.options.causal = true;
    c->problem.options.scale = 1.5;
    attention_case_outputs(c, CONTEXT_AND_LSE, LAYOUT_DENSE);
}

static void plan_of(struct attn_plan *plan, const struct attn_problem *problem)
{
    assert_int_equal(attn_plan_init(plan, problem, NULL), ATTN_OK);
}

static void expect_equal(const struct attn_problem *a, const struct attn_problem *b,
                         const char *what)
{
    if (attention_differing_bits(&a->context, &b->context) > 0
        || attention_differing_bits(&a->lse, &b->lse) > 0)
        fail_msg("%s: other bits", what);
}

/* -------------------------------------------------------------------- parts and joins -- */

static void run_parts(const struct attn_problem *problem)
{
    struct attn_plan plan;
    plan_of(&plan, problem);
    assert_true(plan.part_workspace_bytes <= plan.workspace_bytes);
    assert_true(attn_plan_full(&plan)->is_matrix && plan.part_count > 0 && plan.join_count > 0);
    assert_true(plan.join_count < plan.task_count);
    struct guard_buffer buffer = guard_alloc((plan.part_workspace_bytes + 63) / 64 * 64);
    void *workspace = buffer.data;
    struct guard_buffer shared = guard_alloc(plan.shared_bytes);
    memset(shared.data, 0xFF, plan.shared_bytes);
    for (int64_t i = plan.part_count - 1; i >= 0; i--)
        attn_plan_run_part(&plan, i, shared.data, workspace);
    for (int64_t i = plan.join_count - 1; i >= 0; i--) {
        memset(workspace, 0xFF, plan.part_workspace_bytes);
        attn_plan_run_join(&plan, i, shared.data, workspace);
    }
    guard_free(&shared);
    guard_free(&buffer);
}

TEST(parts)
{
    for (int precision = 0; precision < ATTN_PRECISION_COUNT; precision++) {
        struct attention_case c;
        make(&c, &SIZES, table_or_skip());
        c.problem.options.precision = (enum attn_precision)precision;
        attention_run(&c.problem);
        const struct attn_problem whole = c.problem;
        attention_case_outputs(&c, CONTEXT_AND_LSE, LAYOUT_ROWS);
        run_parts(&c.problem);
        expect_equal(&c.problem, &whole, attn_precision_name(c.problem.options.precision));
        attention_case_outputs(&c, OUT_ALL, LAYOUT_DENSE);
        run_parts(&c.problem);
        expect_equal(&c.problem, &whole, "parts, with maps");
        attention_case_free(&c);
    }
}

/* ----------------------------------------------------------------------- rows alone -- */

/* What a row gets does not depend on the rows beside it, also where their bases are raised. */
TEST(rows_alone)
{
    struct attention_case c;
    make(&c, &SIZES, table_or_skip());
    c.problem.options.causal = false;
    for (int64_t j = 0; j < SIZES.kv_len; j++) /* later keys have greater scores, in some rows */
        for (int64_t d = 0; d < SIZES.head_dim; d++)
            *attention_at(&c.problem.key, 0, 0, j, d) *= (float)j / 20.0f;
    attention_run(&c.problem);
    const struct attn_problem whole = c.problem;
    for (int64_t row = 3; row + 17 <= SIZES.q_len; row += 29) {
        c.problem.query = whole.query;
        c.problem.query.data = attention_at(&whole.query, 0, 0, row, 0);
        c.problem.query.shape[2] = 17;
        attention_case_outputs(&c, CONTEXT_AND_LSE, LAYOUT_DENSE);
        attention_run(&c.problem);
        struct attn_problem part = whole;
        part.context.data = attention_at(&whole.context, 0, 0, row, 0);
        part.lse.data = attention_at(&whole.lse, 0, 0, row, 0);
        part.context.shape[2] = part.lse.shape[2] = c.problem.query.shape[2];
        expect_equal(&c.problem, &part, "rows alone");
    }
    attention_case_free(&c);
}

/* ---------------------------------------------------------------- numbers of every size -- */

static void compare(struct attention_case *c, double tolerance, const char *what)
{
    struct reference reference;
    attention_run(&c->problem);
    reference_attention(&c->problem, &reference);
    if (attention_compare(&c->problem, &reference, tolerance) > 0)
        fail_msg("%s", what);
    reference_free(&reference);
}

/* Scores that grow from step to step, by more than a base has room for: 2^40. */
TEST(raised_bases)
{
    struct attention_case c;
    make(&c, &SIZES, table_or_skip());
    c.problem.mask = attention_case_tensor(&c, ATTN_F32, LAYOUT_DENSE, 1, 1, 1, SIZES.kv_len);
    for (int64_t j = 0; j < SIZES.kv_len; j++)
        ((float *)c.problem.mask.data)[j] = (float)j * 8;
    compare(&c, 2e-3, "a growing bias"); /* the ulp of a score of 5000 is 0.0005 */
    for (int64_t j = 0; j < SIZES.kv_len; j++)
        ((float *)c.problem.mask.data)[j] = j < 90 ? -FLT_MAX : j % 50 == 0 ? -1e30f : 0.0f;
    compare(&c, 4e-6, "biases that all but hide");
    c.problem.options.causal = false;
    for (int64_t j = 0; j < SIZES.kv_len; j++)
        ((float *)c.problem.mask.data)[j] = -FLT_MAX;
    c.problem.options.scale = 0;
    compare(&c, 4e-6, "equal biases that are as low as a float can be");
    attention_case_free(&c);
}

static void scale_tensor(const struct attn_tensor *tensor, float factor)
{
    for (int64_t b = 0; b < tensor->shape[0]; b++)
        for (int64_t h = 0; h < tensor->shape[1]; h++)
            for (int64_t l = 0; l < tensor->shape[2]; l++)
                for (int64_t d = 0; d < tensor->shape[3]; d++)
                    *attention_at(tensor, b, h, l, d) *= factor;
}

/* What sums of values may differ by. BFMMLA rounds each sum to odd, by up to a unit in the last
 * place, where other instructions round by half of one. */
static float rounding_of(const struct attn_kernels *table)
{
    return strncmp(attn_kernels_name(table), "neon_bf16", 9) == 0 ? 8e-7f : 4e-7f;
}

/* Values of any size: relative to their size, the context is as exact. */
TEST(sizes_of_values)
{
    static const struct attention_sizes sizes = { 1, 2, 1, 40, 70, 32, 20 };
    static const float factors[] = { 0x1p100f, 0x1p70f, 0x1p62f, 0x1p-85f, 0x1p-92f, 0x1p-120f };
    for (size_t i = 0; i < sizeof factors / sizeof factors[0]; i++) {
        struct attention_case c;
        make(&c, &sizes, table_or_skip());
        attention_run(&c.problem);
        const struct attn_problem usual = c.problem;
        scale_tensor(&c.problem.value, factors[i]);
        attention_case_outputs(&c, CONTEXT_AND_LSE, LAYOUT_DENSE);
        attention_run(&c.problem);
        for (int64_t h = 0; h < sizes.q_heads; h++)
            for (int64_t r = 0; r < sizes.q_len; r++)
                for (int64_t d = 0; d < sizes.v_head_dim; d++) {
                    const float got = *attention_at(&c.problem.context, 0, h, r, d) / factors[i];
                    const float want = *attention_at(&usual.context, 0, h, r, d);
                    if (!(fabsf(got - want) <= rounding_of(c.problem.kernels)))
                        fail_msg("values times %g: %.9g, want %.9g", (double)factors[i],
                                 (double)got, (double)want);
                }
        attention_case_free(&c);
    }
}

/* One value of each size among others: rows before it keep their bits, rows behind it see it. */
static void check_odd_value(float value, const struct attn_kernels *table)
{
    struct attention_case c;
    enum { KEY = 77, COLUMN = 3 };
    make(&c, &SIZES, table);
    attention_run(&c.problem);
    const struct attn_problem clean = c.problem;
    *attention_at(&c.problem.value, 1, 1, KEY, COLUMN) = value;
    attention_case_outputs(&c, CONTEXT_AND_LSE, LAYOUT_DENSE);
    attention_run(&c.problem);
    for (int64_t r = 0; r < SIZES.q_len; r++)
        for (int64_t d = 0; d < SIZES.v_head_dim; d++) {
            const float got = *attention_at(&c.problem.context, 1, 3, r, d);
            const float want = *attention_at(&clean.context, 1, 3, r, d);
            const bool is_hit = r >= KEY && d == COLUMN;
            if (r < KEY && memcmp(&got, &want, sizeof got) != 0)
                fail_msg("value %g: row %d, which does not see it, has other bits", (double)value,
                         (int)r);
            if (!is_hit && !(fabsf(got - want) <= 4e-7f))
                fail_msg("value %g: another column of row %d is %g, without it %g", (double)value,
                         (int)r, (double)got, (double)want);
            if (is_hit && isnan(value) && !isnan(got))
                fail_msg("a value that is not a number is lost");
            if (is_hit && isinf(value) && got != value)
                fail_msg("an infinite value is lost: %g", (double)got);
            if (is_hit && fabsf(value) > 1e20f && !(fabsf(got) > 1e10f))
                fail_msg("value %g is lost: %g", (double)value, (double)got);
        }
    attention_case_free(&c);
}

TEST(odd_values)
{
    static const float values[] = { NAN, INFINITY, -INFINITY, FLT_MAX, -0x1p100f, 1e-40f };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        check_odd_value(values[i], table_or_skip());
}

/* Keys and queries that are not finite: the scores are those of floats. */
TEST(odd_keys_and_queries)
{
    static const float numbers[] = { INFINITY, -INFINITY, NAN, FLT_MAX, -FLT_MAX };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        for (int is_query = 0; is_query <= 1; is_query++) {
            struct attention_case c;
            make(&c, &SIZES, table_or_skip());
            struct attn_tensor *tensor = is_query ? &c.problem.query : &c.problem.key;
            *attention_at(tensor, 0, 0, 60, 5) = numbers[i];
            attention_run(&c.problem);
            const struct attn_problem got = c.problem;
            c.problem.kernels = attn_kernels_available()[0];
            attention_case_outputs(&c, CONTEXT_AND_LSE, LAYOUT_DENSE);
            attention_run(&c.problem);
            for (int64_t r = 0; r < SIZES.q_len; r++)
                for (int64_t d = 0; d < SIZES.v_head_dim; d++) {
                    const float a = *attention_at(&got.context, 0, 0, r, d);
                    const float b = *attention_at(&c.problem.context, 0, 0, r, d);
                    if (isnan(b) && isfinite(numbers[i])) /* the scale overflows a float first */
                        continue;
                    if (isnan(a) != isnan(b) || (!isnan(b) && !(fabsf(a - b) <= 4e-6f)))
                        fail_msg("%g in a %s, row %d: %g, in float %g", (double)numbers[i],
                                 is_query ? "query" : "key", (int)r, (double)a, (double)b);
                }
            attention_case_free(&c);
        }
}

/* A NaN of any bits in a key or a mask stays one, in every precision. */
TEST(any_nan)
{
    static const uint32_t bits[] = { 0x7fffffff, 0xffffffff, 0x7f800001, 0x7fff8000 };
    for (int i = 0; i < 4 * ATTN_PRECISION_COUNT * 2; i++) {
        struct attention_case c;
        make(&c, &SIZES, table_or_skip());
        c.problem.options.precision = (enum attn_precision)(i / 4 % ATTN_PRECISION_COUNT);
        c.problem.mask = attention_case_tensor(&c, ATTN_F32, LAYOUT_DENSE, 1, 1, 1, SIZES.kv_len);
        memset(c.problem.mask.data, 0, (size_t)SIZES.kv_len * sizeof(float));
        memcpy(i / 4 < ATTN_PRECISION_COUNT ? attention_at(&c.problem.key, 0, 0, 60, 5)
                                            : (float *)c.problem.mask.data + 60,
               &bits[i % 4], sizeof bits[0]);
        attention_run(&c.problem);
        for (int64_t r = 0; r < SIZES.q_len; r++)
            if (isnan(*attention_at(&c.problem.context, 0, 0, r, 3)) != (r >= 60))
                fail_msg("bits %08x, precision %d, row %d: %g", bits[i % 4],
                         (int)c.problem.options.precision, (int)r,
                         (double)*attention_at(&c.problem.context, 0, 0, r, 3));
        attention_case_free(&c);
    }
}

/* ------------------------------------------------------------------------- the rule -- */

static bool is_taken(const struct attention_sizes *sizes, const struct attn_kernels *kernels)
{
    struct attention_case c;
    struct attn_plan plan;
    make(&c, sizes, kernels);
    plan_of(&plan, &c.problem);
    attention_case_free(&c);
    return attn_plan_full(&plan)->is_matrix;
}

/* The rule of a table that is not a test's: it hangs on rows, keys and columns. */
TEST(rule)
{
    static const struct {
        struct attention_sizes sizes;
        bool is_taken;
    } cases[] = {
        { { 1, 2, 2, 64, 64, 64, 64 }, true },   { { 9, 2, 1, 64, 64, 64, 64 }, true },
        { { 1, 2, 2, 63, 64, 64, 64 }, false },  { { 1, 2, 2, 64, 63, 64, 64 }, false },
        { { 1, 2, 2, 64, 64, 80, 80 }, true },   { { 1, 2, 2, 64, 64, 40, 40 }, false },
        { { 1, 2, 2, 64, 64, 256, 256 }, true }, { { 1, 2, 2, 64, 64, 257, 256 }, false },
        { { 1, 2, 2, 1, 900, 64, 64 }, false },
    };
    struct attn_kernels table = *table_or_skip();
    struct attn_matrix_kernels matrix = *table.matrix;
    matrix.takes_small = false;
    matrix.products_max = 0;
    matrix.rows_min = 64;
    table.matrix = &matrix;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (is_taken(&cases[i].sizes, &table) != cases[i].is_taken)
            fail_msg("case %d: the matrix unit %s", (int)i,
                     cases[i].is_taken ? "does not take it" : "takes it");
}

/* Options that the matrix unit leaves to the vectors. */
TEST(options)
{
    float weight[40] = { 0 };
    for (int i = 1; i < 5; i++) {
        struct attention_case c;
        struct attn_plan plan;
        make(&c, &SIZES, table_or_skip());
        c.problem.options.precision = ATTN_PRECISION_HIGH;
        plan_of(&plan, &c.problem);
        assert_int_equal(attn_plan_precision(&plan), ATTN_PRECISION_HIGH);
        c.problem.options.normalizer = i == 1 ? ATTN_SPARSEMAX : ATTN_SOFTMAX;
        c.problem.additive_weight = i == 2 ? weight : NULL;
        c.problem.options.softmax_precision = i == 3 ? ATTN_F64 : ATTN_F32;
        if (i == 4)
            attention_case_outputs(&c, OUT_ALL & ~CONTEXT_AND_LSE, LAYOUT_DENSE);
        plan_of(&plan, &c.problem);
        assert_false(attn_plan_full(&plan)->is_matrix);
        assert_int_equal(attn_plan_precision(&plan), ATTN_PRECISION_HIGHEST);
        attention_case_free(&c);
    }
}

/* avx512_bf16 takes what has three products or fewer, of scores and context together; and its
 * medium has one of F16 too. */
TEST(rule_of_dots)
{
    static const struct attention_sizes sizes = { 1, 2, 2, 128, 128, 64, 64 };
    static const struct {
        enum attn_dtype dtype;
        bool is_taken[ATTN_PRECISION_COUNT];
    } cases[] = { { ATTN_F32, { false, false, true } },
                  { ATTN_BF16, { false, true, true } },
                  { ATTN_F16, { false, false, true } } };
    if (table_of_unit != kernel_table_of_dots)
        skip();
    struct attn_kernels table = *table_or_skip();
    struct attn_matrix_kernels matrix = *table.matrix;
    matrix.takes_small = false;
    table.matrix = &matrix;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int p = 0; p < ATTN_PRECISION_COUNT; p++) {
            const enum attn_dtype dtype = cases[i].dtype;
            struct attention_case c;
            struct attn_plan plan;
            make(&c, &sizes, &table);
            c.problem.query = attention_case_tensor(&c, dtype, LAYOUT_DENSE, 1, 2, 128, 64);
            c.problem.key = attention_case_tensor(&c, dtype, LAYOUT_DENSE, 1, 2, 128, 64);
            c.problem.value = attention_case_tensor(&c, dtype, LAYOUT_DENSE, 1, 2, 128, 64);
            c.problem.options.precision = (enum attn_precision)p;
            plan_of(&plan, &c.problem);
            assert_int_equal(attn_plan_full(&plan)->is_matrix, cases[i].is_taken[p]);
            assert_int_equal(attn_plan_precision(&plan), attn_plan_full(&plan)->is_matrix
                                                             ? (enum attn_precision)p
                                                             : ATTN_PRECISION_HIGHEST);
            c.problem.query.shape[2] = c.problem.context.shape[2] = c.problem.lse.shape[2] = 127;
            plan_of(&plan, &c.problem);
            assert_false(attn_plan_full(&plan)->is_matrix);
            attention_case_free(&c);
        }
}

/* ------------------------------------------------------------------- the unit itself -- */

/* The table with the real unit, which takes problems of all shapes; the model of it. */
static bool find_unit(struct attn_kernels *table, struct attn_matrix_kernels *matrix,
                      const struct attn_kernels **model)
{
    const bool is_tiles = table_of_unit == kernel_table_of_model;
    const struct attn_kernels *unit = is_tiles ? kernel_table_of_unit() : kernel_table_of_dots();
    *model = is_tiles ? kernel_table_of_model() : kernel_table_of_dots_model();
    if (unit == NULL || unit->matrix == (*model)->matrix)
        return false;
    *matrix = *unit->matrix;
    matrix->takes_small = true;
    *table = *unit;
    table->matrix = matrix;
    return true;
}

/* Where the CPU has the unit, and we may use it, it gives the bits of its model. */
TEST(unit)
{
    const struct attn_kernels *model;
    struct attn_matrix_kernels matrix;
    struct attn_kernels table;
    if (!find_unit(&table, &matrix, &model))
        skip();
    for (int precision = 0; precision < ATTN_PRECISION_COUNT; precision++) {
        struct attention_case c;
        make(&c, &SIZES, model);
        c.problem.options.precision = (enum attn_precision)precision;
        attention_run(&c.problem);
        const struct attn_problem want = c.problem;
        c.problem.kernels = &table;
        attention_case_outputs(&c, CONTEXT_AND_LSE, LAYOUT_DENSE);
        attention_run(&c.problem);
        expect_equal(&c.problem, &want, "the unit");
        attention_case_free(&c);
    }
}

int main(void)
{
    int failed = test_run("tiles");
    table_of_unit = kernel_table_of_dots;
    failed += test_run("dots");
    return failed;
}
