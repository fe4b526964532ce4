/* SPDX-License-Identifier: Apache-2.0 */
/* test_given.c - rows whose weights the caller gives, in problems of every kind: masks, windows,
 * lengths, grouped heads, softcap, sinks, keys and values in pages and of every dtype but F64.
 * Which keys a row sees is what double arithmetic leaves above -INFINITY; a context of given
 * weights is their sum in double, rounded once; and nothing else of the answer changes. */
#include "given.h"
#include "int8_pages.h"
#include "kernel_tables.h"
#include "problem_count.h"
#include "test.h"

#include <inttypes.h>

enum { USUAL = 400 };

static const enum attn_dtype NUMBERS[] = { ATTN_F32, ATTN_F32, ATTN_F16, ATTN_BF16 };
static const struct random_dtypes DTYPES = { NUMBERS, 4 };

/* ------------------------------------------------------------------- what is seen -- */

static void check_seen(const struct attn_problem *problem, uint64_t seed)
{
    const int64_t q_len = problem->query.shape[2], kv_len = problem->key.shape[2];
    bool *seen = malloc((size_t)kv_len + 1);
    struct reference reference;
    reference_attention(problem, &reference);
    for (int64_t row = 0; row < problem->query.shape[1] * q_len; row++) {
        attn_row_seen(problem, row / q_len, row % q_len, seen);
        for (int64_t j = 0; j < kv_len; j++)
            if (seen[j] != (reference.masked[row * kv_len + j] > -INFINITY))
                fail_msg("seed %" PRIu64 ": head %" PRId64 ", row %" PRId64 " and key %" PRId64,
                         seed, row / q_len, row % q_len, j);
    }
    reference_free(&reference);
    free(seen);
}

/* ------------------------------------------------------------------ given weights -- */

/* A table where some rows have weights: of any sign and size, many of them 0, and some rows share
 * theirs. */
static const float **make_given(struct attention_case *c, struct fill *fill)
{
    const int64_t rows = c->problem.query.shape[1] * c->problem.query.shape[2];
    const int64_t kv_len = c->problem.key.shape[2];
    const float **given = attention_case_alloc(c, (size_t)rows * sizeof *given);
    float *memory = attention_case_alloc(c, (size_t)(rows * kv_len + 1) * sizeof *memory);
    for (int64_t i = 0; i < rows; i++) {
        float *own = memory + i * kv_len;
        const float most = random_chance(fill, 5) ? 1e6f : 1;
        fill_floats(fill, own, kv_len, -most, most);
        for (int64_t j = 0; j < kv_len; j++)
            own[j] = random_chance(fill, 3) ? 0 : own[j];
        given[i] = random_chance(fill, 3) ? NULL : own;
        if (i > 0 && random_chance(fill, 6))
            given[i] = given[i - 1];
    }
    return given;
}

/* The rows of each head in pieces, from the last to the first. */
static void run_given(const struct attn_problem *problem, const float *const *given,
                      struct fill *fill)
{
    for (int64_t head = problem->query.shape[1] - 1; head >= 0; head--)
        for (int64_t end = problem->query.shape[2], count; end > 0; end -= count) {
            count = 1 + fill_below(fill, end);
            attn_given_run(problem, given, head, end - count, count);
        }
}

static void expect_row(const struct attn_problem *problem, const struct attn_tensor *value,
                       const float *weights, int64_t head, int64_t row, uint64_t seed)
{
    const int64_t group = problem->query.shape[1] / value->shape[1];
    for (int64_t d = 0; d < value->shape[3]; d++) {
        const double got = number_at(&problem->context, 0, head, row, d);
        double want = 0, sum = 0;
        for (int64_t j = 0; j < value->shape[2]; j++) {
            const double term = (double)weights[j] * number_at(value, 0, head / group, j, d);
            want += term;
            sum += fabs(term);
        }
        if (!(fabs(got - want) <= 0x1p-24 * fabs(want) + 1e-13 * sum))
            fail_msg("seed %" PRIu64 ": head %" PRId64 ", row %" PRId64 ": %.9g, not %.17g", seed,
                     head, row, got, want);
    }
    for (int64_t j = 0; j < value->shape[2]; j++) {
        const float got = *attention_at(&problem->weights, 0, head, row, j);
        if (memcmp(&got, &weights[j], sizeof got) != 0)
            fail_msg("seed %" PRIu64 ": weight %" PRId64 " is %.9g, not %.9g", seed, j, (double)got,
                     (double)weights[j]);
    }
}

