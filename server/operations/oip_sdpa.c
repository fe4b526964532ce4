/* SPDX-License-Identifier: Apache-2.0 */
/* oip_sdpa.c - ONNX Attention (opset 23 to 25): the inputs and outputs of the model
 * without parameters.
 *
 * Q, K and V are [batch, heads, length, head_dim] or [batch, length, heads * head_dim]. Each entry
 * of the batch is an item that computes with views of the inputs. Keys and values are copied only
 * where a past is joined to them, or where 3-D ones are asked for as present. */
#include "operations/attention_fields.h"
#include "operations/oip.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The slots of inputs and outputs, in the order of oip_tensors.c. */
enum { Q, K, V, ATTN_MASK, PAST_KEY, PAST_VALUE, NONPAD_KV_SEQLEN };
enum { Y, PRESENT_KEY, PRESENT_VALUE, QK_MATMUL_OUTPUT };

/* The sizes that the shapes give. */
struct sizes {
    bool is_rank_3;
    int64_t batch, q_heads, kv_heads, q_len, kv_len, past_len, head_dim, v_head_dim;
    int64_t total; /* keys, the past ones included; of a sequence its own alone */
};

static bool given(const struct oip_call *oip, int slot)
{
    return oip->inputs[slot].given;
}

static const struct array *array_of(const struct oip_call *oip, int slot)
{
    return &oip->inputs[slot].array;
}

/* ----------------------------------------------------------------- sizes -- */

/* Checks that a 3-D input has this many heads, which only a parameter can say. */
static bool heads_of(const struct oip_call *oip, int slot, int64_t heads, const char *name,
                     struct fault *fault)
{
    const int64_t columns = array_of(oip, slot)->shape[2];
    if (heads == 0)
        return fault_set_at(fault, "/parameters", FAULT_FIELD,
                            "parameter %s is missing; inputs of 3 dimensions need it", name);
    if (columns == 0 || columns % heads != 0)
        return oip_input_fault(&oip->request, slot, fault, FAULT_SHAPE,
                               "has %" PRId64 " columns, not a multiple of %s %" PRId64, columns,
                               name, heads);
    return true;
}

static bool expect_ranks(const struct oip_call *oip, struct fault *fault)
{
    const int rank = array_of(oip, Q)->rank;
    if (rank != 3 && rank != 4)
        return oip_unexpected_shape(&oip->request, Q, "[-1,-1,-1,-1] or [-1,-1,-1]", fault);
    for (int slot = K; slot <= V; slot++)
        if (array_of(oip, slot)->rank != rank)
            return oip_unexpected_shape(&oip->request, slot,
                                        rank == 4 ? "[-1,-1,-1,-1]" : "[-1,-1,-1]", fault);
    return true;
}

static bool read_sizes(const struct oip_call *oip, const struct infer_item *shared,
                       struct sizes *sizes, struct fault *fault)
{
    if (!expect_ranks(oip, fault))
        return false;
    const int64_t *q = array_of(oip, Q)->shape, *k = array_of(oip, K)->shape;
    const int64_t *v = array_of(oip, V)->shape;
    sizes->is_rank_3 = array_of(oip, Q)->rank == 3;
    sizes->batch = q[0];
    if (!sizes->is_rank_3) {
        sizes->q_heads = q[1];
        sizes->kv_heads = k[1];
        sizes->q_len = q[2];
        sizes->kv_len = k[2];
        sizes->head_dim = q[3];
        sizes->v_head_dim = v[3];
        return true;
    }
    if (!heads_of(oip, Q, shared->q_heads, "q_num_heads", fault)
        || !heads_of(oip, K, shared->kv_heads, "kv_num_heads", fault)
        || !heads_of(oip, V, shared->kv_heads, "kv_num_heads", fault))
        return false;
    sizes->q_heads = shared->q_heads;
    sizes->kv_heads = shared->kv_heads;
    sizes->q_len = q[1];
    sizes->kv_len = k[1];
    sizes->head_dim = q[2] / shared->q_heads;
    sizes->v_head_dim = v[2] / shared->kv_heads;
    return true;
}

