/* test_gradient.c - the gradients of attention against finite differences of the double reference,
 * and the identities they must keep.
 *
 * Every number of small problems is compared, on every kernel table, under each kind of mask; of
 * larger ones, whose tiles are many and cut, some numbers of each tensor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "attention_case.h"
#include "difference.h"
#include "gradient.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

static const double TOLERANCE = 2e-5;

/* A case with its gradients. */
struct gradient_case {
    struct attention_case forward;
    struct attn_gradient_problem problem;
};

static struct attn_tensor like(struct attention_case *c, const struct attn_tensor *tensor)
{
    return attention_case_tensor(c, ATTN_F32, LAYOUT_GAPS, tensor->shape[0], tensor->shape[1],
                                 tensor->shape[2], tensor->shape[3]);
}

static void round_tensor(struct fill *fill, const struct attn_tensor *tensor)
{
    for (int64_t b = 0; b < tensor->shape[0]; b++)
        for (int64_t h = 0; h < tensor->shape[1]; h++)
            for (int64_t i = 0; i < tensor->shape[2]; i++)
                difference_fill(fill, attention_at(tensor, b, h, i, 0), tensor->shape[3]);
}

static void gradient_case_init(struct gradient_case *c, const struct attention_sizes *sizes,
                               enum attention_layout layout, uint64_t seed)
{
    struct fill fill = { seed };
    attention_case_init(&c->forward, sizes, layout, seed);
    memset(&c->problem, 0, sizeof c->problem);
    struct attn_problem *attention = &c->forward.problem;
    round_tensor(&fill, &attention->query);
    round_tensor(&fill, &attention->key);
    round_tensor(&fill, &attention->value);
    c->problem.context_gradient = attention_case_tensor(
        &c->forward, ATTN_F32, layout == LAYOUT_BROADCAST ? LAYOUT_DENSE : layout, sizes->batch,
        sizes->q_heads, sizes->q_len, sizes->v_head_dim);
    round_tensor(&fill, &c->problem.context_gradient);
    c->problem.query_gradient = like(&c->forward, &attention->query);
    c->problem.key_gradient = like(&c->forward, &attention->key);
    c->problem.value_gradient = like(&c->forward, &attention->value);
}

/* A float mask of this shape, with some pairs forbidden, and room for its gradient. */
static void add_mask(struct gradient_case *c, const int64_t shape[4], uint64_t seed)
{
    struct fill fill = { seed };
    struct attn_tensor *mask = &c->forward.problem.mask;
    *mask = attention_case_tensor(&c->forward, ATTN_F32, LAYOUT_DENSE, shape[0], shape[1], shape[2],
                                  shape[3]);
    round_tensor(&fill, mask);
    float *numbers = mask->data;
    for (int64_t i = 0; i < shape[0] * shape[1] * shape[2] * shape[3]; i++)
        if (fill_below(&fill, 5) == 0)
            numbers[i] = -INFINITY;
    c->problem.mask_gradient = like(&c->forward, mask);
}

static void run_plan(const struct attn_gradient_plan *plan, bool backwards)
{
    struct guard_buffer scratch = guard_alloc((plan->scratch_bytes + 63) / 64 * 64);
    struct guard_buffer workspace = guard_alloc((plan->workspace_bytes + 63) / 64 * 64);
    memset(scratch.data, 0xFF, plan->scratch_bytes);
    memset(workspace.data, 0xFF, plan->workspace_bytes);
    for (int stage = 0; stage < ATTN_GRADIENT_STAGES; stage++)
        for (int64_t task = 0; task < plan->task_count[stage]; task++)
            attn_gradient_run(plan, stage, backwards ? plan->task_count[stage] - 1 - task : task,
                              scratch.data, workspace.data);
    guard_free(&scratch);
    guard_free(&workspace);
}

static void plan_case(struct gradient_case *c, const struct attn_kernels *kernels,
                      struct attn_gradient_plan *plan)
{
    const char *where = "";
    c->problem.attention = c->forward.problem;
    c->problem.attention.kernels = kernels;
    const enum attn_status status = attn_gradient_plan_init(plan, &c->problem, &where);
    if (status != ATTN_OK)
        fail_msg("refused: %s at %s", attn_status_name(status), where);
}

static void run_case(struct gradient_case *c, const struct attn_kernels *kernels)
{
    struct attn_gradient_plan plan;
    plan_case(c, kernels, &plan);
    run_plan(&plan, false);
}

