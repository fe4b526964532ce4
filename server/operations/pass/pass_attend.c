/* SPDX-License-Identifier: Apache-2.0 */
/* pass_attend.c - the step of one attention layer: an item of each sequence, planned as a call of
 * POST /v1/attention would be, and run in the stages of its plan.
 *
 * Only a layer that is asked for has outputs beside its context, and the last layer that anything
 * is asked of does not compute its context. All layers use the same scratch. Mask and relative
 * position bias are summed up when the table of the bias changes, for T5 has one for all its
 * layers, or when the bias depends on the query. */
#include "operations/pass/pass_internal.h"

#include "call/infer_distances.h"
#include "call/infer_masking.h"
#include "call/infer_results.h"
#include "operations/trace/kept_trace.h"

#include <string.h>

/* Turns: what a bias depends on; mask, bias and given weights; the stages of the plan, with edits
 * of heads between the last but the output projection and it; what is kept; what is read
 * (pass_read.c). */
enum { BIAS_TURN = 1, STAGE_TURN, KEEP_TURN = STAGE_TURN + ATTN_LAYER_STAGES_MAX + 1 };

/* Outputs of attention that a trace answers. */
static const struct {
    enum attn_output output;
    enum trace_tensor_name tensor;
} ANSWERED[] = {
    { ATTN_OUTPUT_WEIGHTS, TRACE_WEIGHTS },
    { ATTN_OUTPUT_SCORES, TRACE_SCORES },
    { ATTN_OUTPUT_MASKED, TRACE_MASKED },
    { ATTN_OUTPUT_LSE, TRACE_LSE },
};
enum { ANSWERED_COUNT = sizeof ANSWERED / sizeof ANSWERED[0] };

/* ---------------------------------------------------------------- planning -- */

static struct array rows_of(const float *rows, int64_t first, int64_t count, int64_t width)
{
    return (struct array){
        .data = rows + first * width, .dtype = ATTN_F32, .rank = 2, .shape = { count, width }
    };
}

/* What the item of an earlier layer had. */
static void reset_item(struct infer_item *item, const struct pass_step *step)
{
    struct model *model = item->model;
    *item = (struct infer_item){ .model = model, .layer_index = step->layer };
}

static void set_inputs(const struct pass *pass, const struct pass_step *step,
                       struct pass_sequence *sequence)
{
    const struct model_stream *streams = pass->forward->streams;
    struct infer_item *item = sequence->attention;
    const int stream = step->stream;
    item->query = rows_of(pass->input, sequence->first[stream], sequence->length[stream],
                          streams[stream].width);
    if (sequence->item->past) {
        item->cache = sequence->item->past->caches[step->layer];
        item->past_len = sequence->item->past->length;
    }
    const struct model_layer *layer = &pass->model->layers[step->layer];
    if (layer->shares_keys && item->cache) { /* that layer's, with the rows of this pass */
        item->cache->length = item->past_len + sequence->length[stream];
        item->key = rows_of(pass->input, 0, 0, streams[stream].width);
    } else if (layer->shares_keys) {
        item->key = rows_of(pass->shared_inputs[layer->keys_of], sequence->first[stream],
                            sequence->length[stream], streams[stream].width);
    }
    if (step->is_cross)
        item->key =
            rows_of(pass->rows[0], sequence->first[0], sequence->length[0], streams[0].width);
    const uint8_t *visible = sequence->item->streams[0].visible;
    if (visible && (step->is_cross || stream == 0))
        item->masking.mask =
            attn_tensor_dense((void *)visible, ATTN_BOOL, 1, 1, 1, sequence->length[0]);
}

/* Where a cache takes the keys of the layer, something has to be computed. */
static bool has_context(const struct pass *pass, const struct pass_sequence *sequence)
{
    return pass->step + 1 < pass->step_count || sequence->item->past || sequence->item->states
           || sequence->item->marks;
}

