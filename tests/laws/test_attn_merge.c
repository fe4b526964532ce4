/* SPDX-License-Identifier: Apache-2.0 */
/* test_attn_merge.c - attention over parts of the keys, merged, is attention over all of them.
 *
 * Random problems are split at random. The parts come in any order and some are empty. kv_offset
 * gives each part its position, so that causal, windows and linear biases are right in it. The
 * sinks are in one part. Other tests check what attn_merge() promises: the same bits in any
 * order, and numbers worked out by hand. */
#include "attention_case.h"
#include "merge.h"
#include "problem_count.h"
#include "test.h"

#include <inttypes.h>

static const double TOLERANCE = 4e-6;

enum { PROBLEMS = 600, PARTS_MAX = 9 };

/* ------------------------------------------------------- a split problem -- */

struct split {
    struct attention_case whole;
    struct reference reference;
    int64_t rows, columns;
    int64_t part_count;
    int64_t first[PARTS_MAX + 1]; /* keys of part i: [first[i], first[i + 1]) */
    struct attn_part parts[PARTS_MAX];
};

static void choose_options(struct attention_case *c, struct fill *fill)
{
    struct attn_problem *problem = &c->problem;
    const int64_t q_heads = problem->query.shape[1];
    int64_t *past = attention_case_alloc(c, sizeof *past);
    float *slopes = attention_case_alloc(c, (size_t)q_heads * sizeof *slopes);
    float *sinks = attention_case_alloc(c, (size_t)q_heads * sizeof *sinks);
    *past = fill_below(fill, 2) ? problem->key.shape[2] - problem->query.shape[2]
                                : fill_below(fill, 9) - 4;
    for (int64_t h = 0; h < q_heads; h++) {
        slopes[h] = exp2f(-(float)(h + 2));
        sinks[h] = fill_below(fill, 4) ? fill_float(fill, -3, 6) : -INFINITY;
    }
    problem->past_len = fill_below(fill, 3) ? past : NULL;
    problem->alibi_slopes = fill_below(fill, 2) ? slopes : NULL;
    problem->sinks = fill_below(fill, 2) ? sinks : NULL;
    problem->kv_offset = fill_below(fill, 3) ? 0 : fill_below(fill, 40) - 20;
    problem->options.causal = fill_below(fill, 2);
    problem->options.window_left = fill_below(fill, 2) ? -1 : fill_below(fill, 60);
    problem->options.window_right = fill_below(fill, 2) ? -1 : fill_below(fill, 60);
    problem->options.softcap = fill_below(fill, 3) ? 0.0f : 2.0f;
}

static void add_mask(struct attention_case *c, struct fill *fill)
{
    const int64_t q_len = c->problem.query.shape[2], kv_len = c->problem.key.shape[2];
    struct attn_tensor mask = attention_case_tensor(c, ATTN_F32, LAYOUT_DENSE, 1, 1, q_len, kv_len);
    for (int64_t i = 0; i < q_len * kv_len; i++) {
        const float number = fill_float(fill, -3, 3);
        ((float *)mask.data)[i] = number < -1.5f ? -INFINITY : number;
    }
    c->problem.mask = mask;
}

static void choose_cuts(struct split *split, int64_t kv_len, struct fill *fill)
{
    split->part_count = 1 + fill_below(fill, PARTS_MAX);
    split->first[0] = 0;
    for (int64_t i = 1; i < split->part_count; i++)
        split->first[i] = fill_below(fill, kv_len + 1);
    split->first[split->part_count] = kv_len;
    for (int64_t i = 1; i < split->part_count; i++) /* few, so they are sorted by exchange */
        for (int64_t j = i; j > 1 && split->first[j] < split->first[j - 1]; j--) {
            const int64_t swap = split->first[j];
            split->first[j] = split->first[j - 1];
            split->first[j - 1] = swap;
        }
}