/* Compares every number of a gradient, or where there are more than some, so many of them. */
static void compare(const struct gradient_case *c, const char *name,
                    const struct attn_tensor *input, const struct attn_tensor *gradient,
                    struct fill *fill)
{
    enum { SOME = 160, SAMPLES = 12 };
    const int64_t *s = input->shape;
    const int64_t count = s[0] * s[1] * s[2] * s[3];
    for (int64_t k = 0; k < (count > SOME ? SAMPLES : count); k++) {
        int64_t at = count > SOME ? fill_below(fill, count) : k;
        const int64_t d = at % s[3], i = at / s[3] % s[2], h = at / s[3] / s[2] % s[1],
                      b = at / s[3] / s[2] / s[1];
        float *x = attention_at(input, b, h, i, d);
        const double got = (double)*attention_at(gradient, b, h, i, d);
        const double want =
            isfinite(*x) ? difference_by(&c->forward.problem, &c->problem.context_gradient, x) : 0;
        if (!(fabs(got - want) <= TOLERANCE * (1 + fabs(want))))
            fail_msg("%s[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "] is %.9g, want %.9g", name,
                     b, h, i, d, got, want);
    }
}

static void compare_all(const struct gradient_case *c, uint64_t seed)
{
    const struct attn_problem *attention = &c->forward.problem;
    struct fill fill = { seed };
    compare(c, "query", &attention->query, &c->problem.query_gradient, &fill);
    compare(c, "key", &attention->key, &c->problem.key_gradient, &fill);
    compare(c, "value", &attention->value, &c->problem.value_gradient, &fill);
    if (c->problem.mask_gradient.data != NULL)
        compare(c, "mask", &attention->mask, &c->problem.mask_gradient, &fill);
}

static const struct attention_sizes SMALL[] = {
    { 1, 1, 1, 1, 1, 1, 1 },
    { 1, 1, 1, 3, 5, 2, 3 },
    { 2, 4, 2, 3, 4, 3, 2 },
    { 1, 6, 2, 5, 2, 1, 4 },
};

static void test_small(void **state)
{
    (void)state;
    const struct attn_kernels *const *tables = attn_kernels_available();
    for (size_t s = 0; s < sizeof SMALL / sizeof SMALL[0]; s++)
        for (int layout = 0; layout < LAYOUT_BROADCAST; layout++)
            for (int t = 0; tables[t] != NULL; t++) {
                struct gradient_case c;
                gradient_case_init(&c, &SMALL[s], layout, 100 + s);
                run_case(&c, tables[t]);
                compare_all(&c, 1);
                attention_case_free(&c.forward);
            }
}

/* Options, one line each. */
struct variant {
    const char *name;
    float scale, softcap;
    bool causal;
    int64_t window_left, window_right, past_len, kv_len;
    bool row_kv_len;
    int mask; /* bits of the dimensions that the mask has whole, 16: its keys end early; -1: none */
    bool alibi, sinks;
    float dropout;
    int64_t kv_offset;
};

static const struct variant VARIANTS[] = {
    { "scale", -1.5f, 0, false, -1, -1, 0, -1, false, -1, false, false, 0, 0 },
    { "softcap", 1, 0.75f, false, -1, -1, 0, -1, false, -1, false, false, 0, 0 },
    { "causal", 0.5f, 0, true, -1, -1, 0, -1, false, -1, false, false, 0, 0 },
    { "causal after past keys", 0.5f, 0, true, -1, -1, 2, -1, false, -1, false, false, 0, 0 },
    { "causal, rows that see nothing", 0.5f, 0, true, -1, -1, -2, -1, false, -1, false, false, 0,
      0 },
    { "window", 0.5f, 2, false, 1, 1, 0, -1, false, -1, false, false, 0, 0 },
    { "kv_len", 0.5f, 0, false, -1, -1, 0, 2, false, -1, false, false, 0, 0 },
    { "no keys that count", 0.5f, 0, false, -1, -1, 0, 0, false, -1, false, false, 0, 0 },
    { "kv_len of each row", 0.5f, 0, false, -1, -1, 0, -1, true, -1, false, false, 0, 0 },
    { "whole mask", 0.5f, 0, false, -1, -1, 0, -1, false, 15, false, false, 0, 0 },
    { "mask of rows and keys", 0.5f, 0, false, -1, -1, 0, -1, false, 12, false, false, 0, 0 },
    { "mask of keys", 0.5f, 1.5f, false, -1, -1, 0, -1, false, 8, false, false, 0, 0 },
    { "mask of rows", 0.5f, 0, true, -1, -1, 1, -1, false, 4, false, false, 0, 0 },
    { "mask of heads", 0.5f, 0, true, -1, -1, 1, -1, false, 2, false, false, 0, 0 },
    { "mask of one number", 0.5f, 0, true, -1, -1, 1, -1, false, 0, false, false, 0, 0 },
    { "mask that ends early", 0.5f, 1, false, -1, -1, 0, -1, false, 31, false, false, 0, 0 },
    { "mask of keys that ends early", 0.5f, 0, true, -1, -1, 1, -1, false, 24, false, false, 0, 0 },
    { "ALiBi", 0.5f, 0, false, -1, -1, 3, -1, false, -1, true, false, 0, 1 },
    { "sinks", 0.5f, 1, true, -1, -1, -1, -1, false, -1, false, true, 0, 0 },
    { "dropout", 0.5f, 0, false, -1, -1, 0, -1, false, -1, false, false, 0.4f, 0 },
    { "all three", 0.5f, 2, true, 3, -1, 2, -1, false, 12, true, true, 0.3f, 1 },
    { "everything", 0.7f, 1, true, 3, -1, 1, 4, false, 13, false, false, 0, 0 },
};

