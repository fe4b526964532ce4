/* SPDX-License-Identifier: Apache-2.0 */
/* test_linear_attention.c - laws of lib/linear_attention.h, on every table: a call over many rows
 * is a call for each; heads and columns do not touch each other; what a key wrote is read again;
 * the formulas in double, with errors beside those of the textbook's loop in float. */
#include "fill.h"
#include "linear_attention.h"
#include "test.h"

enum { NUMBERS = 1 << 16, LENGTH_MAX = 40, STATE_MAX = 8 * 130 * 130 };

static float query[NUMBERS], key[NUMBERS], value[NUMBERS], decay[NUMBERS], beta[NUMBERS];
static float states[STATE_MAX], context[NUMBERS], other_state[STATE_MAX], other[NUMBERS];
static float start[STATE_MAX];

struct shape {
    int64_t q_heads, k_heads, v_heads, k_dim, v_dim, length;
    bool has_decay, has_beta, has_columns, is_normalized, take_turns;
};

static const struct shape SHAPES[] = {
    { 2, 2, 4, 128, 128, 21, true, true, false, true, false }, /* Qwen3-Next's heads */
    { 1, 1, 1, 1, 1, 9, true, true, false, false, false },
    { 3, 3, 3, 7, 5, 17, true, true, true, false, false },
    { 4, 2, 2, 16, 70, 11, false, true, false, true, false },
    { 8, 1, 1, 33, 64, 10, true, false, true, false, false },
    { 1, 2, 4, 5, 130, 8, false, false, false, false, false },
    { 2, 2, 8, 64, 63, 23, true, false, false, false, false }, /* as Mamba-2 has it */
    { 6, 1, 3, 20, 17, 40, true, true, true, true, false },
    { 2, 3, 6, 10, 20, 12, true, true, false, true, true },
};
enum { SHAPE_COUNT = sizeof SHAPES / sizeof SHAPES[0] };

static int64_t context_heads(const struct shape *s)
{
    return s->q_heads > s->v_heads ? s->q_heads : s->v_heads;
}

/* A problem and what it is of. */
struct made {
    struct attn_linear_attention attention;
    struct attn_linear_attention_problem problem;
};

static void fill_numbers(const struct shape *s, uint64_t seed)
{
    struct fill fill = { seed };
    fill_floats(&fill, query, NUMBERS, -1, 1);
    fill_floats(&fill, key, NUMBERS, -1, 1);
    fill_floats(&fill, value, NUMBERS, -2, 2);
    fill_floats(&fill, decay, NUMBERS, -0.6f, 0);
    fill_floats(&fill, beta, NUMBERS, 0, 1);
    fill_floats(&fill, start, STATE_MAX, -1, 1);
    if (!s->is_normalized) /* (I - beta k k^T) has to shrink what it meets */
        for (int64_t i = 0; i < NUMBERS; i++)
            key[i] /= sqrtf((float)s->k_dim);
}

static void make(struct made *made, const struct shape *s, uint64_t seed,
                 const struct attn_kernels *kernels)
{
    const int64_t gap = 3, decays = s->has_columns ? s->k_dim : 1;
    fill_numbers(s, seed);
    made->attention = (struct attn_linear_attention){
        .q_heads = s->q_heads,
        .k_heads = s->k_heads,
        .v_heads = s->v_heads,
        .heads_take_turns = s->take_turns,
        .k_head_dim = s->k_dim,
        .v_head_dim = s->v_dim,
        .has_decay = s->has_decay,
        .has_beta = s->has_beta,
        .decay_has_columns = s->has_columns,
        .is_normalized = s->is_normalized,
        .norm_eps = 1e-6,
        .scale = 1 / sqrt((double)s->k_dim),
    };
    made->problem = (struct attn_linear_attention_problem){
        .attention = &made->attention,
        .query = query,
        .query_stride = s->q_heads * s->k_dim + gap,
        .key = key,
        .key_stride = s->k_heads * s->k_dim + gap,
        .value = value,
        .value_stride = s->v_heads * s->v_dim + gap,
        .decay = s->has_decay ? decay : NULL,
        .decay_stride = s->v_heads * decays + gap,
        .beta = s->has_beta ? beta : NULL,
        .beta_stride = s->v_heads,
        .y = context,
        .y_stride = context_heads(s) * s->v_dim + gap,
        .before = start,
        .after = states,
        .row_count = s->length,
        .kernels = kernels,
    };
}

