/* SPDX-License-Identifier: Apache-2.0 */
/* traces_rollout.c - GET /v1/traces/{id}/rollout: rows of the rollout of a kept layer. Rows of the
 * layer's step go through the steps of the layers below, one after the other, down to the first of
 * its kind. */
#include "api/traces.h"

#include "api/query_number.h"
#include "api/traces_internal.h"
#include "linear.h"
#include "operations/pass/rollout.h"
#include "operations/plan/trace_plan.h"

#include <inttypes.h>
#include <stdlib.h>

/* Stages: the rows of the asked layer; then of each layer below its step, and the product. */
struct rollout {
    struct traces_call traces;        /* first */
    const struct kept_layer **layers; /* [layer_count], from the asked one down to the first */
    int64_t layer_count, length;
    int64_t rows[2];
    float *step;      /* [length][length] */
    float *tables[2]; /* [rows][length], of products in turns */
    struct attn_linear matrix;
    struct attn_product product;
};

static struct rollout *rollout_of(struct call *call)
{
    return (struct rollout *)call;
}

static int64_t row_count_of(const struct rollout *rollout)
{
    return rollout->rows[1] - rollout->rows[0];
}

/* --------------------------------------------------------------------- planning -- */

static const struct kept_layer *find_layer(const struct kept_trace *kept, int64_t number)
{
    for (int64_t i = 0; i < kept->layer_count; i++)
        if (kept->layers[i].number == number)
            return &kept->layers[i];
    return NULL;
}

/* All layers of the kind up to the asked one have to be kept. */
static bool list_layers(struct rollout *rollout, const struct kept_layer *asked,
                        struct fault *fault)
{
    const struct kept_trace *kept = rollout->traces.kept;
    const struct model_forward *forward = kept->model->forward;
    const struct trace_place place = trace_place_of(forward, asked->number);
    const struct model_block *first = forward->streams[place.stream].blocks;
    if (asked->is_cross)
        return fault_set(fault, FAULT_OPTION,
                         "layer %" PRId64 " is of cross attention; a rollout is of self-attention",
                         asked->number);
    rollout->layers = arena_calloc(&rollout->traces.arena, (size_t)(place.block - first) + 1,
                                   sizeof(struct kept_layer *));
    if (!rollout->layers)
        return fault_no_memory(fault);
    for (const struct model_block *block = place.block; block >= first; block--) {
        const int64_t other = block->beside_layer >= 0 ? block->beside_layer : block->self_layer;
        if (block->self_layer < 0)
            continue;
        if (kept->model->layers[other].lacks_attention)
            return fault_set(fault, FAULT_OPTION,
                             "layer %" PRId64 " of model '%s' is of the kind '%s' and has no "
                             "attention, and a rollout multiplies the maps of all layers",
                             other, kept->model->name,
                             model_layer_kind(&kept->model->layers[other]));
        const struct kept_layer *layer = find_layer(kept, block->self_layer);
        if (!layer)
            return fault_set(fault, FAULT_NOT_FOUND,
                             "layer %" PRId64 " is not kept, and a rollout goes through all layers "
                             "up to the asked one",
                             block->self_layer);
        rollout->layers[rollout->layer_count++] = layer;
    }
    rollout->length = asked->q_len;
    return true;
}

static bool begin(struct call *call, const struct exchange *exchange, struct fault *fault)
{
    static const char *const NAMES[] = { "layer", "rows" };
    struct rollout *rollout = rollout_of(call);
    const struct kept_layer *asked;
    return traces_begin(&rollout->traces, exchange, NAMES, 2, fault)
           && traces_read_layer(exchange, rollout->traces.kept, &asked, fault)
           && traces_read_range(exchange, "rows", asked->q_len, rollout->rows, fault)
           && list_layers(rollout, asked, fault);
}

static struct attn_map_tile tile_of(const void *owner, int64_t head)
{
    static float cell;
    const struct kept_layer *layer = owner;
    const int64_t keys = layer->kv_len < ATTN_MAP_TILE_KEYS ? layer->kv_len : ATTN_MAP_TILE_KEYS;
    return kept_layer_tile(layer, head, (const int64_t[]){ 0, layer->q_len },
                           (const int64_t[]){ 0, keys }, (const int64_t[]){ 1, 1 }, &cell);
}

/* The product of the rows so far with the step at hand; number counts products. */
static void set_product(struct rollout *rollout, int64_t number)
{
    const int64_t length = rollout->length;
    rollout->matrix = (struct attn_linear){
        .weight = rollout->step, .in = length, .out = length, .in_out = true, .dtype = ATTN_F32
    };
    rollout->product = (struct attn_product){ .linear = &rollout->matrix,
                                              .x = rollout->tables[number % 2],
                                              .x_stride = length,
                                              .y = rollout->tables[(number + 1) % 2],
                                              .y_stride = length,
                                              .row_count = row_count_of(rollout),
                                              .kernels = rollout->layers[0]->kernels };
}

