/* SPDX-License-Identifier: Apache-2.0 */
/* test_layer_gradient.c - the gradients of a whole layer against finite differences of the double
 * reference: inputs, mask, and every weight and bias, in both layouts, with rotary embedding, norms
 * and clamped projections, and under every score function. */
#include "difference.h"
#include "guard.h"
#include "layer_gradient.h"
#include "test.h"

#include <cblas.h>

#include <inttypes.h>

static const double TOLERANCE = 5e-5;

enum { D_QUERY = 5, D_KEY = 4, D_VALUE = 3, D_OUT = 6, ARRAYS_MAX = 20 };

/* An input to differentiate by, and the place of its gradient. */
struct array {
    const char *name;
    float *numbers;
    float *gradient;
    int64_t count;
};

struct layer_case {
    struct attn_layer layer;
    struct attn_layer_gradient_problem problem;
    struct array arrays[ARRAYS_MAX];
    int array_count;
    struct guard_buffer buffers[48];
    int buffer_count;
    struct fill fill;
};

static float *numbers(struct layer_case *c, int64_t count)
{
    struct guard_buffer *buffer = &c->buffers[c->buffer_count++];
    *buffer = guard_alloc((size_t)count * sizeof(float));
    difference_fill(&c->fill, buffer->data, count);
    return buffer->data;
}

/* Adds an array of count numbers. Their gradient goes to the array that it returns. */
static struct array *add(struct layer_case *c, const char *name, int64_t count)
{
    struct array *array = &c->arrays[c->array_count++];
    *array = (struct array){ name, numbers(c, count), numbers(c, count), count };
    return array;
}

static void add_linear(struct layer_case *c, const char *name, struct attn_linear *linear,
                       struct attn_linear_gradient *gradient, int64_t out, int64_t in, bool in_out,
                       bool biased)
{
    const struct array *weight = add(c, name, out * in);
    *linear = (struct attn_linear){ .weight = weight->numbers, .out = out, .in = in };
    linear->in_out = in_out;
    gradient->weight = weight->gradient;
    if (biased) {
        const struct array *bias = add(c, name, out);
        linear->bias = bias->numbers;
        gradient->bias = bias->gradient;
    }
}

/* Kinds from NORMED on score as DOT does, with norms of query and key or with clamped
 * projections. Norms of NORMED_LAST follow the rotation. */
enum kind {
    DOT,
    GENERAL,
    ADDITIVE,
    CONCAT,
    SPARSE,
    NORMED,
    NORMED_LAST,
    NORMED_HEADS,
    NORMED_ROWS,
    CLAMPED
};

struct shape {
    const char *name;
    enum kind kind;
    int64_t q_len, kv_len, q_heads, kv_heads, head_dim, v_head_dim;
    bool projected, in_out, biased, rope, interleaved, cut, masked;
};

