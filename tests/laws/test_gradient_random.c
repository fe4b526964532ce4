/* SPDX-License-Identifier: Apache-2.0 */
/* test_gradient_random.c - the gradients of random problems of every kind, all numbers of a
 * problem at once. Every number of every input moves, some up and some down. The loss of the
 * double reference must change as the gradients say.
 *
 * ATTND_TEST_ROUNDS is the number of problems, in place of a few hundred. */
#include "gradient_case.h"
#include "kernel_tables.h"
#include "test.h"

#include <inttypes.h>

enum { ROUNDS = 300, NUMBERS_MAX = 1 << 18 };

static const float STEP = 0x1p-19f;

/* A number that moves, by +1 or -1 steps, and its gradient. */
struct number {
    float *at;
    float kept, direction;
    double gradient;
};

struct numbers {
    struct number list[NUMBERS_MAX];
    int64_t count;
    struct fill fill;
};

static void add(struct numbers *numbers, float *at, float gradient)
{
    const float direction = fill_below(&numbers->fill, 2) ? 1.0f : -1.0f;
    assert_true(numbers->count < NUMBERS_MAX);
    if (isfinite(*at))
        numbers->list[numbers->count++] = (struct number){ at, *at, direction, (double)gradient };
    else
        assert_true(gradient == 0);
}

static void add_tensor(struct numbers *numbers, const struct attn_tensor *input,
                       const struct attn_tensor *gradient)
{
    const int64_t *s = input->shape;
    for (int64_t at = 0; input->data != NULL && at < s[0] * s[1] * s[2] * s[3]; at++) {
        const int64_t d = at % s[3], i = at / s[3] % s[2], h = at / s[3] / s[2] % s[1],
                      b = at / s[3] / s[2] / s[1];
        add(numbers, attention_at(input, b, h, i, d), *attention_at(gradient, b, h, i, d));
    }
}

static void add_list(struct numbers *numbers, const float *input, const float *gradient,
                     int64_t count)
{
    for (int64_t i = 0; input != NULL && i < count; i++)
        add(numbers, (float *)input + i, gradient[i]);
}

static void add_all(struct numbers *numbers, const struct gradient_case *c)
{
    const struct attn_problem *attention = &c->forward.problem;
    const struct attn_gradient_problem *problem = &c->problem;
    add_tensor(numbers, &attention->query, &problem->query_gradient);
    add_tensor(numbers, &attention->key, &problem->key_gradient);
    add_tensor(numbers, &attention->value, &problem->value_gradient);
    add_tensor(numbers, &attention->mask, &problem->mask_gradient);
    add_list(numbers, attention->additive_weight, problem->additive_weight_gradient,
             attention->query.shape[3]);
    add_list(numbers, attention->alibi_slopes, problem->alibi_slopes_gradient,
             attention->query.shape[1]);
    add_list(numbers, attention->sinks, problem->sinks_gradient, attention->query.shape[1]);
}

static void move(const struct numbers *numbers, float steps)
{
    for (int64_t i = 0; i < numbers->count; i++) {
        const struct number *number = &numbers->list[i];
        *number->at = number->kept + steps * STEP * number->direction;
    }
}

/* The threshold of sparsemax for one row, which has at least one score or a sink. */
static double threshold_of(const double *masked, const double *weights, int64_t n, double sink)
{
    for (int64_t j = 0; j < n; j++)
        if (weights[j] > 0)
            return masked[j] - weights[j];
    return sink - 1;
}

/* Whether some score lies so near its threshold that a step or the rounding of a float takes it
 * to the other side: there is no derivative there. A slope of ALiBi turns one step into as many
 * steps as the key is away. */
static bool is_at_kink(const struct attn_problem *problem)
{
    struct reference r;
    double nearest = INFINITY;
    reference_attention(problem, &r);
    for (int64_t row = 0; row < r.batch * r.q_heads * r.q_len; row++) {
        const double *masked = r.masked + row * r.kv_len, *weights = r.weights + row * r.kv_len;
        const int64_t h = row / r.q_len % r.q_heads;
        const double sink = problem->sinks != NULL ? (double)problem->sinks[h] : -INFINITY;
        const double threshold = threshold_of(masked, weights, r.kv_len, sink);
        for (int64_t j = 0; j < r.kv_len; j++)
            nearest = fmin(nearest, fabs(masked[j] - threshold));
        nearest = fmin(nearest, fabs(sink - threshold));
    }
    reference_free(&r);
    return nearest < 1e-4 + 4 * (double)STEP * (double)(r.q_len + r.kv_len);
}

/* How much of the gradient of a slope may cancel: each pair has a rounding error of a tenth of
 * the tolerance, times the distance of the two. The errors add up in no order. */
static double cancelled(const struct attn_problem *problem)
{
    const int64_t *query = problem->query.shape;
    const double q_len = (double)query[2], kv_len = (double)problem->key.shape[2];
    return problem->alibi_slopes == NULL ? 0
                                         : 0.1 * (double)query[1] * (q_len + kv_len)
                                               * sqrt((double)query[0] * q_len * kv_len);
}

