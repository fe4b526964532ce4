/* SPDX-License-Identifier: Apache-2.0 */
/* cost_fit.c - see cost_fit.h.
 *
 * Each probe is dominated by one term, or by one term more than the probes before it, and runs
 * through the same plans, readers and writers as a request. The shortest of some runs counts, in
 * CPU time. */
#include "call/cost_fit.h"

#include "base/clock.h"
#include "formats/coding.h"
#include "layer_gradient.h"
#include "scheduler/cost.h"
#include "softmax.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

enum {
    NUMBERS = 256 * 1024,
    ROOM_NUMBERS = 64 * 1024,
    ROUNDS = 5,
    FIT_PASSES = 4,
    TEXT_NUMBERS = 2048
};

/* Memory of all probes: numbers for every input, and room for the results. */
struct bench {
    const struct attn_kernels *kernels;
    float *numbers; /* [NUMBERS]; every input is a part of them */
    void *room, *scratch, *workspace;
    size_t room_bytes, scratch_bytes, workspace_bytes;
};

struct shape {
    int64_t q_heads, kv_heads, q_len, kv_len, head_dim;
    int64_t d_in; /* columns of a query that is projected; 0: no projection */
    bool is_additive, in_double, has_weights, is_gradient;
};

static const struct shape SHAPES[] = {
    { .q_heads = 1, .kv_heads = 1, .q_len = 64, .kv_len = 384, .head_dim = 128 },
    { .q_heads = 1, .kv_heads = 1, .q_len = 64, .kv_len = 384, .head_dim = 16 },
    { .q_heads = 1,
      .kv_heads = 1,
      .q_len = 64,
      .kv_len = 384,
      .head_dim = 64,
      .has_weights = true },
    { .q_heads = 16, .kv_heads = 1, .q_len = 1, .kv_len = 768, .head_dim = 64 },
    { .q_heads = 4, .kv_heads = 4, .q_len = 1, .kv_len = 512, .head_dim = 64 },
    { .q_heads = 4, .kv_heads = 4, .q_len = 1, .kv_len = 8, .head_dim = 64, .d_in = 256 },
    { .q_heads = 4, .kv_heads = 4, .q_len = 128, .kv_len = 8, .head_dim = 64, .d_in = 256 },
    { .q_heads = 1, .kv_heads = 1, .q_len = 32, .kv_len = 64, .head_dim = 64, .is_additive = true },
    { .q_heads = 1, .kv_heads = 1, .q_len = 16, .kv_len = 32, .head_dim = 64, .in_double = true },
    { .q_heads = 1,
      .kv_heads = 1,
      .q_len = 64,
      .kv_len = 128,
      .head_dim = 64,
      .is_gradient = true },
};
enum { SHAPE_COUNT = sizeof SHAPES / sizeof SHAPES[0] };

/* Makes *memory at least so large, aligned and zeroed; false without memory. */
static bool ensure(void **memory, size_t *has, size_t wanted)
{
    if (*memory && *has >= wanted)
        return true;
    free(*memory);
    *has = (wanted + 63) / 64 * 64 + 64;
    *memory = aligned_alloc(64, *has);
    if (*memory)
        memset(*memory, 0, *has);
    return *memory != NULL;
}

/* ----------------------------------------------------------------- plans -- */

static struct attn_layer layer_of(const struct bench *bench, const struct shape *shape)
{
    struct attn_layer layer = { .q_heads = shape->q_heads,
                                .kv_heads = shape->kv_heads,
                                .head_dim = shape->head_dim,
                                .v_head_dim = shape->head_dim };
    if (shape->d_in > 0)
        layer.q_proj = (struct attn_linear){ .weight = bench->numbers,
                                             .out = shape->q_heads * shape->head_dim,
                                             .in = shape->d_in };
    if (shape->is_additive)
        layer.additive_weight = bench->numbers;
    return layer;
}