static void apply(struct gradient_case *c, const struct variant *v, uint64_t seed)
{
    struct attn_problem *attention = &c->forward.problem;
    const int64_t *query = attention->query.shape;
    const int64_t whole[4] = { query[0], query[1], query[2], attention->key.shape[2] };
    int64_t shape[4];
    struct fill fill = { seed };
    int64_t *lengths =
        attention_case_alloc(&c->forward, (size_t)(query[0] * (query[2] + 2)) * sizeof *lengths);
    int64_t *past = lengths + query[0], *rows = past + query[0];
    attention->options.scale = v->scale;
    attention->options.softcap = v->softcap;
    attention->options.causal = v->causal;
    attention->options.window_left = v->window_left;
    attention->options.window_right = v->window_right;
    attention->options.dropout = v->dropout;
    attention->options.seed = seed;
    attention->kv_offset = v->kv_offset;
    float *heads = attention_case_alloc(&c->forward, (size_t)(2 * query[1]) * sizeof *heads);
    difference_fill(&fill, heads, 2 * query[1]);
    attention->alibi_slopes = v->alibi ? heads : NULL;
    attention->sinks = v->sinks ? heads + query[1] : NULL;
    for (int64_t b = 0; b < query[0]; b++) {
        lengths[b] = v->kv_len;
        past[b] = v->past_len;
        for (int64_t i = 0; i < query[2]; i++)
            rows[b * query[2] + i] = fill_below(&fill, whole[3] + 2);
    }
    attention->past_len = past;
    attention->kv_len = v->kv_len >= 0 ? lengths : NULL;
    attention->row_kv_len = v->row_kv_len ? rows : NULL;
    for (int d = 0; d < 4; d++)
        shape[d] = v->mask >> d & 1 ? whole[d] : 1;
    if (v->mask >= 16)
        shape[3] -= shape[3] / 3;
    if (v->mask >= 0)
        add_mask(c, shape, seed);
}

static void run_variants(const struct attention_sizes *sizes, uint64_t seed)
{
    const struct attn_kernels *const *tables = attn_kernels_available();
    for (size_t i = 0; i < sizeof VARIANTS / sizeof VARIANTS[0]; i++)
        for (int t = 0; tables[t] != NULL; t++) {
            struct gradient_case c;
            gradient_case_init(&c, sizes, LAYOUT_GAPS, seed + i);
            apply(&c, &VARIANTS[i], seed + i);
            print_message("    %s\n", VARIANTS[i].name);
            run_case(&c, tables[t]);
            compare_all(&c, seed + i);
            attention_case_free(&c.forward);
        }
}

static void test_variants(void **state)
{
    (void)state;
    static const struct attention_sizes small = { 2, 4, 2, 4, 5, 3, 2 };
    run_variants(&small, 500);
}

/* More than one tile of rows, of keys and of others. */
static void test_many_tiles(void **state)
{
    (void)state;
    static const struct attention_sizes large = { 1, 2, 1, 101, 131, 5, 7 };
    run_variants(&large, 900);
}

/* ---------------------------------------------------------------------------- identities -- */

/* softmax does not change where all scores of a row do: the gradients of a row's masked scores sum
 * to 0. Values shifted by a constant change every context by it: the gradients of the values sum to
 * those of the context of rows that see something. */