/* Checks that an input has this shape. */
static bool expect_shape(const struct oip_call *oip, int slot, const int64_t *shape, int rank,
                         struct fault *fault)
{
    const struct array *array = array_of(oip, slot);
    char expected[96];
    if (array->rank == rank && memcmp(array->shape, shape, (size_t)rank * sizeof *shape) == 0)
        return true;
    oip_shape_text(expected, sizeof expected, shape, rank);
    return oip_unexpected_shape(&oip->request, slot, expected, fault);
}

static bool check_heads(const struct oip_call *oip, const struct infer_item *shared,
                        const struct sizes *sizes, struct fault *fault)
{
    if (sizes->q_heads == 0 || sizes->head_dim == 0)
        return oip_input_fault(&oip->request, Q, fault, FAULT_SHAPE, "has no heads or no columns");
    if (sizes->kv_heads == 0 || sizes->v_head_dim == 0)
        return oip_input_fault(&oip->request, sizes->kv_heads ? V : K, fault, FAULT_SHAPE,
                               "has no heads or no columns");
    if (sizes->q_heads % sizes->kv_heads != 0)
        return oip_input_fault(&oip->request, K, fault, FAULT_SHAPE,
                               "has %" PRId64 " heads; the %" PRId64
                               " heads of Q are not a multiple",
                               sizes->kv_heads, sizes->q_heads);
    if (shared->q_heads && shared->q_heads != sizes->q_heads)
        return fault_set_at(fault, "/parameters/q_num_heads", FAULT_OPTION,
                            "q_num_heads is %" PRId64 "; Q has %" PRId64 " heads", shared->q_heads,
                            sizes->q_heads);
    if (shared->kv_heads && shared->kv_heads != sizes->kv_heads)
        return fault_set_at(fault, "/parameters/kv_num_heads", FAULT_OPTION,
                            "kv_num_heads is %" PRId64 "; K has %" PRId64 " heads",
                            shared->kv_heads, sizes->kv_heads);
    return true;
}

static bool check_shapes(const struct oip_call *oip, struct sizes *sizes, struct fault *fault)
{
    const struct sizes s = *sizes;
    const int64_t key4[] = { s.batch, s.kv_heads, s.kv_len, s.head_dim };
    const int64_t value4[] = { s.batch, s.kv_heads, s.kv_len, s.v_head_dim };
    const int64_t key3[] = { s.batch, s.kv_len, s.kv_heads * s.head_dim };
    const int64_t value3[] = { s.batch, s.kv_len, s.kv_heads * s.v_head_dim };
    const int rank = s.is_rank_3 ? 3 : 4;
    if (!expect_shape(oip, K, s.is_rank_3 ? key3 : key4, rank, fault)
        || !expect_shape(oip, V, s.is_rank_3 ? value3 : value4, rank, fault))
        return false;
    sizes->total = s.kv_len;
    if (given(oip, PAST_KEY) != given(oip, PAST_VALUE))
        return fault_set_at(fault, "/inputs", FAULT_FIELD,
                            "input '%s' is missing; past_key and past_value come together",
                            given(oip, PAST_KEY) ? "past_value" : "past_key");
    if (!given(oip, PAST_KEY))
        return true;
    if (given(oip, NONPAD_KV_SEQLEN))
        return oip_input_fault(&oip->request, NONPAD_KV_SEQLEN, fault, FAULT_OPTION,
                               "is for keys that are all in K; it does not go with past_key");
    const struct array *past = array_of(oip, PAST_KEY);
    sizes->past_len = past->rank == 4 ? past->shape[2] : 0;
    const int64_t past_key[] = { s.batch, s.kv_heads, sizes->past_len, s.head_dim };
    const int64_t past_value[] = { s.batch, s.kv_heads, sizes->past_len, s.v_head_dim };
    sizes->total += sizes->past_len;
    return expect_shape(oip, PAST_KEY, past_key, 4, fault)
           && expect_shape(oip, PAST_VALUE, past_value, 4, fault);
}

/* K and past_key have the datatype of Q; past_value has the one of V, which may differ (T1 and T2
 * of the operator). */