/* Runs part i of the keys. The sinks count in the part sink_part. */
static void run_part(struct split *split, int64_t i, bool has_sinks)
{
    struct attn_problem part = split->whole.problem;
    const int64_t first = split->first[i], n = split->first[i + 1] - first;
    const int64_t *query = part.query.shape;
    part.key.data = attention_at(&part.key, 0, 0, first, 0);
    part.value.data = attention_at(&part.value, 0, 0, first, 0);
    part.key.shape[2] = part.value.shape[2] = n;
    part.kv_offset += first;
    if (part.mask.data != NULL) {
        part.mask.data = (float *)part.mask.data + first;
        part.mask.shape[3] = n;
    }
    if (!has_sinks)
        part.sinks = NULL;
    part.context = attention_case_tensor(&split->whole, ATTN_F32, LAYOUT_DENSE, query[0], query[1],
                                         query[2], split->columns);
    part.lse = attention_case_tensor(&split->whole, ATTN_F32, LAYOUT_DENSE, query[0], query[1],
                                     query[2], 1);
    attention_run(&part);
    split->parts[i] = (struct attn_part){ part.context.data, part.lse.data };
}

static void split_init(struct split *split, uint64_t seed)
{
    struct fill fill = { seed };
    const int64_t kv_heads = 1 + fill_below(&fill, 2);
    const struct attention_sizes sizes = { .batch = 1,
                                           .kv_heads = kv_heads,
                                           .q_heads = kv_heads * (1 + fill_below(&fill, 2)),
                                           .q_len = 1 + fill_below(&fill, 20),
                                           .kv_len = fill_below(&fill, 130),
                                           .head_dim = 1 + fill_below(&fill, 12),
                                           .v_head_dim = 1 + fill_below(&fill, 12) };
    attention_case_init(&split->whole, &sizes, LAYOUT_DENSE, seed);
    choose_options(&split->whole, &fill);
    if (fill_below(&fill, 2))
        add_mask(&split->whole, &fill);
    split->rows = sizes.q_heads * sizes.q_len;
    split->columns = sizes.v_head_dim;
    reference_attention(&split->whole.problem, &split->reference);
    choose_cuts(split, sizes.kv_len, &fill);
    const int64_t sink_part = fill_below(&fill, split->part_count);
    for (int64_t i = 0; i < split->part_count; i++)
        run_part(split, i, i == sink_part);
}

static void split_free(struct split *split)
{
    reference_free(&split->reference);
    attention_case_free(&split->whole);
}

/* ------------------------------------------------------------- merging it -- */

enum { ROWS_MAX = 4 * 20, COLUMNS_MAX = 12 };

struct merged {
    float context[ROWS_MAX * COLUMNS_MAX], lse[ROWS_MAX];
};

static void merge(const struct attn_part *parts, int64_t count, int64_t rows, int64_t columns,
                  struct merged *merged)
{
    double weights[PARTS_MAX];
    attn_merge(parts, count, 0, rows, columns, merged->context, columns, merged->lse, weights);
}

static void shuffle(struct attn_part *parts, int64_t count, struct fill *fill)
{
    for (int64_t i = count - 1; i > 0; i--) {
        const int64_t j = fill_below(fill, i + 1);
        const struct attn_part swap = parts[i];
        parts[i] = parts[j];
        parts[j] = swap;
    }
}

static void expect_reference(const struct split *split, const struct merged *merged, uint64_t seed)
{
    for (int64_t i = 0; i < split->rows; i++) {
        const double got = (double)merged->lse[i], want = split->reference.lse[i];
        if (isinf(want) ? got != want : !(fabs(got - want) <= TOLERANCE * (1 + fabs(want))))
            fail_msg("problem %" PRIu64 ": lse[%" PRId64 "] = %.9g, want %.9g", seed, i, got, want);
    }
    for (int64_t i = 0; i < split->rows * split->columns; i++) {
        const double got = (double)merged->context[i], want = split->reference.context[i];
        if (!(fabs(got - want) <= TOLERANCE * (1 + fabs(want))))
            fail_msg("problem %" PRIu64 ": context[%" PRId64 "] = %.9g, want %.9g", seed, i, got,
                     want);
    }
}

