/* pass_steps.c - the list of steps of a pass, by the model's blocks, cut behind the last step whose
 * numbers an item asks for. */
#include "forward/pass_internal.h"

/* Steps of a block at most: three parts of three steps. */
enum { BLOCK_STEPS = 9 };

static bool has_feed_forward(const struct model_block *block)
{
    return block->dense.down.weight || block->experts.router.weight;
}

static void add(struct pass *pass, struct pass_step step)
{
    pass->steps[pass->step_count++] = step;
}

static struct pass_step step_of(enum pass_step_kind kind, int stream,
                                const struct model_block *block, const struct model_part *part,
                                int64_t layer)
{
    return (struct pass_step){
        .kind = kind, .stream = stream, .block = block, .part = part, .layer = layer
    };
}

/* Each part reads the rows that the part before it has written. */
static void list_in_sequence(struct pass *pass, int stream, const struct model_block *block)
{
    const int64_t layers[] = { block->self_layer, block->cross_layer };
    const struct model_part *const parts[] = { &block->self, &block->cross };
    bool is_first = true;
    for (int i = 0; i < 2; i++) {
        if (layers[i] < 0)
            continue;
        struct pass_step norm = step_of(PASS_NORM, stream, block, parts[i], layers[i]);
        struct pass_step attend = step_of(PASS_ATTEND, stream, block, parts[i], layers[i]);
        norm.is_first = is_first;
        attend.is_cross = i == 1;
        is_first = false;
        add(pass, norm);
        add(pass, attend);
        add(pass, step_of(PASS_ADD, stream, block, parts[i], layers[i]));
    }
    if (!has_feed_forward(block))
        return;
    add(pass, step_of(PASS_NORM, stream, block, &block->feed_forward, -1));
    add(pass, step_of(PASS_FEED, stream, block, &block->feed_forward, -1));
    add(pass, step_of(PASS_ADD, stream, block, &block->feed_forward, -1));
}

/* Both parts read the rows that enter the block, so the norm before the feed-forward comes before
 * the sum with what attention computed. */
static void list_in_parallel(struct pass *pass, int stream, const struct model_block *block)
{
    struct pass_step norm = step_of(PASS_NORM, stream, block, &block->self, block->self_layer);
    struct pass_step feed_norm = step_of(PASS_NORM, stream, block, &block->feed_forward, -1);
    norm.is_first = true;
    feed_norm.is_copied = true;
    add(pass, norm);
    add(pass, step_of(PASS_ATTEND, stream, block, &block->self, block->self_layer));
    add(pass, feed_norm);
    add(pass, step_of(PASS_ADD, stream, block, &block->self, block->self_layer));
    add(pass, step_of(PASS_FEED, stream, block, &block->feed_forward, -1));
    add(pass, step_of(PASS_ADD, stream, block, &block->feed_forward, -1));
}

static void list_stream(struct pass *pass, int stream)
{
    const struct model_stream *of = &pass->forward->streams[stream];
    add(pass, step_of(PASS_EMBED, stream, NULL, NULL, -1));
    for (int64_t i = 0; i < of->block_count; i++) {
        const struct model_block *block = &of->blocks[i];
        if (block->is_parallel && block->self_layer >= 0 && has_feed_forward(block))
            list_in_parallel(pass, stream, block);
        else
            list_in_sequence(pass, stream, block);
    }
    add(pass, step_of(PASS_FINAL, stream, NULL, NULL, -1));
}

/* ---------------------------------------------------------------- the end -- */

static bool layer_needs(const struct pass_sequence *sequence, const struct pass_step *step)
{
    if (step->layer < 0)
        return false;
    const struct trace_layer *layer = sequence->answered[step->layer];
    if (!layer)
        return false;
    return step->kind != PASS_ADD || layer->tensors[TRACE_ATTENTION_OUTPUT].values;
}

static bool item_needs(const struct trace_item *item, const struct pass_step *step)
{
    if (step->kind == PASS_HEAD)
        return item->prediction_count > 0;
    if (step->kind == PASS_ATTEND && item->past)
        return true;
    return step->kind == PASS_FINAL && item->streams[step->stream].rows.values;
}

static bool is_needed(const struct pass *pass, const struct pass_step *step)
{
    for (int64_t i = 0; i < pass->sequence_count; i++)
        if (layer_needs(&pass->sequences[i], step) || item_needs(pass->sequences[i].item, step))
            return true;
    return false;
}

bool pass_list_steps(struct pass *pass, struct fault *fault)
{
    const struct model_forward *forward = pass->forward;
    int64_t most = 1;
    for (int i = 0; i < forward->stream_count; i++)
        most += forward->streams[i].block_count * BLOCK_STEPS + 2;
    pass->steps = pass_alloc(pass, most, sizeof *pass->steps, fault);
    if (!pass->steps)
        return false;
    for (int i = 0; i < forward->stream_count; i++)
        if (pass->row_count[i] > 0)
            list_stream(pass, i);
    if (forward->head.output.weight && pass->row_count[forward->stream_count - 1] > 0)
        add(pass, step_of(PASS_HEAD, forward->stream_count - 1, NULL, NULL, -1));
    while (pass->step_count > 0 && !is_needed(pass, &pass->steps[pass->step_count - 1]))
        pass->step_count--;
    return true;
}
