/* SPDX-License-Identifier: Apache-2.0 */
/* test_attn_int8.c - keys and values of I8 give the bits of the floats that they stand for: scale *
 * q, rounded once. Pages are cut at random, some of them F32, with either kind of scales for key
 * and value; the problems are of every kind and take every table in turn. The same answers are
 * near those of double arithmetic over these floats. */
#include "int8_pages.h"
#include "kernel_tables.h"
#include "problem_count.h"
#include "test.h"

#include <inttypes.h>

enum { USUAL = 500 };

static const double TOLERANCE = 1e-5;

static const enum attn_dtype FLOATS[] = { ATTN_F32 };
static const struct random_dtypes DTYPES = { FLOATS, 1 };

/* Runs the parts from the last to the first, where the plan has any. */
static void run_parts(const struct attn_problem *problem)
{
    struct attn_plan plan;
    assert_int_equal(attn_plan_init(&plan, problem, NULL), ATTN_OK);
    if (plan.part_count == 0) {
        attention_run(problem);
        return;
    }
    struct guard_buffer shared = guard_alloc((plan.shared_bytes + 63) / 64 * 64);
    struct guard_buffer workspace = guard_alloc((plan.part_workspace_bytes + 63) / 64 * 64);
    for (int64_t part = plan.part_count - 1; part >= 0; part--)
        attn_plan_run_part(&plan, part, shared.data, workspace.data);
    for (int64_t join = plan.join_count - 1; join >= 0; join--)
        attn_plan_run_join(&plan, join, shared.data, workspace.data);
    guard_free(&shared);
    guard_free(&workspace);
}

static void expect_same(struct attn_problem *got, struct attn_problem *want, uint64_t seed)
{
    for (int o = 0; o < OUT_COUNT; o++)
        if (attention_differing_bits(attention_output(got, o), attention_output(want, o)) > 0)
            fail_msg("seed %" PRIu64 " on %s: other bits of %s", seed,
                     attn_kernels_name(got->kernels), attention_output_name(o));
}

static void expect_near(const struct attn_problem *problem, uint64_t seed)
{
    struct reference reference;
    reference_attention(problem, &reference);
    if (attention_compare(problem, &reference, TOLERANCE) > 0)
        fail_msg("seed %" PRIu64 " on %s: not what double arithmetic gives", seed,
                 attn_kernels_name(problem->kernels));
    reference_free(&reference);
}

static void check_problem(struct attention_case *c, struct fill *fill, uint64_t seed)
{
    struct paged key, value;
    struct attn_problem want = c->problem;
    c->problem.options.dropout = want.options.dropout = seed % 7 == 0 ? 0.25f : 0;
    c->problem.key = make_pages(c, &want.key, &key, random_chance(fill, 4), fill);
    if (seed % 4 > 0)
        c->problem.value = make_pages(c, &want.value, &value, !random_chance(fill, 4), fill);
    attention_case_outputs(c, OUT_ALL, LAYOUT_DENSE);
    struct attn_problem got = c->problem;
    attention_run(&got);
    attention_case_outputs(c, OUT_ALL, LAYOUT_DENSE);
    memcpy(want.out, c->problem.out, sizeof want.out);
    attention_run(&want);
    expect_same(&got, &want, seed);
    if (!(want.options.dropout > 0))
        expect_near(&want, seed);
    run_parts(&got);
    expect_same(&got, &want, seed);
}

typedef void (*draw_fn)(struct attention_case *c, uint64_t seed, struct fill *fill);

static void for_problems(uint64_t first, draw_fn draw)
{
    for (uint64_t n = 0; n < problem_count(USUAL); n++) {
        struct attention_case c;
        struct fill fill = { first + n };
        draw(&c, first + n, &fill);
        c.problem.kernels = kernel_table_of_turn(n);
        c.problem.options.is_prefix_stable = n % 5 == 0;
        if (n % 11 == 0)
            c.problem.options.softmax_precision = ATTN_F64;
        check_problem(&c, &fill, first + n);
        attention_case_free(&c);
    }
}

static void draw_tiles(struct attention_case *c, uint64_t seed, struct fill *fill)
{
    const int64_t kv_heads = 1 + fill_below(fill, 2);
    const struct attention_sizes sizes = {
        .batch = 1,
        .q_heads = kv_heads * (1 + fill_below(fill, 2)),
        .kv_heads = kv_heads,
        .q_len = 1 + fill_below(fill, 70),
        .kv_len = 1 + fill_below(fill, 400),
        .head_dim = 1 + fill_below(fill, 35),
        .v_head_dim = 1 + fill_below(fill, 35),
    };
    random_case_sized(c, seed, fill, &sizes, &DTYPES);
}

/* Few rows over many keys: whole vectors and not, tiles of 512 keys, more than one chunk. */
static void draw_decode(struct attention_case *c, uint64_t seed, struct fill *fill)
{
    static const int64_t usual[] = { 16, 32, 64, 128 };
    const int64_t kv_heads = 1 + fill_below(fill, 2);
    const struct attention_sizes sizes = {
        .batch = 1,
        .q_heads = kv_heads * (1 + fill_below(fill, 6)),
        .kv_heads = kv_heads,
        .q_len = 1 + fill_below(fill, 3),
        .kv_len = 1 + fill_below(fill, random_chance(fill, 4) ? 3000 : 1100),
        .head_dim = random_chance(fill, 2) ? usual[fill_below(fill, 4)] : 16 + fill_below(fill, 50),
        .v_head_dim =
            random_chance(fill, 2) ? usual[fill_below(fill, 4)] : 16 + fill_below(fill, 50),
    };
    random_case_sized(c, seed, fill, &sizes, &DTYPES);
    c->problem.additive_weight = NULL;
    c->problem.options.normalizer = ATTN_SOFTMAX;
}