static const struct shape SHAPES[] = {
    { "sdpa", DOT, 3, 4, 2, 1, 4, 2, false, false, false, false, false, false, true },
    { "sdpa cut into heads", DOT, 3, 4, 2, 2, 4, 2, false, false, false, false, false, true,
      false },
    { "sdpa with rope", DOT, 3, 4, 2, 1, 4, 2, false, false, false, true, false, false, false },
    { "cut, with rope", DOT, 3, 4, 2, 2, 4, 2, false, false, false, true, true, true, false },
    { "projections", DOT, 4, 3, 2, 1, 4, 3, true, false, false, false, false, false, false },
    { "with biases", DOT, 4, 3, 2, 1, 4, 3, true, false, true, false, false, false, true },
    { "in_out", DOT, 4, 3, 4, 2, 2, 3, true, true, true, false, false, false, false },
    { "with rope", DOT, 4, 5, 2, 2, 6, 3, true, false, true, true, false, false, true },
    { "interleaved", DOT, 4, 5, 2, 2, 6, 3, true, true, true, true, true, false, false },
    { "more than a chunk", DOT, 300, 270, 2, 1, 4, 2, true, false, true, true, true, false, false },
    { "no keys", DOT, 3, 0, 2, 1, 4, 3, true, false, true, false, false, false, false },
    { "no rows", DOT, 0, 3, 2, 1, 4, 3, true, false, true, true, false, false, false },
    { "general", GENERAL, 4, 5, 1, 1, D_KEY, 3, true, true, true, false, false, false, true },
    { "general, nothing else", GENERAL, 3, 4, 1, 1, D_KEY, 3, false, true, false, false, false,
      false, false },
    { "additive", ADDITIVE, 4, 5, 1, 1, 7, 3, true, false, true, false, false, false, true },
    { "additive, in_out", ADDITIVE, 4, 5, 1, 1, 7, 3, true, true, false, false, false, false,
      false },
    { "additive, nothing else", ADDITIVE, 3, 4, 2, 1, 3, 2, false, false, false, false, false, true,
      true },
    { "concat", CONCAT, 4, 5, 1, 1, 7, 3, true, false, true, false, false, false, true },
    { "concat, in_out", CONCAT, 4, 5, 1, 1, 7, 3, true, true, true, false, false, false, false },
    { "concat, more than a chunk", CONCAT, 270, 280, 1, 1, 5, 2, true, true, true, false, false,
      false, false },
    { "concat, no keys", CONCAT, 3, 0, 1, 1, 7, 3, true, true, true, false, false, false, false },
    { "concat, no rows", CONCAT, 0, 3, 1, 1, 7, 3, true, false, true, false, false, false, false },
    { "norms", NORMED, 4, 5, 2, 1, 4, 3, true, false, true, true, false, false, true },
    { "norms of what is not projected", NORMED, 4, 5, 2, 2, 4, 3, false, false, false, true, true,
      true, false },
    { "norms behind rope", NORMED_LAST, 4, 5, 2, 1, 6, 3, true, false, true, true, false, false,
      true },
    { "norms behind rope, cut", NORMED_LAST, 4, 5, 2, 2, 4, 3, false, false, false, true, true,
      true, false },
    { "norms of heads", NORMED_HEADS, 4, 5, 4, 2, 4, 3, true, true, true, false, false, false,
      false },
    { "norms of heads, not cut", NORMED_HEADS, 4, 5, 4, 2, 4, 3, false, false, false, false, false,
      false, true },
    { "norms of rows", NORMED_ROWS, 4, 5, 2, 2, 4, 3, true, false, false, true, true, false, true },
    { "norms of rows, cut", NORMED_ROWS, 4, 5, 3, 3, 4, 3, false, false, false, false, false, true,
      false },
    { "norms, more than a chunk", NORMED_ROWS, 300, 270, 2, 1, 4, 2, true, false, true, true, true,
      false, false },
    { "norms, no rows", NORMED, 0, 3, 2, 1, 4, 3, true, false, true, true, false, false, false },
    { "norms, no keys", NORMED, 3, 0, 2, 1, 4, 3, true, false, true, true, false, false, false },
    { "clamped", CLAMPED, 4, 5, 2, 1, 4, 3, true, false, true, false, false, false, true },
    { "clamped, normed, turned", CLAMPED, 4, 5, 2, 1, 6, 3, true, true, false, true, false, false,
      false },
    { "sparsemax", SPARSE, 4, 5, 2, 1, 4, 3, true, false, true, true, true, false, true },
};

static struct attn_tensor input(struct layer_case *c, const char *name, int64_t length,
                                int64_t heads, int64_t columns, float **gradient)
{
    const struct array *array = add(c, name, heads * length * columns);
    *gradient = array->gradient;
    return attn_tensor_dense(array->numbers, ATTN_F32, 1, heads, length, columns);
}

/* What query and key go through before they are scored. */
static void add_scores(struct layer_case *c, const struct shape *s)
{
    struct attn_layer *layer = &c->layer;
    struct attn_layer_gradient_problem *p = &c->problem;
    const int64_t out = s->q_heads * s->head_dim;
    struct attn_linear joined;
    struct attn_linear_gradient gradient = { 0 };
    if (s->kind == CONCAT) {
        add_linear(c, "concat_proj", &joined, &gradient, out, D_KEY + D_QUERY, s->in_out,
                   s->biased);
        attn_linear_split(&joined, D_KEY, &layer->k_proj, &layer->q_proj);
        attn_linear_gradient_split(&joined, D_KEY, &gradient, &p->k_proj, &p->q_proj);
        return;
    }
    add_linear(c, "q_proj", &layer->q_proj, &p->q_proj, out, D_QUERY, s->in_out, s->biased);
    if (s->kind != GENERAL)
        add_linear(c, "k_proj", &layer->k_proj, &p->k_proj, s->kv_heads * s->head_dim, D_KEY,
                   s->in_out, s->biased);
}

/* Adds a few numbers, and says where their gradient goes. */
static const float *add_list(struct layer_case *c, const char *name, int64_t count,
                             float **gradient)
{
    const struct array *array = add(c, name, count);
    *gradient = array->gradient;
    return array->numbers;
}

