/* SPDX-License-Identifier: Apache-2.0 */
/* oip_attention.c - inputs and outputs of a model with parameters.
 *
 * query, key and value are [length, columns] or [batch, length, columns]. Each entry of the batch
 * is an item. */
#include "operations/attention_fields.h"
#include "operations/oip.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The slots of the inputs, in the order of oip_tensors.c; from PER_HEAD on one for each of enum
 * attn_per_head. */
enum { QUERY, KEY, VALUE, MASK, KV_LEN, PER_HEAD };

static bool refuse_rows(const struct oip_call *oip, int slot, struct fault *fault)
{
    const struct oip_tensor *known = &oip->request.signature->inputs[slot];
    char with_batch[64], without[64], expected[144];
    oip_shape_text(with_batch, sizeof with_batch, known->shape, 3);
    oip_shape_text(without, sizeof without, known->shape + 1, 2);
    if (slot == QUERY)
        snprintf(expected, sizeof expected, "%s or %s", with_batch, without);
    else
        snprintf(expected, sizeof expected, "%s",
                 oip->inputs[QUERY].array.rank == 3 ? with_batch : without);
    return oip_unexpected_shape(&oip->request, slot, expected, fault);
}

/* Checks query, key or value: [batch, length, columns], or without the batch if query has none. */
static bool check_rows(const struct oip_call *oip, int slot, struct fault *fault)
{
    const struct oip_input *input = &oip->inputs[slot], *query = &oip->inputs[QUERY];
    const struct oip_tensor *known = &oip->request.signature->inputs[slot];
    if (!input->given)
        return true;
    const int rank = input->array.rank;
    const bool fits = (rank == 2 || rank == 3) && rank == query->array.rank
                      && (known->shape[2] < 0 || input->array.shape[rank - 1] == known->shape[2]);
    if (!fits)
        return refuse_rows(oip, slot, fault);
    if (rank == 3 && input->array.shape[0] != query->array.shape[0])
        return oip_input_fault(&oip->request, slot, fault, FAULT_SHAPE,
                               "batch size does not match other inputs for '%s': %" PRId64
                               ", query has %" PRId64,
                               oip->model->name, input->array.shape[0], query->array.shape[0]);
    return true;
}

/* The array of an input for entry b of the batch: its part b where has_batch says that its first
 * dimension is the batch, else all of it. No data where the input was not given. */
static struct array array_of(const struct oip_call *oip, int slot, bool has_batch, int64_t b)
{
    const struct oip_input *input = &oip->inputs[slot];
    if (!input->given)
        return (struct array){ .data = NULL };
    return has_batch ? oip_entry(&input->array, b) : input->array;
}

/* Checks the mask: [q_len, kv_len] or [q_heads, q_len, kv_len]. With a batch, either has the batch
 * as its first dimension, or [q_len, kv_len] is for all entries. */
static bool check_mask(const struct oip_call *oip, struct fault *fault)
{
    const struct oip_input *mask = &oip->inputs[MASK];
    if (!mask->given)
        return true;
    if (mask->array.rank < 2 || mask->array.rank > (oip->is_batched ? 4 : 3))
        return oip_unexpected_shape(&oip->request, MASK,
                                    oip->is_batched ? "[q_len,kv_len], [batch,q_len,kv_len] or "
                                                      "[batch,q_heads,q_len,kv_len]"
                                                    : "[q_len,kv_len] or [q_heads,q_len,kv_len]",
                                    fault);
    if (oip->is_batched && mask->array.rank > 2 && mask->array.shape[0] != oip->batch)
        return oip_input_fault(&oip->request, MASK, fault, FAULT_SHAPE,
                               "batch size does not match other inputs for '%s': %" PRId64
                               ", query has %" PRId64,
                               oip->model->name, mask->array.shape[0], oip->batch);
    return true;
}

/* Checks kv_len: one length for each entry of the batch, or one for each query row of each
 * entry. */
static bool check_kv_len(const struct oip_call *oip, struct fault *fault)
{
    const struct oip_input *kv_len = &oip->inputs[KV_LEN];
    const struct array *array = &kv_len->array, *query = &oip->inputs[QUERY].array;
    const int64_t q_len = query->shape[query->rank - 2];
    if (!kv_len->given)
        return true;
    const int batch_rank = oip->is_batched ? 1 : 0;
    const bool fits = (array->rank == batch_rank || array->rank == batch_rank + 1)
                      && (batch_rank == 0 || array->shape[0] == oip->batch)
                      && (array->rank == batch_rank || array->shape[batch_rank] == 1
                          || array->shape[batch_rank] == q_len);
    if (!fits)
        return oip_unexpected_shape(&oip->request, KV_LEN,
                                    oip->is_batched ? "[batch] or [batch,q_len]" : "[1] or [q_len]",
                                    fault);
    for (int64_t i = 0; i < kv_len->count; i++)
        if (kv_len->integers[i] < 0)
            return oip_input_fault(&oip->request, KV_LEN, fault, FAULT_LENGTH,
                                   "is %" PRId64 " at element %" PRId64 "; expected 0 or more",
                                   kv_len->integers[i], i);
    return true;
}

