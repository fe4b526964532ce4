/* SPDX-License-Identifier: Apache-2.0 */
/* test_layer.c - an attention layer against the double reference.
 *
 * Each projection exists or is the identity, in both layouts, with and without bias. Rotary
 * embedding of either kind is there, and lengths where a product has no rows. The result must
 * not depend on the order of a stage's tasks, on what the scratch memory held, or on which
 * outputs are asked for. */
#include "fill.h"
#include "guard.h"
#include "reference.h"
#include "test.h"

#include <cblas.h>
#include <inttypes.h>

static const double TOLERANCE = 2e-5;

enum { HEADS_CUT = 1, SELF = 2, CAUSAL = 4, MASKED = 8, LENGTHS = 16, ROW_LENGTHS = 32 };
enum { ADDITIVE = 64, CONCAT = 128 }; /* CONCAT: additive, q_proj and k_proj cut out of one */
enum { NORM = 256 };                  /* of query and key */
enum { Q_PROJ = 1, K_PROJ = 2, V_PROJ = 4, O_PROJ = 8, ALL_PROJ = 15, GATE = 16 };
enum { OUTPUT_COUNT = 6, BUFFERS = 32 };

struct shape {
    const char *name;
    int64_t q_heads, kv_heads, head_dim, v_head_dim;
    int64_t d_model, d_out;
    unsigned projections;
    bool bias, in_out;
    int64_t rope_dim;
    bool interleaved;
    int64_t past_len;
    unsigned flags;
};

static const struct shape SHAPES[] = {
    { "all projections", 2, 2, 8, 8, 16, 16, ALL_PROJ, true, false, 0, false, 0, SELF },
    { "no bias, in_out", 4, 2, 8, 8, 24, 20, ALL_PROJ, false, true, 0, false, 0, SELF | CAUSAL },
    { "in_out with bias", 3, 1, 5, 7, 9, 11, ALL_PROJ, true, true, 0, false, 0, 0 },
    { "rope interleaved", 8, 4, 8, 8, 64, 64, ALL_PROJ, false, false, 8, true, 0, SELF | CAUSAL },
    { "rope halves", 2, 1, 16, 8, 32, 32, ALL_PROJ, true, false, 16, false, 5, CAUSAL },
    { "rope of a part", 2, 2, 12, 4, 8, 8, ALL_PROJ, false, false, 6, true, 40, MASKED },
    { "identity", 2, 2, 6, 3, 0, 0, 0, false, false, 0, false, 0, MASKED },
    { "identity, cut", 4, 2, 6, 3, 0, 0, 0, false, false, 0, false, 2, HEADS_CUT | CAUSAL },
    { "identity, cut, rope", 4, 2, 6, 3, 0, 0, 0, false, false, 4, true, 2, HEADS_CUT },
    { "identity, rope", 4, 1, 8, 8, 0, 0, 0, false, false, 8, false, 3, LENGTHS },
    { "query projected", 2, 1, 8, 8, 10, 0, Q_PROJ, true, false, 8, true, 0, HEADS_CUT },
    { "key and output", 2, 1, 8, 4, 10, 3, K_PROJ | O_PROJ, true, true, 0, true, 0, ROW_LENGTHS },
    { "value projected", 2, 1, 8, 4, 10, 0, V_PROJ, true, false, 0, true, 0, LENGTHS | CAUSAL },
    { "additive", 1, 1, 24, 8, 16, 12, ALL_PROJ, true, false, 0, false, 0, ADDITIVE | MASKED },
    { "additive, in_out", 1, 1, 7, 5, 9, 0, Q_PROJ | K_PROJ, true, true, 0, false, 2,
      ADDITIVE | CAUSAL },
    { "additive, no projection", 2, 1, 5, 6, 0, 0, 0, false, false, 0, false, 0,
      ADDITIVE | ROW_LENGTHS },
    { "concat", 1, 1, 13, 4, 10, 0, Q_PROJ | K_PROJ, true, false, 0, false, 0, CONCAT | LENGTHS },
    { "concat, in_out", 1, 1, 8, 8, 10, 5, ALL_PROJ, true, true, 0, false, 0, CONCAT | SELF },
    { "norms", 4, 2, 8, 8, 24, 20, ALL_PROJ, false, false, 0, false, 0, NORM | SELF | CAUSAL },
    { "norms and rope", 4, 2, 16, 8, 24, 20, ALL_PROJ, true, true, 8, false, 7, NORM | MASKED },
    { "identity, norms", 3, 1, 5, 4, 0, 0, 0, false, false, 0, false, 0, NORM | LENGTHS },
    { "identity, cut, norms", 4, 2, 6, 3, 0, 0, 0, false, false, 4, true, 2, NORM | HEADS_CUT },
    { "gate", 4, 2, 8, 6, 24, 20, ALL_PROJ | GATE, true, false, 8, false, 3, NORM | SELF | CAUSAL },
    { "gate, no output", 2, 1, 8, 5, 24, 0, Q_PROJ | GATE, false, true, 0, false, 0, MASKED },
    { "output alone", 3, 3, 4, 4, 0, 1, O_PROJ, true, false, 0, true, 0, 0 },
};

