/* SPDX-License-Identifier: Apache-2.0 */
/* test_layer_halves.c - a layer whose matrices are F16 or BF16 has, to the bit, the answers and
 * gradients of a layer whose matrices hold the same numbers in F32, whatever the table, the
 * layout and the number of rows; except on a matrix unit, which multiplies matrices of 16 bits
 * alone, and where they are as near as sums in float are. Each matrix ends at an unreadable page,
 * at any alignment of its numbers. */
#include "attention_case.h"
#include "fill.h"
#include "guard.h"
#include "kernel_tables.h"
#include "layer_gradient.h"
#include "number.h"
#include "test.h"

#include "kernels/kernels.h"

#include <cblas.h>

#include <inttypes.h>

enum { Q_HEADS = 4, KV_HEADS = 2, HEAD_DIM = 9, V_HEAD_DIM = 11, D_MODEL = 67, D_OUT = 53 };
enum { MATRICES = 4, KV_LEN = 21, ROWS_MAX = 150, NUMBERS_MAX = 12000, BUFFERS_MAX = 12 };

static const enum attn_dtype HALVES[] = { ATTN_F16, ATTN_BF16 };

struct case_of_halves {
    struct attn_layer halves, floats;
    struct guard_buffer buffers[BUFFERS_MAX];
    int buffer_count;
    float query[ROWS_MAX * D_MODEL], key[KV_LEN * D_MODEL];
    float q_bias[Q_HEADS * HEAD_DIM], o_bias[D_OUT];
};

static void *allocate(struct case_of_halves *c, size_t size)
{
    struct guard_buffer *buffer = &c->buffers[c->buffer_count++];
    *buffer = guard_alloc(size);
    return buffer->data;
}

/* Makes the same matrix twice, with the same gap between its rows. */
static void make_linear(struct case_of_halves *c, struct fill *fill, enum attn_dtype dtype,
                        struct attn_linear *halves, struct attn_linear *floats)
{
    const int64_t rows = halves->in_out ? halves->in : halves->out;
    const int64_t columns = halves->in_out ? halves->out : halves->in;
    const int64_t stride = columns + (int64_t)(fill_bits(fill) % 3);
    const int64_t count = (rows - 1) * stride + columns;
    uint16_t *numbers = allocate(c, (size_t)count * sizeof *numbers);
    float *same = allocate(c, (size_t)count * sizeof *same);
    for (int64_t i = 0; i < count; i++) {
        number_set(numbers, dtype, i, (double)fill_float(fill, -0.3f, 0.3f));
        same[i] = (float)number_get(numbers, dtype, i);
    }
    halves->stride = floats->stride = stride;
    halves->weight = numbers;
    halves->dtype = dtype;
    floats->weight = same;
}

static void make_case(struct case_of_halves *c, enum attn_dtype dtype, bool in_out, uint64_t seed)
{
    struct fill fill = { seed };
    struct attn_linear *const halves[MATRICES] = { &c->halves.q_proj, &c->halves.k_proj,
                                                   &c->halves.v_proj, &c->halves.o_proj };
    struct attn_linear *const floats[MATRICES] = { &c->floats.q_proj, &c->floats.k_proj,
                                                   &c->floats.v_proj, &c->floats.o_proj };
    memset(c, 0, sizeof *c);
    c->halves = (struct attn_layer){
        .q_heads = Q_HEADS,
        .kv_heads = KV_HEADS,
        .head_dim = HEAD_DIM,
        .v_head_dim = V_HEAD_DIM,
        .q_proj = { NULL, c->q_bias, Q_HEADS * HEAD_DIM, D_MODEL, in_out, 0, ATTN_F32 },
        .k_proj = { NULL, NULL, KV_HEADS * HEAD_DIM, D_MODEL, in_out, 0, ATTN_F32 },
        .v_proj = { NULL, NULL, KV_HEADS * V_HEAD_DIM, D_MODEL, in_out, 0, ATTN_F32 },
        .o_proj = { NULL, c->o_bias, D_OUT, Q_HEADS * V_HEAD_DIM, in_out, 0, ATTN_F32 },
    };
    c->floats = c->halves;
    for (int i = 0; i < MATRICES; i++)
        make_linear(c, &fill, dtype, halves[i], floats[i]);
    fill_floats(&fill, c->query, ROWS_MAX * D_MODEL, -1, 1);
    fill_floats(&fill, c->key, KV_LEN * D_MODEL, -1, 1);
    fill_floats(&fill, c->q_bias, Q_HEADS * HEAD_DIM, -1, 1);
    fill_floats(&fill, c->o_bias, D_OUT, -1, 1);
}