/* Returns false for a problem at a kink of sparsemax. */
static bool compare(struct numbers *numbers, const struct gradient_case *c, uint64_t seed)
{
    static const float moves[4] = { -2, -1, 1, 2 };
    const struct attn_problem *problem = &c->forward.problem;
    double at[4], got = 0, size = cancelled(problem);
    for (int i = 0; i < 4; i++) {
        move(numbers, moves[i]);
        at[i] = difference_loss(problem, &c->problem.context_gradient);
    }
    const double want = difference_of(at, (double)STEP);
    for (int64_t i = 0; i < numbers->count; i++) {
        got += numbers->list[i].gradient * (double)numbers->list[i].direction;
        size += fabs(numbers->list[i].gradient);
    }
    if (fabs(got - want) <= 1e-6 * (1 + size))
        return true;
    move(numbers, 0);
    if (problem->options.normalizer == ATTN_SPARSEMAX && is_at_kink(problem))
        return false;
    fail_msg("seed %" PRIu64 ": %.9g, want %.9g, of %" PRId64 " numbers, %.9g in size", seed, got,
             want, numbers->count, size);
    return false;
}

static struct attention_sizes random_sizes(struct fill *fill)
{
    const int64_t longest = fill_below(fill, 6) == 0 ? 130 : 20;
    const int64_t kv_heads = 1 + fill_below(fill, 2);
    return (struct attention_sizes){ .batch = 1 + fill_below(fill, 2),
                                     .q_heads = kv_heads * (1 + fill_below(fill, 3)),
                                     .kv_heads = kv_heads,
                                     .q_len = fill_below(fill, longest),
                                     .kv_len = fill_below(fill, longest),
                                     .head_dim = 1 + fill_below(fill, 9),
                                     .v_head_dim = 1 + fill_below(fill, 9) };
}

/* Returns value or, with the same chance, off, which means that the option is not used. */
static int64_t maybe(struct fill *fill, int64_t value, int64_t off)
{
    return fill_below(fill, 2) ? value : off;
}

static struct gradient_variant random_variant(struct fill *fill, int64_t kv_len)
{
    return (struct gradient_variant){
        .scale = fill_float(fill, -1, 2),
        .softcap = fill_below(fill, 3) ? 0 : fill_float(fill, 0.5f, 3),
        .causal = fill_below(fill, 3) == 0,
        .window_left = maybe(fill, fill_below(fill, 20), -1),
        .window_right = maybe(fill, fill_below(fill, 20), -1),
        .past_len = fill_below(fill, 9) - 4,
        .kv_len = maybe(fill, fill_below(fill, kv_len + 2), -1),
        .row_kv_len = fill_below(fill, 4) == 0,
        .mask = (int)maybe(fill, fill_below(fill, 32), -1),
        .alibi = fill_below(fill, 2) == 0,
        .sinks = fill_below(fill, 2) == 0,
        .dropout = fill_below(fill, 4) ? 0 : fill_float(fill, 0, 0.9f),
        .kv_offset = fill_below(fill, 7) - 3,
    };
}

static bool run_round(struct numbers *numbers, uint64_t seed)
{
    const struct attn_kernels *const *tables = kernel_tables();
    struct fill fill = { seed };
    struct gradient_case c;
    int table = 0;
    const struct attention_sizes sizes = random_sizes(&fill);
    struct gradient_variant variant = random_variant(&fill, sizes.kv_len);
    if (variant.mask >= 16 && !(variant.mask & 8))
        variant.mask -= 16;
    gradient_case_init(&c, &sizes, (enum attention_layout)fill_below(&fill, LAYOUT_BROADCAST),
                       seed);
    gradient_case_set_kinds(&c, (unsigned)fill_below(&fill, 4), seed);
    gradient_case_apply(&c, &variant, seed);
    c.forward.problem.options.chunk = maybe(&fill, 1 + fill_below(&fill, 9), 0);
    while (tables[table + 1] != NULL && fill_below(&fill, 2))
        table++;
    gradient_case_run(&c, tables[table]);
    numbers->count = 0;
    numbers->fill = fill;
    add_all(numbers, &c);
    const bool is_compared = compare(numbers, &c, seed);
    attention_case_free(&c.forward);
    return is_compared;
}

TEST(random)
{
    const char *wish = getenv("ATTND_TEST_ROUNDS");
    const int64_t rounds = wish ? strtoll(wish, NULL, 10) : ROUNDS;
    struct numbers *numbers = malloc(sizeof *numbers);
    int64_t kinks = 0;
    assert_non_null(numbers);
    for (int64_t i = 0; i < rounds; i++)
        kinks += !run_round(numbers, (uint64_t)i);
    print_message("    %" PRId64 " problems, %" PRId64 " at a kink\n", rounds, kinks);
    assert_true(kinks <= rounds / 50);
    free(numbers);
}
