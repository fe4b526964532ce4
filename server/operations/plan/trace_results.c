/* SPDX-License-Identifier: Apache-2.0 */
/* trace_results.c - what a trace answers: which layers, the shapes of their tensors, how many bytes
 * they take in the answer, and memory for them. */
#include "operations/plan/trace_plan.h"

#include "call/infer_results.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TOKEN_BYTES = 160, CANDIDATE_BYTES = 160, INDEX_BYTES = 8 };

const char *const trace_tensor_names[TRACE_TENSOR_COUNT] = {
#define X(NAME, name, OUTPUT) #name,
    TRACE_TENSOR_MAP(X)
#undef X
};

/* The outputs that a tensor is answered for; TRACE_OUTPUT_COUNT: for none of them. */
static const enum trace_output output_of[TRACE_TENSOR_COUNT] = {
#define X(NAME, name, OUTPUT) [TRACE_##NAME] = TRACE_OUTPUT_##OUTPUT,
    TRACE_TENSOR_MAP(X)
#undef X
};

/* ------------------------------------------------------------------ layers -- */

static bool is_kind(const char *kind, const char *const *kinds, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (strcmp(kind, kinds[i]) == 0)
            return true;
    return false;
}

static bool check_kinds(const struct trace_item *item, struct fault *fault)
{
    const struct model *model = item->model;
    for (int64_t i = 0; i < item->kind_count; i++) {
        bool is_known = false;
        char kinds[96];
        for (int64_t k = 0; k < model->layer_count && !is_known; k++)
            is_known = strcmp(item->kinds[i], model_layer_kind(&model->layers[k])) == 0;
        if (is_known)
            continue;
        trace_list_kinds(model, kinds, sizeof kinds);
        return fault_set_at(fault, "/kinds", FAULT_OPTION,
                            "model '%s' has no layers of the kind '%.60s'; expected any of %s",
                            model->name, item->kinds[i], kinds);
    }
    return true;
}

/* Marks the layers of the list; false for one that there is not. */
static bool mark_listed(const struct trace_item *item, bool *is_listed, struct fault *fault)
{
    const struct model *model = item->model;
    for (int64_t i = 0; i < item->layer_count; i++) {
        const int64_t layer = item->layers[i];
        char pointer[FAULT_POINTER_MAX];
        snprintf(pointer, sizeof pointer, "/layers/%" PRId64, i);
        if (layer < 0 || layer >= model->layer_count)
            return fault_set_at(fault, pointer, FAULT_NOT_FOUND,
                                "layers[%" PRId64 "] is %" PRId64 "; model '%s' has %" PRId64
                                ", counted from 0",
                                i, layer, model->name, model->layer_count);
        const struct trace_place place = trace_place_of(model->forward, layer);
        if (!place.block || !item->streams[place.stream].runs)
            return fault_set_at(fault, pointer, FAULT_OPTION,
                                "layers[%" PRId64 "] is %" PRId64
                                ", which nothing of this request goes through",
                                i, layer);
        is_listed[layer] = true;
    }
    return true;
}

/* ----------------------------------------------------------------- tensors -- */

static void set_shape(struct trace_tensor *tensor, int rank, int64_t a, int64_t b, int64_t c)
{
    *tensor = (struct trace_tensor){ .rank = rank, .shape = { a, b, c } };
}

/* Spans are of the keys of the text: not of those of a decoder's own tokens. */
static bool has_spans(const struct trace_item *item, const struct trace_place *place)
{
    return item->span_count > 0
           && (place->is_cross || place->stream == 0 || !item->model->forward->is_encoder_decoder);
}

/* Whether the map fits the layer, which its shape says nothing about. */
static bool check_weight_map(const struct trace_item *item, int64_t heads, int64_t q_len,
                             int64_t kv_len, struct fault *fault)
{
    const struct infer_item attention = {
        .has_weight_map = item->has_weight_map,
        .weight_map = item->weight_map,
        .outputs = { [ATTN_OUTPUT_WEIGHTS] =
                         item->outputs[TRACE_OUTPUT_WEIGHTS] || item->outputs[TRACE_OUTPUT_NORMS] },
        .layer = { .q_heads = heads },
        .q_len = q_len,
        .kv_len_max = kv_len,
    };
    return infer_check_weight_map(&attention, fault);
}