/* Checks that what may come as an input or as a parameter does not come as both. */
static bool check_per_head(const struct oip_call *oip, const struct infer_item *shared,
                           struct fault *fault)
{
    for (int i = 0; i < ATTN_PER_HEAD_COUNT; i++)
        if (oip->inputs[PER_HEAD + i].given && shared->per_head[i].data)
            return oip_input_fault(&oip->request, PER_HEAD + i, fault, FAULT_DUPLICATE,
                                   "is among the parameters too");
    return true;
}

static void set_kv_len(const struct oip_call *oip, struct infer_item *item, int64_t b)
{
    const struct oip_input *kv_len = &oip->inputs[KV_LEN];
    if (!kv_len->given || kv_len->count == 0)
        return;
    const int64_t each = kv_len->count / (oip->is_batched ? oip->batch : 1);
    item->kv_len = (struct integers){ (int64_t *)kv_len->integers + b * each, each, each > 1 };
}

/* An empty batch is planned as one entry of zeros, which gives its outputs their shapes. */
static bool stand_in(struct call *call, struct oip_call *oip, struct fault *fault)
{
    for (int slot = QUERY; slot <= MASK; slot++) {
        struct array *array = &oip->inputs[slot].array;
        int64_t count = (int64_t)attn_dtype_size(array->dtype);
        if (!oip->inputs[slot].given || (slot == MASK && array->rank == 2))
            continue;
        for (int i = 1; i < array->rank; i++)
            if (__builtin_mul_overflow(count, array->shape[i], &count))
                return oip_input_fault(&oip->request, slot, fault, FAULT_TOO_LARGE, "is too large");
        array->data = arena_calloc(&call->arena, (size_t)count, 1);
        if (!array->data)
            return fault_no_memory(fault);
    }
    return true;
}

static void fill_item(const struct oip_call *oip, struct infer_item *item, int64_t b)
{
    item->query = array_of(oip, QUERY, oip->is_batched, b);
    item->key = array_of(oip, KEY, oip->is_batched, b);
    item->value = array_of(oip, VALUE, oip->is_batched, b);
    item->mask = array_of(oip, MASK, oip->is_batched && oip->inputs[MASK].array.rank > 2, b);
    item->mask_is_bool = item->mask.data && item->mask.dtype == ATTN_BOOL;
    set_kv_len(oip, item, b);
    for (int i = 0; i < ATTN_PER_HEAD_COUNT; i++)
        if (oip->inputs[PER_HEAD + i].given)
            item->per_head[i] = oip->inputs[PER_HEAD + i].array;
    for (int i = 0; i < oip->request.asked_count; i++)
        item->outputs[oip->request.outputs[i].slot] = true;
}

/* Reads query, key, value and what goes with them into items, each a copy of shared. */
static bool make_items(struct call *call, struct oip_call *oip, const struct infer_item *shared,
                       struct fault *fault)
{
    struct infer_request *request = infer_request_of(call);
    if (!check_rows(oip, QUERY, fault) || !check_rows(oip, KEY, fault)
        || !check_rows(oip, VALUE, fault) || !check_per_head(oip, shared, fault))
        return false;
    oip->is_batched = oip->inputs[QUERY].array.rank == 3;
    oip->batch = oip->is_batched ? oip->inputs[QUERY].array.shape[0] : 1;
    if (!check_mask(oip, fault) || !check_kv_len(oip, fault)
        || (oip->batch == 0 && !stand_in(call, oip, fault)))
        return false;
    const int64_t count = oip->batch > 0 ? oip->batch : 1;
    if (!oip_make_items(call, count, fault))
        return false;
    for (int64_t b = 0; b < count; b++) {
        request->items[b] = *shared;
        request->item_count = b + 1;
        fill_item(oip, &request->items[b], b);
    }
    return true;
}

static bool read(struct call *call, struct fault *fault)
{
    struct infer_item shared = { .layer_index = 0 };
    return oip_read_parameters(call, &attention_fields, &shared, fault)
           && make_items(call, oip_call_of(call), &shared, fault) && oip_sequence_take(call, fault);
}

/* ---------------------------------------------------------------- results -- */

static void say(const struct call *call, struct writer *writer)
{
    const struct oip_call *oip = oip_call_of(call);
    const struct infer_item *item = &infer_request_of(call)->items[0];
    if (infer_precision(item))
        writer->kind->string(writer, "precision", infer_precision(item));
    for (int i = 0; i < oip->request.asked_count; i++) {
        const enum attn_output output = (enum attn_output)oip->request.outputs[i].slot;
        struct array result = { .data = item->results[output],
                                .dtype = infer_output_dtype(item->result_dtype, output),
                                .rank = oip->is_batched,
                                .shape = { oip->batch } };
        result.rank += infer_output_shape(item, output, result.shape + result.rank);
        writer->kind->array(writer, infer_output_names[output], &result);
    }
}

const struct operation oip_attention = { .kind = &infer_kind,
                                         .read = read,
                                         .explain = oip_explain,
                                         .finish = oip_finish,
                                         .say = say,
                                         .drop = oip_sequence_drop };