enum { SHAPE_COUNT = sizeof SHAPES / sizeof SHAPES[0] };

/* A layer, its inputs and outputs, and the memory of them all. */
struct layer_case {
    struct attn_layer layer;
    struct attn_layer_problem problem;
    struct fill fill;
    struct guard_buffer buffers[BUFFERS];
    int buffer_count;
    int64_t lengths[1];
};

static void *allocate(struct layer_case *c, int64_t count, size_t size)
{
    assert_in_range(c->buffer_count, 0, BUFFERS - 1);
    struct guard_buffer *buffer = &c->buffers[c->buffer_count++];
    *buffer = guard_alloc((size_t)count * size);
    return buffer->data;
}

static float *allocate_filled(struct layer_case *c, int64_t count, float bound)
{
    float *data = allocate(c, count, sizeof *data);
    fill_floats(&c->fill, data, count, -bound, bound);
    return data;
}

static void layer_case_free(struct layer_case *c)
{
    for (int i = 0; i < c->buffer_count; i++)
        guard_free(&c->buffers[i]);
}

static struct attn_linear make_linear(struct layer_case *c, const struct shape *shape,
                                      unsigned which, int64_t out, int64_t in)
{
    struct attn_linear linear = { .out = out, .in = in, .in_out = shape->in_out };
    if (!(shape->projections & which))
        return (struct attn_linear){ 0 };
    linear.weight = allocate_filled(c, out * in, 1.0f / sqrtf((float)in));
    if (shape->bias)
        linear.bias = allocate_filled(c, out, 0.5f);
    return linear;
}

/* One of query, key and value. It is rows if it is projected or not cut, otherwise heads. */
static struct attn_tensor make_input(struct layer_case *c, const struct shape *shape,
                                     unsigned which, int64_t heads, int64_t length, int64_t dim)
{
    if (shape->projections & which) {
        float *data = allocate_filled(c, length * shape->d_model, 1.0f);
        return attn_tensor_dense(data, ATTN_F32, 1, 1, length, shape->d_model);
    }
    float *data = allocate_filled(c, length * heads * dim, 1.0f);
    if (shape->flags & HEADS_CUT)
        return attn_tensor_dense(data, ATTN_F32, 1, heads, length, dim);
    return attn_tensor_dense(data, ATTN_F32, 1, 1, length, heads * dim);
}

static void add_masks(struct layer_case *c, const struct shape *shape, int64_t q_len,
                      int64_t key_count)
{
    struct attn_layer_problem *problem = &c->problem;
    if (shape->flags & MASKED) {
        float *mask = allocate_filled(c, q_len * key_count, 2.0f);
        for (int64_t i = 0; i < q_len * key_count; i++)
            if (mask[i] < -1.0f)
                mask[i] = -INFINITY;
        problem->mask = attn_tensor_dense(mask, ATTN_F32, 1, 1, q_len, key_count);
    }
    if (shape->flags & LENGTHS) {
        c->lengths[0] = key_count / 2;
        problem->kv_len = c->lengths;
    }
    if (shape->flags & ROW_LENGTHS) {
        int64_t *rows = allocate(c, q_len, sizeof *rows);
        for (int64_t i = 0; i < q_len; i++)
            rows[i] = fill_below(&c->fill, key_count + 2);
        problem->row_kv_len = rows;
    }
}

