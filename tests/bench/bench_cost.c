/* SPDX-License-Identifier: Apache-2.0 */
/* bench_cost.c - how well the cost of work is predicted. The work is the shapes of the other
 * benches, layers with projections, and numbers in JSON. The bench shows the CPU time of each on
 * one core beside what server/scheduler/cost.h says of it. "at start" uses the rates that the
 * daemon fits to the machine before it is ready. "as it runs" uses the rates after each piece of
 * work has been observed some times, in turn. */
#include "base/clock.h"
#include "call/cost_fit.h"
#include "gradient.h"
#include "own.h"
#include "scheduler/cost.h"
#include "json/json.h"
#include "json/text.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS_MAX = 9, CASES_MAX = 96, ROUNDS = 40 };

static struct seen {
    char name[48];
    struct cost cost;
    int64_t actual_ns;
    double error_at_start;
} seen[CASES_MAX];
static int seen_count;

/* Takes the median of some runs; short runs are repeated more often. */
static void see(const char *name, const struct cost *cost, void (*run)(void *context),
                void *context)
{
    double ns[RUNS_MAX];
    int count = 0;
    run(context);
    for (double spent_ns = 0; count < RUNS_MAX && (count < 3 || spent_ns < 2e8); count++) {
        const int64_t start_ns = clock_thread_ns();
        run(context);
        ns[count] = (double)(clock_thread_ns() - start_ns);
        spent_ns += ns[count];
    }
    struct seen *new = &seen[seen_count++];
    snprintf(new->name, sizeof new->name, "%s", name);
    new->cost = *cost;
    new->actual_ns = (int64_t)median(ns, count);
    new->error_at_start = (double)cost_ns(cost) / (double)new->actual_ns - 1;
}

static void *memory(size_t bytes)
{
    void *made = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (!made)
        abort();
    return made;
}

static void expect(enum attn_status status, const char *where)
{
    if (status == ATTN_OK)
        return;
    fprintf(stderr, "%s: %s\n", attn_status_name(status), where);
    abort();
}

/* ---------------------------------------------------------------- attention -- */

static const struct bench_shape attention_shapes[] = {
    { 1, 12, 12, 512, 512, 64, 0, 1 },   { 1, 12, 12, 512, 512, 64, 1, 1 },
    { 8, 12, 12, 128, 128, 64, 0, 1 },   { 8, 12, 12, 128, 128, 64, 1, 1 },
    { 1, 12, 12, 2048, 2048, 64, 0, 1 }, { 1, 12, 12, 2048, 2048, 64, 1, 1 },
    { 1, 8, 8, 4096, 4096, 128, 0, 1 },  { 1, 8, 8, 4096, 4096, 128, 1, 1 },
    { 1, 12, 12, 1, 4096, 64, 0, 1 },    { 1, 32, 8, 1, 32768, 128, 0, 1 },
    { 64, 12, 12, 1, 512, 64, 0, 1 },    { 1, 12, 12, 4, 4096, 64, 0, 1 },
    { 1, 12, 12, 15, 4096, 64, 0, 1 },
};

static const struct bench_shape gradient_shapes[] = {
    { 1, 12, 12, 512, 512, 64, 0, 1 },  { 1, 12, 12, 512, 512, 64, 1, 1 },
    { 1, 4, 4, 1024, 1024, 64, 0, 1 },  { 1, 2, 2, 2048, 2048, 64, 0, 1 },
    { 1, 2, 2, 2048, 2048, 64, 1, 1 },  { 1, 4, 4, 512, 512, 128, 0, 1 },
    { 1, 2, 2, 2048, 2048, 128, 0, 1 }, { 1, 8, 2, 512, 512, 64, 0, 1 },
    { 8, 12, 12, 128, 128, 64, 0, 1 },
};

static const struct bench_shape option_shape = { 1, 4, 4, 512, 512, 64, 0, 1 };

static void run_own(void *context)
{
    own_time(context);
}

static void see_own(const char *what, const struct bench_shape *s, struct own *own)
{
    char name[48];
    struct attn_work work = { 0 };
    struct cost cost = { { 0 } };
    snprintf(name, sizeof name, "%s %d,%d,%d,%d,%d,%d%s", what, s->batch, s->q_heads, s->kv_heads,
             s->q_len, s->kv_len, s->head_dim, s->causal ? " causal" : "");
    own_plan(own);
    attn_plan_work(&own->plan, 0, &work);
    cost_add_work(&cost, &work);
    see(name, &cost, run_own, own);
}

static void see_attention(const struct bench_shape *shape)
{
    struct own own;
    own_init(&own, shape);
    see_own("attention", shape, &own);
    own_free(&own);
}

