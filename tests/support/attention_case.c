/* SPDX-License-Identifier: Apache-2.0 */
/* attention_case.c - makes, runs and compares calls of attention for the tests. */
#include "attention_case.h"

#include "number.h"

#include <inttypes.h>
#include <math.h>

void *attention_case_alloc(struct attention_case *c, size_t bytes)
{
    if (c->buffer_count == ATTENTION_CASE_BUFFERS) {
        fprintf(stderr, "attention_case: too many buffers\n");
        exit(1);
    }
    struct guard_buffer *buffer = &c->buffers[c->buffer_count++];
    *buffer = guard_alloc(bytes);
    return buffer->data;
}

struct attn_tensor attention_case_tensor(struct attention_case *c, enum attn_dtype dtype,
                                         enum attention_layout layout, int64_t batch, int64_t heads,
                                         int64_t length, int64_t head_dim)
{
    const size_t size = attn_dtype_size(dtype);
    const int64_t rows = batch * heads * length;
    if (layout == LAYOUT_ROWS) {
        void *data = attention_case_alloc(c, (size_t)(rows * head_dim) * size);
        return attn_tensor_rows(data, dtype, batch, heads, length, head_dim, heads * head_dim);
    }
    if (layout == LAYOUT_GAPS) {
        const int64_t row = head_dim + 3, head = length * row + 5, item = heads * head + 7;
        struct attn_tensor tensor = { .dtype = dtype,
                                      .shape = { batch, heads, length, head_dim },
                                      .stride = { item, head, row, 1 } };
        tensor.data = attention_case_alloc(c, (size_t)(batch * item) * size);
        return tensor;
    }
    if (layout == LAYOUT_BROADCAST) {
        void *data = attention_case_alloc(c, (size_t)(length * head_dim) * size);
        struct attn_tensor tensor = attn_tensor_dense(data, dtype, batch, heads, length, head_dim);
        tensor.stride[0] = 0;
        tensor.stride[1] = 0;
        return tensor;
    }
    void *data = attention_case_alloc(c, (size_t)(rows * head_dim) * size);
    return attn_tensor_dense(data, dtype, batch, heads, length, head_dim);
}

float *attention_at(const struct attn_tensor *tensor, int64_t b, int64_t h, int64_t l, int64_t d)
{
    return (float *)tensor->data + b * tensor->stride[0] + h * tensor->stride[1]
           + l * tensor->stride[2] + d * tensor->stride[3];
}

static void fill_tensor(struct fill *fill, const struct attn_tensor *tensor)
{
    for (int64_t b = 0; b < tensor->shape[0]; b++)
        for (int64_t h = 0; h < tensor->shape[1]; h++)
            for (int64_t l = 0; l < tensor->shape[2]; l++)
                for (int64_t d = 0; d < tensor->shape[3]; d++)
                    *attention_at(tensor, b, h, l, d) = fill_float(fill, -1, 1);
}

void attention_case_init(struct attention_case *c, const struct attention_sizes *sizes,
                         enum attention_layout layout, uint64_t seed)
{
    const struct attention_sizes *s = sizes;
    struct fill fill = { seed };
    memset(c, 0, sizeof *c);
    c->problem.options = attn_options_default(s->head_dim);
    c->problem.query =
        attention_case_tensor(c, ATTN_F32, layout == LAYOUT_BROADCAST ? LAYOUT_DENSE : layout,
                              s->batch, s->q_heads, s->q_len, s->head_dim);
    c->problem.key =
        attention_case_tensor(c, ATTN_F32, layout, s->batch, s->kv_heads, s->kv_len, s->head_dim);
    c->problem.value =
        attention_case_tensor(c, ATTN_F32, layout, s->batch, s->kv_heads, s->kv_len, s->v_head_dim);
    fill_tensor(&fill, &c->problem.query);
    fill_tensor(&fill, &c->problem.key);
    fill_tensor(&fill, &c->problem.value);
}

void attention_case_free(struct attention_case *c)
{
    for (int i = 0; i < c->buffer_count; i++)
        guard_free(&c->buffers[i]);
    memset(c, 0, sizeof *c);
}

struct attn_tensor *attention_output(struct attn_problem *problem, int index)
{
    return &problem->out[index];
}

const char *attention_output_name(int index)
{
    static const char *const names[OUT_COUNT] = {
#define X(NAME, name, columns, step) #name,
        ATTN_OUTPUT_MAP(X)
#undef X
    };
    return names[index];
}

void attention_case_outputs(struct attention_case *c, unsigned set, enum attention_layout layout)
{
    enum attn_dtype f32[OUT_COUNT];
    for (int i = 0; i < OUT_COUNT; i++)
        f32[i] = ATTN_F32;
    attention_case_outputs_of(c, set, layout, f32);
}