/* Sums over spans replace the map of weights. */
static void set_spans(const struct pass_step *step, struct pass_sequence *sequence, float *sums)
{
    struct infer_item *item = sequence->attention;
    const struct trace_stream *stream = &sequence->item->streams[step->stream];
    item->outputs[ATTN_OUTPUT_WEIGHTS] = true;
    item->results[ATTN_OUTPUT_WEIGHTS] = sums;
    item->has_weight_map = true;
    item->weight_map = (struct attn_weight_map){ .heads = ATTN_MAP_EACH,
                                                 .row_list = stream->span_rows,
                                                 .row_count = stream->span_row_count,
                                                 .spans = sequence->item->spans,
                                                 .span_count = sequence->item->span_count };
}

/* Where the layer is kept; NULL: it is not. */
static struct kept_layer *kept_layer_of(const struct pass_sequence *sequence,
                                        const struct pass_step *step)
{
    const struct trace_layer *answered = sequence->answered[step->layer];
    return answered && sequence->item->keeping
               ? &sequence->item->keeping->layers[answered - sequence->item->answered]
               : NULL;
}

/* Returns whether there is anything to compute. spans: where sums over them go, or NULL. */
static bool set_outputs(const struct pass *pass, const struct pass_step *step,
                        struct pass_sequence *sequence, float *spans)
{
    struct infer_item *item = sequence->attention;
    const struct trace_layer *answered = sequence->answered[step->layer];
    const int64_t width = pass->forward->streams[step->stream].width;
    /* Without a context no values are projected. */
    bool is_any = has_context(pass, sequence) || pass_norms.is_read(pass, step, sequence);
    if (is_any) {
        item->outputs[ATTN_OUTPUT_CONTEXT] = true;
        item->results[ATTN_OUTPUT_CONTEXT] = pass->output + sequence->first[step->stream] * width;
    }
    for (int i = 0; answered && i < ANSWERED_COUNT; i++) {
        const void *values = answered->tensors[ANSWERED[i].tensor].values;
        if (!values)
            continue;
        item->outputs[ANSWERED[i].output] = true;
        item->results[ANSWERED[i].output] = (void *)values;
        is_any = true;
    }
    if (kept_layer_of(sequence, step)) {
        item->outputs[ATTN_OUTPUT_LSE] = true;
        if (!item->results[ATTN_OUTPUT_LSE])
            item->results[ATTN_OUTPUT_LSE] = kept_layer_of(sequence, step)->lse;
        is_any = true;
    }
    if (pass_read_needs_lse(pass, step, sequence)) {
        item->outputs[ATTN_OUTPUT_LSE] = true;
        if (!item->results[ATTN_OUTPUT_LSE])
            item->results[ATTN_OUTPUT_LSE] = sequence->lse.memory;
        is_any = true;
    }
    if (spans) {
        set_spans(step, sequence, spans);
        is_any = true;
    }
    return is_any;
}

/* A map that pools and then takes top_k needs room between the two. */
static bool set_weight_map(struct pass *pass, const struct pass_step *step,
                           struct pass_sequence *sequence, struct fault *fault)
{
    struct infer_item *item = sequence->attention;
    struct attn_weight_map *map = &item->weight_map;
    const struct trace_layer *answered = sequence->answered[step->layer];
    if (!sequence->item->has_weight_map || !item->outputs[ATTN_OUTPUT_WEIGHTS]
        || item->has_weight_map)
        return true;
    item->has_weight_map = true;
    *map = sequence->item->weight_map;
    map->indices = (int64_t *)answered->indices;
    if (map->top_k == 0)
        return true;
    const int64_t count = attn_weight_map_pooled_count(
        map, pass->model->layers[step->layer].layer.q_heads, item->query.shape[0],
        step->is_cross ? item->key.shape[0] : item->past_len + item->query.shape[0]);
    if (count < 0)
        return fault_no_memory(fault);
    if (!sequence->pooled || sequence->pooled_numbers < count) {
        sequence->pooled = pass_alloc(pass, count, sizeof *sequence->pooled, fault);
        sequence->pooled_numbers = count;
    }
    map->pooled = sequence->pooled;
    return map->pooled != NULL;
}