static bool check_datatypes(const struct oip_call *oip, struct fault *fault)
{
    static const struct {
        int slot, like;
        const char *name;
    } pairs[] = { { K, Q, "Q" }, { PAST_KEY, Q, "Q" }, { PAST_VALUE, V, "V" } };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const struct oip_input *input = &oip->inputs[pairs[i].slot];
        const struct oip_input *like = &oip->inputs[pairs[i].like];
        if (input->given && input->array.dtype != like->array.dtype)
            return oip_input_fault(&oip->request, pairs[i].slot, fault, FAULT_DTYPE,
                                   "data-type is '%s', but %s has '%s'",
                                   oip_datatype_of(input->array.dtype)->name, pairs[i].name,
                                   oip_datatype_of(like->array.dtype)->name);
    }
    return true;
}

/* -------------------------------------------------------------- the past -- */

/* Row i of head h of entry b, in the 4-D or the 3-D form; a row takes row bytes. */
static const char *row_of(const struct array *array, int64_t heads, int64_t b, int64_t h, int64_t i,
                          size_t row)
{
    const int64_t length = array->rank == 4 ? array->shape[2] : array->shape[1];
    const int64_t index =
        array->rank == 4 ? (b * heads + h) * length + i : (b * length + i) * heads + h;
    return (const char *)array->data + (size_t)index * row;
}

/* Joins keys or values to the 4-D form, the past ones first. Where K or V is 4-D and has no past,
 * joined is a view of it. */
static bool join(struct call *call, const struct oip_call *oip, int slot, const struct sizes *sizes,
                 int64_t columns, struct array *joined, struct fault *fault)
{
    const struct array *now = array_of(oip, slot);
    const struct array *past = array_of(oip, slot == K ? PAST_KEY : PAST_VALUE);
    const size_t row = (size_t)columns * attn_dtype_size(now->dtype);
    const int64_t rows = sizes->batch * sizes->kv_heads * sizes->total;
    *joined = (struct array){
        now->data, now->dtype, 4, { sizes->batch, sizes->kv_heads, sizes->total, columns }
    };
    if (sizes->past_len == 0 && now->rank == 4)
        return true;
    char *out = arena_calloc(&call->arena, (size_t)rows, row);
    joined->data = out;
    if (!out)
        return fault_no_memory(fault);
    for (int64_t b = 0; b < sizes->batch; b++)
        for (int64_t h = 0; h < sizes->kv_heads; h++)
            for (int64_t i = 0; i < sizes->total; i++, out += row)
                memcpy(out,
                       i < sizes->past_len
                           ? row_of(past, sizes->kv_heads, b, h, i, row)
                           : row_of(now, sizes->kv_heads, b, h, i - sizes->past_len, row),
                       row);
    return true;
}

static bool is_asked(const struct oip_call *oip, int slot)
{
    for (int i = 0; i < oip->request.asked_count; i++)
        if (oip->request.outputs[i].slot == slot)
            return true;
    return false;
}

/* Joins keys and values. Those without a past are used in the form that they came in, unless they
 * are asked for as present. */
static bool join_both(struct call *call, struct oip_call *oip, const struct sizes *sizes,
                      struct fault *fault)
{
    for (int i = 0; i < 2; i++) {
        const int64_t columns = i == 0 ? sizes->head_dim : sizes->v_head_dim;
        if (sizes->past_len == 0 && !is_asked(oip, PRESENT_KEY + i))
            oip->present[i] = *array_of(oip, K + i);
        else if (!join(call, oip, K + i, sizes, columns, &oip->present[i], fault))
            return false;
    }
    return true;
}

/* -------------------------------------------------------------- the mask -- */

/* The mask's shape, with missing axes in front as 1. Each axis must be 1 or have the full size; the
 * last one may also be shorter. */
