/* SPDX-License-Identifier: Apache-2.0 */
/* gradient_case.c - see gradient_case.h. */
#include "gradient_case.h"
#include "test.h"

#include <inttypes.h>

static const double TOLERANCE = 2e-5;

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

void gradient_case_init(struct gradient_case *c, const struct attention_sizes *sizes,
                        enum attention_layout layout, uint64_t seed)
{
    struct fill fill = { seed };
    attention_case_init(&c->forward, sizes, layout, seed);
    memset(&c->problem, 0, sizeof c->problem);
    c->differences = NULL;
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

void gradient_case_add_mask(struct gradient_case *c, const int64_t shape[4], uint64_t seed)
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

void gradient_run(const struct attn_gradient_plan *plan, bool backwards)
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

void gradient_case_plan(struct gradient_case *c, const struct attn_kernels *kernels,
                        struct attn_gradient_plan *plan)
{
    const char *where = "";
    c->problem.attention = c->forward.problem;
    c->problem.attention.kernels = kernels;
    const enum attn_status status = attn_gradient_plan_init(plan, &c->problem, &where);
    if (status != ATTN_OK)
        fail_msg("refused: %s at %s", attn_status_name(status), where);
}

void gradient_case_run(struct gradient_case *c, const struct attn_kernels *kernels)
{
    struct attn_gradient_plan plan;
    gradient_case_plan(c, kernels, &plan);
    gradient_run(&plan, false);
}

void gradient_case_set_kinds(struct gradient_case *c, unsigned kinds, uint64_t seed)
{
    struct attn_problem *attention = &c->forward.problem;
    const int64_t head_dim = attention->query.shape[3];
    struct fill fill = { seed };
    if (kinds & GRADIENT_SPARSE)
        attention->options.normalizer = ATTN_SPARSEMAX;
    if (!(kinds & GRADIENT_ADDITIVE))
        return;
    float *weight = attention_case_alloc(&c->forward, (size_t)head_dim * sizeof *weight);
    difference_fill(&fill, weight, head_dim);
    attention->additive_weight = weight;
    c->problem.additive_weight_gradient =
        attention_case_alloc(&c->forward, (size_t)head_dim * sizeof *weight);
}

/* Numbers for every query head, and room for their gradient. */
static float *add_per_head(struct gradient_case *c, struct fill *fill, float **gradient)
{
    const int64_t q_heads = c->forward.problem.query.shape[1];
    float *numbers = attention_case_alloc(&c->forward, (size_t)q_heads * sizeof *numbers);
    difference_fill(fill, numbers, q_heads);
    *gradient = attention_case_alloc(&c->forward, (size_t)q_heads * sizeof *numbers);
    return numbers;
}

void gradient_case_add_heads(struct gradient_case *c, bool alibi, bool sinks, uint64_t seed)
{
    struct fill fill = { seed };
    if (alibi)
        c->forward.problem.alibi_slopes = add_per_head(c, &fill, &c->problem.alibi_slopes_gradient);
    if (sinks)
        c->forward.problem.sinks = add_per_head(c, &fill, &c->problem.sinks_gradient);
}

/* The comparison for the first kernel table computes the differences. The comparisons for the
 * other tables use the same numbers in the same order. */
struct gradient_differences {
    double *list;
    int64_t count, capacity, next;
};

static double take_difference(const struct gradient_case *c, float *x)
{
    return isfinite(*x) ? difference_by(&c->forward.problem, &c->problem.context_gradient, x) : 0;
}

static double difference(const struct gradient_case *c, float *x)
{
    struct gradient_differences *kept = c->differences;
    if (kept == NULL)
        return take_difference(c, x);
    if (kept->next == kept->count) {
        if (kept->count == kept->capacity) {
            kept->capacity = 2 * kept->capacity + 256;
            kept->list = realloc(kept->list, (size_t)kept->capacity * sizeof *kept->list);
            assert_non_null(kept->list);
        }
        kept->list[kept->count++] = take_difference(c, x);
    }
    return kept->list[kept->next++];
}

/* Compares the gradient by *x. Returns how many numbers have no derivative. */
static int64_t compare_one(const struct gradient_case *c, const char *name, int64_t at, float *x,
                           double got)
{
    const double want = difference(c, x);
    if (fabs(got - want) <= TOLERANCE * (1 + fabs(want)))
        return 0;
    if (!difference_is_smooth(&c->forward.problem, x))
        return 1;
    fail_msg("%s[%" PRId64 "] is %.9g, want %.9g", name, at, got, want);
    return 0;
}

static int64_t compare(const struct gradient_case *c, const char *name,
                       const struct attn_tensor *input, const struct attn_tensor *gradient,
                       struct fill *fill)
{
    enum { SOME = 160, SAMPLES = 12 };
    const int64_t *s = input->shape;
    const int64_t count = s[0] * s[1] * s[2] * s[3];
    int64_t kinks = 0;
    for (int64_t k = 0; k < (count > SOME ? SAMPLES : count); k++) {
        const int64_t at = count > SOME ? fill_below(fill, count) : k;
        const int64_t d = at % s[3], i = at / s[3] % s[2], h = at / s[3] / s[2] % s[1],
                      b = at / s[3] / s[2] / s[1];
        kinks += compare_one(c, name, at, attention_at(input, b, h, i, d),
                             (double)*attention_at(gradient, b, h, i, d));
    }
    return kinks;
}

static int64_t compare_list(const struct gradient_case *c, const char *name, const float *numbers,
                            const float *gradient, int64_t count)
{
    int64_t kinks = 0;
    for (int64_t i = 0; gradient != NULL && i < count; i++)
        kinks += compare_one(c, name, i, (float *)numbers + i, (double)gradient[i]);
    return kinks;
}

int64_t gradient_case_compare(const struct gradient_case *c, uint64_t seed)
{
    const struct attn_problem *attention = &c->forward.problem;
    const struct attn_gradient_problem *problem = &c->problem;
    const int64_t *query = attention->query.shape;
    struct fill fill = { seed };
    int64_t kinks = compare(c, "query", &attention->query, &problem->query_gradient, &fill)
                    + compare(c, "key", &attention->key, &problem->key_gradient, &fill)
                    + compare(c, "value", &attention->value, &problem->value_gradient, &fill);
    if (problem->mask_gradient.data != NULL)
        kinks += compare(c, "mask", &attention->mask, &problem->mask_gradient, &fill);
    kinks += compare_list(c, "additive_weight", attention->additive_weight,
                          problem->additive_weight_gradient, query[3]);
    kinks += compare_list(c, "alibi_slopes", attention->alibi_slopes,
                          problem->alibi_slopes_gradient, query[1]);
    return kinks + compare_list(c, "sinks", attention->sinks, problem->sinks_gradient, query[1]);
}

static void poison_list(float *gradient, int64_t count)
{
    if (gradient != NULL)
        memset(gradient, 0xA5, (size_t)count * sizeof *gradient);
}

static void poison_tensor(const struct attn_tensor *gradient)
{
    const int64_t *s = gradient->shape;
    for (int64_t row = 0; gradient->data != NULL && row < s[0] * s[1] * s[2]; row++)
        poison_list(attention_at(gradient, row / s[2] / s[1], row / s[2] % s[1], row % s[2], 0),
                    s[3]);
}

/* Makes the gradients like new memory. */
static void poison_gradients(const struct gradient_case *c)
{
    const struct attn_gradient_problem *problem = &c->problem;
    const int64_t *query = c->forward.problem.query.shape;
    poison_tensor(&problem->query_gradient);
    poison_tensor(&problem->key_gradient);
    poison_tensor(&problem->value_gradient);
    poison_tensor(&problem->mask_gradient);
    poison_list(problem->additive_weight_gradient, query[3]);
    poison_list(problem->alibi_slopes_gradient, query[1]);
    poison_list(problem->sinks_gradient, query[1]);
}

int64_t gradient_case_compare_tables(struct gradient_case *c, uint64_t seed)
{
    struct gradient_differences differences = { 0 };
    int64_t kinks = 0;
    c->differences = &differences;
    for (const struct attn_kernels *const *table = attn_kernels_available(); *table; table++) {
        poison_gradients(c);
        gradient_case_run(c, *table);
        differences.next = 0;
        kinks += gradient_case_compare(c, seed);
        assert_int_equal(differences.next, differences.count);
    }
    c->differences = NULL;
    free(differences.list);
    return kinks;
}

/* One line each. */
static const struct gradient_variant VARIANTS[] = {
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
    { "everything", 0.7f, 1, true, 3, -1, 1, 4, false, 13, false, false, 0, 0 },
    { "all three", 0.5f, 2, true, 3, -1, 2, -1, false, 12, true, true, 0.3f, 1 },
};

void gradient_case_apply(struct gradient_case *c, const struct gradient_variant *v, uint64_t seed)
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
    gradient_case_add_heads(c, v->alibi, v->sinks, seed);
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
        gradient_case_add_mask(c, shape, seed);
}

void gradient_run_variants(const struct attention_sizes *sizes, unsigned kinds, size_t step,
                           uint64_t seed)
{
    enum { COUNT = sizeof VARIANTS / sizeof VARIANTS[0] };
    int64_t kinks = 0;
    for (size_t i = (COUNT - 1) % step; i < COUNT; i += step) {
        struct gradient_case c;
        gradient_case_init(&c, sizes, LAYOUT_GAPS, seed + i);
        gradient_case_set_kinds(&c, kinds, seed + i);
        gradient_case_apply(&c, &VARIANTS[i], seed + i);
        print_message("    %s\n", VARIANTS[i].name);
        kinks += gradient_case_compare_tables(&c, seed + i);
        attention_case_free(&c.forward);
    }
    assert_true(kinks <= (kinds & GRADIENT_SPARSE ? 3 : 0));
}
