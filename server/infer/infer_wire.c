/* infer_wire.c - see infer_wire.h. */
#include "infer/infer_wire.h"

#include <stdlib.h>

bool infer_wire_read_json(struct infer_call *call, const void *bytes, size_t size,
                          struct fault *fault)
{
    const struct json_options options = { .nonfinite_allowed = call->request.nonfinite_allowed,
                                          .values_max = JSON_REQUEST_VALUES_MAX,
                                          .memory = call->memory };
    return json_read(&call->document, bytes ? bytes : "", size, &options, fault);
}

void infer_wire_drop_body(struct infer_call *call)
{
    memory_return(call->memory, call->body.size);
    free(call->body_memory);
    call->body_memory = NULL;
    call->body = (struct byte_slice){ NULL, 0 };
}
