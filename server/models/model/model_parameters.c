/* model_parameters.c - finds where the numbers of a tensor are, or converts them. */
#include "models/model/model_parameters.h"

#include "base/dtype.h"
#include "layer.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A copy of this many numbers or fewer is not worth its own mapping. */
enum { COPY_NUMBERS_MIN = 65536 };

bool model_parameters_init(struct model_parameters *parameters, const struct model_tensors *tensors,
                           struct arena *arena, struct model_converted *copies, struct fault *fault)
{
    *parameters = (struct model_parameters){
        .tensors = tensors,
        .arena = arena,
        .copies = copies,
        .converted = calloc((size_t)tensors->entry_count + 1, sizeof *parameters->converted),
        .is_counted = calloc((size_t)tensors->entry_count + 1, sizeof *parameters->is_counted),
        .dtype = "",
    };
    return (parameters->converted && parameters->is_counted) || fault_no_memory(fault);
}

void model_parameters_free(struct model_parameters *parameters)
{
    free(parameters->converted);
    free(parameters->is_counted);
    parameters->converted = NULL;
    parameters->is_counted = NULL;
}

/* Converts at once, or adds a copy that is filled when it is needed. NULL: no memory. */
static const float *convert_tensor(struct model_parameters *parameters,
                                   const struct model_converted_source *source)
{
    const int64_t count = source->rows * source->columns; /* no overflow: the file has them */
    if (parameters->copies && count > COPY_NUMBERS_MIN)
        return model_converted_add(parameters->copies, source);
    float *values = arena_alloc(parameters->arena, (size_t)count * sizeof *values);
    if (values)
        model_converted_read(values, source);
    return values;
}

/* Finds the dtype of a parameter and counts the tensor. */
static bool check_dtype(struct model_parameters *parameters, const struct model_entry *entry,
                        enum attn_dtype *dtype, struct fault *fault)
{
    bool *is_counted = &parameters->is_counted[entry - parameters->tensors->entries];
    if (!dtype_find(entry->dtype, dtype) || *dtype == ATTN_BOOL)
        return fault_set(fault, FAULT_DTYPE, "tensor '%.60s' is %s; a parameter is " DTYPE_NUMBERS,
                         entry->name, entry->dtype);
    if (*is_counted)
        return true;
    *is_counted = true;
    parameters->count += (int64_t)entry->number_count;
    parameters->bytes += (int64_t)entry->size;
    if (!parameters->dtype[0])
        parameters->dtype = entry->dtype;
    else if (strcmp(parameters->dtype, entry->dtype) != 0)
        parameters->dtype = "mixed";
    return true;
}

bool model_parameters_get(struct model_parameters *parameters, const struct model_entry *entry,
                          const float **values, struct fault *fault)
{
    enum attn_dtype dtype;
    const float **converted = &parameters->converted[entry - parameters->tensors->entries];
    if (!check_dtype(parameters, entry, &dtype, fault))
        return false;
    if (dtype == ATTN_F32 && (uintptr_t)entry->data % sizeof(float) == 0) {
        *values = entry->data;
    } else {
        if (!*converted)
            *converted = convert_tensor(parameters, &(struct model_converted_source){
                                                        .bytes = entry->data,
                                                        .dtype = dtype,
                                                        .rows = 1,
                                                        .columns = (int64_t)entry->number_count,
                                                    });
        if (!*converted)
            return fault_no_memory(fault);
        *values = *converted;
    }
    return true;
}

bool model_parameters_get_now(struct model_parameters *parameters, const struct model_entry *entry,
                              const float **values, struct fault *fault)
{
    struct model_converted *copies = parameters->copies;
    parameters->copies = NULL;
    const bool good = model_parameters_get(parameters, entry, values, fault);
    parameters->copies = copies;
    return good;
}

/* A whole tensor: where it lies if the caller takes its dtype, else as floats. */
static bool get_whole(struct model_parameters *parameters, const struct model_entry *entry,
                      const void **values, enum attn_dtype *dtype, struct fault *fault)
{
    enum attn_dtype own;
    const float *floats = NULL;
    if (!check_dtype(parameters, entry, &own, fault))
        return false;
    if (dtype && own != ATTN_F32 && attn_linear_takes(own)
        && (dtype_is_blocks(own) || (uintptr_t)entry->data % attn_dtype_size(own) == 0)) {
        *values = entry->data;
        *dtype = own;
        return true;
    }
    if (!model_parameters_get(parameters, entry, &floats, fault))
        return false;
    *values = floats;
    if (dtype)
        *dtype = ATTN_F32;
    return true;
}

/* Where the matrix of the slice begins, in numbers of the tensor. */
static int64_t first_of_matrix(const struct model_entry *entry, const struct model_slice *slice)
{
    return slice->matrices > 0 ? (int64_t)entry->number_count / slice->matrices * slice->matrix : 0;
}

bool model_parameters_get_slice(struct model_parameters *parameters,
                                const struct model_entry *entry, const struct model_slice *slice,
                                int64_t width, bool in_out, const void **values,
                                enum attn_dtype *dtype, struct fault *fault)
{
    const int64_t rows = in_out ? width : 1;    /* in each, outputs follow one another, */
    const int64_t columns = in_out ? 1 : width; /* each output with this many numbers */
    enum attn_dtype own;
    if (!check_dtype(parameters, entry, &own, fault))
        return false;
    const int64_t first =
        first_of_matrix(entry, slice) + (slice->groups ? slice->first * columns : 0);
    if (slice->groups == 0 || (slice->groups == 1 && rows == 1)) {
        if (!get_whole(parameters, entry, values, dtype, fault))
            return false;
        *values = attn_number_at(*values, dtype ? *dtype : ATTN_F32, first);
        return true;
    }
    if (dtype)
        *dtype = ATTN_F32;
    *values = convert_tensor(parameters, &(struct model_converted_source){
                                             .bytes = entry->data,
                                             .dtype = own,
                                             .rows = rows * slice->groups,
                                             .columns = slice->count * columns,
                                             .first = first,
                                             .stride = slice->group_size * columns,
                                         });
    return *values || fault_no_memory(fault);
}