static void layer_case_init(struct layer_case *c, const struct shape *shape, int64_t q_len,
                            int64_t key_count)
{
    memset(c, 0, sizeof *c);
    c->fill.state = (uint64_t)(shape - SHAPES) * 1000 + (uint64_t)(q_len * 37 + key_count);
    struct attn_layer *layer = &c->layer;
    layer->q_heads = shape->q_heads;
    layer->kv_heads = shape->kv_heads;
    layer->head_dim = shape->head_dim;
    layer->v_head_dim = shape->v_head_dim;
    const int64_t d = shape->d_model;
    layer->q_proj = make_linear(c, shape, Q_PROJ, shape->q_heads * shape->head_dim, d);
    layer->k_proj = make_linear(c, shape, K_PROJ, shape->kv_heads * shape->head_dim, d);
    layer->v_proj = make_linear(c, shape, V_PROJ, shape->kv_heads * shape->v_head_dim, d);
    layer->gate_proj = make_linear(c, shape, GATE, shape->q_heads * shape->v_head_dim, d);
    layer->o_proj = make_linear(c, shape, O_PROJ, shape->d_out, shape->q_heads * shape->v_head_dim);
    if (shape->flags & (ADDITIVE | CONCAT))
        layer->additive_weight = allocate_filled(c, shape->head_dim, 1.0f);
    if (shape->flags & CONCAT) {
        const struct attn_linear joined = make_linear(c, shape, Q_PROJ, shape->head_dim, 2 * d);
        attn_linear_split(&joined, d, &layer->k_proj, &layer->q_proj);
    }
    if (shape->flags & NORM) {
        layer->q_norm =
            (struct attn_norm){ .weight = allocate_filled(c, shape->head_dim, 2.0f), .eps = 1e-6 };
        layer->k_norm =
            (struct attn_norm){ .weight = allocate_filled(c, shape->head_dim, 2.0f), .eps = 0.25 };
    }
    layer->rope = (struct attn_rope){ .dim = shape->rope_dim,
                                      .theta = 10000.0,
                                      .interleaved = shape->interleaved };
    struct attn_layer_problem *problem = &c->problem;
    problem->layer = layer;
    problem->options = attn_options_default(shape->head_dim);
    problem->options.causal = shape->flags & CAUSAL;
    problem->past_len = shape->past_len;
    problem->query = make_input(c, shape, Q_PROJ, shape->q_heads, q_len, shape->head_dim);
    problem->key = make_input(c, shape, K_PROJ, shape->kv_heads, key_count, shape->head_dim);
    problem->value = make_input(c, shape, V_PROJ, shape->kv_heads, key_count, shape->v_head_dim);
    if ((shape->flags & SELF) && q_len == key_count)
        problem->key = problem->value = problem->query;
    add_masks(c, shape, q_len, key_count);
}

static void **output(struct attn_layer_problem *problem, int index)
{
    void **const all[OUTPUT_COUNT] = { &problem->context,    &problem->lse,    &problem->scores,
                                       &problem->softcapped, &problem->masked, &problem->weights };
    return all[index];
}

static int64_t output_count(const struct attn_layer_problem *problem, int index)
{
    const int64_t q_len = problem->query.shape[2];
    const int64_t columns = index == 0   ? attn_layer_d_out(problem->layer)
                            : index == 1 ? problem->layer->q_heads
                                         : problem->layer->q_heads * problem->key.shape[2];
    return q_len * columns;
}

static void make_outputs(struct layer_case *c, unsigned set)
{
    for (int i = 0; i < OUTPUT_COUNT; i++) {
        *output(&c->problem, i) = NULL;
        if (set & (1u << i))
            *output(&c->problem, i) = allocate(c, output_count(&c->problem, i), sizeof(float));
    }
}

/* Runs all stages, the tasks of each forwards or backwards, on memory full of byte. */
static void run(const struct attn_layer_problem *problem, bool backwards, unsigned char byte)
{
    struct attn_layer_plan plan;
    const char *where = "";
    const enum attn_status status = attn_layer_plan_init(&plan, problem, &where);
    if (status != ATTN_OK)
        fail_msg("%s at %s", attn_status_name(status), where);
    assert_in_range(plan.stage_count, 0, ATTN_LAYER_STAGES_MAX);
    struct guard_buffer scratch = guard_alloc((plan.scratch_bytes + 63) / 64 * 64);
    struct guard_buffer workspace = guard_alloc((plan.workspace_bytes + 63) / 64 * 64);
    memset(scratch.data, byte, plan.scratch_bytes);
    for (int stage = 0; stage < plan.stage_count; stage++) {
        const int64_t count = plan.task_count[stage];
        assert_true(count >= 1);
        for (int64_t task = 0; task < count; task++) {
            memset(workspace.data, byte, plan.workspace_bytes);
            attn_layer_run(&plan, stage, backwards ? count - 1 - task : task, scratch.data,
                           workspace.data);
        }
    }
    guard_free(&scratch);
    guard_free(&workspace);
}