static struct attn_layer_problem problem_of(const struct bench *bench, const struct shape *shape,
                                            const struct attn_layer *layer)
{
    const int64_t q_columns = shape->d_in > 0 ? shape->d_in : shape->q_heads * shape->head_dim;
    const int64_t kv_columns = shape->kv_heads * shape->head_dim;
    struct attn_layer_problem problem = {
        .layer = layer,
        .options = attn_options_default(shape->head_dim),
        .query = attn_tensor_dense(bench->numbers, ATTN_F32, 1, 1, shape->q_len, q_columns),
        .key = attn_tensor_dense(bench->numbers, ATTN_F32, 1, 1, shape->kv_len, kv_columns),
        /* Not the key's numbers, as in a request: decoding reads keys and values once each. */
        .value = attn_tensor_dense(bench->numbers + NUMBERS / 2, ATTN_F32, 1, 1, shape->kv_len,
                                   kv_columns),
        .context = bench->room,
        .kernels = bench->kernels,
    };
    if (shape->in_double)
        problem.options.softmax_precision = ATTN_F64;
    if (shape->has_weights)
        problem.weights = (float *)bench->room + shape->q_len * shape->q_heads * shape->head_dim;
    return problem;
}

/* A planned shape, and the shortest time of its runs so far. */
struct probe {
    struct attn_layer layer;
    struct attn_layer_plan plan;
    struct attn_layer_gradient_plan gradient; /* used where plan has no stages */
    struct cost cost;
    int64_t best_ns;
};

static bool plan_gradient(struct probe *probe, const struct bench *bench,
                          const struct attn_layer_problem *forward)
{
    const char *where;
    struct attn_layer_gradient_problem problem = { .layer = *forward };
    problem.context_gradient = bench->numbers;
    problem.query = bench->room;
    problem.key = problem.query + forward->query.shape[2] * forward->query.shape[3];
    problem.value = problem.key + forward->key.shape[2] * forward->key.shape[3];
    return attn_layer_gradient_plan_init(&probe->gradient, &problem, &where) == ATTN_OK;
}

static bool plan_probe(struct probe *probe, struct bench *bench, const struct shape *shape)
{
    struct attn_work work = { 0 };
    const char *where;
    *probe = (struct probe){ .layer = layer_of(bench, shape), .best_ns = INT64_MAX };
    const struct attn_layer_problem problem = problem_of(bench, shape, &probe->layer);
    if (!(shape->is_gradient ? plan_gradient(probe, bench, &problem)
                             : attn_layer_plan_init(&probe->plan, &problem, &where) == ATTN_OK))
        return false;
    if (shape->is_gradient)
        attn_layer_gradient_work(&probe->gradient, &work);
    else
        attn_layer_work(&probe->plan, &work);
    cost_add_work(&probe->cost, &work);
    return ensure(&bench->scratch, &bench->scratch_bytes,
                  probe->plan.scratch_bytes + probe->gradient.scratch_bytes)
           && ensure(&bench->workspace, &bench->workspace_bytes,
                     probe->plan.workspace_bytes + probe->gradient.workspace_bytes);
}

static void run_probe(struct probe *probe, const struct bench *bench)
{
    const struct attn_layer_plan *plan = &probe->plan;
    const struct attn_layer_gradient_plan *gradient = &probe->gradient;
    const int64_t start_ns = clock_thread_ns();
    for (int stage = 0; stage < plan->stage_count; stage++)
        for (int64_t task = 0; task < plan->task_count[stage]; task++)
            attn_layer_run(plan, stage, task, bench->scratch, bench->workspace);
    for (int stage = 0; stage < gradient->stage_count; stage++)
        for (int64_t task = 0; task < gradient->task_count[stage]; task++)
            attn_layer_gradient_run(gradient, stage, task, bench->scratch, bench->workspace);
    const int64_t ns = clock_thread_ns() - start_ns;
    probe->best_ns = ns < probe->best_ns ? ns : probe->best_ns;
}

