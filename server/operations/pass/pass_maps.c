/* pass_maps.c - what is read of the whole maps of a layer, head by head, while its scratch still
 * holds query and key: rollouts. A weight is exp(masked - lse), as in a kept trace, so no map of a
 * layer is ever stored. */
#include "operations/pass/pass_internal.h"

#include "operations/pass/rollout.h"

#include <string.h>

/* ------------------------------------------------------------------------- maps -- */

/* Mask and bias of one head. */
static struct attn_tensor mask_of(const struct infer_item *attention, int64_t head, int64_t q_len,
                                  int64_t kv_len)
{
    struct attn_tensor mask = attention->masking.mask;
    if (attention->bias)
        return attn_tensor_dense((void *)(attention->bias + head * q_len * kv_len), ATTN_F32, 1, 1,
                                 q_len, kv_len);
    if (mask.data && mask.shape[1] > 1) {
        mask.data = (char *)mask.data + head * mask.stride[1]; /* of booleans */
        mask.shape[1] = 1;
    }
    return mask;
}

struct attn_map_tile pass_map_tile(const struct pass_sequence *sequence, int64_t head)
{
    static float cell;
    const struct infer_item *attention = sequence->attention;
    const struct model_layer *own = &attention->model->layers[attention->layer_index];
    const struct attn_problem all = attn_layer_attention(&attention->plan, attention->scratch);
    const int64_t q_len = all.query.shape[2], kv_len = all.key.shape[2];
    struct attn_map_tile tile = {
        .rows = { 0, q_len },
        .keys = { 0, kv_len < ATTN_MAP_TILE_KEYS ? kv_len : ATTN_MAP_TILE_KEYS },
        .cell_rows = 1,
        .cell_columns = 1,
        .cells = &cell,
        .lse = (const float *)attention->results[ATTN_OUTPUT_LSE] + head * q_len,
        .given = attention->given ? attention->given + head * q_len : NULL,
    };
    tile.problem = (struct attn_problem){
        .options = attention->plan.problem.options,
        .kernels = attention->plan.problem.kernels,
        .query = all.query,
        .key = all.key,
        .mask = mask_of(attention, head, q_len, kv_len),
        .alibi_slopes = own->alibi_slopes ? own->alibi_slopes + head : NULL,
    };
    tile.problem.query.data = (float *)all.query.data + head * all.query.stride[1];
    tile.problem.key.data =
        (float *)all.key.data + head / (all.query.shape[1] / all.key.shape[1]) * all.key.stride[1];
    tile.problem.query.shape[1] = tile.problem.key.shape[1] = 1;
    return tile;
}

static struct attn_map_tile tile_of(const void *sequence, int64_t head)
{
    return pass_map_tile(sequence, head);
}

/* ---------------------------------------------------------------------- rollouts -- */

/* A rollout goes through every layer of its kind up to the last that answers one. */
static bool rolls_out(const struct pass *pass, const struct pass_step *step,
                      const struct pass_sequence *sequence)
{
    const struct model_stream *stream = &pass->forward->streams[step->stream];
    if (step->is_cross || !sequence->item->outputs[TRACE_OUTPUT_ROLLOUT]
        || sequence->length[step->stream] == 0)
        return false;
    for (const struct model_block *block = step->block;
         block < stream->blocks + stream->block_count; block++) {
        const struct trace_layer *answered =
            block->self_layer >= 0 ? sequence->answered[block->self_layer] : NULL;
        if (answered && answered->tensors[TRACE_ROLLOUT].values)
            return true;
    }
    return false;
}

/* The place of the layer among those of its kind. */
static int64_t place_of(const struct pass *pass, const struct pass_step *step)
{
    int64_t place = 0;
    for (const struct model_block *block = pass->forward->streams[step->stream].blocks;
         block < step->block; block++)
        place += block->self_layer >= 0;
    return place;
}

/* Three tables: the rollouts of layers of even and of odd places, and a step. */
static float *table_of(const struct pass_sequence *sequence, const struct pass_step *step,
                       int64_t number)
{
    const int64_t length = sequence->length[step->stream];
    return (float *)sequence->rollout.memory + number * length * length;
}

static float *rollout_of(const struct pass *pass, const struct pass_step *step,
                         const struct pass_sequence *sequence)
{
    return table_of(sequence, step, place_of(pass, step) % 2);
}

/* The step of the first layer is its rollout. */
static float *step_of(const struct pass *pass, const struct pass_step *step,
                      const struct pass_sequence *sequence)
{
    return table_of(sequence, step, place_of(pass, step) == 0 ? 0 : 2);
}