static int64_t compare(const float *got, const double *want, int64_t count, const char *name)
{
    int64_t wrong = 0;
    for (int64_t i = 0; i < count; i++) {
        const double x = (double)got[i], y = want[i];
        if (isinf(y) ? x == y : fabs(x - y) <= TOLERANCE * (1 + fabs(y)))
            continue;
        if (wrong++ == 0)
            print_error("%s[%" PRId64 "] = %.9g, want %.9g\n", name, i, x, y);
    }
    return wrong;
}

static int64_t compare_all(struct attn_layer_problem *problem, const struct reference *r)
{
    static const char *const names[OUTPUT_COUNT] = { "context",    "lse",    "scores",
                                                     "softcapped", "masked", "weights" };
    const double *const wants[OUTPUT_COUNT] = { r->projected,  r->lse,    r->scores,
                                                r->softcapped, r->masked, r->weights };
    int64_t wrong = 0;
    for (int i = 0; i < OUTPUT_COUNT; i++)
        wrong += compare(*output(problem, i), wants[i], output_count(problem, i), names[i]);
    return wrong;
}

/* Compares all outputs with the reference. Then the layer runs backwards on other scratch
 * memory, and with each output alone: the bits must be the same. */
static int64_t check_case(struct layer_case *c, const struct reference *reference)
{
    make_outputs(c, (1u << OUTPUT_COUNT) - 1);
    run(&c->problem, false, 0xFF);
    struct attn_layer_problem whole = c->problem;
    int64_t wrong = compare_all(&whole, reference);
    for (int i = -1; i < OUTPUT_COUNT; i++) {
        const int kept = c->buffer_count;
        make_outputs(c, i < 0 ? (1u << OUTPUT_COUNT) - 1 : 1u << i);
        run(&c->problem, i % 2 != 0, 0x7F);
        for (int o = 0; o < OUTPUT_COUNT; o++)
            if (*output(&c->problem, o) != NULL
                && memcmp(*output(&c->problem, o), *output(&whole, o),
                          (size_t)output_count(&whole, o) * sizeof(float))
                       != 0) {
                print_error("output %d has other bits in run %d\n", o, i);
                wrong++;
            }
        while (c->buffer_count > kept)
            guard_free(&c->buffers[--c->buffer_count]);
    }
    return wrong;
}

TEST(against_reference)
{
    static const int64_t lengths[][2] = { { 0, 3 },  { 1, 0 },   { 1, 1 },   { 1, 7 },   { 5, 5 },
                                          { 17, 9 }, { 16, 64 }, { 65, 65 }, { 130, 97 } };
    for (int s = 0; s < SHAPE_COUNT; s++)
        for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
            struct layer_case c;
            struct reference reference;
            layer_case_init(&c, &SHAPES[s], lengths[l][0], lengths[l][1]);
            reference_layer(&c.problem, &reference);
            const int64_t wrong = check_case(&c, &reference);
            if (wrong > 0)
                print_error("%s, q_len %" PRId64 ", kv_len %" PRId64 ": %" PRId64 " wrong\n",
                            SHAPES[s].name, lengths[l][0], lengths[l][1], wrong);
            reference_free(&reference);
            layer_case_free(&c);
            assert_int_equal(wrong, 0);
        }
}

/* So many rows that a product is cut into several tasks. */
TEST(many_rows)
{
    static const int shapes[] = { 0, 2, 5, 22 };
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        struct layer_case c;
        struct reference reference;
        layer_case_init(&c, &SHAPES[shapes[s]], 530, s == 0 || s == 3 ? 530 : 301);
        reference_layer(&c.problem, &reference);
        assert_int_equal(check_case(&c, &reference), 0);
        reference_free(&reference);
        layer_case_free(&c);
    }
}

TEST(every_table)
{
    for (const struct attn_kernels *const *k = attn_kernels_available(); *k != NULL; k++) {
        struct layer_case c;
        struct reference reference;
        layer_case_init(&c, &SHAPES[3], 70, 70);
        c.problem.kernels = *k;
        reference_layer(&c.problem, &reference);
        assert_int_equal(check_case(&c, &reference), 0);
        reference_free(&reference);
        layer_case_free(&c);
    }
}