/* The norm of what a value adds follows from the value, but for a gate of each query row. */
static bool check_norms(const struct trace_item *item, int64_t layer, struct fault *fault)
{
    const struct model *model = item->model;
    return !item->outputs[TRACE_OUTPUT_NORMS] || !model->layers[layer].layer.gate_proj.weight
           || fault_set_at(fault, "/outputs", FAULT_OPTION,
                           "layer %" PRId64 " of model '%s' has a gate of its context, so that a "
                           "value adds something else to each row; ask for weights",
                           layer, model->name);
}

static bool set_shapes(const struct trace_item *item, const struct trace_place *place,
                       struct trace_layer *answered, struct fault *fault)
{
    const struct model_stream *streams = item->model->forward->streams;
    const int64_t heads = item->model->layers[answered->number].layer.q_heads;
    const int64_t q_len = item->streams[place->stream].length;
    const int64_t past = item->past ? item->past->length : 0;
    const int64_t kv_len = place->is_cross ? item->streams[0].length : past + q_len;
    const bool shares_keys = item->model->layers[answered->number].shares_keys;
    const int64_t width = streams[place->stream].width;
    const struct trace_stream *stream = &item->streams[place->stream];
    struct trace_tensor *tensors = answered->tensors;
    if (!item->model->layers[answered->number].lacks_attention
        && (!check_weight_map(item, heads, q_len, kv_len, fault)
            || !check_norms(item, answered->number, fault)))
        return false;
    for (int i = TRACE_WEIGHTS; i <= TRACE_MASKED; i++)
        set_shape(&tensors[i], 3, heads, q_len, kv_len);
    set_shape(&tensors[TRACE_LSE], 2, heads, q_len, 1);
    if (item->has_weight_map)
        attn_weight_map_shape(&item->weight_map, heads, q_len, kv_len,
                              tensors[TRACE_WEIGHTS].shape);
    set_shape(&tensors[TRACE_NORMS], 3, heads, q_len, kv_len);
    if (item->has_weight_map)
        attn_weight_map_shape(&item->weight_map, heads, q_len, kv_len, tensors[TRACE_NORMS].shape);
    set_shape(&tensors[TRACE_INPUTS], 2, q_len, width, 1);
    set_shape(&tensors[TRACE_KEY_INPUTS], 2, shares_keys ? q_len : kv_len, streams[0].width, 1);
    set_shape(&tensors[TRACE_HIDDEN_STATES], 2, q_len, width, 1);
    set_shape(&tensors[TRACE_ATTENTION_OUTPUT], 2, q_len, width, 1);
    set_shape(&tensors[TRACE_SPANS], 3, heads, trace_span_rows(item, stream), item->span_count);
    tensors[TRACE_NORM_SPANS] = tensors[TRACE_SPANS];
    set_shape(&tensors[TRACE_ROLLOUT], 2, item->has_rows ? stream->span_row_count : q_len, kv_len,
              1);
    for (int i = 0; i < TRACE_TENSOR_COUNT; i++)
        answered->is_answered[i] =
            output_of[i] != TRACE_OUTPUT_COUNT && item->outputs[output_of[i]];
    answered->is_answered[TRACE_KEY_INPUTS] =
        answered->is_answered[TRACE_KEY_INPUTS] && (place->is_cross || shares_keys);
    answered->is_answered[TRACE_ROLLOUT] = answered->is_answered[TRACE_ROLLOUT] && !place->is_cross;
    answered->has_spans = has_spans(item, place);
    answered->is_answered[TRACE_SPANS] = answered->has_spans && !item->has_head_weights;
    answered->is_answered[TRACE_NORM_SPANS] =
        answered->has_spans && item->outputs[TRACE_OUTPUT_NORMS];
    answered->is_answered[TRACE_NORMS] = !answered->has_spans && item->outputs[TRACE_OUTPUT_NORMS];
    return true;
}

/* What a layer without attention has no numbers of; one that is a feed-forward alone has neither
 * inputs nor an output beside the feed-forward's. */
static bool is_of_attention(const struct model *model, int64_t layer, int tensor)
{
    return tensor != TRACE_HIDDEN_STATES
           && (!model_block_recurrence(trace_place_of(model->forward, layer).block, layer)
               || (tensor != TRACE_INPUTS && tensor != TRACE_ATTENTION_OUTPUT));
}

/* Leaves out what only attention has. Where such a layer was asked for by its number or its kind,
 * and a part of its answer would be missing, that is a fault. */