static void test_sums(void **state)
{
    (void)state;
    static const struct attention_sizes sizes = { 1, 3, 1, 70, 90, 8, 4 };
    struct gradient_case c;
    gradient_case_init(&c, &sizes, LAYOUT_DENSE, 7);
    add_mask(&c, (const int64_t[4]){ 1, 3, 70, 90 }, 7);
    run_case(&c, NULL);
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

/* What hidden keys and values hold, and the queries and gradients of rows that see nothing, reach
 * no gradient: the others keep their bits, their own is 0. */
static void test_poison(void **state)
{
    (void)state;
    static const struct attention_sizes sizes = { 1, 4, 2, 77, 120, 6, 5 };
    const struct attn_kernels *const *tables = attn_kernels_available();
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
            run_case(&clean, tables[t]);
            run_case(&dirty, tables[t]);
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

/* Scores of thousands: weights are 0 and 1, and no gradient is lost to the size of lse. */
static void test_large_scores(void **state)
{
    (void)state;
    static const struct attention_sizes sizes = { 1, 1, 1, 3, 4, 2, 3 };
    struct gradient_case c;
    gradient_case_init(&c, &sizes, LAYOUT_DENSE, 21);
    /* Every key is the same, so every weight is 1/4 however large the scores are. */
    for (int64_t j = 0; j < 4; j++)
        for (int64_t d = 0; d < 2; d++)
            *attention_at(&c.forward.problem.key, 0, 0, j, d) = d == 0 ? 300.0f : 0.0f;
    c.forward.problem.options.scale = 40;
    run_case(&c, NULL);
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

/* --------------------------------------------------------------------------------- bits -- */

struct shared_run {
    const struct attn_gradient_plan *plan;
    int stage, thread, thread_count;
    void *scratch, *workspace;
};

static void *run_share(void *argument)
{
    const struct shared_run *run = argument;
    for (int64_t task = run->thread; task < run->plan->task_count[run->stage];
         task += run->thread_count)
        attn_gradient_run(run->plan, run->stage, task, run->scratch, run->workspace);
    return NULL;
}

static void run_threads(const struct attn_gradient_plan *plan, int thread_count)
{
    enum { THREADS_MAX = 4 };
    struct guard_buffer scratch = guard_alloc((plan->scratch_bytes + 63) / 64 * 64);
    struct guard_buffer workspaces[THREADS_MAX];
    struct shared_run runs[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    for (int i = 0; i < thread_count; i++)
        workspaces[i] = guard_alloc((plan->workspace_bytes + 63) / 64 * 64);
    for (int stage = 0; stage < ATTN_GRADIENT_STAGES; stage++) {
        for (int i = 0; i < thread_count; i++) {
            runs[i] = (struct shared_run){ plan,         stage,        i,
                                           thread_count, scratch.data, workspaces[i].data };
            assert_int_equal(pthread_create(&threads[i], NULL, run_share, &runs[i]), 0);
        }
        for (int i = 0; i < thread_count; i++)
            pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < thread_count; i++)
        guard_free(&workspaces[i]);
    guard_free(&scratch);
}

/* One thread from the first task to the last, one the other way, four, and each gradient asked for
 * alone. */
static void test_bits(void **state)
{
    (void)state;
    static const struct attention_sizes sizes = { 1, 4, 2, 150, 170, 9, 6 };
    struct gradient_case c, other;
    struct attn_gradient_plan plan;
    for (int way = 0; way < 6; way++) {
        gradient_case_init(&c, &sizes, LAYOUT_DENSE, 31);
        gradient_case_init(&other, &sizes, LAYOUT_DENSE, 31);
        add_mask(&c, (const int64_t[4]){ 1, 1, 150, 170 }, 32);
        add_mask(&other, (const int64_t[4]){ 1, 1, 150, 170 }, 32);
        run_case(&c, NULL);
        struct attn_tensor *const gradients = &other.problem.query_gradient;
        for (int g = 0; way >= 2 && g < 4; g++)
            if (g != way - 2)
                gradients[g].data = NULL;
        plan_case(&other, NULL, &plan);
        if (way == 0)
            run_plan(&plan, true);
        else
            run_threads(&plan, 4);
        for (int g = 0; g < 4; g++)
            if (gradients[g].data != NULL)
                assert_int_equal(
                    attention_differing_bits(&c.problem.query_gradient + g, &gradients[g]), 0);
        attention_case_free(&c.forward);
        attention_case_free(&other.forward);
    }
}

/* ------------------------------------------------------------------------------- empties -- */

static void test_empty(void **state)
{
    (void)state;
    static const struct attention_sizes no_rows = { 1, 2, 1, 0, 9, 3, 2 };
    static const struct attention_sizes no_keys = { 1, 2, 1, 5, 0, 3, 2 };
    struct gradient_case c;
    gradient_case_init(&c, &no_rows, LAYOUT_DENSE, 41);
    run_case(&c, NULL);
    expect_zero(&c.problem.key_gradient, 0, 9);
    expect_zero(&c.problem.value_gradient, 0, 9);
    attention_case_free(&c.forward);
    gradient_case_init(&c, &no_keys, LAYOUT_DENSE, 42);
    run_case(&c, NULL);
    expect_zero(&c.problem.query_gradient, 0, 5);
    attention_case_free(&c.forward);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),      cmocka_unit_test(test_variants),
        cmocka_unit_test(test_many_tiles), cmocka_unit_test(test_sums),
        cmocka_unit_test(test_poison),     cmocka_unit_test(test_large_scores),
        cmocka_unit_test(test_bits),       cmocka_unit_test(test_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