static bool mask_shape(const struct oip_call *oip, const struct sizes *sizes, int64_t shape[4],
                       struct fault *fault)
{
    const struct array *mask = array_of(oip, ATTN_MASK);
    const int64_t full[4] = { sizes->batch, sizes->q_heads, sizes->q_len, sizes->total };
    bool fits = mask->rank <= 4;
    for (int i = 0; fits && i < 4; i++) {
        const int axis = i - (4 - mask->rank);
        if (axis >= 0)
            shape[i] = mask->shape[axis];
        fits =
            shape[i] == 1 || shape[i] == full[i] || (i == 3 && shape[i] > 0 && shape[i] < full[i]);
    }
    char expected[128];
    if (fits)
        return true;
    snprintf(expected, sizeof expected,
             "what broadcasts to [%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]", full[0],
             full[1], full[2], full[3]);
    return oip_unexpected_shape(&oip->request, ATTN_MASK, expected, fault);
}

static bool view_mask(const struct oip_call *oip, const struct sizes *sizes,
                      struct attn_tensor *mask, struct fault *fault)
{
    const struct array *array = array_of(oip, ATTN_MASK);
    int64_t shape[4] = { 1, 1, 1, 1 };
    *mask = (struct attn_tensor){ .data = NULL };
    if (!given(oip, ATTN_MASK))
        return true;
    if (!mask_shape(oip, sizes, shape, fault))
        return false;
    *mask = attn_tensor_dense((void *)array->data, array->dtype, shape[0], shape[1], shape[2],
                              shape[3]);
    return true;
}

/* ----------------------------------------------------------------- items -- */

static bool set_lengths(const struct oip_call *oip, const struct sizes *sizes,
                        struct infer_item *item, int64_t b, struct fault *fault)
{
    const struct oip_input *nonpad = &oip->inputs[NONPAD_KV_SEQLEN];
    item->past_len = sizes->past_len;
    if (!nonpad->given)
        return true;
    const int64_t length = nonpad->integers[b];
    if (length < 0 || length > sizes->kv_len)
        return oip_input_fault(&oip->request, NONPAD_KV_SEQLEN, fault, FAULT_LENGTH,
                               "is %" PRId64 " at element %" PRId64 "; K has %" PRId64 " keys",
                               length, b, sizes->kv_len);
    item->kv_len = (struct integers){ .values = (int64_t *)nonpad->integers + b, .count = 1 };
    item->past_len = length - sizes->q_len;
    return true;
}

/* The mask of entry b. */
static void set_mask(const struct attn_tensor *mask, struct infer_item *item, int64_t b)
{
    item->masking.mask = *mask;
    if (mask->data && mask->shape[0] > 1)
        item->masking.mask.data =
            (char *)mask->data + (size_t)(b * mask->stride[0]) * attn_dtype_size(mask->dtype);
    item->masking.mask.shape[0] = 1;
}

static void fill_item(const struct oip_call *oip, const struct sizes *sizes,
                      const struct attn_tensor *mask, struct infer_item *item, int64_t b)
{
    item->query = oip_entry(array_of(oip, Q), b);
    item->key = oip_entry(&oip->present[0], b);
    item->value = oip_entry(&oip->present[1], b);
    item->q_heads = sizes->q_heads;
    item->kv_heads = sizes->kv_heads;
    item->context_by_heads = !sizes->is_rank_3;
    set_mask(mask, item, b);
    item->outputs[ATTN_OUTPUT_CONTEXT] = is_asked(oip, Y);
    item->outputs[oip->map] |= is_asked(oip, QK_MATMUL_OUTPUT);
}

static void set_shapes(struct oip_call *oip, const struct sizes *sizes)
{
    const struct sizes s = *sizes;
    oip->y_shape =
        (struct array){ .rank = 4, .shape = { s.batch, s.q_heads, s.q_len, s.v_head_dim } };
    if (s.is_rank_3)
        oip->y_shape =
            (struct array){ .rank = 3, .shape = { s.batch, s.q_len, s.q_heads * s.v_head_dim } };
    oip->map_shape = (struct array){ .rank = 4, .shape = { s.batch, s.q_heads, s.q_len, s.total } };
}