/* Runs all probes in turn, so that a short disturbance of the machine spoils only one round. */
static void fit_plans(struct bench *bench, struct probe *probes)
{
    int count = 0;
    while (count < SHAPE_COUNT && plan_probe(&probes[count], bench, &SHAPES[count]))
        count++;
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < count; i++)
            run_probe(&probes[i], bench);
    for (int pass = 0; pass < FIT_PASSES; pass++)
        for (int i = 0; i < count; i++)
            cost_fit_rates(&probes[i].cost, probes[i].best_ns);
    cost_fit_like(COST_STREAM_FAR, COST_STREAM);
    cost_fit_like(COST_PARAMETER_FAR, COST_PARAMETER);
    cost_fit_like(COST_GRADIENT_TANH, COST_TANH);
}

/* ------------------------------------------------------- bytes and text -- */

static void fit_term(enum cost_term term, double amount, int64_t ns)
{
    struct cost cost = { { 0 } };
    cost.amount[term] = amount;
    cost_fit_rates(&cost, ns);
}

static void fit_packing(const struct text *text)
{
    const struct byte_slice part = { text->data, text->used };
    struct fault fault;
    size_t size;
    int64_t start_ns = clock_thread_ns();
    void *packed = coding_pack(CODING_GZIP, &part, 1, true, &size);
    if (!packed)
        return;
    fit_term(COST_PACK, (double)text->used, clock_thread_ns() - start_ns);
    struct byte_slice body = { packed, size };
    start_ns = clock_thread_ns();
    if (coding_unpack(CODING_GZIP, &body, &packed, text->used, NULL, &fault))
        fit_term(COST_UNPACK, (double)text->used, clock_thread_ns() - start_ns);
    free(packed);
}

static void fit_text(const struct bench *bench)
{
    const struct json_options options = { .nonfinite_allowed = false };
    const int64_t shape[] = { TEXT_NUMBERS / 64, 64 };
    int64_t read_ns = INT64_MAX, write_ns = INT64_MAX;
    struct text text;
    for (int i = 0; i < ROUNDS; i++) {
        struct json_document document;
        struct fault fault;
        text_init(&text, (size_t)64 * TEXT_NUMBERS);
        int64_t start_ns = clock_thread_ns();
        text_tensor(&text, bench->numbers, 2, shape);
        int64_t ns = clock_thread_ns() - start_ns;
        write_ns = ns < write_ns ? ns : write_ns;
        start_ns = clock_thread_ns();
        if (text.failed == FAULT_NONE
            && json_read(&document, text.data, text.used, &options, &fault))
            json_free(&document);
        ns = clock_thread_ns() - start_ns;
        read_ns = ns < read_ns ? ns : read_ns;
        if (i < ROUNDS - 1)
            text_free(&text);
    }
    if (text.failed == FAULT_NONE) {
        fit_term(COST_WRITE_TEXT, TEXT_NUMBERS, write_ns);
        fit_term(COST_READ_TEXT, (double)text.used, read_ns);
        cost_fit_like(COST_TOKENIZE, COST_READ_TEXT);
        fit_packing(&text);
    }
    text_free(&text);
}

static void fit_softmax(const struct bench *bench)
{
    const struct attn_softmax softmax = { .input = bench->numbers,
                                          .output = bench->room,
                                          .outer = 8,
                                          .length = TEXT_NUMBERS / 8,
                                          .inner = 1,
                                          .rows_per_visible = 1 };
    const int64_t start_ns = clock_thread_ns();
    attn_softmax_run(&softmax, 0, softmax.outer);
    fit_term(COST_SOFTMAX, TEXT_NUMBERS, clock_thread_ns() - start_ns);
}

void cost_fit(const struct attn_kernels *kernels)
{
    struct bench bench = { .kernels = kernels };
    struct probe *probes = malloc(SHAPE_COUNT * sizeof *probes);
    bench.numbers = aligned_alloc(64, NUMBERS * sizeof(float));
    if (probes && bench.numbers
        && ensure(&bench.room, &bench.room_bytes, ROOM_NUMBERS * sizeof(float))) {
        for (int i = 0; i < NUMBERS; i++)
            bench.numbers[i] = (float)(i % 1021 - 510) / 510.0f;
        fit_plans(&bench, probes);
        fit_softmax(&bench);
        fit_text(&bench);
    }
    free(probes);
    free(bench.numbers);
    free(bench.room);
    free(bench.scratch);
    free(bench.workspace);
}