/* Memory for mask and bias of a layer that has a bias. */
static bool set_bias(struct pass *pass, const struct pass_step *step,
                     struct pass_sequence *sequence, struct fault *fault)
{
    struct infer_item *item = sequence->attention;
    const struct model_layer *layer = &pass->model->layers[step->layer];
    const int64_t q_len = sequence->length[step->stream];
    const int64_t kv_len = step->is_cross ? sequence->length[0] : q_len;
    int64_t numbers;
    if (!layer->relative_bias.values || q_len == 0 || kv_len == 0)
        return true;
    if (__builtin_mul_overflow(layer->layer.q_heads * q_len, kv_len, &numbers))
        return fault_no_memory(fault);
    if (sequence->bias_numbers < numbers) {
        sequence->bias = pass_alloc(pass, numbers, sizeof *sequence->bias, fault);
        if (!sequence->bias)
            return false;
        sequence->bias_numbers = numbers;
        sequence->bias_of = NULL;
    }
    item->bias = sequence->bias;
    return true;
}

/* Memory for query and key of a layer whose bias depends on them, once the item is planned. */
static bool set_projected(struct pass *pass, struct pass_sequence *sequence, struct attn_work *work,
                          struct fault *fault)
{
    struct infer_item *item = sequence->attention;
    struct attn_product products[INFER_DISTANCE_PRODUCTS_MAX];
    const int64_t numbers = item->bias ? infer_distance_numbers(item) : 0;
    if (numbers < 0)
        return fault_no_memory(fault);
    if (sequence->projected_numbers < numbers) {
        sequence->projected = pass_alloc(pass, numbers, sizeof *sequence->projected, fault);
        if (!sequence->projected)
            return false;
        sequence->projected_numbers = numbers;
    }
    item->projected = numbers > 0 ? sequence->projected : NULL;
    const int count = infer_distance_products(item, pass->limits.kernels, products);
    for (int i = 0; work && i < count; i++) {
        const size_t bytes = attn_product_workspace_bytes(&products[i]);
        if (bytes > pass->workspace_bytes)
            pass->workspace_bytes = bytes;
    }
    if (work && count > 0) {
        infer_distances_work(item, pass->limits.kernels, work);
        infer_bias_work(item, work);
    }
    return true;
}

static bool plan_sequence(struct pass *pass, const struct pass_step *step,
                          struct pass_sequence *sequence, struct attn_work *work,
                          struct fault *fault)
{
    struct infer_item *item = sequence->attention;
    float *spans;
    reset_item(item, step);
    set_inputs(pass, step, sequence);
    if (!pass_read_plan(pass, step, sequence, work, &spans, fault))
        return false;
    if (!set_outputs(pass, step, sequence, spans))
        return true; /* a plan without stages */
    if (!pass_edit_mask(pass, step, sequence, fault)
        || !pass_edit_given(pass, step, sequence, work, fault))
        return false;
    struct arena none = { .bytes_max = 0 };
    struct infer_request request = { .arena = &none };
    if (!set_weight_map(pass, step, sequence, fault) || !set_bias(pass, step, sequence, fault)
        || !infer_plan_layer(&request, item, &pass->limits, fault)
        || !set_projected(pass, sequence, work, fault))
        return false;
    item->scratch = sequence->scratch;
    item->workspaces = pass->workspaces;
    if (!work || !pass_read_needs_lse(pass, step, sequence))
        return true;
    item->scratch = pass->rows[step->stream]; /* views of it are made, and none is read */
    const size_t bytes = pass_read_workspace_bytes(pass, step, sequence);
    if (bytes > pass->workspace_bytes)
        pass->workspace_bytes = bytes;
    return true;
}

static bool attend_plan(struct pass *pass, const struct pass_step *step, struct attn_work *work,
                        struct fault *fault)
{
    for (int64_t i = 0; i < pass->sequence_count; i++) {
        struct pass_sequence *sequence = &pass->sequences[i];
        const struct attn_layer_plan *planned = &sequence->attention->plan;
        if (!plan_sequence(pass, step, sequence, work, fault))
            return false;
        attn_layer_work(planned, work);
        if (planned->scratch_bytes > sequence->scratch_bytes)
            sequence->scratch_bytes = planned->scratch_bytes;
        if (planned->workspace_bytes > pass->workspace_bytes)
            pass->workspace_bytes = planned->workspace_bytes;
    }
    return true;
}