/* Tries one option at a time. */
static void see_options(void)
{
    const struct bench_shape *s = &option_shape;
    const size_t map = (size_t)s->q_heads * (size_t)s->q_len * (size_t)s->kv_len;
    static const char *const names[] = { "softcap", "window 64", "weights", "mask",    "ALiBi",
                                         "dropout", "sparsemax", "double",  "additive" };
    float slopes[4] = { 0.5f, 0.25f, 0.125f, 0.0625f }, weight[64];
    float *numbers = memory(map * sizeof *numbers);
    bench_fill(numbers, map, BENCH_VALUE);
    bench_fill(weight, 64, BENCH_VALUE);
    for (int i = 0; i < 9; i++) {
        struct own own;
        own_init(&own, s);
        struct attn_options *options = &own.problem.options;
        if (i == 0)
            options->softcap = 30;
        if (i == 1)
            options->window_left = options->window_right = 64;
        if (i == 2)
            own.problem.weights =
                attn_tensor_dense(numbers, ATTN_F32, 1, s->q_heads, s->q_len, s->kv_len);
        if (i == 3)
            own.problem.mask =
                attn_tensor_dense(numbers, ATTN_F32, 1, s->q_heads, s->q_len, s->kv_len);
        if (i == 4)
            own.problem.alibi_slopes = slopes;
        if (i == 5)
            options->dropout = 0.1f;
        if (i == 6)
            options->normalizer = ATTN_SPARSEMAX;
        if (i == 7)
            options->softmax_precision = ATTN_F64;
        if (i == 8)
            own.problem.additive_weight = weight;
        see_own(names[i], s, &own);
        own_free(&own);
    }
    free(numbers);
}

struct way_back {
    struct attn_gradient_plan plan;
    void *scratch, *workspace;
};

static void run_gradient(void *context)
{
    const struct way_back *way = context;
    for (int stage = 0; stage < ATTN_GRADIENT_STAGES; stage++)
        for (int64_t task = 0; task < way->plan.task_count[stage]; task++)
            attn_gradient_run(&way->plan, stage, task, way->scratch, way->workspace);
}

static void see_gradient(const struct bench_shape *s)
{
    struct attn_gradient_problem problem = { .has_forward = false };
    struct attn_work work = { 0 };
    struct cost cost = { { 0 } };
    struct way_back way;
    struct own own;
    char name[48];
    const char *where = "";
    own_init(&own, s);
    struct attn_tensor *const outputs[] = { &problem.query_gradient, &problem.key_gradient,
                                            &problem.value_gradient };
    const struct attn_tensor *const inputs[] = { &own.problem.query, &own.problem.key,
                                                 &own.problem.value };
    problem.attention = own.problem;
    problem.context_gradient = own.problem.context;
    for (int i = 0; i < 3; i++) {
        const int64_t *n = inputs[i]->shape;
        *outputs[i] = attn_tensor_dense(memory((size_t)(n[0] * n[1] * n[2] * n[3]) * sizeof(float)),
                                        ATTN_F32, n[0], n[1], n[2], n[3]);
    }
    expect(attn_gradient_plan_init(&way.plan, &problem, &where), where);
    way.scratch = memory(way.plan.scratch_bytes);
    way.workspace = memory(way.plan.workspace_bytes);
    attn_gradient_plan_work(&way.plan, 0, &work);
    cost_add_work(&cost, &work);
    snprintf(name, sizeof name, "gradient %d,%d,%d,%d,%d,%d%s", s->batch, s->q_heads, s->kv_heads,
             s->q_len, s->kv_len, s->head_dim, s->causal ? " causal" : "");
    see(name, &cost, run_gradient, &way);
    for (int i = 0; i < 3; i++)
        free(outputs[i]->data);
    free(way.scratch);
    free(way.workspace);
    own_free(&own);
}

/* ------------------------------------------------------------------- layers -- */

static const struct {
    int d_model, heads, rows;
} layer_shapes[] = {
    { 256, 4, 1 },   { 256, 4, 16 },   { 256, 4, 512 }, { 768, 12, 1 },    { 768, 12, 4 },
    { 768, 12, 64 }, { 768, 12, 512 }, { 2048, 16, 1 }, { 2048, 16, 256 }, { 4096, 32, 1 },
};

struct layer_run {
    struct attn_layer_plan plan;
    void *scratch, *workspace;
};

static void run_layer(void *context)
{
    const struct layer_run *run = context;
    for (int stage = 0; stage < run->plan.stage_count; stage++)
        for (int64_t task = 0; task < run->plan.task_count[stage]; task++)
            attn_layer_run(&run->plan, stage, task, run->scratch, run->workspace);
}