/* Products around norms with rotary embedding, attention, and the gates of its context. */
TEST(parts_of_a_layer)
{
    static const enum attn_layer_part WANTED[] = { ATTN_PART_PRODUCT, ATTN_PART_ROTARY,
                                                   ATTN_PART_ATTENTION, ATTN_PART_ROWS,
                                                   ATTN_PART_PRODUCT };
    struct layer_case c;
    struct attn_layer_plan plan;
    const char *where = "";
    int shape = 0;
    while (strcmp(SHAPES[shape].name, "gate") != 0)
        shape++;
    layer_case_init(&c, &SHAPES[shape], 70, 70);
    make_outputs(&c, 1);
    assert_int_equal(attn_layer_plan_init(&plan, &c.problem, &where), ATTN_OK);
    assert_int_equal(plan.stage_count, sizeof WANTED / sizeof WANTED[0]);
    for (int stage = 0; stage < plan.stage_count; stage++)
        assert_int_equal(attn_layer_part(&plan, stage), WANTED[stage]);
    layer_case_free(&c);
}

TEST(d_out)
{
    for (int s = 0; s < SHAPE_COUNT; s++) {
        struct layer_case c;
        layer_case_init(&c, &SHAPES[s], 1, 1);
        const bool projected = SHAPES[s].projections & O_PROJ;
        assert_int_equal(attn_layer_d_out(&c.layer),
                         projected ? SHAPES[s].d_out : SHAPES[s].q_heads * SHAPES[s].v_head_dim);
        layer_case_free(&c);
    }
}

/* If no output is asked for, or there is no query, then nothing must be run. */
TEST(nothing_to_compute)
{
    struct layer_case c;
    struct attn_layer_plan plan;
    layer_case_init(&c, &SHAPES[0], 0, 4);
    make_outputs(&c, (1u << OUTPUT_COUNT) - 1);
    assert_int_equal(attn_layer_plan_init(&plan, &c.problem, NULL), ATTN_OK);
    assert_int_equal(plan.stage_count, 0);
    layer_case_free(&c);
}

/* ------------------------------------------------------------ bad layers -- */

struct bad {
    size_t offset; /* of an int64_t in struct layer_case */
    int64_t value;
    enum attn_status status;
    const char *part; /* of the field's name */
};

#define LAYER(field)   offsetof(struct layer_case, layer.field)
#define PROBLEM(field) offsetof(struct layer_case, problem.field)

/* Of the fourth shape: 8/4 heads of 8, width 64, rotary embedding of 8 columns. */
static const struct bad BADS[] = {
    { LAYER(q_heads), 6, ATTN_ERR_HEADS, "heads" },
    { LAYER(q_heads), 0, ATTN_ERR_SHAPE, "q_heads" },
    { LAYER(kv_heads), -1, ATTN_ERR_SHAPE, "kv_heads" },
    { LAYER(head_dim), 0, ATTN_ERR_SHAPE, "head_dim" },
    { LAYER(v_head_dim), 0, ATTN_ERR_SHAPE, "v_head_dim" },
    { LAYER(q_proj.out), 63, ATTN_ERR_SHAPE, "q_proj" },
    { LAYER(q_proj.stride), 63, ATTN_ERR_STRIDE, "q_proj" },
    { LAYER(k_proj.stride), -1, ATTN_ERR_STRIDE, "k_proj" },
    { LAYER(v_proj.stride), INT64_C(1) << 31, ATTN_ERR_TOO_LARGE, "v_proj" },
    { LAYER(k_proj.out), 64, ATTN_ERR_SHAPE, "k_proj" },
    { LAYER(v_proj.out), 31, ATTN_ERR_SHAPE, "v_proj" },
    { LAYER(o_proj.in), 32, ATTN_ERR_SHAPE, "o_proj" },
    { LAYER(o_proj.out), 0, ATTN_ERR_SHAPE, "o_proj" },
    { LAYER(rope.dim), 7, ATTN_ERR_OPTION, "rope.dim" },
    { LAYER(rope.dim), 10, ATTN_ERR_OPTION, "rope.dim" },
    { LAYER(rope.dim), -2, ATTN_ERR_OPTION, "rope.dim" },
    { PROBLEM(query.shape[3]), 63, ATTN_ERR_SHAPE, "query.shape[3]" },
    { PROBLEM(key.shape[3]), 65, ATTN_ERR_SHAPE, "key.shape[3]" },
    { PROBLEM(value.shape[3]), 32, ATTN_ERR_SHAPE, "value.shape[3]" },
    { PROBLEM(query.shape[0]), 2, ATTN_ERR_SHAPE, "query.shape[0]" },
    { PROBLEM(query.shape[1]), 8, ATTN_ERR_SHAPE, "query.shape[1]" },
    { PROBLEM(value.shape[2]), 5, ATTN_ERR_SHAPE, "value.shape[2]" },
    { PROBLEM(query.shape[2]), -1, ATTN_ERR_SHAPE, "query.shape[2]" },
    { PROBLEM(options.window_left), -2, ATTN_ERR_OPTION, "window_left" },
};