bool pass_attend_allocate(struct pass *pass, struct fault *fault)
{
    for (int64_t i = 0; i < pass->sequence_count; i++) {
        struct pass_sequence *sequence = &pass->sequences[i];
        sequence->scratch = pass_alloc(pass, (int64_t)sequence->scratch_bytes, 1, fault);
        if (!sequence->scratch)
            return false;
    }
    return true;
}

/* ----------------------------------------------------------------- running -- */

void pass_attend_drop(struct pass *pass)
{
    if (pass->held_layer >= 0)
        model_drop_layer(pass->model, pass->held_layer);
    pass->held_layer = -1;
}

static bool begin_layer(struct pass *pass, const struct pass_step *step, struct fault *fault)
{
    pass_attend_drop(pass);
    if (!model_hold_layer(pass->model, step->layer, fault))
        return false;
    pass->held_layer = step->layer;
    for (int64_t i = 0; i < pass->sequence_count; i++) {
        if (!plan_sequence(pass, step, &pass->sequences[i], NULL, fault))
            return false;
        pass_edit_hide(step, &pass->sequences[i]);
    }
    return true;
}

static int64_t count_projection_tasks(const struct pass *pass, const struct pass_step *step,
                                      const struct pass_sequence *sequence)
{
    struct attn_product products[INFER_DISTANCE_PRODUCTS_MAX];
    const int count =
        pass_starts_at(pass, step)
            ? 0
            : infer_distance_products(sequence->attention, pass->limits.kernels, products);
    int64_t tasks = 0;
    for (int i = 0; i < count; i++)
        tasks += attn_product_tasks(&products[i]);
    return tasks;
}

static void run_projection(const struct pass *pass, const struct pass_sequence *sequence,
                           int64_t task, void *workspace)
{
    struct attn_product products[INFER_DISTANCE_PRODUCTS_MAX];
    const struct attn_product *product = products;
    infer_distance_products(sequence->attention, pass->limits.kernels, products);
    if (task >= attn_product_tasks(product))
        task -= attn_product_tasks(product++);
    attn_product_run(product, task, workspace);
}

/* Tasks of one head, in each of which mask and bias of some rows are summed up. */
static int64_t bias_tasks_of_head(const struct infer_item *item)
{
    return pass_row_tasks(item->q_len, item->kv_len_max);
}

static void run_bias(const struct pass_sequence *sequence, int64_t task)
{
    const struct infer_item *item = sequence->attention;
    const int64_t tasks = bias_tasks_of_head(item);
    int64_t first, count;
    pass_task_rows(item->q_len, item->kv_len_max, task % tasks, &first, &count);
    infer_bias_fill(item, &item->masking.mask, task / tasks, first, count, sequence->bias);
}

static int64_t count_bias_tasks(struct pass_sequence *sequence)
{
    const struct infer_item *item = sequence->attention;
    const struct model_relative_bias *bias = &item->model->layers[item->layer_index].relative_bias;
    const float *table = item->bias ? bias->values : NULL;
    const bool needs_query = bias->by_query || bias->gate_weight;
    if (!table || (table == sequence->bias_of && !needs_query))
        return 0;
    /* What edits hide in this layer is not hidden in the next. */
    sequence->bias_of = pass_edit_hides(sequence) ? NULL : table;
    return item->layer.q_heads * bias_tasks_of_head(item);
}

/* Given weights are one task more, behind those of the bias. */
static int64_t count_first_tasks(const struct pass *pass, const struct pass_step *step,
                                 struct pass_sequence *sequence)
{
    if (pass_starts_at(pass, step))
        return 0;
    return count_bias_tasks(sequence) + pass_edit_gives(sequence);
}

/* The stage of a turn. Edits of heads take a turn of their own, *is_edit, before the output
 * projection. */
static int stage_of_turn(const struct pass_sequence *sequence, const struct pass_step *step,
                         int turn, bool *is_edit)
{
    const int stage = turn - STAGE_TURN;
    const int output = attn_layer_output_stage(&sequence->attention->plan);
    const bool has_edit =
        sequence->attention->plan.stage_count > 0 && pass_edit_has_heads(sequence, step);
    *is_edit = has_edit && stage == output;
    return stage - (has_edit && stage > output);
}