static bool leave_out_maps(const struct trace_item *item, struct trace_layer *answered,
                           struct fault *fault)
{
    const struct model *model = item->model;
    const bool is_named = item->has_layers || item->has_kinds;
    const char *missing = NULL;
    if (!model->layers[answered->number].lacks_attention)
        return true;
    for (int i = TRACE_TENSOR_COUNT - 1; i >= 0; i--)
        if (is_of_attention(model, answered->number, i)) {
            missing = answered->is_answered[i] ? trace_tensor_names[i] : missing;
            answered->is_answered[i] = false;
        }
    answered->has_spans = false;
    return !is_named || !missing
           || fault_set_at(fault, item->has_layers ? "/layers" : "/kinds", FAULT_OPTION,
                           "layer %" PRId64 " of model '%s' is of the kind '%s' and has no "
                           "attention, so no %s; ask for hidden_states%s of it",
                           answered->number, model->name, answered->kind, missing,
                           is_of_attention(model, answered->number, TRACE_INPUTS)
                               ? ""
                               : ", inputs or attention_output");
}

static bool list_layers(struct trace_item *item, struct arena *arena, struct fault *fault)
{
    const struct model *model = item->model;
    bool *is_listed = arena_calloc(arena, (size_t)model->layer_count, sizeof *is_listed);
    item->answered = arena_calloc(arena, (size_t)model->layer_count, sizeof *item->answered);
    if (!is_listed || !item->answered)
        return fault_no_memory(fault);
    if (!check_kinds(item, fault) || !mark_listed(item, is_listed, fault))
        return false;
    for (int64_t i = 0; i < model->layer_count; i++) {
        const struct trace_place place = trace_place_of(model->forward, i);
        const char *kind = model_layer_kind(&model->layers[i]);
        if (!place.block || !item->streams[place.stream].runs || (item->has_layers && !is_listed[i])
            || (item->has_kinds && !is_kind(kind, item->kinds, item->kind_count)))
            continue;
        struct trace_layer *answered = &item->answered[item->answered_count++];
        answered->number = i;
        answered->kind = kind;
        if (!set_shapes(item, &place, answered, fault) || !leave_out_maps(item, answered, fault))
            return false;
    }
    return true;
}

/* ------------------------------------------------------------- predictions -- */

static bool list_predictions(struct trace_item *item, struct arena *arena, struct fault *fault)
{
    const struct model_forward *forward = item->model->forward;
    struct trace_predictions *predictions = &item->predictions;
    if (!item->outputs[TRACE_OUTPUT_PREDICTIONS] && !item->logits)
        return true;
    if (!trace_expect_head(item, "/outputs", fault))
        return false;
    if (!trace_list_positions(item, forward->stream_count - 1, &predictions->positions,
                              &predictions->count, arena, fault))
        return false;
    if (item->outputs[TRACE_OUTPUT_PREDICTIONS])
        predictions->candidates = trace_candidates(item);
    if (item->logits)
        set_shape(&item->logit_rows, 2, predictions->count, trace_vocabulary(forward), 1);
    return true;
}

static bool list_contacts(struct trace_item *item, struct fault *fault)
{
    const int64_t length = item->streams[0].length, inner = length > 2 ? length - 2 : 0;
    if (!item->outputs[TRACE_OUTPUT_CONTACTS])
        return true;
    if (!item->model->forward->contacts.weights)
        return fault_set_at(fault, "/outputs", FAULT_OPTION,
                            "model '%s' has no contact head, of which contacts would be; ask for "
                            "weights",
                            item->model->name);
    if (item->streams[0].tokens.count == 0)
        return fault_set_at(fault, "/outputs", FAULT_OPTION,
                            "contacts are of tokens, whose ids are not known here; send text or "
                            "tokens");
    set_shape(&item->contacts, 2, inner, inner, 1);
    return true;
}