static void add_norm(struct layer_case *c, const char *name, const struct shape *s, int64_t heads,
                     int64_t head_dim, struct attn_norm *norm, struct attn_norm_gradient *gradient)
{
    const bool is_alike = s->kind == NORMED || s->kind == NORMED_LAST || s->kind == CLAMPED;
    const int64_t count = is_alike ? head_dim : heads * head_dim;
    norm->eps = 0.125;
    norm->scope = is_alike                  ? ATTN_NORM_HEAD
                  : s->kind == NORMED_HEADS ? ATTN_NORM_HEADS
                                            : ATTN_NORM_ROW;
    norm->is_centred = s->kind != NORMED_ROWS || s->biased;
    norm->weight = add_list(c, name, count, &gradient->weight);
    if (s->kind == NORMED || s->biased)
        norm->bias = add_list(c, name, count, &gradient->bias);
}

static void add_norms(struct layer_case *c, const struct shape *s)
{
    if (s->kind == CLAMPED)
        c->layer.projected_max = 0.75;
    c->layer.norms_follow_rope = s->kind == NORMED_LAST;
    if (s->kind < NORMED || (s->kind == CLAMPED && !s->rope))
        return;
    add_norm(c, "q_norm", s, s->q_heads, s->head_dim, &c->layer.q_norm, &c->problem.q_norm);
    add_norm(c, "k_norm", s, s->kv_heads, s->head_dim, &c->layer.k_norm, &c->problem.k_norm);
    if (s->masked)
        add_norm(c, "v_norm", s, s->kv_heads, s->v_head_dim, &c->layer.v_norm, &c->problem.v_norm);
}

static void layer_case_init(struct layer_case *c, const struct shape *s, uint64_t seed)
{
    memset(c, 0, sizeof *c);
    c->fill = (struct fill){ seed };
    struct attn_layer *layer = &c->layer;
    struct attn_layer_gradient_problem *p = &c->problem;
    layer->q_heads = s->q_heads;
    layer->kv_heads = s->kv_heads;
    layer->head_dim = s->head_dim;
    layer->v_head_dim = s->v_head_dim;
    if (s->rope)
        layer->rope = (struct attn_rope){ .dim = s->interleaved ? s->head_dim : s->head_dim - 2,
                                          .theta = 100,
                                          .interleaved = s->interleaved };
    if (s->projected || s->kind == GENERAL)
        add_scores(c, s);
    if (s->projected) {
        add_linear(c, "v_proj", &layer->v_proj, &p->v_proj, s->kv_heads * s->v_head_dim, D_VALUE,
                   s->in_out, s->biased);
        add_linear(c, "o_proj", &layer->o_proj, &p->o_proj, D_OUT, s->q_heads * s->v_head_dim,
                   s->in_out, s->biased);
    }
    if (s->rope && s->cut)
        layer->rope.grid = (struct attn_rope_grid){ .first = 2, .height = 2, .width = 2 };
    if (s->rope && s->kind == DOT) {
        layer->rope.query_growth = 0.5;
        layer->rope.query_length = 2;
    }
    if (s->kind == ADDITIVE || s->kind == CONCAT)
        layer->additive_weight = add_list(c, "additive_weight", s->head_dim, &p->additive_weight);
    add_norms(c, s);
    const bool projects_query = s->projected || s->kind == GENERAL;
    const int64_t q = s->cut ? s->q_heads : 1, kv = s->cut ? s->kv_heads : 1;
    p->layer.layer = layer;
    p->layer.options = attn_options_default(s->head_dim);
    if (s->kind == SPARSE)
        p->layer.options.normalizer = ATTN_SPARSEMAX;
    p->layer.past_len = 1;
    p->layer.query = input(c, "query", s->q_len, q,
                           projects_query ? D_QUERY : s->q_heads * s->head_dim / q, &p->query);
    p->layer.key = input(c, "key", s->kv_len, kv,
                         s->projected ? D_KEY : s->kv_heads * s->head_dim / kv, &p->key);
    p->layer.value = input(c, "value", s->kv_len, kv,
                           s->projected ? D_VALUE : s->kv_heads * s->v_head_dim / kv, &p->value);
    if (s->masked) {
        const struct array *mask = add(c, "mask", s->q_heads * s->q_len * s->kv_len);
        p->layer.mask =
            attn_tensor_dense(mask->numbers, ATTN_F32, 1, s->q_heads, s->q_len, s->kv_len);
        p->mask = mask->gradient;
        p->layer.options.causal = true;
        p->layer.options.softcap = 2;
        p->layer.alibi_slopes = add_list(c, "alibi_slopes", s->q_heads, &p->alibi_slopes);
        p->layer.sinks = add_list(c, "sinks", s->q_heads, &p->sinks);
    }
    p->context_gradient = numbers(c, s->q_len * attn_layer_d_out(layer));
}

