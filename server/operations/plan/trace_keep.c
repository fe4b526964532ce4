/* SPDX-License-Identifier: Apache-2.0 */
/* trace_keep.c - what the items of a request keep, from their plans to their ids. */
#include "operations/plan/trace_plan.h"

#include "call/call.h"

#include <stdlib.h>
#include <string.h>

/* The stream that a layer's keys are of. */
static int key_stream_of(const struct trace_place *place)
{
    return place->is_cross ? 0 : place->stream;
}

/* What edits of heads hide and give in the layer. */
static void add_head_edits(struct kept_shape *shape, const struct trace_item *item, int stream,
                           int64_t layer)
{
    for (int64_t i = 0; i < item->edit_count; i++) {
        const struct trace_edit *edit = &item->edits[i];
        const int64_t heads = edit->head_list ? edit->head_count : shape->q_heads;
        if (!edit_is_at(edit, EDIT_HEAD, stream, layer))
            continue;
        shape->has_mask = shape->has_mask || edit->action == EDIT_HIDE;
        shape->given_rows += edit->action == EDIT_WEIGHTS ? heads * edit->row_count : 0;
    }
}

static void add_states(struct kept_shape *shape, const struct trace_item *item,
                       const struct trace_place *place, const struct attn_layer *layer)
{
    const int64_t width = item->model->forward->streams[place->stream].width;
    const bool has_feed = place->block->dense.down.weight || place->block->experts.router.weight;
    shape->state_widths[EDIT_HEAD] = layer->q_heads * layer->v_head_dim;
    shape->state_widths[EDIT_ATTENTION_OUTPUT] = width;
    if (!trace_place_is_own(place))
        return;
    shape->state_widths[EDIT_HIDDEN_STATES] = width;
    shape->state_widths[EDIT_FEED_FORWARD] = has_feed ? width : 0;
}

static struct kept_shape kept_shape_of(const struct trace_item *item, int64_t layer)
{
    const struct model_layer *own = &item->model->layers[layer];
    const struct trace_place place = trace_place_of(item->model->forward, layer);
    struct kept_shape shape = { .q_heads = own->layer.q_heads,
                                .kv_heads = own->layer.kv_heads,
                                .head_dim = own->layer.head_dim,
                                .q_len = item->streams[place.stream].length,
                                .kv_len = item->streams[key_stream_of(&place)].length,
                                .has_mask = own->relative_bias.values != NULL };
    add_head_edits(&shape, item, place.stream, layer);
    if (item->states)
        add_states(&shape, item, &place, &own->layer);
    return shape;
}

/* What fill_kept() will take. */
static bool kept_size_of(const struct trace_item *item, struct kept_size *size)
{
    *size = kept_trace_size(item->answered_count);
    for (int64_t i = 0; i < item->answered_count; i++) {
        const struct kept_shape shape = kept_shape_of(item, item->answered[i].number);
        if (!kept_layer_count(size, &shape))
            return false;
    }
    if (item->streams[0].visible)
        size->block += arena_rounded((size_t)item->streams[0].length);
    for (int s = 0; s < item->model->forward->stream_count; s++) {
        const int64_t width = item->model->forward->streams[s].width;
        size->block += arena_rounded((size_t)item->streams[s].tokens.count * sizeof(struct token));
        if (item->states)
            size->block += arena_rounded((size_t)(item->streams[s].length * width) * sizeof(float));
    }
    return true;
}

static bool make_kept_layers(struct kept_trace *kept, const struct trace_item *item)
{
    for (int64_t i = 0; i < item->answered_count; i++) {
        struct kept_layer *layer = &kept->layers[i];
        const int64_t number = item->answered[i].number;
        const struct kept_shape shape = kept_shape_of(item, number);
        const struct trace_place place = trace_place_of(item->model->forward, number);
        if (!kept_layer_make(kept, i, &shape))
            return false;
        layer->number = number;
        layer->kind = item->answered[i].kind;
        layer->is_cross = place.is_cross;
        layer->key_stream = key_stream_of(&place);
        layer->keys_seen = layer->key_stream == 0 ? kept->visible : NULL;
    }
    return true;
}

static bool fill_kept(struct kept_trace *kept, const struct trace_item *item)
{
    const uint8_t *visible = item->streams[0].visible;
    kept->has_pair = item->pair.data != NULL;
    if (visible) {
        uint8_t *copy = arena_alloc(&kept->arena, (size_t)item->streams[0].length);
        if (!copy)
            return false;
        memcpy(copy, visible, (size_t)item->streams[0].length);
        kept->visible = copy;
    }
    kept->has_states = item->states;
    for (int s = 0; s < item->model->forward->stream_count; s++) {
        kept->lengths[s] = item->streams[s].length;
        if (item->states
            && !kept_trace_make_embeddings(kept, s, item->streams[s].length,
                                           item->model->forward->streams[s].width))
            return false;
        if (item->streams[s].tokens.count > 0
            && !kept_trace_take_tokens(kept, s, &item->streams[s].tokens))
            return false;
    }
    return make_kept_layers(kept, item);
}