static void expect_same_bits(const struct split *split, const struct merged *a,
                             const struct merged *b)
{
    assert_memory_equal(a->lse, b->lse, (size_t)split->rows * sizeof(float));
    assert_memory_equal(a->context, b->context,
                        (size_t)(split->rows * split->columns) * sizeof(float));
}

TEST(any_split_is_the_whole)
{
    for (uint64_t seed = 1; seed <= problem_count(PROBLEMS); seed++) {
        struct split split;
        struct merged merged, shuffled;
        struct fill fill = { seed * 7919 };
        split_init(&split, seed);
        merge(split.parts, split.part_count, split.rows, split.columns, &merged);
        expect_reference(&split, &merged, seed);
        for (int n = 0; n < 3; n++) {
            shuffle(split.parts, split.part_count, &fill);
            merge(split.parts, split.part_count, split.rows, split.columns, &shuffled);
            expect_same_bits(&split, &merged, &shuffled);
        }
        split_free(&split);
    }
}

/* Merges two groups of the parts first, and then the two results. */
TEST(merging_twice)
{
    for (uint64_t seed = 1; seed <= problem_count(200); seed++) {
        struct split split;
        struct merged groups[2], merged;
        split_init(&split, 5000 + seed);
        const int64_t cut = (int64_t)(seed % (uint64_t)(split.part_count + 1));
        merge(split.parts, cut, split.rows, split.columns, &groups[0]);
        merge(split.parts + cut, split.part_count - cut, split.rows, split.columns, &groups[1]);
        const struct attn_part pair[2] = { { groups[0].context, groups[0].lse },
                                           { groups[1].context, groups[1].lse } };
        merge(pair, 2, split.rows, split.columns, &merged);
        expect_reference(&split, &merged, seed);
        split_free(&split);
    }
}

/* One part alone comes out as it went in, also beside empty parts. */
TEST(one_part_and_empty_ones)
{
    struct fill fill = { 11 };
    float context[6], lse[2] = { 0.7f, -90.0f };
    const float no_context[6] = { 0 }, no_lse[2] = { -INFINITY, -INFINITY };
    fill_floats(&fill, context, 6, -1e30f, 1e30f);
    context[1] = 0x1p-140f; /* a denormal too */
    const struct attn_part parts[3] = { { no_context, no_lse },
                                        { context, lse },
                                        { no_context, no_lse } };
    struct merged merged;
    merge(parts + 1, 1, 2, 3, &merged);
    assert_memory_equal(merged.context, context, sizeof context);
    assert_memory_equal(merged.lse, lse, sizeof lse);
    merge(parts, 3, 2, 3, &merged);
    assert_memory_equal(merged.context, context, sizeof context);
    assert_memory_equal(merged.lse, lse, sizeof lse);
    for (int64_t count = 0; count <= 1; count++) {
        merge(parts, count, 2, 3, &merged);
        for (int i = 0; i < 6; i++)
            assert_true(merged.context[i] == 0.0f);
        assert_true(merged.lse[0] == -INFINITY && merged.lse[1] == -INFINITY);
    }
}

/* The result in the place of any part, from the second row on, has the bits that it has elsewhere.
 */
