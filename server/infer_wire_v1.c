/* infer_wire_v1.c - see infer_wire_v1.h: JSON in, JSON out. */
#include "infer_wire_v1.h"

#include "wire_gradient.h"
#include "wire_merge.h"
#include "wire_v1.h"

/* The body is not needed once it is read. */
static bool read_json(struct infer_call *call, struct fault *fault)
{
    const bool read = infer_wire_read_json(call, call->body.data, call->body.size, fault);
    infer_wire_drop_body(call);
    return read;
}

static bool read_single(struct infer_call *call, struct fault *fault)
{
    return read_json(call, fault) && wire_v1_read(&call->request, false, &call->document, fault);
}

static bool read_batch(struct infer_call *call, struct fault *fault)
{
    return read_json(call, fault) && wire_v1_read(&call->request, true, &call->document, fault);
}

static bool read_merge(struct infer_call *call, struct fault *fault)
{
    return read_json(call, fault) && wire_merge_read(&call->request, &call->document, fault);
}

static bool read_gradients(struct infer_call *call, struct fault *fault)
{
    return read_json(call, fault) && wire_gradient_read(&call->request, &call->document, fault);
}

static bool write_attention(struct infer_call *call, struct fault *fault)
{
    (void)fault;
    wire_v1_write(&call->request, &call->text);
    return true;
}

static bool write_merge(struct infer_call *call, struct fault *fault)
{
    (void)fault;
    wire_merge_write(&call->request, &call->text);
    return true;
}

static bool write_gradients(struct infer_call *call, struct fault *fault)
{
    (void)fault;
    wire_gradient_write(&call->request, &call->text);
    return true;
}

const struct infer_wire infer_wire_v1_single = { NULL, read_single, NULL, write_attention };
const struct infer_wire infer_wire_v1_batch = { NULL, read_batch, NULL, write_attention };
const struct infer_wire infer_wire_v1_merge = { NULL, read_merge, NULL, write_merge };
const struct infer_wire infer_wire_v1_gradients = { NULL, read_gradients, NULL, write_gradients };