bool trace_plan_results(struct trace_item *item, struct arena *arena, struct fault *fault)
{
    const struct model_forward *forward = item->model->forward;
    if (!item->has_outputs && item->span_count == 0)
        item->outputs[TRACE_OUTPUT_WEIGHTS] = true;
    if (item->outputs[TRACE_OUTPUT_WEIGHTS] && item->span_count > 0)
        return fault_set_at(fault, "/outputs", FAULT_OPTION,
                            "spans come in place of weights; ask for one of them");
    if (item->outputs[TRACE_OUTPUT_ROLLOUT] && model_is_hybrid(item->model))
        return fault_set_at(fault, "/outputs", FAULT_OPTION,
                            "a rollout multiplies the maps of all layers, and some layers of model "
                            "'%s' have no attention; ask for weights",
                            item->model->name);
    item->has_final_rows = item->final_rows || item->outputs[TRACE_OUTPUT_HIDDEN_STATES];
    for (int i = 0; item->has_final_rows && i < forward->stream_count; i++)
        if (item->streams[i].runs)
            set_shape(&item->streams[i].rows, 2, item->streams[i].length, forward->streams[i].width,
                      1);
    return list_layers(item, arena, fault) && trace_plan_row_spans(item, arena, fault)
           && trace_plan_head_weights(item, arena, fault) && list_predictions(item, arena, fault)
           && list_contacts(item, fault) && trace_plan_readouts(item, fault)
           && trace_plan_scores(item, arena, fault) && trace_plan_lens(item, arena, fault)
           && trace_plan_contributions(item, arena, fault) && trace_plan_align(item, arena, fault);
}

/* ------------------------------------------------------------------- bytes -- */

static void add_bytes(size_t *sum, int64_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow((size_t)count, size, &bytes)
        || __builtin_add_overflow(*sum, bytes, sum))
        *sum = SIZE_MAX;
}

/* The numbers of a tensor; INT64_MAX on overflow. */
static int64_t numbers_of(const struct trace_tensor *tensor)
{
    int64_t count = 1;
    for (int i = 0; i < tensor->rank; i++)
        if (__builtin_mul_overflow(count, tensor->shape[i], &count))
            return INT64_MAX;
    return count;
}

/* With a side, weights count as a map that is only pooled, to so many rows and columns: whatever
 * weight map was asked for, this one takes its place. */
static size_t layer_bytes(const struct trace_item *item, const struct trace_layer *answered,
                          size_t number_bytes, int64_t side)
{
    size_t bytes = TOKEN_BYTES;
    if (answered->lens) {
        const struct trace_lens *lens = answered->lens;
        add_bytes(&bytes, lens->tokens.count * (1 + lens->tokens.candidates) + lens->score_count,
                  CANDIDATE_BYTES);
    }
    for (int i = 0; i < TRACE_TENSOR_COUNT; i++) {
        struct trace_tensor tensor = answered->tensors[i];
        if (!answered->is_answered[i])
            continue;
        if (i == TRACE_WEIGHTS && side > 0) {
            tensor = answered->tensors[TRACE_SCORES]; /* the shape of the whole map */
            for (int k = 1; k < 3; k++)
                tensor.shape[k] = tensor.shape[k] < side ? tensor.shape[k] : side;
        }
        const bool has_indices = (i == TRACE_WEIGHTS || i == TRACE_NORMS) && item->has_weight_map
                                 && item->weight_map.top_k > 0 && side == 0;
        add_bytes(&bytes, numbers_of(&tensor), number_bytes);
        if (has_indices)
            add_bytes(&bytes, numbers_of(&tensor),
                      number_bytes < INDEX_BYTES ? INDEX_BYTES : number_bytes);
    }
    return bytes;
}