static void free_case(struct case_of_halves *c)
{
    while (c->buffer_count > 0)
        guard_free(&c->buffers[--c->buffer_count]);
}

static struct attn_layer_problem problem_of(struct case_of_halves *c,
                                            const struct attn_layer *layer, int64_t rows,
                                            const struct attn_kernels *kernels)
{
    return (struct attn_layer_problem){
        .layer = layer,
        .options = attn_options_default(HEAD_DIM),
        .query = attn_tensor_dense(c->query, ATTN_F32, 1, 1, rows, D_MODEL),
        .key = attn_tensor_dense(c->key, ATTN_F32, 1, 1, KV_LEN, D_MODEL),
        .value = attn_tensor_dense(c->key, ATTN_F32, 1, 1, KV_LEN, D_MODEL),
        .kernels = kernels,
    };
}

static void expect_same(const struct attn_kernels *kernels, const float *halves,
                        const float *floats, int64_t count, int64_t rows)
{
    const double limit = kernels->matrix ? 4e-6 : 0;
    for (int64_t i = 0; i < count; i++) {
        const double a = (double)halves[i], b = (double)floats[i];
        if (limit > 0 ? !(fabs(a - b) <= limit * (1 + fabs(b)))
                      : memcmp(&halves[i], &floats[i], sizeof halves[i]) != 0)
            fail_msg("%s, %" PRId64 " rows: number %" PRId64 " is %.9g, of floats %.9g",
                     attn_kernels_name(kernels), rows, i, a, b);
    }
}

/* ---------------------------------------------------------------------------- answers -- */

static void check_answer(struct case_of_halves *c, int64_t rows, const struct attn_kernels *kernels)
{
    static float context[2][ROWS_MAX * D_OUT], lse[2][Q_HEADS * ROWS_MAX];
    const struct attn_layer *const layers[] = { &c->halves, &c->floats };
    for (int i = 0; i < 2; i++) {
        struct attn_layer_problem problem = problem_of(c, layers[i], rows, kernels);
        problem.context = context[i];
        problem.lse = lse[i];
        attention_run_layer(&problem);
    }
    expect_same(kernels, context[0], context[1], rows * D_OUT, rows);
    expect_same(kernels, lse[0], lse[1], Q_HEADS * rows, rows);
}

TEST(answers)
{
    static const int64_t ROWS[] = { 1, 2, 3, 4, 5, 8, 9, 16, 17, 33, 64, 70, ROWS_MAX };
    static struct case_of_halves c;
    for (const struct attn_kernels *const *table = kernel_tables(); *table; table++)
        for (uint64_t seed = 0; seed < 6; seed++) {
            make_case(&c, HALVES[seed % 2], seed / 2 % 2 == 0, seed);
            for (int r = 0; r < 13; r++)
                check_answer(&c, ROWS[r], *table);
            free_case(&c);
        }
}

/* -------------------------------------------------------------------------- gradients -- */