void attention_case_outputs_of(struct attention_case *c, unsigned set, enum attention_layout layout,
                               const enum attn_dtype dtypes[OUT_COUNT])
{
    const int64_t *query = c->problem.query.shape;
    for (int i = 0; i < OUT_COUNT; i++) {
        struct attn_tensor *output = attention_output(&c->problem, i);
        const int64_t columns = attn_output_is_map((enum attn_output)i) ? c->problem.key.shape[2]
                                : i == ATTN_OUTPUT_CONTEXT              ? c->problem.value.shape[3]
                                                                        : 1;
        memset(output, 0, sizeof *output);
        if (set & (1u << i))
            *output =
                attention_case_tensor(c, dtypes[i], layout, query[0], query[1], query[2], columns);
    }
}

struct guard_buffer attention_workspace(const struct attn_plan *plan, unsigned char byte,
                                        void **workspace)
{
    /* The size is rounded up to the alignment, so the guard page begins less than 64 bytes
     * behind the end. */
    struct guard_buffer buffer = guard_alloc((plan->workspace_bytes + 63) / 64 * 64);
    memset(buffer.data, byte, plan->workspace_bytes);
    *workspace = buffer.data;
    return buffer;
}

static void expect_ok(enum attn_status status, const char *where)
{
    if (status == ATTN_OK)
        return;
    fprintf(stderr, "the plan was refused: %s at %s\n", attn_status_name(status), where);
    exit(1);
}

void attention_run(const struct attn_problem *problem)
{
    struct attn_plan plan;
    const char *where = "";
    expect_ok(attn_plan_init(&plan, problem, &where), where);
    void *workspace;
    struct guard_buffer buffer = attention_workspace(&plan, 0xFF, &workspace); /* NaN */
    for (int64_t task = 0; task < plan.task_count; task++)
        attn_plan_run(&plan, task, workspace);
    guard_free(&buffer);
}

void attention_run_layer(const struct attn_layer_problem *problem)
{
    struct attn_layer_plan plan;
    const char *where = "";
    expect_ok(attn_layer_plan_init(&plan, problem, &where), where);
    struct guard_buffer scratch = guard_alloc((plan.scratch_bytes + 63) / 64 * 64);
    struct guard_buffer workspace = guard_alloc((plan.workspace_bytes + 63) / 64 * 64);
    memset(scratch.data, 0xFF, plan.scratch_bytes);
    memset(workspace.data, 0xFF, plan.workspace_bytes);
    for (int stage = 0; stage < plan.stage_count; stage++)
        for (int64_t task = 0; task < plan.task_count[stage]; task++)
            attn_layer_run(&plan, stage, task, scratch.data, workspace.data);
    guard_free(&scratch);
    guard_free(&workspace);
}

static bool is_near(double got, double want, double tolerance, bool exact_zero)
{
    if (isinf(want) || isinf(got) || (exact_zero && want == 0.0))
        return got == want;
    return fabs(got - want) <= tolerance * (1 + fabs(want)); /* false where got is NaN */
}

static int64_t compare_output(const struct attn_tensor *got, const double *want, int index,
                              double tolerance)
{
    int64_t wrong = 0;
    for (int64_t b = 0; b < got->shape[0]; b++)
        for (int64_t h = 0; h < got->shape[1]; h++)
            for (int64_t i = 0; i < got->shape[2]; i++)
                for (int64_t j = 0; j < got->shape[3]; j++, want++) {
                    const double x = number_at(got, b, h, i, j);
                    /* A masked weight and the context of an empty row are 0, not nearly 0. */
                    if (is_near(x, *want, tolerance, index == 0 || index == 5))
                        continue;
                    if (wrong++ == 0)
                        fprintf(stderr,
                                "%s[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64
                                "] = %.9g, want %.9g\n",
                                attention_output_name(index), b, h, i, j, x, *want);
                }
    return wrong;
}

int64_t attention_compare(const struct attn_problem *problem, const struct reference *reference,
                          double tolerance)
{
    struct attn_problem copy = *problem;
    int64_t wrong = 0;
    for (int i = 0; i < OUT_COUNT; i++)
        if (attention_output(&copy, i)->data != NULL)
            wrong += compare_output(attention_output(&copy, i), reference->out[i], i, tolerance);
    return wrong;
}

int64_t attention_differing_bits(const struct attn_tensor *a, const struct attn_tensor *b)
{
    int64_t differing = 0;
    for (int64_t n = 0; n < a->shape[0]; n++)
        for (int64_t h = 0; h < a->shape[1]; h++)
            for (int64_t i = 0; i < a->shape[2]; i++)
                for (int64_t j = 0; j < a->shape[3]; j++) {
                    const float *x = attention_at(a, n, h, i, j), *y = attention_at(b, n, h, i, j);
                    if (memcmp(x, y, sizeof *x) == 0)
                        continue;
                    if (differing++ == 0)
                        fprintf(stderr,
                                "[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64
                                "]: %.9g and %.9g\n",
                                n, h, i, j, (double)*x, (double)*y);
                }
    return differing;
}