/* Where the pass starts here, contexts are there before the output projection. */
static int64_t count_stage_tasks(const struct pass *pass, const struct pass_sequence *sequence,
                                 const struct pass_step *step, int turn)
{
    bool is_edit;
    const int stage = stage_of_turn(sequence, step, turn, &is_edit);
    const int output = attn_layer_output_stage(&sequence->attention->plan);
    if (is_edit)
        return 1;
    return stage < output && pass_starts_at(pass, step)
               ? 0
               : infer_tasks_count(sequence->attention, stage);
}

/* The keep turn has a task for each sequence whose layer is kept, while its scratch still holds
 * query and key. */
static int64_t attend_tasks(struct pass *pass, const struct pass_step *step, int turn,
                            struct fault *fault)
{
    int64_t count = 0;
    if (turn > KEEP_TURN)
        return pass_read_tasks(pass, step, turn - KEEP_TURN - 1);
    if (turn == 0 && !begin_layer(pass, step, fault))
        return 0;
    for (int64_t i = 0; i < pass->sequence_count; i++) {
        struct pass_sequence *sequence = &pass->sequences[i];
        pass->first_task[i] = count;
        count += turn == 0           ? count_projection_tasks(pass, step, sequence)
                 : turn == BIAS_TURN ? count_first_tasks(pass, step, sequence)
                 : turn == KEEP_TURN ? kept_layer_of(sequence, step) != NULL
                                     : count_stage_tasks(pass, sequence, step, turn);
    }
    pass->first_task[pass->sequence_count] = count;
    return count;
}

static void run_stage(const struct pass *pass, const struct pass_step *step, int64_t number,
                      int turn, int64_t task, void *workspace)
{
    const struct pass_sequence *sequence = &pass->sequences[number];
    bool is_edit;
    const int stage = stage_of_turn(sequence, step, turn, &is_edit);
    if (is_edit)
        pass_edit_heads(pass, step, sequence);
    else
        infer_tasks_run(sequence->attention, stage, task, workspace);
}

enum metrics_part pass_attend_part(const struct pass *pass, const struct pass_step *step, int turn,
                                   int64_t task)
{
    static const enum metrics_part PARTS[] = { [ATTN_PART_PRODUCT] = METRICS_PART_PRODUCTS,
                                               [ATTN_PART_ROTARY] = METRICS_PART_ROTARY,
                                               [ATTN_PART_ROWS] = METRICS_PART_ROWS,
                                               [ATTN_PART_ATTENTION] = METRICS_PART_ATTENTION };
    int64_t i = 0;
    bool is_edit;
    if (turn < STAGE_TURN || turn >= KEEP_TURN)
        return METRICS_PART_ATTENTION;
    while (pass->first_task[i + 1] <= task)
        i++;
    const struct pass_sequence *sequence = &pass->sequences[i];
    const int stage = stage_of_turn(sequence, step, turn, &is_edit);
    return is_edit ? METRICS_PART_ROWS : PARTS[attn_layer_part(&sequence->attention->plan, stage)];
}

static void attend_run(const struct pass *pass, const struct pass_step *step, int turn,
                       int64_t task, void *workspace)
{
    int64_t i = 0;
    if (turn > KEEP_TURN) {
        pass_read_run(pass, step, turn - KEEP_TURN - 1, task, workspace);
        return;
    }
    while (pass->first_task[i + 1] <= task)
        i++;
    const struct infer_item *item = pass->sequences[i].attention;
    const bool is_last = task + 1 == pass->first_task[i + 1];
    task -= pass->first_task[i];
    if (turn == KEEP_TURN)
        kept_layer_take(kept_layer_of(&pass->sequences[i], step), item,
                        item->results[ATTN_OUTPUT_LSE]);
    else if (turn == 0)
        run_projection(pass, &pass->sequences[i], task, workspace);
    else if (turn == BIAS_TURN && is_last && pass_edit_gives(&pass->sequences[i]))
        pass_edit_give(pass, step, &pass->sequences[i]);
    else if (turn == BIAS_TURN)
        run_bias(&pass->sequences[i], task);
    else
        run_stage(pass, step, i, turn, task, workspace);
}

const struct pass_step_functions pass_attend = { attend_plan, attend_tasks, attend_run };