static size_t item_bytes(const struct trace_item *item, size_t number_bytes, int64_t side)
{
    size_t bytes = 1024;
    for (int64_t i = 0; i < item->answered_count; i++)
        add_bytes(&bytes, 1, layer_bytes(item, &item->answered[i], number_bytes, side));
    for (int i = 0; i < MODEL_STREAMS_MAX; i++) {
        if (item->span_count == 0 && !item->hides_tokens)
            add_bytes(&bytes, item->streams[i].tokens.count, TOKEN_BYTES);
        if (item->streams[i].rows.rank > 0)
            add_bytes(&bytes, numbers_of(&item->streams[i].rows), number_bytes);
        add_bytes(&bytes, item->streams[i].vector.readout.width, number_bytes);
    }
    if (item->classes.numbers.rank > 0) {
        add_bytes(&bytes, 2 * numbers_of(&item->classes.numbers), number_bytes);
        add_bytes(&bytes, item->classes.readout.width, TOKEN_BYTES);
        if (item->model->forward->classes.are_letters)
            add_bytes(&bytes, item->classes.numbers.shape[0], TOKEN_BYTES);
    }
    add_bytes(&bytes, item->predictions.count * (1 + item->predictions.candidates),
              CANDIDATE_BYTES);
    if (item->outputs[TRACE_OUTPUT_LOGPROBS])
        add_bytes(&bytes, item->logprobs.count * (1 + item->logprobs.tokens.candidates),
                  CANDIDATE_BYTES);
    add_bytes(&bytes, 2 * item->target_count, CANDIDATE_BYTES);
    if (item->base)
        add_bytes(&bytes, 1, item_bytes(item->base, number_bytes, 0));
    if (item->logit_rows.rank > 0)
        add_bytes(&bytes, numbers_of(&item->logit_rows), number_bytes);
    for (int64_t i = 0; item->contribution_count > 0 && i < item->contributions[0].part_count; i++)
        add_bytes(&bytes, item->contribution_count,
                  TOKEN_BYTES + (size_t)item->contributions[0].parts[i].head_count * number_bytes);
    add_bytes(&bytes, 2 * item->contribution_count, CANDIDATE_BYTES);
    if (item->span_scores.rank > 0)
        add_bytes(&bytes, numbers_of(&item->span_scores), number_bytes);
    if (item->contacts.rank > 0)
        add_bytes(&bytes, numbers_of(&item->contacts), number_bytes);
    if (item->align) /* a token, and a word of it */
        add_bytes(&bytes, item->align->rows + item->align->head_count, (size_t)2 * TOKEN_BYTES);
    return bytes;
}

size_t trace_answer_bytes(const struct trace_item *item, size_t number_bytes)
{
    return item_bytes(item, number_bytes, 0);
}

int64_t trace_pool_that_fits(const struct trace_item *item, size_t number_bytes, size_t bytes_max)
{
    int64_t side = 1024;
    if (!item->outputs[TRACE_OUTPUT_WEIGHTS])
        return 0;
    while (side > 0 && item_bytes(item, number_bytes, side) > bytes_max)
        side /= 2;
    return side;
}

/* ------------------------------------------------------------------ memory -- */

/* The first item of a joined request has the memory of all; first is its tensor. */
static bool allocate_tensor(struct trace_tensor *tensor, const struct trace_tensor *first,
                            const struct trace_joint *joint, struct arena *arena,
                            struct fault *fault)
{
    const int64_t numbers = numbers_of(tensor);
    size_t bytes;
    if (joint->number > 0) {
        tensor->values = first->values + joint->number * numbers;
        return true;
    }
    if (__builtin_mul_overflow((size_t)numbers, sizeof(float), &bytes)
        || __builtin_mul_overflow(bytes, (size_t)joint->count, &bytes))
        return fault_no_memory(fault);
    tensor->values = arena_alloc(arena, bytes);
    return tensor->values || fault_no_memory(fault);
}

static bool allocate_predictions(struct trace_predictions *predictions, bool has_differences,
                                 struct arena *arena, struct fault *fault)
{
    const size_t count = (size_t)(predictions->count * predictions->candidates);
    predictions->ids = arena_calloc(arena, count, sizeof *predictions->ids);
    predictions->logprobs = arena_calloc(arena, count, sizeof *predictions->logprobs);
    if (has_differences)
        predictions->differences = arena_calloc(arena, count, sizeof *predictions->differences);
    return (predictions->ids && predictions->logprobs
            && (predictions->differences || !has_differences))
           || fault_no_memory(fault);
}

/* Of a weight map that is the largest of each row. */
static bool allocate_indices(const struct trace_item *item, const struct trace_layer *answered,
                             enum trace_tensor_name name, const int64_t **indices,
                             struct arena *arena, struct fault *fault)
{
    if (!answered->is_answered[name] || !item->has_weight_map || item->weight_map.top_k == 0)
        return true;
    *indices = arena_calloc(arena, (size_t)numbers_of(&answered->tensors[name]), sizeof **indices);
    return *indices || fault_no_memory(fault);
}