static bool make_tables(struct rollout *rollout, struct fault *fault)
{
    struct arena *arena = &rollout->traces.arena;
    const size_t length = (size_t)rollout->length, rows = (size_t)row_count_of(rollout);
    rollout->step =
        arena_calloc(arena, rollout->layer_count > 1 ? length * length : 1, sizeof *rollout->step);
    for (int i = 0; i < 2; i++)
        rollout->tables[i] = arena_calloc(arena, rows * length, sizeof *rollout->tables[i]);
    return (rollout->step && rollout->tables[0] && rollout->tables[1]) || fault_no_memory(fault);
}

static void price(struct rollout *rollout, size_t answer_bytes)
{
    struct attn_work work = { .tasks = 1 };
    for (int64_t i = 0; i < rollout->layer_count; i++) {
        const struct kept_layer *layer = rollout->layers[i];
        const double rows = (double)(i > 0 ? rollout->length : row_count_of(rollout));
        const double pairs = (double)layer->q_heads * rows * (double)rollout->length;
        work.tile_flops += 2 * pairs * (double)layer->head_dim;
        work.pairs += pairs;
        if (i > 0)
            attn_product_work(&rollout->product, &work);
    }
    infer_cost_plan_work(&rollout->traces.call.cost, &work, 1, answer_bytes, 0,
                         rollout->traces.call.answer_coding);
    rollout->traces.call.item_count = 1;
    rollout->traces.call.answer_bytes = answer_bytes;
}

static bool read(struct call *call, struct fault *fault)
{
    struct rollout *rollout = rollout_of(call);
    const size_t bytes = (size_t)(row_count_of(rollout) * rollout->length) * 16 + 256;
    if (bytes > call->service->config->answer_bytes_max)
        return fault_set(fault, FAULT_ANSWER_TOO_LARGE,
                         "the answer may take %zu bytes; at most %zu are given", bytes,
                         call->service->config->answer_bytes_max);
    if (!make_tables(rollout, fault))
        return false;
    set_product(rollout, 0);
    price(rollout, bytes);
    const struct attn_map_tile tile = tile_of(rollout->layers[0], 0);
    const size_t step = rollout_workspace_bytes(&tile);
    const size_t product = attn_product_workspace_bytes(&rollout->product);
    return traces_take_workspaces(&rollout->traces, step > product ? step : product, fault);
}

/* -------------------------------------------------------------------- computing -- */

static int64_t tasks(struct call *call, int stage)
{
    struct rollout *rollout = rollout_of(call);
    const int64_t number = (stage + 1) / 2;
    if (number >= rollout->layer_count || row_count_of(rollout) == 0)
        return 0;
    if (stage == 0)
        return rollout_step_tasks(row_count_of(rollout));
    if (stage % 2 == 1)
        return rollout_step_tasks(rollout->length);
    set_product(rollout, number - 1);
    return attn_product_tasks(&rollout->product);
}

static void run(struct call *call, int stage, int64_t task, const struct worker *worker)
{
    const struct rollout *rollout = rollout_of(call);
    const struct kept_layer *kept = rollout->layers[(stage + 1) / 2];
    const struct rollout_layer layer = { tile_of, kept, kept->q_heads, rollout->length };
    void *workspace = traces_workspace(&rollout->traces, worker);
    if (stage == 0)
        rollout_step_run(&layer, rollout->rows[0], row_count_of(rollout), task, rollout->tables[0],
                         workspace);
    else if (stage % 2 == 1)
        rollout_step_run(&layer, 0, rollout->length, task, rollout->step, workspace);
    else
        attn_product_run(&rollout->product, task, workspace);
}

/* {"layer":4,"rows":[1,3],"rollout":[[...],...]} */
static bool write(struct call *call, struct fault *fault)
{
    const struct rollout *rollout = rollout_of(call);
    const float *table = rollout->tables[(rollout->layer_count - 1) % 2];
    struct text *text = &call->text;
    (void)fault;
    text_raw(text, "{\"layer\":");
    text_integer(text, rollout->layers[0]->number);
    text_raw(text, ",\"rows\":[");
    text_integer(text, rollout->rows[0]);
    text_raw(text, ",");
    text_integer(text, rollout->rows[1]);
    text_raw(text, "],\"rollout\":[");
    for (int64_t row = 0; row < row_count_of(rollout); row++) {
        text_raw(text, row > 0 ? ",[" : "[");
        for (int64_t j = 0; j < rollout->length; j++) {
            text_raw(text, j > 0 ? "," : "");
            text_float(text, table[row * rollout->length + j]);
        }
        text_raw(text, "]");
    }
    text_raw(text, "]}\n");
    return true;
}

void traces_rollout(struct exchange *exchange)
{
    static const struct call_kind KIND = { .begin = begin,
                                           .read = read,
                                           .tasks = tasks,
                                           .run = run,
                                           .write = write,
                                           .record = traces_record,
                                           .drop = traces_drop };
    struct rollout *rollout = calloc(1, sizeof *rollout);
    if (rollout)
        rollout->traces.call.kind = &KIND;
    call_handle(exchange, rollout ? &rollout->traces.call : NULL);
}