/* Sets the product of the layer's step with the rollout of the layer before. Returns its tasks. */
static int64_t set_product(const struct pass *pass, const struct pass_step *step,
                           struct pass_sequence *sequence)
{
    const int64_t length = sequence->length[step->stream], place = place_of(pass, step);
    if (place == 0)
        return 0;
    sequence->before = (struct attn_linear){ .weight = table_of(sequence, step, (place + 1) % 2),
                                             .in = length,
                                             .out = length,
                                             .in_out = true,
                                             .dtype = ATTN_F32 };
    sequence->product = (struct attn_product){ .linear = &sequence->before,
                                               .x = table_of(sequence, step, 2),
                                               .x_stride = length,
                                               .y = table_of(sequence, step, place % 2),
                                               .y_stride = length,
                                               .row_count = length,
                                               .kernels = pass->limits.kernels,
                                               .precision = pass->limits.precision };
    return attn_product_tasks(&sequence->product);
}

static bool plan_rollout(struct pass *pass, const struct pass_step *step,
                         struct pass_sequence *sequence, struct attn_work *work,
                         struct fault *fault)
{
    const int64_t length = sequence->length[step->stream];
    int64_t count;
    if (__builtin_mul_overflow(3 * length, length, &count))
        return fault_no_memory(fault);
    if (!pass_keep_room(pass, &sequence->rollout, count, sizeof(float), fault))
        return false;
    if (work && set_product(pass, step, sequence) > 0)
        attn_product_work(&sequence->product, work);
    return true;
}

static void run_step(const struct pass *pass, const struct pass_step *step,
                     const struct pass_sequence *sequence, int64_t task, void *workspace)
{
    const int64_t length = sequence->length[step->stream];
    const struct rollout_layer layer = { tile_of, sequence,
                                         pass->model->layers[step->layer].layer.q_heads, length };
    rollout_step_run(&layer, 0, length, task, step_of(pass, step, sequence), workspace);
}

/* Copies the rows that are asked for. */
static void answer_rollout(const struct pass *pass, const struct pass_step *step,
                           const struct pass_sequence *sequence)
{
    const struct trace_tensor *to = &sequence->answered[step->layer]->tensors[TRACE_ROLLOUT];
    const struct trace_stream *stream = &sequence->item->streams[step->stream];
    const float *from = rollout_of(pass, step, sequence);
    const int64_t length = to->shape[1];
    for (int64_t i = 0; i < to->shape[0]; i++)
        memcpy((float *)to->values + i * length,
               from + (sequence->item->has_rows ? stream->span_rows[i] : i) * length,
               (size_t)length * sizeof *from);
}

/* ------------------------------------------------------------------------- turns -- */

bool pass_maps_are_read(const struct pass *pass, const struct pass_step *step,
                        const struct pass_sequence *sequence)
{
    return rolls_out(pass, step, sequence);
}

bool pass_maps_plan(struct pass *pass, const struct pass_step *step, struct pass_sequence *sequence,
                    struct attn_work *work, struct fault *fault)
{
    const struct attn_layer *layer = &pass->model->layers[step->layer].layer;
    const int64_t q_len = sequence->length[step->stream];
    const int64_t kv_len = step->is_cross ? sequence->length[0] : q_len;
    const double pairs = (double)layer->q_heads * (double)q_len * (double)kv_len;
    if (!pass_keep_room(pass, &sequence->lse, layer->q_heads * q_len, sizeof(float), fault))
        return false;
    if (work) { /* scores once more, without the sum of values */
        work->tile_flops += 2 * pairs * (double)layer->head_dim;
        work->pairs += pairs;
    }
    return !rolls_out(pass, step, sequence) || plan_rollout(pass, step, sequence, work, fault);
}

size_t pass_maps_workspace_bytes(const struct pass *pass, const struct pass_step *step,
                                 const struct pass_sequence *sequence)
{
    size_t bytes = 0;
    if (rolls_out(pass, step, sequence)) {
        const struct attn_map_tile tile = pass_map_tile(sequence, 0);
        bytes = (rollout_workspace_bytes(&tile) + 63) / 64 * 64;
        if (place_of(pass, step) > 0) {
            const size_t product = attn_product_workspace_bytes(&sequence->product);
            bytes = product > bytes ? product : bytes;
        }
    }
    return bytes;
}

int64_t pass_maps_tasks(struct pass *pass, const struct pass_step *step,
                        struct pass_sequence *sequence, enum pass_maps_turn turn)
{
    const struct trace_layer *answered = sequence->answered[step->layer];
    if (!rolls_out(pass, step, sequence))
        return 0;
    switch (turn) {
    case PASS_MAPS_STEP:
        return rollout_step_tasks(sequence->length[step->stream]);
    case PASS_MAPS_ROLL:
        return set_product(pass, step, sequence);
    default:
        return answered && answered->tensors[TRACE_ROLLOUT].values;
    }
}

void pass_maps_run(const struct pass *pass, const struct pass_step *step,
                   const struct pass_sequence *sequence, enum pass_maps_turn turn, int64_t task,
                   void *workspace)
{
    if (turn == PASS_MAPS_STEP)
        run_step(pass, step, sequence, task, workspace);
    else if (turn == PASS_MAPS_ROLL)
        attn_product_run(&sequence->product, task, workspace);
    else
        answer_rollout(pass, step, sequence);
}