/* The past of a sequence stays in the daemon. */
static bool check_sequence(const struct oip_call *oip, struct fault *fault)
{
    static const int PAST[] = { PAST_KEY, PAST_VALUE, NONPAD_KV_SEQLEN };
    for (size_t i = 0; i < sizeof PAST / sizeof PAST[0]; i++)
        if (given(oip, PAST[i]))
            return oip_input_fault(&oip->request, PAST[i], fault, FAULT_OPTION,
                                   "does not go with a sequence_id; the daemon has the past of a "
                                   "sequence");
    return (!is_asked(oip, PRESENT_KEY) && !is_asked(oip, PRESENT_VALUE))
           || fault_set_at(fault, "/outputs", FAULT_OPTION,
                           "present_key and present_value do not go with a sequence_id; keys and "
                           "values of a sequence stay in the daemon");
}

/* For a request of a sequence. */
static bool settle(struct call *call, int64_t past_len, struct fault *fault)
{
    struct oip_call *oip = oip_call_of(call);
    const int64_t *map = oip->map_shape.shape;
    const struct sizes sizes = {
        .batch = map[0], .q_heads = map[1], .q_len = map[2], .total = past_len + map[3]
    };
    struct attn_tensor mask;
    if (!view_mask(oip, &sizes, &mask, fault))
        return false;
    oip->map_shape.shape[3] = sizes.total;
    set_mask(&mask, &infer_request_of(call)->items[0], 0);
    return true;
}

static bool make_items(struct call *call, struct oip_call *oip, const struct infer_item *shared,
                       struct fault *fault)
{
    struct infer_request *request = infer_request_of(call);
    struct sizes sizes = { 0 };
    struct attn_tensor mask = { .data = NULL };
    if (!check_datatypes(oip, fault) || !read_sizes(oip, shared, &sizes, fault)
        || !check_heads(oip, shared, &sizes, fault) || !check_shapes(oip, &sizes, fault)
        || (given(oip, NONPAD_KV_SEQLEN)
            && !expect_shape(oip, NONPAD_KV_SEQLEN, &sizes.batch, 1, fault))
        || (oip->sequence.is_of && !check_sequence(oip, fault))
        || !join_both(call, oip, &sizes, fault)
        || (!oip->sequence.is_of && !view_mask(oip, &sizes, &mask, fault)))
        return false;
    oip->batch = sizes.batch;
    set_shapes(oip, &sizes);
    if (!oip_make_items(call, sizes.batch, fault))
        return false;
    for (int64_t b = 0; b < sizes.batch; b++) {
        request->items[b] = *shared;
        request->item_count = b + 1;
        if (!set_lengths(oip, &sizes, &request->items[b], b, fault))
            return false;
        fill_item(oip, &sizes, &mask, &request->items[b], b);
    }
    return true;
}

static bool read(struct call *call, struct fault *fault)
{
    struct oip_call *oip = oip_call_of(call);
    struct infer_item shared = { .layer_index = 0 };
    oip->sequence.settle = settle;
    return oip_read_parameters(call, &attention_fields, &shared, fault)
           && make_items(call, oip, &shared, fault) && oip_sequence_take(call, fault);
}

/* ---------------------------------------------------------------- results -- */

static struct array result_of(const struct oip_call *oip, const struct infer_item *item, int slot)
{
    if (slot == PRESENT_KEY || slot == PRESENT_VALUE)
        return oip->present[slot - PRESENT_KEY];
    struct array result = slot == Y ? oip->y_shape : oip->map_shape;
    result.dtype = array_of(oip, Q)->dtype;
    result.data = item ? item->results[slot == Y ? ATTN_OUTPUT_CONTEXT : oip->map] : NULL;
    return result;
}

static void say(const struct call *call, struct writer *writer)
{
    const struct oip_call *oip = oip_call_of(call);
    const struct infer_item *item = oip->batch > 0 ? infer_request_of(call)->items : NULL;
    if (item && infer_precision(item))
        writer->kind->string(writer, "precision", infer_precision(item));
    for (int i = 0; i < oip->request.asked_count; i++) {
        const int slot = oip->request.outputs[i].slot;
        const struct array result = result_of(oip, item, slot);
        writer->kind->array(writer, oip->signature.outputs[slot].name, &result);
    }
}

const struct operation oip_sdpa = { .kind = &infer_kind,
                                    .read = read,
                                    .explain = oip_explain,
                                    .finish = oip_finish,
                                    .say = say,
                                    .drop = oip_sequence_drop };
