/* SPDX-License-Identifier: Apache-2.0 */
/* test_layer_latent.c - a latent layer against the double reference, for which the keys and values
 * of every head are made, as DeepSeek's own source makes them.
 *
 * Bits must not depend on the order of a stage's tasks, on what the scratch memory held, on which
 * outputs are asked for, nor on whether rows come all at once or one by one into a cache. */
#include "fill.h"
#include "guard.h"
#include "reference.h"
#include "test.h"

static const double TOLERANCE = 2e-5;

enum { BUFFERS = 48, LENGTH_MAX = 300 };

struct shape {
    int64_t heads, rank, plain, rotated, values, width, q_rank, d_out;
    int64_t length, past_len;
    bool has_keys; /* [heads][rank][plain] in place of [heads][plain][rank] */
    bool interleaved, has_bias;
};

static const struct shape SHAPES[] = {
    { 3, 10, 6, 4, 5, 9, 7, 8, 6, 0, false, true, true },
    { 3, 10, 6, 4, 5, 9, 0, 0, 6, 5, false, false, false },
    { 4, 32, 16, 8, 16, 24, 20, 24, 33, 0, true, true, false },
    { 2, 64, 32, 16, 32, 16, 0, 16, 300, 0, false, true, false },
    { 1, 1, 1, 2, 1, 1, 1, 1, 1, 0, true, false, true },
};
enum { SHAPE_COUNT = sizeof SHAPES / sizeof SHAPES[0] };

struct latent_case {
    const struct shape *shape;
    struct attn_layer layer;
    struct attn_layer_problem problem;
    struct fill fill;
    struct guard_buffer buffers[BUFFERS];
    int buffer_count;
    float *up; /* [heads][plain + values][rank], the source's kv_b_proj */
};

static void *allocate(struct latent_case *c, int64_t bytes)
{
    assert_in_range(c->buffer_count, 0, BUFFERS - 1);
    c->buffers[c->buffer_count] = guard_alloc((size_t)bytes);
    return c->buffers[c->buffer_count++].data;
}

static float *filled(struct latent_case *c, int64_t count, float low, float high)
{
    float *data = allocate(c, count * (int64_t)sizeof *data);
    fill_floats(&c->fill, data, count, low, high);
    return data;
}

static struct attn_linear make_linear(struct latent_case *c, int64_t out, int64_t in, bool has_bias)
{
    const float most = 1.5f / sqrtf((float)in);
    return (struct attn_linear){ .weight = filled(c, out * in, -most, most),
                                 .bias = has_bias ? filled(c, out, -0.5f, 0.5f) : NULL,
                                 .out = out,
                                 .in = in };
}

static struct attn_norm make_norm(struct latent_case *c, int64_t columns)
{
    return (struct attn_norm){ .weight = filled(c, columns, 0.5f, 1.5f),
                               .eps = 1e-6,
                               .scope = ATTN_NORM_ROW };
}

/* The matrices of the heads, in either form. */
static void make_ups(struct latent_case *c)
{
    const struct shape *s = c->shape;
    struct attn_latent *latent = &c->layer.latent;
    const int64_t step = (s->plain + s->values) * s->rank;
    c->up = filled(c, s->heads * step, -0.4f, 0.4f);
    latent->k_up = (struct attn_linear){ .out = s->rank, .in = s->plain, .in_out = !s->has_keys };
    latent->v_up = (struct attn_linear){ .out = s->values, .in = s->rank };
    if (!s->has_keys) {
        latent->k_up.weight = c->up;
        latent->v_up.weight = c->up + s->plain * s->rank;
        latent->k_up_step = latent->v_up_step = step;
        return;
    }
    float *keys = allocate(c, s->heads * s->plain * s->rank * (int64_t)sizeof *keys);
    float *values = allocate(c, s->heads * s->values * s->rank * (int64_t)sizeof *values);
    for (int64_t h = 0; h < s->heads; h++) {
        for (int64_t p = 0; p < s->plain; p++)
            for (int64_t r = 0; r < s->rank; r++)
                keys[(h * s->rank + r) * s->plain + p] = c->up[h * step + p * s->rank + r];
        memcpy(values + h * s->values * s->rank, c->up + h * step + s->plain * s->rank,
               (size_t)(s->values * s->rank) * sizeof *values);
    }
    latent->k_up.weight = keys;
    latent->v_up.weight = values;
    latent->k_up_step = s->plain * s->rank;
    latent->v_up_step = s->values * s->rank;
}