static void run(const struct attn_linear_attention_problem *problem)
{
    const char *where = "";
    if (attn_linear_attention_check(problem->attention, &where) != ATTN_OK)
        fail_msg("%s", where);
    void *workspace = aligned_alloc(64, attn_linear_attention_workspace_bytes(problem->attention));
    assert_non_null(workspace);
    for (int64_t task = attn_linear_attention_tasks(problem); task-- > 0;)
        attn_linear_attention_run(problem, task, workspace);
    free(workspace);
}

static void expect_same_bits(const float *a, const float *b, int64_t count)
{
    assert_memory_equal(a, b, (size_t)count * sizeof *a);
}

#define FOR_EACH_TABLE(k)                                                                          \
    for (const struct attn_kernels *const *k = attn_kernels_available(); *(k) != NULL; (k)++)

static struct attn_linear_attention_problem row_of(const struct attn_linear_attention_problem *all,
                                                   int64_t i)
{
    struct attn_linear_attention_problem one = *all;
    one.row_count = 1;
    one.query += i * all->query_stride;
    one.key += i * all->key_stride;
    one.value += i * all->value_stride;
    if (one.decay != NULL)
        one.decay += i * all->decay_stride;
    if (one.beta != NULL)
        one.beta += i * all->beta_stride;
    one.y = other + i * all->y_stride;
    one.before = i == 0 ? all->before : other_state;
    one.after = other_state;
    return one;
}

TEST(a_call_over_many_rows_is_a_call_for_each)
{
    struct made made;
    FOR_EACH_TABLE(k)
    for (int i = 0; i < SHAPE_COUNT; i++) {
        make(&made, &SHAPES[i], (uint64_t)i, *k);
        memset(context, 0, sizeof context);
        memset(other, 0, sizeof other);
        if (i % 2 == 1)
            made.problem.before = NULL;
        run(&made.problem);
        for (int64_t row = 0; row < SHAPES[i].length; row++) {
            const struct attn_linear_attention_problem one = row_of(&made.problem, row);
            run(&one);
        }
        expect_same_bits(states, other_state, attn_linear_attention_state(&made.attention));
        expect_same_bits(context, other, NUMBERS);
    }
}

TEST(before_may_be_nothing_or_after)
{
    struct made made;
    FOR_EACH_TABLE(k)
    for (int i = 0; i < SHAPE_COUNT; i++) {
        make(&made, &SHAPES[i], 5, *k);
        const int64_t numbers = attn_linear_attention_state(&made.attention);
        memset(start, 0, sizeof start);
        run(&made.problem);
        memcpy(other_state, states, sizeof states);
        made.problem.before = NULL;
        memset(states, 1, sizeof states);
        run(&made.problem);
        expect_same_bits(states, other_state, numbers);
        memset(states, 0, sizeof states);
        made.problem.before = states;
        run(&made.problem);
        expect_same_bits(states, other_state, numbers);
    }
}

TEST(without_rows_to_write_the_state_is_the_same)
{
    struct made made;
    FOR_EACH_TABLE(k)
    for (int i = 0; i < SHAPE_COUNT; i++) {
        make(&made, &SHAPES[i], 7, *k);
        run(&made.problem);
        memcpy(other_state, states, sizeof states);
        made.problem.y = NULL;
        made.problem.query = NULL;
        run(&made.problem);
        expect_same_bits(states, other_state, attn_linear_attention_state(&made.attention));
    }
}

/* A column of the first head's values alone, as a head of one column. */
TEST(a_column_has_its_bits_alone)
{
    static float column[STATE_MAX];
    struct made made, one;
    FOR_EACH_TABLE(k)
    for (int i = 0; i < SHAPE_COUNT; i++) {
        const struct shape *s = &SHAPES[i];
        make(&made, s, 11, *k);
        run(&made.problem);
        for (int64_t c = 0; c < s->v_dim; c += c % 16 == 15 ? 1 : 5) {
            one = made;
            one.attention.v_head_dim = 1;
            one.attention.q_heads = one.attention.k_heads = one.attention.v_heads = 1;
            one.problem.attention = &one.attention;
            one.problem.value = value + c;
            one.problem.before = one.problem.after = column;
            one.problem.y = other;
            one.problem.y_stride = 1;
            for (int64_t d = 0; d < s->k_dim; d++)
                column[d] = start[d * s->v_dim + c];
            run(&one.problem);
            for (int64_t t = 0; t < s->length; t++)
                expect_same_bits(other + t, context + t * made.problem.y_stride + c, 1);
            for (int64_t d = 0; d < s->k_dim; d++)
                expect_same_bits(column + d, states + d * s->v_dim + c, 1);
        }
    }
}

