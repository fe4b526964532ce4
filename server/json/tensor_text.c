/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_text.c - see tensor_text.h.
 *
 * The brackets around a number follow from its index alone: one for each dimension, counted from
 * the last, that begins or ends with this number. */
#include "json/tensor_text.h"

#include "base/dtype.h"
#include "json/json_numbers.h"

#include <string.h>

enum {
    FLOAT_BYTES = 16, /* the longest float, "-1.17549435e-38", and its comma */
    CHUNK = 256,      /* numbers that are converted to float at once */
};

struct tensor_text tensor_text_make(const void *values, enum attn_dtype dtype, int rank,
                                    const int64_t *shape)
{
    struct tensor_text tensor = { .values = values, .dtype = dtype, .rank = rank, .count = 1 };
    for (int i = 0; i < rank; i++) {
        tensor.shape[i] = shape[i];
        tensor.count *= shape[i];
    }
    return tensor;
}

static size_t number_bytes(const struct tensor_text *tensor)
{
    if (tensor->is_integers)
        return JSON_INTEGER_BYTES_MAX + 1;
    return tensor->dtype == ATTN_F64 ? JSON_DOUBLE_BYTES_MAX : FLOAT_BYTES;
}

size_t tensor_text_number_bytes(const struct tensor_text *tensor)
{
    return JSON_DOUBLE_BYTES_MAX + 2 * (size_t)tensor->rank;
}

/* At the border of two rows at most all dimensions end and begin. */
size_t tensor_text_bytes(const struct tensor_text *tensor, int64_t count)
{
    const int64_t rows = count / tensor->shape[tensor->rank - 1] + 2;
    return (size_t)count * number_bytes(tensor) + (size_t)rows * 2 * (size_t)tensor->rank
           + JSON_DOUBLE_BYTES_MAX;
}

/* How many dimensions end, and begin again, between the number before this one and this one. */
static int border(const struct tensor_text *tensor, int64_t number)
{
    int dimensions = 0;
    for (int i = tensor->rank - 1; i >= 0 && number % tensor->shape[i] == 0; i--) {
        number /= tensor->shape[i];
        dimensions++;
    }
    return dimensions;
}

/* Writes numbers of any dtype but F64, with a comma after each. */
static size_t write_narrow(const struct tensor_text *tensor, int64_t first, int64_t count,
                           char *out)
{
    const size_t size = attn_dtype_size(tensor->dtype);
    float values[CHUNK];
    char *p = out;
    for (int64_t i = 0; i < count; i += CHUNK) {
        const size_t some = (size_t)(count - i < CHUNK ? count - i : CHUNK);
        dtype_read(values, (const char *)tensor->values + (size_t)(first + i) * size, tensor->dtype,
                   some);
        p += json_write_floats(p, values, some);
    }
    return (size_t)(p - out);
}

/* Writes doubles or integers, with a comma after each. */
static size_t write_wide(const struct tensor_text *tensor, int64_t first, int64_t count, char *out)
{
    char *p = out;
    for (int64_t i = first; i < first + count; i++) {
        p += tensor->is_integers ? json_write_decimal(p, ((const int64_t *)tensor->values)[i], 0)
                                 : json_write_double(p, ((const double *)tensor->values)[i]);
        *p++ = ',';
    }
    return (size_t)(p - out);
}

static size_t write_numbers(const struct tensor_text *tensor, int64_t first, int64_t count,
                            char *out)
{
    if (tensor->is_integers || tensor->dtype == ATTN_F64)
        return write_wide(tensor, first, count, out);
    if (tensor->dtype == ATTN_F32)
        return json_write_floats(out, (const float *)tensor->values + first, (size_t)count);
    return write_narrow(tensor, first, count, out);
}

size_t tensor_text_write(const struct tensor_text *tensor, int64_t first, int64_t count, char *out)
{
    const int64_t width = tensor->shape[tensor->rank - 1], end = first + count;
    int64_t column = first % width;
    char *p = out;
    while (first < end) {
        const int64_t some = end - first < width - column ? end - first : width - column;
        for (int i = column == 0 ? border(tensor, first) : 0; i > 0; i--)
            *p++ = '[';
        p += write_numbers(tensor, first, some, p);
        first += some;
        column += some;
        if (column < width)
            break;
        column = 0;
        p--; /* over the last comma */
        for (int i = border(tensor, first); i > 0; i--)
            *p++ = ']';
        *p = ',';
        p += first < tensor->count;
    }
    return (size_t)(p - out);
}