static void make_case(struct latent_case *c, const struct shape *s)
{
    *c = (struct latent_case){ .shape = s, .fill = { 7 } };
    struct attn_layer *layer = &c->layer;
    layer->q_heads = s->heads;
    layer->kv_heads = 1;
    layer->head_dim = s->rank + s->rotated;
    layer->v_head_dim = s->values;
    layer->latent.rank = s->rank;
    if (s->q_rank > 0) {
        layer->latent.q_down = make_linear(c, s->q_rank, s->width, s->has_bias);
        layer->latent.q_norm = make_norm(c, s->q_rank);
    }
    layer->q_proj = make_linear(c, s->heads * (s->plain + s->rotated),
                                s->q_rank > 0 ? s->q_rank : s->width, false);
    layer->k_proj = make_linear(c, s->rank + s->rotated, s->width, s->has_bias);
    layer->k_norm = make_norm(c, s->rank);
    make_ups(c);
    if (s->d_out > 0)
        layer->o_proj = make_linear(c, s->d_out, s->heads * s->values, s->has_bias);
    layer->rope =
        (struct attn_rope){ .dim = s->rotated, .theta = 100, .interleaved = s->interleaved };
    float *rows = filled(c, s->length * s->width, -1, 1);
    c->problem = (struct attn_layer_problem){
        .layer = layer,
        .options = attn_options_default(s->plain + s->rotated),
        .past_len = s->past_len,
    };
    c->problem.kv_offset = s->past_len;
    c->problem.options.causal = true;
    c->problem.query = attn_tensor_dense(rows, ATTN_F32, 1, 1, s->length, s->width);
    c->problem.key = c->problem.value = c->problem.query;
}

static void free_case(struct latent_case *c)
{
    for (int i = 0; i < c->buffer_count; i++)
        guard_free(&c->buffers[i]);
}

/* --------------------------------------------------------------- the source -- */

static double *doubles(struct latent_case *c, int64_t count)
{
    double *data = allocate(c, count * (int64_t)sizeof *data);
    memset(data, 0, (size_t)count * sizeof *data);
    return data;
}

static void norm_row(const struct attn_norm *norm, double *row, int64_t columns)
{
    double sum = 0;
    for (int64_t i = 0; i < columns; i++)
        sum += row[i] * row[i];
    for (int64_t i = 0; i < columns; i++)
        row[i] *= (double)norm->weight[i] / sqrt(sum / (double)columns + norm->eps);
}

static double *linear(struct latent_case *c, const struct attn_linear *of, const double *x)
{
    double *y = doubles(c, c->shape->length * of->out);
    reference_linear(of, x, c->shape->length, of->in, y);
    return y;
}

static double *queries(struct latent_case *c, const double *x)
{
    const struct shape *s = c->shape;
    const int64_t columns = s->plain + s->rotated;
    if (s->q_rank > 0) {
        double *down = linear(c, &c->layer.latent.q_down, x);
        for (int64_t i = 0; i < s->length; i++)
            norm_row(&c->layer.latent.q_norm, down + i * s->q_rank, s->q_rank);
        x = down;
    }
    double *q = linear(c, &c->layer.q_proj, x);
    for (int64_t i = 0; i < s->length; i++)
        for (int64_t h = 0; h < s->heads; h++)
            reference_rope(&c->layer.rope, s->past_len + i, 0,
                           q + (i * s->heads + h) * columns + s->plain);
    return q;
}