TEST(tiles)
{
    for_problems(700000, draw_tiles);
}

TEST(decode)
{
    for_problems(800000, draw_decode);
}

/* ------------------------------------------------------------------------------- poison -- */

/* Scales of hidden keys and values may be NaN or infinite. */
static void check_poison(const struct attn_kernels *kernels, int64_t q_len, bool by_mask)
{
    const struct attention_sizes sizes = { 1, 4, 2, q_len, 700, 64, 64 };
    static const int64_t seen[] = { 3 * ATTN_I8_ROWS };
    struct attention_case c;
    struct paged key, value;
    struct fill fill = { (uint64_t)q_len };
    attention_case_init(&c, &sizes, LAYOUT_DENSE, 5);
    key.pages = (struct attn_pages){ .count = 1, .list = key.list };
    value.pages = (struct attn_pages){ .count = 1, .list = value.list, .has_row_scales = true };
    key.list[0] = make_int8(&c, &c.problem.key, 0, sizes.kv_len, false, &fill);
    value.list[0] = make_int8(&c, &c.problem.value, 0, sizes.kv_len, true, &fill);
    c.problem.kernels = kernels;
    if (by_mask) {
        c.problem.mask = attention_case_tensor(&c, ATTN_BOOL, LAYOUT_DENSE, 1, 1, 1, sizes.kv_len);
        memset(c.problem.mask.data, 0, (size_t)sizes.kv_len);
        memset(c.problem.mask.data, 1, (size_t)seen[0]);
    } else {
        c.problem.kv_len = seen;
    }
    struct attn_problem got = c.problem;
    attention_case_outputs(&c, OUT_CONTEXT | OUT_WEIGHTS | OUT_LSE, LAYOUT_DENSE);
    attention_run(&c.problem);
    struct attn_problem want = c.problem;
    attention_case_outputs(&c, OUT_CONTEXT | OUT_WEIGHTS | OUT_LSE, LAYOUT_DENSE);
    memcpy(got.out, c.problem.out, sizeof got.out);
    got.key.dtype = got.value.dtype = ATTN_I8;
    got.key.pages = &key.pages;
    got.value.pages = &value.pages;
    got.key.data = key.list[0].data;
    got.value.data = value.list[0].data;
    for (int64_t h = 0; h < 2; h++) {
        float *row = (float *)(uintptr_t)value.list[0].scale + h * value.list[0].scale_stride;
        float *channel = (float *)(uintptr_t)key.list[0].scale + h * key.list[0].scale_stride;
        for (int64_t i = seen[0]; i < sizes.kv_len; i++)
            row[i] = i % 2 ? NAN : INFINITY;
        for (int64_t i = seen[0]; i < key.list[0].scale_stride; i++)
            channel[i] = i % 3 ? NAN : INFINITY;
    }
    attention_run(&got);
    expect_same(&got, &want, (uint64_t)q_len);
    attention_case_free(&c);
}

TEST(poison)
{
    for (const struct attn_kernels *const *k = kernel_tables(); *k != NULL; k++)
        for (int64_t q_len = 1; q_len < 80; q_len += 1 + q_len * 4)
            for (int by_mask = 0; by_mask <= 1; by_mask++)
                check_poison(*k, q_len, by_mask);
}

/* ------------------------------------------------------------------------ what is refused -- */

static void expect_refused(const struct attn_problem *problem, enum attn_status status,
                           const char *field)
{
    struct attn_plan plan;
    const char *where = "";
    assert_int_equal(attn_plan_init(&plan, problem, &where), status);
    assert_string_equal(where, field);
}

/* I8 is for the pages of a key and a value alone. */
TEST(refused)
{
    const struct attention_sizes sizes = { 1, 1, 1, 4, 8, 4, 4 };
    struct attention_case c;
    attention_case_init(&c, &sizes, LAYOUT_DENSE, 3);
    attention_case_outputs(&c, OUT_CONTEXT, LAYOUT_DENSE);
    float scale[8] = { 0 };
    struct attn_page page = { .data = c.problem.value.data, .head_stride = 32, .scale = scale };
    const struct attn_pages pages = { .count = 1, .list = &page, .has_row_scales = true };
    struct attn_plan plan;
    c.problem.value.dtype = ATTN_I8;
    expect_refused(&c.problem, ATTN_ERR_DTYPE, "value.dtype");
    c.problem.value.pages = &pages;
    assert_int_equal(attn_plan_init(&plan, &c.problem, NULL), ATTN_OK);
    page.scale_stride = -1;
    expect_refused(&c.problem, ATTN_ERR_STRIDE, "value.pages");
    page.scale_stride = INT64_MAX;
    expect_refused(&c.problem, ATTN_ERR_STRIDE, "value.pages");
    page.scale = NULL;
    assert_int_equal(attn_plan_init(&plan, &c.problem, NULL), ATTN_OK);
    c.problem.query.dtype = ATTN_I8;
    expect_refused(&c.problem, ATTN_ERR_DTYPE, "query.dtype");
    c.problem.query.dtype = ATTN_F32;
    c.problem.context.dtype = ATTN_I8;
    expect_refused(&c.problem, ATTN_ERR_DTYPE, "context.dtype");
    c.problem.context.dtype = ATTN_F32;
    c.problem.options.softmax_precision = ATTN_I8;
    expect_refused(&c.problem, ATTN_ERR_OPTION, "options.softmax_precision");
    attention_case_free(&c);
}
