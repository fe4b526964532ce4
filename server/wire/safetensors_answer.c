/* safetensors_answer.c - see safetensors_answer.h. */
#include "wire/safetensors_answer.h"

#include "wire/safetensors_body.h"

bool safetensors_answer_make(struct call *call, struct arena *arena,
                             const struct safetensors_tensor *tensors, int64_t tensor_count,
                             const struct safetensors_pair *metadata, int64_t metadata_count,
                             struct fault *fault)
{
    struct byte_slice *parts = arena_calloc(arena, (size_t)tensor_count + 1, sizeof *parts);
    if (!parts)
        return fault_no_memory(fault);
    if (!safetensors_write_head(&call->text, tensors, tensor_count, metadata, metadata_count,
                                fault))
        return false;
    parts[0] = (struct byte_slice){ call->text.data, call->text.used };
    call->parts = parts;
    call->part_count = 1;
    for (int64_t i = 0; i < tensor_count; i++) {
        int64_t size = 0;
        if (safetensors_tensor_bytes(&tensors[i], &size) && size > 0)
            parts[call->part_count++] = (struct byte_slice){ tensors[i].values, (size_t)size };
    }
    call->content_type = SAFETENSORS_TYPE;
    return true;
}