/* Keys and values of all heads. */
static void expand(struct latent_case *c, const double *x, double *k, double *v)
{
    const struct shape *s = c->shape;
    const int64_t columns = s->plain + s->rotated, all = s->plain + s->values;
    double *rows = linear(c, &c->layer.k_proj, x);
    const struct attn_linear up = { .weight = c->up, .out = s->heads * all, .in = s->rank };
    double *both = doubles(c, s->heads * all);
    for (int64_t i = 0; i < s->length; i++) {
        double *row = rows + i * (s->rank + s->rotated);
        norm_row(&c->layer.k_norm, row, s->rank);
        reference_rope(&c->layer.rope, s->past_len + i, 0, row + s->rank);
        reference_linear(&up, row, 1, s->rank, both);
        for (int64_t h = 0; h < s->heads; h++) {
            double *key = k + (i * s->heads + h) * columns;
            memcpy(key, both + h * all, (size_t)s->plain * sizeof *key);
            memcpy(key + s->plain, row + s->rank, (size_t)s->rotated * sizeof *key);
            memcpy(v + (i * s->heads + h) * s->values, both + h * all + s->plain,
                   (size_t)s->values * sizeof *v);
        }
    }
}

static void find_reference(struct latent_case *c, struct reference *reference)
{
    const struct shape *s = c->shape;
    const int64_t columns = s->plain + s->rotated;
    const float *rows = c->problem.query.data;
    double *x = doubles(c, s->length * s->width);
    double *k = doubles(c, s->length * s->heads * columns);
    double *v = doubles(c, s->length * s->heads * s->values);
    for (int64_t i = 0; i < s->length * s->width; i++)
        x[i] = (double)rows[i];
    expand(c, x, k, v);
    struct attn_problem problem = {
        .options = c->problem.options,
        .query = attn_tensor_rows(queries(c, x), ATTN_F64, 1, s->heads, s->length, columns,
                                  s->heads * columns),
        .key = attn_tensor_rows(k, ATTN_F64, 1, s->heads, s->length, columns, s->heads * columns),
        .value =
            attn_tensor_rows(v, ATTN_F64, 1, s->heads, s->length, s->values, s->heads * s->values),
    };
    reference_attention(&problem, reference);
}

/* --------------------------------------------------------------------- runs -- */

static void run(const struct attn_layer_problem *problem, bool backwards, unsigned char byte)
{
    struct attn_layer_plan plan;
    const char *where = NULL;
    if (attn_layer_plan_init(&plan, problem, &where) != ATTN_OK)
        fail_msg("%s", where ? where : "a plan");
    struct guard_buffer scratch = guard_alloc(plan.scratch_bytes);
    struct guard_buffer workspace = guard_alloc(plan.workspace_bytes);
    memset(scratch.data, byte, plan.scratch_bytes);
    memset(workspace.data, byte, plan.workspace_bytes);
    for (int stage = 0; stage < plan.stage_count; stage++)
        for (int64_t task = 0; task < plan.task_count[stage]; task++)
            attn_layer_run(&plan, stage, backwards ? plan.task_count[stage] - 1 - task : task,
                           scratch.data, workspace.data);
    guard_free(&scratch);
    guard_free(&workspace);
}

static void expect_near(const char *name, const float *got, const double *expected, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!(fabs((double)got[i] - expected[i]) <= TOLERANCE * fmax(1, fabs(expected[i]))))
            fail_msg("%s[%lld] is %.9g, not %.9g", name, (long long)i, (double)got[i], expected[i]);
}

/* The context of heads, [length][heads * values], through the output projection. */
static void expect_context(struct latent_case *c, const float *got,
                           const struct reference *reference)
{
    const struct shape *s = c->shape;
    double *side = doubles(c, s->length * s->heads * s->values);
    for (int64_t h = 0; h < s->heads; h++)
        for (int64_t i = 0; i < s->length; i++)
            memcpy(side + (i * s->heads + h) * s->values,
                   reference->context + (h * s->length + i) * s->values,
                   (size_t)s->values * sizeof *side);
    if (s->d_out > 0)
        side = linear(c, &c->layer.o_proj, side);
    expect_near("context", got, side, s->length * (s->d_out > 0 ? s->d_out : s->heads * s->values));
}