static bool allocate_layer(const struct trace_item *item, int64_t index,
                           const struct trace_joint *joint, struct arena *arena,
                           struct fault *fault)
{
    struct trace_layer *answered = &item->answered[index];
    const struct trace_layer *first = &joint->first->answered[index];
    const struct trace_tensor *encoded = &item->streams[0].rows;
    if (answered->lens && !allocate_predictions(&answered->lens->tokens, false, arena, fault))
        return false;
    for (int i = 0; i < TRACE_TENSOR_COUNT; i++) {
        struct trace_tensor *tensor = &answered->tensors[i];
        if (!answered->is_answered[i])
            continue;
        if (i == TRACE_KEY_INPUTS && item->model->forward->is_encoder_decoder && encoded->values)
            tensor->values = encoded->values; /* the rows that leave the encoder */
        else if (!allocate_tensor(tensor, &first->tensors[i], joint, arena, fault))
            return false;
    }
    return allocate_indices(item, answered, TRACE_WEIGHTS, &answered->indices, arena, fault)
           && allocate_indices(item, answered, TRACE_NORMS, &answered->norm_indices, arena, fault);
}

static bool allocate_sums(struct trace_item *item, struct arena *arena, struct fault *fault)
{
    const int64_t count = numbers_of(&item->span_scores);
    item->span_sums = arena_calloc(arena, (size_t)count, sizeof *item->span_sums);
    if (!item->span_sums)
        return fault_no_memory(fault);
    if (count > 0)
        memset((float *)item->span_scores.values, 0, (size_t)count * sizeof(float));
    return true;
}

/* Also of the item without edits beside it, which may be NULL. */
static bool allocate_vector(struct trace_vector *vector, const struct trace_vector *first,
                            struct trace_vector *base, const struct trace_joint *joint,
                            struct arena *arena, struct fault *fault)
{
    const struct trace_joint alone = { .count = 1 };
    return vector->numbers.rank == 0
           || (allocate_tensor(&vector->numbers, &first->numbers, joint, arena, fault)
               && (!base || allocate_tensor(&base->numbers, &base->numbers, &alone, arena, fault)));
}

static bool allocate_readouts(struct trace_item *item, const struct trace_joint *joint,
                              struct arena *arena, struct fault *fault)
{
    struct trace_item *base = item->base;
    for (int i = 0; i < MODEL_STREAMS_MAX; i++)
        if (!allocate_vector(&item->streams[i].vector, &joint->first->streams[i].vector,
                             base ? &base->streams[i].vector : NULL, joint, arena, fault))
            return false;
    return allocate_vector(&item->classes, &joint->first->classes, base ? &base->classes : NULL,
                           joint, arena, fault);
}

/* key_inputs of every layer are the rows that leave the encoder, so these are kept once. */
static bool needs_encoded(const struct trace_item *item)
{
    for (int64_t i = 0; item->model->forward->is_encoder_decoder && i < item->answered_count; i++)
        if (item->answered[i].is_answered[TRACE_KEY_INPUTS])
            return true;
    return false;
}

bool trace_allocate_results(struct trace_item *item, const struct trace_joint *joint,
                            struct arena *arena, struct fault *fault)
{
    const struct trace_item *first = joint->first;
    if (needs_encoded(item) && item->streams[0].rows.rank == 0)
        set_shape(&item->streams[0].rows, 2, item->streams[0].length,
                  item->model->forward->streams[0].width, 1);
    for (int i = 0; i < MODEL_STREAMS_MAX; i++)
        if (item->streams[i].rows.rank > 0
            && !allocate_tensor(&item->streams[i].rows, &first->streams[i].rows, joint, arena,
                                fault))
            return false;
    for (int64_t i = 0; i < item->answered_count; i++)
        if (!allocate_layer(item, i, joint, arena, fault))
            return false;
    if (!allocate_readouts(item, joint, arena, fault))
        return false;
    if (item->span_scores.rank > 0
        && (!allocate_tensor(&item->span_scores, &first->span_scores, joint, arena, fault)
            || !allocate_sums(item, arena, fault)))
        return false;
    if (item->contacts.rank > 0
        && !allocate_tensor(&item->contacts, &first->contacts, joint, arena, fault))
        return false;
    const bool has_differences = item->compare;
    if (item->base
        && (!allocate_predictions(&item->base->predictions, true, arena, fault)
            || !allocate_predictions(&item->base->logprobs.tokens, true, arena, fault)))
        return false;
    return allocate_predictions(&item->predictions, has_differences, arena, fault)
           && allocate_predictions(&item->logprobs.tokens, has_differences, arena, fault)
           && (item->logit_rows.rank == 0
               || allocate_tensor(&item->logit_rows, &first->logit_rows, joint, arena, fault));
}