static void layer_case_free(struct layer_case *c)
{
    for (int i = 0; i < c->buffer_count; i++)
        guard_free(&c->buffers[i]);
}

static void run(const struct layer_case *c)
{
    struct attn_layer_gradient_plan plan;
    const char *where = "";
    const enum attn_status status = attn_layer_gradient_plan_init(&plan, &c->problem, &where);
    if (status != ATTN_OK)
        fail_msg("refused: %s at %s", attn_status_name(status), where);
    assert_true(plan.stage_count <= ATTN_LAYER_GRADIENT_STAGES_MAX);
    struct guard_buffer scratch = guard_alloc((plan.scratch_bytes + 63) / 64 * 64);
    struct guard_buffer workspace = guard_alloc((plan.workspace_bytes + 63) / 64 * 64);
    memset(scratch.data, 0xFF, plan.scratch_bytes);
    memset(workspace.data, 0xFF, plan.workspace_bytes);
    for (int stage = 0; stage < plan.stage_count; stage++) {
        assert_true(plan.task_count[stage] > 0);
        for (int64_t task = plan.task_count[stage]; task-- > 0;)
            attn_layer_gradient_run(&plan, stage, task, scratch.data, workspace.data);
    }
    guard_free(&scratch);
    guard_free(&workspace);
}

static void expect_near(const struct array *array, int64_t i, double got, double want, double size)
{
    if (!(fabs(got - want) <= TOLERANCE * (1 + size)))
        fail_msg("%s[%" PRId64 "] is %.9g, want %.9g", array->name, i, got, want);
}

/* Checks some numbers of a large problem at once, one from each part of the array, some moved up
 * and some down. The reference takes long to run, and no gradient makes good the error of
 * another. */
static void expect_some(struct layer_case *c, const struct array *array)
{
    enum { SAMPLES = 5 };
    const int count = array->count < SAMPLES ? (int)array->count : SAMPLES;
    float *x[SAMPLES], directions[SAMPLES];
    double got = 0, size = 0;
    for (int k = 0; k < count; k++) {
        const int64_t first = array->count * k / count, end = array->count * (k + 1) / count;
        const int64_t i = first + fill_below(&c->fill, end - first);
        x[k] = array->numbers + i;
        directions[k] = fill_below(&c->fill, 2) ? 1.0f : -1.0f;
        got += (double)(array->gradient[i] * directions[k]);
        size += fabs((double)array->gradient[i]);
    }
    const double want = difference_layer_along(&c->problem.layer, c->problem.context_gradient, x,
                                               directions, count);
    expect_near(array, x[0] - array->numbers, got, want, size);
}

TEST(differences)
{
    enum { SOME = 60, SAMPLES = 5 };
    for (size_t s = 0; s < sizeof SHAPES / sizeof SHAPES[0]; s++) {
        struct layer_case c;
        print_message("    %s\n", SHAPES[s].name);
        layer_case_init(&c, &SHAPES[s], 1000 + s);
        run(&c);
        for (int a = 0; a < c.array_count; a++) {
            const struct array *array = &c.arrays[a];
            const int64_t count = array->count > SOME ? SAMPLES : array->count;
            if (SHAPES[s].q_len > 100) {
                expect_some(&c, array);
                continue;
            }
            for (int64_t k = 0; k < count; k++) {
                const int64_t i = array->count > SOME ? fill_below(&c.fill, array->count) : k;
                const double want = difference_layer_by(
                    &c.problem.layer, c.problem.context_gradient, array->numbers + i);
                expect_near(array, i, (double)array->gradient[i], want, fabs(want));
            }
        }
        layer_case_free(&c);
    }
}

/* Two projections may have their parts in one matrix. */
static bool is_part(const float *gradient, const struct array *array)
{
    return gradient >= array->gradient && gradient < array->gradient + array->count;
}

/* A gradient that is asked for alone has the bits that it has among all. */
TEST(alone)
{
    for (size_t s = 0; s < sizeof SHAPES / sizeof SHAPES[0]; s++) {
        struct layer_case all, one;
        layer_case_init(&all, &SHAPES[s], 2000 + s);
        run(&all);
        for (int a = 0; a < all.array_count; a++) {
            layer_case_init(&one, &SHAPES[s], 2000 + s);
            struct attn_layer_gradient_problem *p = &one.problem;
            const struct array *array = &one.arrays[a];
            float **const outputs[] = {
                &p->query,           &p->key,           &p->value,         &p->mask,
                &p->q_proj.weight,   &p->q_proj.bias,   &p->k_proj.weight, &p->k_proj.bias,
                &p->v_proj.weight,   &p->v_proj.bias,   &p->o_proj.weight, &p->o_proj.bias,
                &p->additive_weight, &p->alibi_slopes,  &p->sinks,         &p->q_norm.weight,
                &p->q_norm.bias,     &p->k_norm.weight, &p->k_norm.bias,
            };
            for (size_t o = 0; o < sizeof outputs / sizeof outputs[0]; o++)
                if (!is_part(*outputs[o], array))
                    *outputs[o] = NULL;
            run(&one);
            assert_memory_equal(array->gradient, all.arrays[a].gradient,
                                (size_t)array->count * sizeof(float));
            layer_case_free(&one);
        }
        layer_case_free(&all);
    }
}

