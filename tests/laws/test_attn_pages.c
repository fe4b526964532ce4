/* SPDX-License-Identifier: Apache-2.0 */
/* test_attn_pages.c - a key and value that lie in pages give the bits that the same rows give in
 * one place, wherever the pages are cut, for problems of every kind. Each page ends at an
 * unreadable one. */
#include "gradient.h"
#include "kernel_tables.h"
#include "problem_count.h"
#include "random_case.h"
#include "test.h"

#include <inttypes.h>

enum { USUAL = 600, PAGES_MAX = 6 };

static const enum attn_dtype NUMBERS[] = { ATTN_F32, ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64 };
static const struct random_dtypes DTYPES = { NUMBERS, 5 };
static const struct random_dtypes NO_DOUBLES = { NUMBERS, 4 };

struct paged {
    struct attn_pages pages;
    struct attn_page list[PAGES_MAX];
};

/* The rows of a tensor in pages that are cut at random, each in memory of its own. */
static void make_pages(struct attention_case *c, struct attn_tensor *tensor, struct paged *paged,
                       struct fill *fill)
{
    const struct attn_tensor from = *tensor;
    const int64_t length = from.shape[2], heads = from.shape[1], columns = from.shape[3];
    int64_t first = 0;
    paged->pages = (struct attn_pages){ .list = paged->list };
    while (paged->pages.count == 0 || first < length) {
        const bool is_last = paged->pages.count == PAGES_MAX - 1;
        const int64_t left = length - first;
        const int64_t rows = is_last || left < 2 ? left : 1 + fill_below(fill, left);
        const int64_t capacity = rows + (is_last ? 0 : fill_below(fill, 3));
        const struct attn_tensor page =
            attention_case_tensor(c, from.dtype, LAYOUT_DENSE, 1, heads, capacity, columns);
        for (int64_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < rows; i++)
                for (int64_t d = 0; d < columns; d++)
                    number_put(&page, 0, h, i, d, number_at(&from, 0, h, first + i, d));
        paged->list[paged->pages.count++] =
            (struct attn_page){ .first = first, .data = page.data, .head_stride = page.stride[1] };
        first += rows;
    }
    tensor->data = paged->list[0].data;
    tensor->stride[0] = tensor->stride[1] = 0;
    tensor->stride[2] = columns;
    tensor->pages = &paged->pages;
}

static void check_bits(struct attention_case *c, struct fill *fill, uint64_t seed)
{
    struct paged key, value;
    attention_case_outputs(c, OUT_ALL, LAYOUT_DENSE);
    attention_run(&c->problem);
    struct attn_problem whole = c->problem;
    make_pages(c, &c->problem.key, &key, fill);
    if (seed % 4 > 0)
        make_pages(c, &c->problem.value, &value, fill);
    attention_case_outputs(c, OUT_ALL, LAYOUT_DENSE);
    attention_run(&c->problem);
    for (int o = 0; o < OUT_COUNT; o++)
        if (attention_differing_bits(attention_output(&whole, o), attention_output(&c->problem, o))
            > 0)
            fail_msg("seed %" PRIu64 " on %s: %" PRId64 " pages give other bits of %s", seed,
                     attn_kernels_name(c->problem.kernels), key.pages.count,
                     attention_output_name(o));
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
        check_bits(&c, &fill, first + n);
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

/* Few rows over many keys: whole vectors, tiles of 512 keys, more than one chunk. */
static void draw_decode(struct attention_case *c, uint64_t seed, struct fill *fill)
{
    const struct attention_sizes sizes = {
        .batch = 1,
        .q_heads = 1 + fill_below(fill, 6),
        .kv_heads = 1,
        .q_len = 1 + fill_below(fill, 3),
        .kv_len = 1 + fill_below(fill, random_chance(fill, 4) ? 5000 : 1100),
        .head_dim = 16 + fill_below(fill, 50),
        .v_head_dim = 16 + fill_below(fill, 50),
    };
    random_case_sized(c, seed, fill, &sizes, &NO_DOUBLES);
    c->problem.additive_weight = NULL;
    c->problem.options.normalizer = ATTN_SOFTMAX;
}

TEST(tiles)
{
    for_problems(500000, draw_tiles);
}

TEST(decode)
{
    for_problems(600000, draw_decode);
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

TEST(refused)
{
    const struct attention_sizes sizes = { 1, 1, 1, 4, 8, 4, 4 };
    struct attention_case c;
    attention_case_init(&c, &sizes, LAYOUT_DENSE, 3);
    attention_case_outputs(&c, OUT_CONTEXT, LAYOUT_DENSE);
    float *rows = c.problem.key.data;
    struct attn_page list[] = { { .first = 0, .data = rows, .head_stride = 32 },
                                { .first = 3, .data = rows + 12, .head_stride = 32 } };
    struct attn_pages pages = { .count = 2, .list = list };
    struct attn_plan plan;
    c.problem.key.pages = &pages;
    assert_int_equal(attn_plan_init(&plan, &c.problem, NULL), ATTN_OK);

    list[0].first = 1;
    expect_refused(&c.problem, ATTN_ERR_SHAPE, "key.pages");
    list[0].first = 0;
    list[1].first = 0;
    expect_refused(&c.problem, ATTN_ERR_SHAPE, "key.pages");
    list[1].first = 8;
    expect_refused(&c.problem, ATTN_ERR_SHAPE, "key.pages");
    list[1].first = 3;
    list[1].data = NULL;
    expect_refused(&c.problem, ATTN_ERR_NO_DATA, "key.pages");
    list[1].data = rows + 12;
    list[1].head_stride = -1;
    expect_refused(&c.problem, ATTN_ERR_STRIDE, "key.pages");
    list[1].head_stride = INT64_MAX;
    expect_refused(&c.problem, ATTN_ERR_TOO_LARGE, "key.pages");
    list[1].head_stride = 32;
    pages.count = 0;
    expect_refused(&c.problem, ATTN_ERR_SHAPE, "key.pages");
    pages.count = 2;
    c.problem.query.pages = &pages;
    expect_refused(&c.problem, ATTN_ERR_SHAPE, "query.pages");
    c.problem.query.pages = NULL;
    c.problem.context.pages = &pages;
    expect_refused(&c.problem, ATTN_ERR_SHAPE, "context.pages");
    c.problem.context.pages = NULL;
    attention_case_free(&c);
}

/* A gradient reads its keys and values in one place. */
TEST(gradient_refused)
{
    const struct attention_sizes sizes = { 1, 1, 1, 4, 8, 4, 4 };
    struct attention_case c;
    attention_case_init(&c, &sizes, LAYOUT_DENSE, 3);
    struct attn_page list[] = { { .data = c.problem.value.data, .head_stride = 32 } };
    struct attn_pages pages = { .count = 1, .list = list };
    struct attn_gradient_problem problem = {
        .attention = c.problem,
        .context_gradient = attention_case_tensor(&c, ATTN_F32, LAYOUT_DENSE, 1, 1, 4, 4),
        .query_gradient = attention_case_tensor(&c, ATTN_F32, LAYOUT_DENSE, 1, 1, 4, 4),
    };
    problem.attention.value.pages = &pages;
    struct attn_gradient_plan plan;
    const char *where = "";
    assert_int_equal(attn_gradient_plan_init(&plan, &problem, &where), ATTN_ERR_SHAPE);
    assert_string_equal(where, "value.pages");
    attention_case_free(&c);
}
