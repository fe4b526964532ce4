/* model_parameters.c - see model_parameters.h. */
#include "model_parameters.h"

#include "dtype.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

bool model_parameters_init(struct model_parameters *parameters, const struct safetensors *file,
                           struct arena *arena, struct fault *fault)
{
    *parameters = (struct model_parameters){
        .file = file,
        .arena = arena,
        .converted = calloc((size_t)file->entry_count + 1, sizeof *parameters->converted),
        .dtype = "",
    };
    return parameters->converted || fault_no_memory(fault);
}

void model_parameters_free(struct model_parameters *parameters)
{
    free(parameters->converted);
    parameters->converted = NULL;
}

static const float *convert(struct arena *arena, const struct safetensors_entry *entry,
                            enum attn_dtype dtype)
{
    const size_t count = entry->size / attn_dtype_size(dtype);
    float *values = arena_alloc(arena, count * sizeof *values); /* count are in memory */
    if (values)
        dtype_read(values, entry->data, dtype, count);
    return values;
}

bool model_parameters_get(struct model_parameters *parameters,
                          const struct safetensors_entry *entry, const float **values,
                          struct fault *fault)
{
    enum attn_dtype dtype;
    const float **converted = &parameters->converted[entry - parameters->file->entries];
    if (!dtype_find(entry->dtype, &dtype) || dtype == ATTN_BOOL)
        return fault_set(fault, FAULT_DTYPE,
                         "tensor '%.60s' is %s; a parameter is F32, F16, BF16 or F64", entry->name,
                         entry->dtype);
    if (dtype == ATTN_F32 && (uintptr_t)entry->data % sizeof(float) == 0) {
        *values = entry->data;
    } else {
        if (!*converted)
            *converted = convert(parameters->arena, entry, dtype);
        if (!*converted)
            return fault_no_memory(fault);
        *values = *converted;
    }
    parameters->count += (int64_t)(entry->size / attn_dtype_size(dtype));
    parameters->bytes += (int64_t)entry->size;
    if (!parameters->dtype[0])
        parameters->dtype = entry->dtype;
    else if (strcmp(parameters->dtype, entry->dtype) != 0)
        parameters->dtype = "mixed";
    return true;
}