/* Computes all gradients of a layer, one after the other. */
static void run_gradients(struct case_of_halves *c, const struct attn_layer *layer, int64_t rows,
                          const struct attn_kernels *kernels, float *numbers)
{
    static float context_gradient[ROWS_MAX * D_OUT];
    struct fill fill = { 99 };
    struct attn_layer_gradient_plan plan;
    struct attn_layer_gradient_problem problem = {
        .layer = problem_of(c, layer, rows, kernels),
        .context_gradient = context_gradient,
        .query = numbers,
        .key = problem.query + rows * D_MODEL,
        .value = problem.key + KV_LEN * D_MODEL,
    };
    float *next = problem.value + KV_LEN * D_MODEL;
    const struct attn_linear *const linears[] = { &layer->q_proj, &layer->k_proj, &layer->v_proj,
                                                  &layer->o_proj };
    struct attn_linear_gradient *const gradients[] = { &problem.q_proj, &problem.k_proj,
                                                       &problem.v_proj, &problem.o_proj };
    for (int i = 0; i < MATRICES; i++) {
        gradients[i]->weight = next;
        next += (linears[i]->in_out ? linears[i]->in : linears[i]->out) * linears[i]->stride;
    }
    assert_true(next - numbers <= NUMBERS_MAX + rows * D_MODEL);
    fill_floats(&fill, context_gradient, rows * D_OUT, -1, 1);
    assert_int_equal(attn_layer_gradient_plan_init(&plan, &problem, NULL), ATTN_OK);
    struct guard_buffer scratch = guard_alloc((plan.scratch_bytes + 63) / 64 * 64);
    struct guard_buffer workspace = guard_alloc((plan.workspace_bytes + 63) / 64 * 64);
    for (int stage = 0; stage < plan.stage_count; stage++)
        for (int64_t task = plan.task_count[stage]; task-- > 0;)
            attn_layer_gradient_run(&plan, stage, task, scratch.data, workspace.data);
    guard_free(&scratch);
    guard_free(&workspace);
}

TEST(gradients)
{
    static const int64_t ROWS[] = { 1, 7, ROWS_MAX };
    static float numbers[2][NUMBERS_MAX + ROWS_MAX * D_MODEL];
    static struct case_of_halves c;
    for (const struct attn_kernels *const *table = kernel_tables(); *table; table++)
        for (uint64_t seed = 0; seed < 4; seed++) {
            make_case(&c, HALVES[seed % 2], seed / 2 == 0, seed);
            for (int r = 0; r < 3; r++) {
                memset(numbers, 0, sizeof numbers);
                run_gradients(&c, &c.halves, ROWS[r], *table, numbers[0]);
                run_gradients(&c, &c.floats, ROWS[r], *table, numbers[1]);
                expect_same(*table, numbers[0], numbers[1], NUMBERS_MAX + ROWS_MAX * D_MODEL,
                            ROWS[r]);
                assert_true(numbers[0][0] < 0 || numbers[0][0] > 0);
            }
            free_case(&c);
        }
}

/* ---------------------------------------------------------------------------- refused -- */

TEST(refused)
{
    static const enum attn_dtype OTHERS[] = { ATTN_F64, ATTN_BOOL };
    static const char *const FIELDS[] = { "layer.q_proj", "layer.k_proj", "layer.v_proj",
                                          "layer.o_proj.dtype" };
    static struct case_of_halves c;
    static float context[D_OUT];
    make_case(&c, ATTN_BF16, false, 1);
    for (int i = 0; i < 2 * MATRICES; i++) {
        struct attn_layer layer = c.halves;
        struct attn_linear *const linears[MATRICES] = { &layer.q_proj, &layer.k_proj, &layer.v_proj,
                                                        &layer.o_proj };
        struct attn_layer_problem problem = problem_of(&c, &layer, 1, NULL);
        struct attn_layer_plan plan;
        const char *where = "";
        linears[i / 2]->dtype = OTHERS[i % 2];
        problem.context = context;
        assert_int_equal(attn_layer_plan_init(&plan, &problem, &where), ATTN_ERR_DTYPE);
        assert_string_equal(where, FIELDS[i / 2]);
    }
    free_case(&c);
}

int main(void)
{
    openblas_set_num_threads(1);
    return test_run(NULL);
}