/* Each row of y as that of a problem with one head of each kind. */
TEST(heads_do_not_touch_each_other)
{
    struct made made, one;
    FOR_EACH_TABLE(k)
    for (int i = 0; i < SHAPE_COUNT; i++) {
        const struct shape *s = &SHAPES[i];
        const int64_t heads = context_heads(s);
        make(&made, s, 13, *k);
        run(&made.problem);
        for (int64_t h = 0; h < heads; h++) {
            const int64_t v = h / (heads / s->v_heads);
            const int64_t q = s->take_turns ? h % s->q_heads : h / (heads / s->q_heads);
            const int64_t kh = s->take_turns ? v % s->k_heads : v / (s->v_heads / s->k_heads);
            one = made;
            one.attention.q_heads = one.attention.k_heads = one.attention.v_heads = 1;
            one.problem.attention = &one.attention;
            one.problem.query = query + q * s->k_dim;
            one.problem.key = key + kh * s->k_dim;
            one.problem.value = value + v * s->v_dim;
            one.problem.decay = decay + v * (s->has_columns ? s->k_dim : 1);
            one.problem.beta = beta + v;
            one.problem.before = start + v * s->k_dim * s->v_dim;
            one.problem.after = other_state;
            one.problem.y = other;
            run(&one.problem);
            for (int64_t t = 0; t < s->length; t++)
                expect_same_bits(other + t * made.problem.y_stride,
                                 context + t * made.problem.y_stride + h * s->v_dim, s->v_dim);
        }
    }
}

/* With beta 1 and a key of length 1 the state answers the key with the value, whatever it held. */
TEST(what_a_key_wrote_is_read_again)
{
    static const struct shape shape = { 1, 1, 1, 64, 48, 12, true, true, false, true, false };
    struct made made;
    FOR_EACH_TABLE(k)
    {
        make(&made, &shape, 3, *k);
        for (int64_t t = 0; t < shape.length; t++)
            beta[t] = 1;
        made.problem.query = key;
        made.problem.query_stride = made.problem.key_stride;
        made.attention.scale = 1;
        made.attention.norm_eps = 0;
        run(&made.problem);
        for (int64_t t = 0; t < shape.length; t++)
            for (int64_t c = 0; c < shape.v_dim; c++)
                assert_float_equal(context[t * made.problem.y_stride + c],
                                   value[t * made.problem.value_stride + c], 3e-6);
    }
}

/* Decays and betas that the step makes itself are those that its formula gives. */
TEST(rates_and_logits_are_their_formulas)
{
    static const float rate[] = { -0.5f, -2, -16, 0 }, bias[] = { 1, -3, 50, 0 };
    static float numbers[2 * NUMBERS];
    struct made made;
    FOR_EACH_TABLE(k)
    {
        make(&made, &SHAPES[0], 19, *k);
        struct fill fill = { 23 };
        fill_floats(&fill, numbers, 2 * NUMBERS, -6, 6);
        const int64_t count = SHAPES[0].length * made.problem.decay_stride;
        for (int64_t i = 0; i < count; i++) {
            const int64_t h = i % made.problem.decay_stride % 4;
            decay[i] = (float)((double)rate[h] * log1p(exp((double)numbers[i] + (double)bias[h])));
            beta[i] = (float)(1 / (1 + exp(-(double)numbers[NUMBERS + i])));
        }
        run(&made.problem);
        memcpy(other, context, sizeof context);
        made.attention.decay_rate = rate;
        made.attention.decay_bias = bias;
        made.attention.beta_is_logit = true;
        made.problem.decay = numbers;
        made.problem.beta = numbers + NUMBERS;
        run(&made.problem);
        for (int64_t t = 0; t < SHAPES[0].length; t++)
            for (int64_t c = 0; c < 4 * 128; c++)
                assert_float_equal(context[t * made.problem.y_stride + c],
                                   other[t * made.problem.y_stride + c], 1e-6);
    }
}