TEST(in_place)
{
    enum { PARTS = 3, ROWS = 4, COLUMNS = 5, FIRST = 1, REST = (ROWS - FIRST) * COLUMNS };
    for (int count = 1; count <= PARTS; count++)
        for (int place = 0; place < count; place++) {
            struct fill fill = { 31 };
            float context[PARTS][ROWS * COLUMNS], lse[PARTS][ROWS];
            float away[REST], away_lse[ROWS - FIRST];
            double weights[PARTS];
            struct attn_part parts[PARTS];
            for (int i = 0; i < PARTS; i++) {
                fill_floats(&fill, context[i], ROWS * COLUMNS, -4, 4);
                fill_floats(&fill, lse[i], ROWS, -2, 2);
                parts[i] = (struct attn_part){ context[i], lse[i] };
            }
            lse[0][2] = -INFINITY;
            attn_merge(parts, count, FIRST, ROWS - FIRST, COLUMNS, away, COLUMNS, away_lse,
                       weights);
            attn_merge(parts, count, FIRST, ROWS - FIRST, COLUMNS, context[place] + FIRST * COLUMNS,
                       COLUMNS, lse[place] + FIRST, weights);
            assert_memory_equal(context[place] + FIRST * COLUMNS, away, sizeof away);
            assert_memory_equal(lse[place] + FIRST, away_lse, sizeof away_lse);
        }
}

/* lse log 3 and log 1: weights 3/4 and 1/4. */
TEST(by_hand)
{
    const float a[2] = { 1, -8 }, b[2] = { 5, 4 };
    for (float shift = -1e4f; shift <= 1e4f; shift += 5e3f) {
        const float lse_a = shift + (float)log(3.0), lse_b = shift;
        const struct attn_part parts[2] = { { a, &lse_a }, { b, &lse_b } };
        const double weight = 1 / (1 + exp((double)lse_b - (double)lse_a));
        struct merged merged;
        merge(parts, 2, 1, 2, &merged);
        assert_true(fabs((double)merged.context[0] - (weight * 1 + (1 - weight) * 5)) < 1e-6);
        assert_true(fabs((double)merged.context[1] - (weight * -8 + (1 - weight) * 4)) < 1e-6);
        assert_true(merged.lse[0]
                    == (float)((double)lse_b + log1p(exp((double)lse_a - (double)lse_b))));
        if (shift == 0.0f)
            assert_true(fabs(weight - 0.75) < 1e-7 && fabs((double)merged.context[0] - 2) < 1e-6);
    }
}

/* The terms are 2^0, 2^-40 and -2^0: a sum in the wrong order would lose the small one. */
TEST(cancellation)
{
    const float big = 1.0f, small = 0x1p-40f, minus = -1.0f, lse = 0.0f;
    const struct attn_part parts[3] = { { &big, &lse }, { &small, &lse }, { &minus, &lse } };
    static const int orders[6][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
                                      { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };
    for (int o = 0; o < 6; o++) {
        struct attn_part ordered[3];
        struct merged merged;
        for (int i = 0; i < 3; i++)
            ordered[i] = parts[orders[o][i]];
        merge(ordered, 3, 1, 1, &merged);
        assert_true(merged.context[0] == (float)(0x1p-40 / 3.0));
    }
}

TEST(nonfinite)
{
    const float number = 2.0f, bad = NAN, infinite = INFINITY, zero = 0.0f, far = -1e6f;
    const struct {
        struct attn_part a, b;
        bool context_is_nan;
        float context;
        float lse;
    } cases[] = {
        { { &bad, &zero }, { &number, &zero }, true, 0, (float)log(2.0) },
        { { &infinite, &zero }, { &number, &zero }, false, INFINITY, (float)log(2.0) },
        { { &bad, &far }, { &number, &zero }, false, 2.0f, 0.0f }, /* no weight: ignored */
        { { &number, &infinite }, { &number, &zero }, true, 0, INFINITY },
        { { &number, &bad }, { &number, &zero }, true, 0, NAN },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int swap = 0; swap < 2; swap++) {
            const struct attn_part parts[2] = { swap ? cases[i].b : cases[i].a,
                                                swap ? cases[i].a : cases[i].b };
            struct merged merged;
            merge(parts, 2, 1, 1, &merged);
            assert_true(cases[i].context_is_nan ? isnan(merged.context[0])
                                                : merged.context[0] == cases[i].context);
            assert_true(isnan(cases[i].lse) ? isnan(merged.lse[0]) : merged.lse[0] == cases[i].lse);
        }
}