/* NaN in key and value rows that no query sees reaches no gradient, the projections' included. */
TEST(hidden_rows)
{
    for (int way = 0; way < 12; way++) {
        static const enum kind KINDS[] = { DOT, CONCAT, NORMED, NORMED_LAST, NORMED_ROWS, CLAMPED };
        const bool concat = KINDS[way / 2] == CONCAT;
        const struct shape shape = { .name = "hidden",
                                     .kind = KINDS[way / 2],
                                     .q_len = 4,
                                     .kv_len = 6,
                                     .q_heads = concat ? 1 : 2,
                                     .kv_heads = 1,
                                     .head_dim = 4,
                                     .v_head_dim = 3,
                                     .projected = true,
                                     .in_out = way % 2 != 0,
                                     .biased = true,
                                     .rope = !concat };
        const int64_t kv_len = 4;
        struct layer_case clean, dirty;
        struct layer_case *const both[2] = { &clean, &dirty };
        for (int k = 0; k < 2; k++) {
            layer_case_init(both[k], &shape, 77);
            both[k]->problem.layer.kv_len = &kv_len;
        }
        float *key = dirty.problem.layer.key.data, *value = dirty.problem.layer.value.data;
        for (int64_t i = kv_len * D_KEY; i < 6 * D_KEY; i++)
            key[i] = i % 2 ? NAN : INFINITY;
        for (int64_t i = kv_len * D_VALUE; i < 6 * D_VALUE; i++)
            value[i] = i % 2 ? NAN : -INFINITY;
        run(&clean);
        run(&dirty);
        for (int a = 0; a < clean.array_count; a++)
            for (int64_t i = 0; i < clean.arrays[a].count; i++)
                assert_true(
                    fabs((double)clean.arrays[a].gradient[i] - (double)dirty.arrays[a].gradient[i])
                    <= 1e-6);
        layer_case_free(&clean);
        layer_case_free(&dirty);
    }
}

TEST(refused)
{
    struct attn_layer_gradient_plan plan;
    const char *where = "";
    struct layer_case c;
    layer_case_init(&c, &SHAPES[4], 3000);
    c.problem.q_proj.bias = c.problem.q_proj.weight;
    assert_int_equal(attn_layer_gradient_plan_init(&plan, &c.problem, &where), ATTN_ERR_NO_DATA);
    assert_string_equal(where, "q_proj");
    c.problem.q_proj.bias = NULL;
    c.problem.context_gradient = NULL;
    assert_int_equal(attn_layer_gradient_plan_init(&plan, &c.problem, &where), ATTN_ERR_NO_DATA);
    assert_string_equal(where, "context_gradient");
    c.problem.context_gradient = c.problem.query;
    c.problem.additive_weight = c.problem.query;
    assert_int_equal(attn_layer_gradient_plan_init(&plan, &c.problem, &where), ATTN_ERR_NO_DATA);
    assert_string_equal(where, "additive_weight");
    c.problem.additive_weight = NULL;
    c.problem.alibi_slopes = c.problem.query;
    assert_int_equal(attn_layer_gradient_plan_init(&plan, &c.problem, &where), ATTN_ERR_NO_DATA);
    assert_string_equal(where, "alibi_slopes");
    c.problem.alibi_slopes = NULL;
    c.problem.sinks = c.problem.query;
    assert_int_equal(attn_layer_gradient_plan_init(&plan, &c.problem, &where), ATTN_ERR_NO_DATA);
    assert_string_equal(where, "sinks");
    c.problem.sinks = NULL;
    struct attn_layer gated = *c.problem.layer.layer;
    gated.gate_proj = gated.q_proj;
    c.problem.layer.layer = &gated;
    assert_int_equal(attn_layer_gradient_plan_init(&plan, &c.problem, &where), ATTN_ERR_OPTION);
    assert_string_equal(where, "layer.layer.gate_proj");
    layer_case_free(&c);
}

int main(void)
{
    openblas_set_num_threads(1);
    return test_run(NULL);
}