static void see_layer(int64_t d_model, int64_t heads, int64_t rows)
{
    const size_t count = (size_t)(d_model * d_model);
    struct attn_layer layer = { .q_heads = heads,
                                .kv_heads = heads,
                                .head_dim = d_model / heads,
                                .v_head_dim = d_model / heads };
    struct attn_linear *const linears[] = { &layer.q_proj, &layer.k_proj, &layer.v_proj,
                                            &layer.o_proj };
    float *input = memory((size_t)(rows * d_model) * sizeof *input);
    struct attn_work work = { 0 };
    struct cost cost = { { 0 } };
    struct layer_run run;
    char name[48];
    const char *where = "";
    bench_fill(input, (size_t)(rows * d_model), BENCH_QUERY);
    for (int i = 0; i < 4; i++) {
        float *weight = memory(count * sizeof *weight);
        bench_fill(weight, count, BENCH_VALUE);
        *linears[i] = (struct attn_linear){ .weight = weight, .in = d_model, .out = d_model };
    }
    const struct attn_tensor tensor = attn_tensor_dense(input, ATTN_F32, 1, 1, rows, d_model);
    const struct attn_layer_problem problem = {
        .layer = &layer,
        .options = attn_options_default(layer.head_dim),
        .query = tensor,
        .key = tensor,
        .value = tensor,
        .context = memory((size_t)(rows * d_model) * sizeof(float)),
    };
    expect(attn_layer_plan_init(&run.plan, &problem, &where), where);
    run.scratch = memory(run.plan.scratch_bytes);
    run.workspace = memory(run.plan.workspace_bytes);
    attn_layer_work(&run.plan, &work);
    cost_add_work(&cost, &work);
    snprintf(name, sizeof name, "layer of %d, %d rows", (int)d_model, (int)rows);
    see(name, &cost, run_layer, &run);
    for (int i = 0; i < 4; i++)
        free((void *)linears[i]->weight);
    free(run.scratch);
    free(run.workspace);
    free(problem.context);
    free(input);
}

/* --------------------------------------------------------------------- JSON -- */

struct numbers {
    float *values;
    int64_t shape[2];
    struct text text;
};

static void run_write(void *context)
{
    struct numbers *numbers = context;
    text_free(&numbers->text);
    text_init(&numbers->text, 1 << 28);
    text_tensor(&numbers->text, numbers->values, 2, numbers->shape);
}

static void run_read(void *context)
{
    const struct numbers *numbers = context;
    const struct json_options options = { .nonfinite_allowed = false };
    struct json_document document;
    struct fault fault;
    if (!json_read(&document, numbers->text.data, numbers->text.used, &options, &fault))
        abort();
    json_free(&document);
}

static void see_json(int64_t rows)
{
    const int64_t count = rows * 64;
    struct numbers numbers = { .values = memory((size_t)count * sizeof(float)),
                               .shape = { rows, 64 } };
    struct cost write = { { 0 } }, read = { { 0 } };
    char name[48];
    bench_fill(numbers.values, (size_t)count, BENCH_VALUE);
    write.amount[COST_WRITE_TEXT] = (double)count;
    snprintf(name, sizeof name, "write %d x 64 as JSON", (int)rows);
    text_init(&numbers.text, 1);
    see(name, &write, run_write, &numbers);
    read.amount[COST_READ_TEXT] = (double)numbers.text.used;
    snprintf(name, sizeof name, "read %d x 64 as JSON", (int)rows);
    see(name, &read, run_read, &numbers);
    text_free(&numbers.text);
    free(numbers.values);
}

/* ------------------------------------------------------------------- report -- */

static double median_of(const double *errors)
{
    double sizes[CASES_MAX];
    for (int i = 0; i < seen_count; i++)
        sizes[i] = fabs(errors[i]);
    return median(sizes, seen_count);
}

static void report(void)
{
    double at_start[CASES_MAX], running[CASES_MAX];
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < seen_count; i++)
            cost_observe(&seen[i].cost, seen[i].actual_ns);
    printf("%-44s %12s %12s %12s\n", "work", "actual", "at start", "as it runs");
    for (int i = 0; i < seen_count; i++) {
        at_start[i] = seen[i].error_at_start;
        running[i] = (double)cost_ns(&seen[i].cost) / (double)seen[i].actual_ns - 1;
        printf("%-44s %9.3f ms %+10.0f %% %+10.0f %%\n", seen[i].name,
               (double)seen[i].actual_ns / 1e6, at_start[i] * 100, running[i] * 100);
    }
    printf("%-44s %12s %10.0f %% %10.0f %%\n", "median error", "", median_of(at_start) * 100,
           median_of(running) * 100);
}

int main(void)
{
    const int64_t start_ns = clock_now_ns();
    cost_fit(attn_kernels_available()[0]);
    printf("fitted in %.1f ms\n", (double)(clock_now_ns() - start_ns) / 1e6);
    for (size_t i = 0; i < sizeof attention_shapes / sizeof attention_shapes[0]; i++)
        see_attention(&attention_shapes[i]);
    see_options();
    for (size_t i = 0; i < sizeof gradient_shapes / sizeof gradient_shapes[0]; i++)
        see_gradient(&gradient_shapes[i]);
    for (size_t i = 0; i < sizeof layer_shapes / sizeof layer_shapes[0]; i++)
        see_layer(layer_shapes[i].d_model, layer_shapes[i].heads, layer_shapes[i].rows);
    see_json(16);
    see_json(512);
    see_json(8192);
    report();
    if (getenv("BENCH_COST_RATES")) {
        struct text text;
        text_init(&text, 1 << 20);
        cost_write_metrics(&text);
        fwrite(text.data, 1, text.used, stdout);
        text_free(&text);
    }
    return 0;
}
