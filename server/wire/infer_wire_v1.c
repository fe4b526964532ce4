/* infer_wire_v1.c - see infer_wire_v1.h: JSON in and out and, except for batches, safetensors; of
 * one call also .npy files. */
#include "wire/infer_wire_v1.h"

#include "infer/infer_results.h"
#include "wire/wire_gradient.h"
#include "wire/wire_merge.h"
#include "wire/wire_npy.h"
#include "wire/wire_safetensors.h"
#include "wire/wire_v1.h"

/* Reads the body as the call's document; the body is not needed afterwards. */
static bool read_json(struct infer_call *call, struct fault *fault)
{
    const bool read = infer_wire_read_json(call, call->base.body.data, call->base.body.size, fault);
    call_drop_body(&call->base);
    return read;
}

/* In an answer of bytes a number takes eight at the most. */
static void count_bytes(struct infer_call *call)
{
    if (wire_safetensors_is_answer(call))
        call->request.number_bytes = sizeof(double);
}

static bool read_single_item(struct infer_call *call, struct fault *fault)
{
    if (wire_npy_is_body(call))
        return wire_npy_read(call, fault);
    if (wire_safetensors_is_body(call))
        return wire_safetensors_read(call, false, fault);
    return read_json(call, fault)
           && wire_v1_read(&call->request, false, &call->base.document, fault);
}

static bool read_single(struct infer_call *call, struct fault *fault)
{
    count_bytes(call);
    if (!wire_npy_is_answer(call))
        return read_single_item(call, fault);
    call->request.number_bytes = sizeof(double);
    return read_single_item(call, fault) && wire_npy_settle_answer(call, fault);
}

static bool read_batch(struct infer_call *call, struct fault *fault)
{
    return read_json(call, fault)
           && wire_v1_read(&call->request, true, &call->base.document, fault);
}

static bool read_merge(struct infer_call *call, struct fault *fault)
{
    count_bytes(call);
    if (wire_safetensors_is_body(call))
        return wire_safetensors_read_merge(call, fault);
    return read_json(call, fault) && wire_merge_read(&call->request, &call->base.document, fault);
}

static bool read_gradients(struct infer_call *call, struct fault *fault)
{
    count_bytes(call);
    if (wire_safetensors_is_body(call))
        return wire_safetensors_read(call, true, fault);
    return read_json(call, fault)
           && wire_gradient_read(&call->request, &call->base.document, fault);
}

/* Writes the results of the one item: as tensors, or as JSON by calling write. */
static bool write_results(struct infer_call *call,
                          void (*write)(const struct infer_request *request, struct text *text),
                          struct fault *fault)
{
    if (wire_safetensors_is_answer(call))
        return wire_safetensors_write(call, fault);
    if (!infer_convert_results(&call->request, &call->request.items[0], ATTN_F32, fault))
        return false;
    write(&call->request, &call->base.text);
    return true;
}

static bool write_single(struct infer_call *call, struct fault *fault)
{
    if (wire_npy_is_answer(call))
        return wire_npy_write(call, fault);
    return write_results(call, wire_v1_write, fault);
}

static bool write_batch(struct infer_call *call, struct fault *fault)
{
    (void)fault;
    wire_v1_write(&call->request, &call->base.text);
    return true;
}

static bool write_merge(struct infer_call *call, struct fault *fault)
{
    return write_results(call, wire_merge_write, fault);
}

static bool write_gradients(struct infer_call *call, struct fault *fault)
{
    if (wire_safetensors_is_answer(call))
        return wire_safetensors_write_gradients(call, fault);
    wire_gradient_write(&call->request, &call->base.text);
    return true;
}

const struct infer_wire infer_wire_v1_single = { .begin = wire_npy_begin,
                                                 .read = read_single,
                                                 .write = write_single };
const struct infer_wire infer_wire_v1_batch = { .read = read_batch, .write = write_batch };
const struct infer_wire infer_wire_v1_merge = { .begin = wire_safetensors_begin,
                                                .read = read_merge,
                                                .write = write_merge };
const struct infer_wire infer_wire_v1_gradients = { .begin = wire_safetensors_begin,
                                                    .read = read_gradients,
                                                    .write = write_gradients };
