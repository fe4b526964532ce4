/* SPDX-License-Identifier: Apache-2.0 */
/* model_parameters.c - finds where the numbers of a tensor are, or converts them. */
#include "models/model/model_parameters.h"

#include "base/dtype.h"
#include "layer.h"
#include "models/model/model_quantised.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
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
static const void *convert_tensor(struct model_parameters *parameters,
                                  const struct model_converted_source *source)
{
    const size_t bytes = model_converted_size(source); /* no overflow: the file has them */
    if (parameters->copies && bytes > COPY_NUMBERS_MIN * sizeof(float))
        return model_converted_add(parameters->copies, source);
    void *values = arena_alloc(parameters->arena, bytes);
    if (values)
        model_converted_read(values, source);
    return values;
}

static void count_tensor(struct model_parameters *parameters, const struct model_entry *entry,
                         int64_t numbers, const char *dtype)
{
    bool *is_counted = &parameters->is_counted[entry - parameters->tensors->entries];
    if (*is_counted)
        return;
    *is_counted = true;
    parameters->count += numbers;
    parameters->bytes += (int64_t)entry->size;
    if (!parameters->dtype[0])
        parameters->dtype = dtype;
    else if (strcmp(parameters->dtype, dtype) != 0)
        parameters->dtype = "mixed";
}

/* Finds the dtype of a parameter and counts the tensor. */
static bool check_dtype(struct model_parameters *parameters, const struct model_entry *entry,
                        enum attn_dtype *dtype, struct fault *fault)
{
    if (!dtype_find(entry->dtype, dtype) || *dtype == ATTN_BOOL)
        return fault_set(fault, FAULT_DTYPE,
                         "tensor '%.60s' is %s; a parameter is " DTYPE_NUMBERS "%s", entry->name,
                         entry->dtype,
                         model_tensors_gguf(parameters->tensors)
                             ? ", Q8_0, Q4_0 to Q6_K, IQ4_NL, IQ4_XS or MXFP4: take the file in "
                               "another type, such as Q4_K_M"
                             : "");
    count_tensor(parameters, entry, (int64_t)entry->number_count, entry->dtype);
    return true;
}

/* --------------------------------------------------------------- quantised -- */

enum { NAME_BYTES = 256 };

static bool is_fp8(const struct model_parameters *parameters, const struct model_entry *entry)
{
    return parameters->fp8_block[0] > 0 && strcmp(entry->dtype, "F8_E4M3") == 0;
}

/* The scales of a matrix of F8_E4M3; NULL, with a fault: there are none, or not one for each block.
 */
static const struct model_entry *find_scales(const struct model_parameters *parameters,
                                             const struct model_entry *entry,
                                             enum attn_dtype *dtype, struct fault *fault)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%.*s_scale_inv", NAME_BYTES - 12, entry->name);
    const struct model_entry *scales = model_tensors_require(parameters->tensors, name, fault);
    const uint64_t rows = (uint64_t)parameters->fp8_block[0];
    const uint64_t columns = (uint64_t)parameters->fp8_block[1];
    if (!scales)
        return NULL;
    if (entry->rank == 2 && scales->rank == 2
        && scales->shape[0] == (entry->shape[0] + rows - 1) / rows
        && scales->shape[1] == (entry->shape[1] + columns - 1) / columns
        && dtype_find_plain(scales->dtype, dtype) && *dtype != ATTN_BOOL)
        return scales;
    fault_set_at(fault, "/parameters", FAULT_SHAPE,
                 "tensor '%.100s' has not one number for each %" PRIu64 " by %" PRIu64
                 " numbers of '%.60s'",
                 name, rows, columns, entry->name);
    return NULL;
}

static bool get_fp8(struct model_parameters *parameters, const struct model_entry *entry,
                    const float **values, struct fault *fault)
{
    const float **converted = &parameters->converted[entry - parameters->tensors->entries];
    enum attn_dtype dtype;
    const struct model_entry *scales = find_scales(parameters, entry, &dtype, fault);
    if (!scales)
        return false;
    count_tensor(parameters, entry, (int64_t)entry->number_count, entry->dtype);
    if (!*converted)
        *converted =
            convert_tensor(parameters, &(struct model_converted_source){
                                           .bytes = entry->data,
                                           .rows = (int64_t)entry->shape[0],
                                           .columns = (int64_t)entry->shape[1],
                                           .decode = model_quantised_fp8,
                                           .decoded_bytes = entry->number_count * sizeof(float),
                                           .scales = scales->data,
                                           .scale_dtype = dtype,
                                           .scale_rows = parameters->fp8_block[0],
                                           .scale_columns = parameters->fp8_block[1],
                                       });
    *values = *converted;
    return *values || fault_no_memory(fault);
}

bool model_parameters_get_mxfp4(struct model_parameters *parameters,
                                const struct model_entry *blocks, const struct model_entry *scales,
                                const void **values, struct fault *fault)
{
    const float **converted = &parameters->converted[blocks - parameters->tensors->entries];
    const uint64_t count = scales->number_count;
    if (strcmp(blocks->dtype, "U8") != 0 || strcmp(scales->dtype, "U8") != 0)
        return fault_set_at(fault, "/parameters", FAULT_DTYPE,
                            "tensors '%.80s' and '%.80s' are %s and %s; those of MXFP4 are U8",
                            blocks->name, scales->name, blocks->dtype, scales->dtype);
    if (blocks->number_count / MODEL_MXFP4_BYTES != count
        || blocks->number_count % MODEL_MXFP4_BYTES != 0)
        return fault_set_at(fault, "/parameters", FAULT_SHAPE,
                            "tensor '%.80s' has %" PRIu64 " numbers, not one for each %d bytes of "
                            "'%.80s'",
                            scales->name, count, MODEL_MXFP4_BYTES, blocks->name);
    count_tensor(parameters, blocks, (int64_t)count * MODEL_MXFP4_NUMBERS, "MXFP4");
    count_tensor(parameters, scales, 0, "MXFP4");
    if (!*converted)
        *converted = convert_tensor(
            parameters, &(struct model_converted_source){
                            .bytes = blocks->data,
                            .decode = model_quantised_mxfp4,
                            .decoded_bytes = (size_t)count * attn_block_bytes(ATTN_MXFP4),
                            .scales = scales->data,
                        });
    *values = *converted;
    return *values || fault_no_memory(fault);
}

/* ------------------------------------------------------------------ numbers -- */

bool model_parameters_get(struct model_parameters *parameters, const struct model_entry *entry,
                          const float **values, struct fault *fault)
{
    enum attn_dtype dtype;
    const float **converted = &parameters->converted[entry - parameters->tensors->entries];
    if (is_fp8(parameters, entry))
        return get_fp8(parameters, entry, values, fault);
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
    enum attn_dtype own = ATTN_F32;
    const float *floats = NULL;
    if (!is_fp8(parameters, entry) && !check_dtype(parameters, entry, &own, fault))
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
    const bool is_whole = slice->groups == 0 || (slice->groups == 1 && rows == 1);
    enum attn_dtype own = ATTN_F32;
    if (is_fp8(parameters, entry) && !is_whole)
        return fault_set(fault, FAULT_DTYPE,
                         "tensor '%.60s' is F8_E4M3, and its outputs lie apart; such a tensor is "
                         "taken as F32, F16 or BF16",
                         entry->name);
    if (!is_fp8(parameters, entry) && !check_dtype(parameters, entry, &own, fault))
        return false;
    const int64_t first =
        first_of_matrix(entry, slice) + (slice->groups ? slice->first * columns : 0);
    if (is_whole) {
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
