/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_file.c - the safetensors form: the length of a JSON header in eight bytes, little
 * endian, the header, then the numbers. */
#include "tensor_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size;
} TYPES[] = {
    [TENSOR_F32] = { "F32", 4 }, [TENSOR_F16] = { "F16", 2 }, [TENSOR_BOOL] = { "BOOL", 1 },
    [TENSOR_I64] = { "I64", 8 }, [TENSOR_U8] = { "U8", 1 },
};

enum { TYPE_COUNT = sizeof TYPES / sizeof TYPES[0] };

static _Noreturn void refuse(const char *path, const char *what)
{
    fprintf(stderr, "%s: %s\n", path, what);
    exit(1);
}

unsigned char *tensor_read_bytes(const char *path, size_t *size)
{
    FILE *stream = fopen(path, "rb");
    if (stream == NULL)
        refuse(path, "cannot be opened (tests run from the root of the repository)");
    if (fseek(stream, 0, SEEK_END) != 0)
        refuse(path, "cannot be read");
    const long length = ftell(stream);
    rewind(stream);
    unsigned char *bytes = length >= 0 ? malloc((size_t)length + 1) : NULL;
    if (bytes == NULL || fread(bytes, 1, (size_t)length, stream) != (size_t)length)
        refuse(path, "cannot be read");
    bytes[length] = 0;
    fclose(stream);
    if (size != NULL)
        *size = (size_t)length;
    return bytes;
}

void tensor_file_open(struct tensor_file *file, const char *path)
{
    size_t size;
    file->path = path;
    file->bytes = tensor_read_bytes(path, &size);
    uint64_t header_bytes = 0;
    for (int i = 0; i < 8 && size >= 8; i++)
        header_bytes |= (uint64_t)file->bytes[i] << (8 * i);
    if (size < 8 || header_bytes > size - 8)
        refuse(path, "is not a safetensors file");
    file->header = cJSON_ParseWithLength((const char *)file->bytes + 8, (size_t)header_bytes);
    if (file->header == NULL)
        refuse(path, "has a header that is not JSON");
    file->data = file->bytes + 8 + header_bytes;
}

void tensor_file_close(struct tensor_file *file)
{
    cJSON_Delete(file->header);
    free(file->bytes);
    memset(file, 0, sizeof *file);
}

bool tensor_file_find(const struct tensor_file *file, const char *name, struct tensor *tensor)
{
    const cJSON *entry = cJSON_GetObjectItemCaseSensitive(file->header, name);
    if (entry == NULL)
        return false;
    const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(entry, "dtype"));
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(entry, "shape");
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(entry, "data_offsets");
    int t = 0;
    while (t < TYPE_COUNT && (type == NULL || strcmp(type, TYPES[t].name) != 0))
        t++;
    memset(tensor, 0, sizeof *tensor);
    tensor->rank = cJSON_GetArraySize(shape);
    if (t == TYPE_COUNT || tensor->rank > TENSOR_RANK_MAX || cJSON_GetArraySize(offsets) != 2)
        refuse(file->path, name);
    tensor->type = (enum tensor_type)t;
    tensor->count = 1;
    for (int i = 0; i < tensor->rank; i++) {
        tensor->shape[i] = (int64_t)cJSON_GetArrayItem(shape, i)->valuedouble;
        tensor->count *= tensor->shape[i];
    }
    const double begin = cJSON_GetArrayItem(offsets, 0)->valuedouble;
    const double end = cJSON_GetArrayItem(offsets, 1)->valuedouble;
    if (end - begin != (double)tensor->count * (double)TYPES[t].size)
        refuse(file->path, name);
    tensor->data = file->data + (size_t)begin;
    return true;
}

struct tensor tensor_file_get(const struct tensor_file *file, const char *name)
{
    struct tensor tensor;
    if (!tensor_file_find(file, name, &tensor))
        refuse(file->path, name);
    return tensor;
}

const char *tensor_file_metadata(const struct tensor_file *file, const char *key)
{
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(file->header, "__metadata__");
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(metadata, key));
}

float tensor_half(uint16_t half)
{
    const int exponent = (half >> 10) & 31, fraction = half & 1023;
    const float sign = half >> 15 ? -1.0f : 1.0f;
    if (exponent == 31)
        return fraction != 0 ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexpf((float)fraction, -24);
    return sign * ldexpf((float)(1024 + fraction), exponent - 25);
}

float *tensor_floats(const struct tensor *tensor)
{
    float *floats = malloc((size_t)(tensor->count + 1) * sizeof *floats);
    if (floats == NULL || (tensor->type != TENSOR_F32 && tensor->type != TENSOR_F16))
        refuse("tensor_floats", "no memory, or neither F32 nor F16");
    if (tensor->type == TENSOR_F32) {
        memcpy(floats, tensor->data, (size_t)tensor->count * sizeof *floats);
        return floats;
    }
    for (int64_t i = 0; i < tensor->count; i++) {
        uint16_t half;
        memcpy(&half, (const char *)tensor->data + 2 * i, sizeof half);
        floats[i] = tensor_half(half);
    }
    return floats;
}

int64_t tensor_integer(const struct tensor *tensor, int64_t i)
{
    int64_t integer;
    if (tensor->type != TENSOR_I64 || i >= tensor->count)
        refuse("tensor_integer", "not an element of an I64 tensor");
    memcpy(&integer, (const char *)tensor->data + 8 * i, sizeof integer);
    return integer;
}