static bool plan_kept(struct trace_item *item, struct kept_store *store,
                      const struct access_key *key, struct fault *fault)
{
    struct kept_size size;
    if (!kept_size_of(item, &size))
        return fault_set_at(fault, "/keep", FAULT_TOO_LARGE, "this trace is too large to be kept");
    const size_t bytes = size.block + size.beside;
    if (!store)
        return fault_set_at(fault, "/keep", FAULT_OPTION,
                            "keep came, and a batch ends with its answers; leave it out, or ask a "
                            "daemon");
    if (!kept_store_reserve(store, bytes, key, fault))
        return false;
    item->keeping = kept_trace_create(item->model, item->answered_count, &size);
    if (!item->keeping) {
        kept_store_return(store, bytes, key ? key->account : NULL);
        return fault_no_memory(fault);
    }
    item->keeping->account = key ? access_account_hold(key->account) : NULL;
    return fill_kept(item->keeping, item) || fault_no_memory(fault);
}

/* The work of the levels: each pair once more, without the sum of values. */
static void add_level_work(const struct kept_trace *kept, struct attn_work *work)
{
    for (int64_t i = 0; i < kept->layer_count; i++) {
        const struct kept_layer *layer = &kept->layers[i];
        const double pairs = (double)layer->q_heads * (double)layer->q_len * (double)layer->kv_len;
        if (!layer->levels)
            continue;
        work->tile_flops += 2 * pairs * (double)layer->head_dim;
        work->map_bytes += 4 * pairs;
    }
}

bool trace_keep_plan(struct trace_request *request, struct kept_store *store,
                     const struct access_key *key, struct attn_work *work, struct fault *fault)
{
    for (int64_t i = 0; i < request->item_count; i++) {
        struct trace_item *item = &request->items[i];
        if (item->keep_ns == 0 || item->fault.code != FAULT_NONE)
            continue;
        if (!plan_kept(item, store, key, fault))
            return false;
        add_level_work(item->keeping, work);
    }
    return true;
}

int64_t trace_keep_tasks(const struct trace_request *request)
{
    int64_t count = 0;
    for (int64_t i = 0; i < request->item_count; i++)
        if (request->items[i].keeping)
            count += kept_level_tasks(request->items[i].keeping);
    return count;
}

size_t trace_keep_workspace_bytes(const struct trace_request *request)
{
    size_t most = 0;
    for (int64_t i = 0; i < request->item_count; i++)
        if (request->items[i].keeping) {
            const size_t bytes = kept_level_workspace_bytes(request->items[i].keeping);
            most = bytes > most ? bytes : most;
        }
    return most;
}

void trace_keep_run(const struct trace_request *request, int64_t task, void *workspace)
{
    for (int64_t i = 0; i < request->item_count; i++) {
        const struct kept_trace *kept = request->items[i].keeping;
        const int64_t count = kept ? kept_level_tasks(kept) : 0;
        if (task < count) {
            kept_level_run(kept, task, workspace);
            return;
        }
        task -= count;
    }
}

bool trace_keep_publish(struct trace_request *request, struct kept_store *store,
                        struct fault *fault)
{
    for (int64_t i = 0; i < request->item_count; i++) {
        struct trace_item *item = &request->items[i];
        struct kept_trace *kept = item->keeping;
        if (!kept)
            continue;
        item->keeping = NULL;
        if (!kept_store_publish(store, kept, item->keep_ns, item->kept, fault))
            return false;
    }
    return true;
}

/* Ids of what an answer names. */
struct named {
    struct kept_store *store;
    int64_t count;
    char ids[][TRACE_ID_MAX + 1];
};

static void settle_named(void *settled, bool is_delivered)
{
    struct named *named = settled;
    for (int64_t i = 0; i < named->count && !is_delivered; i++)
        kept_store_end(named->store, named->ids[i]);
    free(named);
}

void trace_keep_watch(const struct trace_request *request, struct kept_store *store,
                      struct call *call)
{
    int64_t count = 0;
    for (int64_t i = 0; i < request->item_count; i++)
        count += request->items[i].kept[0] != '\0';
    struct named *named =
        count > 0 ? malloc(sizeof *named + (size_t)count * sizeof named->ids[0]) : NULL;
    if (!named)
        return; /* without memory they stay until their time is over */
    *named = (struct named){ .store = store };
    for (int64_t i = 0; i < request->item_count; i++)
        if (request->items[i].kept[0])
            text_copy(named->ids[named->count++], TRACE_ID_MAX + 1, request->items[i].kept);
    call_on_settled(call, settle_named, named);
}

void trace_keep_drop(struct trace_request *request, struct kept_store *store, bool has_failed)
{
    for (int64_t i = 0; i < request->item_count; i++) {
        struct trace_item *item = &request->items[i];
        if (has_failed && item->kept[0])
            kept_store_end(store, item->kept);
        item->kept[0] = '\0';
        if (!item->keeping)
            continue;
        kept_store_return(store, item->keeping->bytes, item->keeping->account);
        kept_trace_release(item->keeping);
        item->keeping = NULL;
    }
}