/* ------------------------------------------------------------------- in double -- */

/* The four lines of the header for one head, in the type of numbers; the textbook's order. */
#define PLAINLY(name, type, exponential, root)                                                     \
    static void name(const struct made *made, const struct shape *s, int64_t h, type *S,           \
                     type *out)                                                                    \
    {                                                                                              \
        const int64_t v = h / (context_heads(s) / s->v_heads);                                     \
        const int64_t qh = s->take_turns ? h % s->q_heads : h / (context_heads(s) / s->q_heads);   \
        const int64_t kh = s->take_turns ? v % s->k_heads : v / (s->v_heads / s->k_heads);         \
        const struct attn_linear_attention_problem *r = &made->problem;                            \
        type q[130], k[130], u[130];                                                               \
        for (int64_t i = 0; i < s->k_dim * s->v_dim; i++)                                          \
            S[i] = (type)start[v * s->k_dim * s->v_dim + i];                                       \
        for (int64_t t = 0; t < s->length; t++) {                                                  \
            type qq = (type)made->attention.norm_eps, kk = (type)made->attention.norm_eps;         \
            for (int64_t d = 0; d < s->k_dim; d++) {                                               \
                q[d] = (type)query[t * r->query_stride + qh * s->k_dim + d];                       \
                k[d] = (type)key[t * r->key_stride + kh * s->k_dim + d];                           \
                qq += q[d] * q[d];                                                                 \
                kk += k[d] * k[d];                                                                 \
            }                                                                                      \
            for (int64_t d = 0; d < s->k_dim; d++) {                                               \
                q[d] = q[d] / (s->is_normalized ? root(qq) : 1) * (type)made->attention.scale;     \
                k[d] = k[d] / (s->is_normalized ? root(kk) : 1);                                   \
                const float *g = decay + t * r->decay_stride;                                      \
                const type kept =                                                                  \
                    !s->has_decay ? 1                                                              \
                                  : exponential((type)g[s->has_columns ? v * s->k_dim + d : v]);   \
                for (int64_t c = 0; c < s->v_dim; c++)                                             \
                    S[d * s->v_dim + c] *= kept;                                                   \
            }                                                                                      \
            for (int64_t c = 0; c < s->v_dim; c++) {                                               \
                type read = 0;                                                                     \
                for (int64_t d = 0; d < s->k_dim; d++)                                             \
                    read += S[d * s->v_dim + c] * k[d];                                            \
                u[c] = (type)value[t * r->value_stride + v * s->v_dim + c];                        \
                if (s->has_beta)                                                                   \
                    u[c] = (u[c] - read) * (type)beta[t * r->beta_stride + v];                     \
            }                                                                                      \
            for (int64_t c = 0; c < s->v_dim; c++) {                                               \
                type read = 0;                                                                     \
                for (int64_t d = 0; d < s->k_dim; d++) {                                           \
                    S[d * s->v_dim + c] += k[d] * u[c];                                            \
                    read += S[d * s->v_dim + c] * q[d];                                            \
                }                                                                                  \
                out[t * s->v_dim + c] = read;                                                      \
            }                                                                                      \
        }                                                                                          \
    }

PLAINLY(in_double, double, exp, sqrt)
PLAINLY(in_float, float, expf, sqrtf)

struct errors {
    double sum, max;
    int64_t count;
};

static void add_error(struct errors *errors, double got, double truth)
{
    const double error = fabs(got - truth);
    errors->sum += error;
    errors->max = error <= errors->max ? errors->max : error;
    errors->count++;
}

static void add_head(const struct made *made, const struct shape *s, int64_t h, struct errors *ours,
                     struct errors *textbooks)
{
    static double exact[130 * 130], truth[LENGTH_MAX * 130];
    static float plain[130 * 130], textbook[LENGTH_MAX * 130];
    const int64_t v = h / (context_heads(s) / s->v_heads);
    in_double(made, s, h, exact, truth);
    in_float(made, s, h, plain, textbook);
    for (int64_t t = 0; t < s->length; t++)
        for (int64_t c = 0; c < s->v_dim; c++) {
            const double want = truth[t * s->v_dim + c];
            add_error(ours, (double)context[t * made->problem.y_stride + h * s->v_dim + c], want);
            add_error(textbooks, (double)textbook[t * s->v_dim + c], want);
        }
    for (int64_t i = 0; i < s->k_dim * s->v_dim; i++) {
        add_error(ours, (double)states[v * s->k_dim * s->v_dim + i], exact[i]);
        add_error(textbooks, (double)plain[i], exact[i]);
    }
}