TEST(bad_layers)
{
    for (size_t i = 0; i < sizeof BADS / sizeof BADS[0]; i++) {
        const struct bad *bad = &BADS[i];
        struct layer_case c;
        struct attn_layer_plan plan;
        const char *where = "nothing";
        layer_case_init(&c, &SHAPES[3], 4, 4);
        make_outputs(&c, 1);
        assert_int_equal(attn_layer_plan_init(&plan, &c.problem, &where), ATTN_OK);
        memcpy((char *)&c + bad->offset, &bad->value, sizeof bad->value);
        const enum attn_status got = attn_layer_plan_init(&plan, &c.problem, &where);
        layer_case_free(&c);
        if (got != bad->status || strstr(where, bad->part) == NULL)
            fail_msg("line %zu: %s at %s, want %s at %s", i, attn_status_name(got), where,
                     attn_status_name(bad->status), bad->part);
    }
}

/* Of the shape with a gate: 4 heads of 6 values, width 24. */
TEST(bad_gates)
{
    static const struct bad bads[] = {
        { LAYER(gate_proj.out), 23, ATTN_ERR_SHAPE, "layer.gate_proj.out" },
        { LAYER(gate_proj.in), 25, ATTN_ERR_SHAPE, "layer.gate_proj.in" },
        { LAYER(gate_proj.stride), 23, ATTN_ERR_STRIDE, "layer.gate_proj.stride" },
        { LAYER(gate_proj.stride), INT64_C(1) << 31, ATTN_ERR_TOO_LARGE, "layer.gate_proj.stride" },
        { LAYER(q_proj.weight), 0, ATTN_ERR_NO_DATA, "layer.q_proj" },
    };
    for (size_t i = 0; i < sizeof bads / sizeof bads[0]; i++) {
        struct layer_case c;
        struct attn_layer_plan plan;
        const char *where = "nothing";
        layer_case_init(&c, &SHAPES[22], 4, 4);
        make_outputs(&c, 1);
        memcpy((char *)&c + bads[i].offset, &bads[i].value, sizeof bads[i].value);
        assert_int_equal(attn_layer_plan_init(&plan, &c.problem, &where), bads[i].status);
        assert_string_equal(where, bads[i].part);
        layer_case_free(&c);
    }
}

TEST(bad_lengths_and_data)
{
    struct layer_case c;
    struct attn_layer_plan plan;
    const char *where = "nothing";
    layer_case_init(&c, &SHAPES[3], 4, 4);
    make_outputs(&c, 1);
    c.problem.kv_len = c.lengths;
    c.lengths[0] = -1;
    assert_int_equal(attn_layer_plan_init(&plan, &c.problem, &where), ATTN_ERR_LENGTH);
    assert_string_equal(where, "kv_len");
    c.lengths[0] = 1000;
    assert_int_equal(attn_layer_plan_init(&plan, &c.problem, &where), ATTN_OK);
    static const double thetas[] = { 0.0, -1.0, (double)NAN, (double)INFINITY };
    for (size_t i = 0; i < sizeof thetas / sizeof thetas[0]; i++) {
        c.layer.rope.theta = thetas[i];
        assert_int_equal(attn_layer_plan_init(&plan, &c.problem, &where), ATTN_ERR_OPTION);
        assert_string_equal(where, "layer.rope.theta");
    }
    c.layer.rope.theta = 10000.0;
    c.problem.query.dtype = ATTN_F64;
    assert_int_equal(attn_layer_plan_init(&plan, &c.problem, &where), ATTN_ERR_DTYPE);
    c.problem.query.dtype = ATTN_F32;
    c.problem.key.data = NULL;
    assert_int_equal(attn_layer_plan_init(&plan, &c.problem, &where), ATTN_ERR_NO_DATA);
    assert_non_null(strstr(where, "key"));
    layer_case_free(&c);
}

int main(void)
{
    openblas_set_num_threads(1);
    return test_run(NULL);
}