TEST(against_the_source)
{
    for (int i = 0; i < SHAPE_COUNT; i++) {
        struct latent_case c;
        struct reference reference;
        make_case(&c, &SHAPES[i]);
        find_reference(&c, &reference);
        const struct shape *s = c.shape;
        const int64_t contexts = s->length * attn_layer_d_out(&c.layer);
        const int64_t maps = s->heads * s->length * s->length;
        float *context[2], *weights[2], *lse = filled(&c, s->heads * s->length, 0, 0);
        for (int run_index = 0; run_index < 2; run_index++) {
            c.problem.context = context[run_index] = filled(&c, contexts, 0, 0);
            c.problem.weights = weights[run_index] = filled(&c, maps, 0, 0);
            c.problem.lse = run_index == 0 ? lse : NULL;
            run(&c.problem, run_index == 1, run_index == 1 ? 0xFF : 0x3F);
        }
        expect_context(&c, context[0], &reference);
        expect_near("weights", weights[0], reference.weights, maps);
        expect_near("lse", lse, reference.lse, s->heads * s->length);
        assert_memory_equal(context[0], context[1], (size_t)contexts * sizeof(float));
        assert_memory_equal(weights[0], weights[1], (size_t)maps * sizeof(float));
        c.problem.context = NULL;
        c.problem.lse = NULL;
        run(&c.problem, false, 0xFF);
        assert_memory_equal(weights[0], weights[1], (size_t)maps * sizeof(float));
        c.problem.weights = NULL;
        c.problem.partial = true;
        c.problem.context = filled(&c, s->heads * s->length * s->values, 0, 0);
        run(&c.problem, true, 0xFF);
        expect_near("partial", c.problem.context, reference.context,
                    s->heads * s->length * s->values);
        reference_free(&reference);
        free_case(&c);
    }
}

/* Rows one by one, behind those of a cache, have the bits that they have all at once, whether the
 * cache has values or not. */
static void check_cache(bool has_values)
{
    struct latent_case c;
    make_case(&c, &SHAPES[2]);
    const struct shape *s = c.shape;
    const int64_t d_out = s->d_out, columns = s->rank + s->rotated;
    float *whole = filled(&c, s->length * d_out, 0, 0), *one = filled(&c, d_out, 0, 0);
    float *keys = filled(&c, s->length * columns, 0, 0);
    float *values = filled(&c, s->length * s->rank, 0, 0);
    float *rows = (float *)(uintptr_t)c.problem.query.data;
    c.problem.options.is_prefix_stable = true;
    c.problem.context = whole;
    run(&c.problem, false, 0);
    c.problem.context = one;
    for (int64_t i = 0; i < s->length; i++) {
        struct attn_layer_cache cache = { .length = i };
        cache.key = attn_tensor_dense(keys, ATTN_F32, 1, 1, i + 1, columns);
        cache.value = attn_tensor_dense(values, ATTN_F32, 1, 1, i + 1, has_values ? s->rank : 0);
        c.problem.query = attn_tensor_dense(rows + i * s->width, ATTN_F32, 1, 1, 1, s->width);
        c.problem.key = c.problem.value = c.problem.query;
        c.problem.cache = &cache;
        c.problem.past_len = i;
        run(&c.problem, false, 0xFF);
        assert_memory_equal(one, whole + i * d_out, (size_t)d_out * sizeof *one);
    }
    for (int64_t i = 0; i < s->length * s->rank; i++)
        assert_true(values[i] == (has_values ? keys[i / s->rank * columns + i % s->rank] : 0));
    free_case(&c);
}

TEST(a_cache)
{
    check_cache(true);
    check_cache(false);
}

/* What edits change: the context of heads that the output projection reads. */
TEST(the_view_of_a_context)
{
    struct latent_case c;
    make_case(&c, &SHAPES[0]);
    const struct shape *s = c.shape;
    struct attn_layer_plan plan;
    const int64_t numbers = s->heads * s->length * s->values;
    float *partial = filled(&c, numbers, 0, 0);
    c.problem.partial = true;
    c.problem.context = partial;
    run(&c.problem, false, 0);
    c.problem.partial = false;
    c.problem.context = filled(&c, s->length * s->d_out, 0, 0);
    assert_int_equal(attn_layer_plan_init(&plan, &c.problem, NULL), ATTN_OK);
    void *scratch = allocate(&c, (int64_t)plan.scratch_bytes);
    void *workspace = allocate(&c, (int64_t)plan.workspace_bytes);
    for (int stage = 0; stage < attn_layer_output_stage(&plan); stage++)
        for (int64_t task = 0; task < plan.task_count[stage]; task++)
            attn_layer_run(&plan, stage, task, scratch, workspace);
    const struct attn_problem attention = attn_layer_attention(&plan, scratch);
    assert_true(attention.key.shape[1] == 1 && attention.value.shape[3] == s->rank);
    assert_true(attention.context.shape[1] == s->heads && attention.context.shape[3] == s->values);
    for (int64_t h = 0; h < s->heads; h++)
        for (int64_t i = 0; i < s->length; i++)
            assert_memory_equal(
                (const float *)attention.context.data + h * attention.context.stride[1]
                    + i * attention.context.stride[2],
                partial + (h * s->length + i) * s->values, (size_t)s->values * sizeof *partial);
    free_case(&c);
}