/* Over all shapes the mean error is below that of the textbook's loop, which rounds more often. */
TEST(errors_are_those_of_floats)
{
    FOR_EACH_TABLE(k)
    {
        struct made made;
        struct errors all = { 0 }, all_textbooks = { 0 };
        for (int i = 0; i < SHAPE_COUNT; i++) {
            const struct shape *s = &SHAPES[i];
            struct errors ours = { 0 }, textbooks = { 0 };
            make(&made, s, 17, *k);
            run(&made.problem);
            for (int64_t h = 0; h < context_heads(s); h++)
                add_head(&made, s, h, &ours, &textbooks);
            all.sum += ours.sum / (double)ours.count;
            all_textbooks.sum += textbooks.sum / (double)textbooks.count;
            assert_true(ours.max <= 2e-6);
        }
        print_message("%s: mean error %.2f of the textbook's\n", attn_kernels_name(*k),
                      all.sum / all_textbooks.sum);
        assert_true(all.sum <= all_textbooks.sum);
    }
}

/* ---------------------------------------------------------------------- refusals -- */

#define REFUSED(change, status, field)                                                             \
    do {                                                                                           \
        struct attn_linear_attention changed = made.attention;                                     \
        const char *where = "";                                                                    \
        changed.change;                                                                            \
        assert_int_equal(attn_linear_attention_check(&changed, &where), status);                   \
        assert_string_equal(where, field);                                                         \
        assert_int_equal(attn_linear_attention_check(&changed, NULL), status);                     \
    } while (0)

TEST(what_cannot_be_is_refused)
{
    static const float numbers[4] = { 0 };
    struct made made;
    make(&made, &SHAPES[0], 1, attn_kernels_available()[0]);
    assert_int_equal(attn_linear_attention_check(&made.attention, NULL), ATTN_OK);
    REFUSED(v_heads = 0, ATTN_ERR_SHAPE, "v_heads");
    REFUSED(k_heads = 3, ATTN_ERR_SHAPE, "k_heads");
    REFUSED(k_heads = -1, ATTN_ERR_SHAPE, "k_heads");
    REFUSED(q_heads = 3, ATTN_ERR_SHAPE, "q_heads");
    REFUSED(q_heads = 0, ATTN_ERR_SHAPE, "q_heads");
    REFUSED(k_head_dim = 0, ATTN_ERR_SHAPE, "k_head_dim");
    REFUSED(v_head_dim = -1, ATTN_ERR_SHAPE, "v_head_dim");
    REFUSED(k_head_dim = INT64_MAX / 2, ATTN_ERR_TOO_LARGE, "v_head_dim");
    REFUSED(q_heads = INT64_MAX / 8 * 4, ATTN_ERR_TOO_LARGE, "q_heads");
    REFUSED(decay_rate = numbers, ATTN_ERR_NO_DATA, "decay_bias");
    REFUSED(decay_bias = numbers, ATTN_ERR_NO_DATA, "decay_bias");
    REFUSED(norm_eps = -1, ATTN_ERR_OPTION, "norm_eps");
    REFUSED(norm_eps = (double)NAN, ATTN_ERR_OPTION, "norm_eps");
    REFUSED(scale = (double)INFINITY, ATTN_ERR_OPTION, "scale");
    made.attention.decay_rate = made.attention.decay_bias = numbers;
    REFUSED(decay_has_columns = true, ATTN_ERR_OPTION, "decay_rate");
    REFUSED(has_decay = false, ATTN_ERR_OPTION, "decay_rate");
    made.attention.heads_take_turns = true;
    REFUSED(q_heads = 8, ATTN_ERR_OPTION, "heads_take_turns");
}

TEST(no_rows_are_no_tasks)
{
    struct made made;
    make(&made, &SHAPES[2], 1, attn_kernels_available()[0]);
    made.problem.row_count = 0;
    assert_int_equal(attn_linear_attention_tasks(&made.problem), 0);
}