/* Of one row, every output of both; of a row with given weights all but these two. */
static void expect_same(const struct attn_problem *got, const struct attn_problem *want,
                        int64_t head, int64_t row, bool is_given, uint64_t seed)
{
    for (int o = 0; o < OUT_COUNT; o++) {
        struct attn_tensor a = got->out[o], b = want->out[o];
        if (is_given && (o == ATTN_OUTPUT_CONTEXT || o == ATTN_OUTPUT_WEIGHTS))
            continue;
        a.data = (float *)a.data + head * a.stride[1] + row * a.stride[2];
        b.data = (float *)b.data + head * b.stride[1] + row * b.stride[2];
        a.shape[1] = a.shape[2] = b.shape[1] = b.shape[2] = 1;
        if (attention_differing_bits(&a, &b) > 0)
            fail_msg("seed %" PRIu64 ": %s of head %" PRId64 ", row %" PRId64, seed,
                     attention_output_name(o), head, row);
    }
}

/* value: what the problem's value stands for, without pages. */
static void check_given(struct attention_case *c, const struct attn_tensor *value,
                        struct fill *fill, uint64_t seed)
{
    const int64_t q_len = c->problem.query.shape[2];
    const float *const *given = make_given(c, fill);
    attention_case_outputs(c, OUT_ALL, LAYOUT_DENSE);
    attention_run(&c->problem);
    const struct attn_problem want = c->problem;
    attention_case_outputs(c, OUT_ALL, random_chance(fill, 2) ? LAYOUT_ROWS : LAYOUT_GAPS);
    attention_run(&c->problem);
    run_given(&c->problem, given, fill);
    for (int64_t row = 0; row < c->problem.query.shape[1] * q_len; row++) {
        expect_same(&c->problem, &want, row / q_len, row % q_len, given[row] != NULL, seed);
        if (given[row])
            expect_row(&c->problem, value, given[row], row / q_len, row % q_len, seed);
    }
}

/* One output alone, in memory that ends behind it. */
static void check_alone(struct attention_case *c, struct fill *fill)
{
    const float *const *given = make_given(c, fill);
    for (unsigned set = 0; set <= OUT_LSE; set = set > 0 ? 2 * set : 1) {
        attention_case_outputs(c, set, LAYOUT_DENSE);
        attention_run(&c->problem);
        run_given(&c->problem, given, fill);
    }
}

/* ---------------------------------------------------------------------- problems -- */

static void draw(struct attention_case *c, uint64_t seed, struct fill *fill)
{
    const int64_t kv_heads = 1 + fill_below(fill, 2);
    const struct attention_sizes sizes = {
        .batch = 1,
        .q_heads = kv_heads * (1 + fill_below(fill, 3)),
        .kv_heads = kv_heads,
        .q_len = 1 + fill_below(fill, 20),
        .kv_len = fill_below(fill, random_chance(fill, 4) ? 600 : 70),
        .head_dim = 1 + fill_below(fill, 20),
        .v_head_dim = 1 + fill_below(fill, 150),
    };
    random_case_sized(c, seed, fill, &sizes, &DTYPES);
    if (random_chance(fill, 4)) {
        c->problem.first_keys = fill_below(fill, 9);
        c->problem.last_keys = 1 + fill_below(fill, 30);
    }
    c->problem.kernels = kernel_table_of_turn(seed);
}

TEST(rows_see_what_is_not_masked)
{
    for (uint64_t seed = 9000; seed < 9000 + problem_count(USUAL); seed++) {
        struct attention_case c;
        struct fill fill = { seed };
        draw(&c, seed, &fill);
        check_seen(&c.problem, seed);
        attention_case_free(&c);
    }
}

TEST(given_weights_are_used_as_they_are)
{
    for (uint64_t seed = 20000; seed < 20000 + problem_count(USUAL); seed++) {
        struct attention_case c;
        struct fill fill = { seed };
        draw(&c, seed, &fill);
        const struct attn_tensor value = c.problem.value;
        check_given(&c, &value, &fill, seed);
        check_alone(&c, &fill);
        attention_case_free(&c);
    }
}

TEST(given_weights_over_pages_of_int8)
{
    for (uint64_t seed = 30000; seed < 30000 + problem_count(USUAL); seed++) {
        struct attention_case c;
        struct fill fill = { seed };
        struct paged key, value;
        draw(&c, seed, &fill);
        c.problem.key = recast(&c, &c.problem.key, ATTN_F32, LAYOUT_DENSE);
        c.problem.value = recast(&c, &c.problem.value, ATTN_F32, LAYOUT_DENSE);
        const struct attn_tensor floats[] = { c.problem.key, c.problem.value };
        c.problem.key = make_pages(&c, &floats[0], &key, random_chance(&fill, 4), &fill);
        c.problem.value = make_pages(&c, &floats[1], &value, !random_chance(&fill, 4), &fill);
        check_given(&c, &floats[1], &fill, seed);
        struct attn_problem plain = c.problem;
        plain.key = floats[0];
        plain.value = floats[1];
        check_seen(&plain, seed);
        attention_case_free(&c);
    }
}