static void expect_refused(const struct latent_case *c, enum attn_status status, const char *field)
{
    struct attn_layer_plan plan;
    const char *where = "";
    const enum attn_status got = attn_layer_plan_init(&plan, &c->problem, &where);
    assert_string_equal(where, field);
    assert_int_equal(got, status);
}

TEST(refused)
{
    struct latent_case c;
    make_case(&c, &SHAPES[0]);
    c.problem.context = filled(&c, c.shape->length * c.shape->d_out, 0, 0);
    const struct attn_layer whole = c.layer;
    const struct attn_linear gate = { .weight = c.up, .out = 15, .in = 7 };
#define REFUSED(change, status, field)                                                             \
    c.layer = whole;                                                                               \
    c.layer.change;                                                                                \
    expect_refused(&c, status, field)
    REFUSED(kv_heads = 3, ATTN_ERR_HEADS, "layer.kv_heads");
    REFUSED(latent.rank = 14, ATTN_ERR_OPTION, "layer.rope.dim");
    REFUSED(latent.rank = 9, ATTN_ERR_SHAPE, "layer.latent.k_up");
    REFUSED(v_proj = whole.k_proj, ATTN_ERR_OPTION, "layer.v_proj");
    REFUSED(v_norm = whole.k_norm, ATTN_ERR_OPTION, "layer.v_norm");
    REFUSED(gate_proj = gate, ATTN_ERR_OPTION, "layer.gate_proj");
    REFUSED(k_proj.weight = NULL, ATTN_ERR_NO_DATA, "layer.k_proj");
    REFUSED(q_norm = whole.k_norm, ATTN_ERR_OPTION, "layer.q_norm");
    REFUSED(v_norm = whole.k_norm, ATTN_ERR_OPTION, "layer.v_norm");
    c.layer = whole;
    c.layer.rope.query_length = 1;
    c.layer.rope.query_growth = 1;
    expect_refused(&c, ATTN_ERR_OPTION, "layer.rope.query_growth");
    REFUSED(projected_max = 1, ATTN_ERR_OPTION, "layer.projected_max");
    REFUSED(norms_follow_rope = true, ATTN_ERR_OPTION, "layer.norms_follow_rope");
    REFUSED(additive_weight = c.up, ATTN_ERR_OPTION, "layer.additive_weight");
    REFUSED(latent.q_norm.eps = -1, ATTN_ERR_OPTION, "layer.latent.q_norm.eps");
    REFUSED(q_proj.out = 29, ATTN_ERR_SHAPE, "layer.q_proj");
    REFUSED(latent.k_up.weight = NULL, ATTN_ERR_NO_DATA, "layer.latent.k_up");
    REFUSED(latent.k_up.out = 9, ATTN_ERR_SHAPE, "layer.latent.k_up");
    REFUSED(latent.v_up.out = 4, ATTN_ERR_SHAPE, "layer.latent.v_up");
    REFUSED(latent.v_up_step = -1, ATTN_ERR_STRIDE, "layer.latent.v_up_step");
    REFUSED(latent.k_up.bias = c.up, ATTN_ERR_OPTION, "layer.latent.k_up_step");
    c.layer = whole;
    c.problem.output_dtype = ATTN_F16;
    c.problem.partial = true;
    expect_refused(&c, ATTN_ERR_DTYPE, "output_dtype");
    free_case(&c);
}

ALL_TESTS(NULL, NULL);
