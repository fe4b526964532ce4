/* model_parameters.c - see model_parameters.h.
 *
 * Tensors may begin at any byte, so elements are read by memcpy(); both the format
 * and the machines this runs on are little-endian. */
#include "model_parameters.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are little-endian");

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* IEEE 754 binary16. A subnormal is its fraction in units of 2^-24, which is exact. */
static float float_of_f16(const unsigned char *bytes)
{
    uint16_t half;
    memcpy(&half, bytes, sizeof half);
    const uint32_t sign = (uint32_t)(half >> 15) << 31;
    const uint32_t exponent = (half >> 10) & 0x1F, fraction = half & 0x3FF;
    if (exponent == 0)
        return (sign ? -1.0f : 1.0f) * (float)fraction * 0x1p-24f;
    const uint32_t wide = exponent == 0x1F ? 0xFF : exponent + (127 - 15);
    return float_of_bits(sign | wide << 23 | fraction << 13);
}

static float float_of_bf16(const unsigned char *bytes)
{
    uint16_t half;
    memcpy(&half, bytes, sizeof half);
    return float_of_bits((uint32_t)half << 16);
}

static float float_of_f32(const unsigned char *bytes)
{
    float value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

static float float_of_f64(const unsigned char *bytes)
{
    double value;
    memcpy(&value, bytes, sizeof value);
    return (float)value;
}

static const struct source {
    const char *dtype;
    size_t size;
    float (*read)(const unsigned char *bytes);
} SOURCES[] = {
    { "F32", 4, float_of_f32 },
    { "F16", 2, float_of_f16 },
    { "BF16", 2, float_of_bf16 },
    { "F64", 8, float_of_f64 },
};

static const struct source *find_source(const char *dtype)
{
    for (size_t i = 0; i < sizeof SOURCES / sizeof SOURCES[0]; i++)
        if (strcmp(SOURCES[i].dtype, dtype) == 0)
            return &SOURCES[i];
    return NULL;
}

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
                            const struct source *source)
{
    const size_t count = entry->size / source->size;
    const unsigned char *bytes = entry->data;
    float *values =
        count <= SIZE_MAX / sizeof *values ? arena_alloc(arena, count * sizeof *values) : NULL;
    for (size_t i = 0; values && i < count; i++)
        values[i] = source->read(bytes + i * source->size);
    return values;
}

bool model_parameters_get(struct model_parameters *parameters,
                          const struct safetensors_entry *entry, const float **values,
                          struct fault *fault)
{
    const struct source *source = find_source(entry->dtype);
    const float **converted = &parameters->converted[entry - parameters->file->entries];
    if (!source)
        return fault_set(fault, FAULT_DTYPE,
                         "tensor '%.60s' is %s; a parameter is F32, F16, BF16 or F64", entry->name,
                         entry->dtype);
    if (source->read == float_of_f32 && (uintptr_t)entry->data % sizeof(float) == 0) {
        *values = entry->data;
    } else {
        if (!*converted)
            *converted = convert(parameters->arena, entry, source);
        if (!*converted)
            return fault_no_memory(fault);
        *values = *converted;
    }
    parameters->count += (int64_t)(entry->size / source->size);
    parameters->bytes += (int64_t)entry->size;
    if (!parameters->dtype[0])
        parameters->dtype = entry->dtype;
    else if (strcmp(parameters->dtype, entry->dtype) != 0)
        parameters->dtype = "mixed";
    return true;
}
