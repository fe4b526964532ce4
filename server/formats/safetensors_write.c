/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors_write.c - the writer of files; see safetensors.h.
 *
 * Like the format's own writer, it pads the header with spaces to a multiple of 8 bytes, so that a
 * reader that maps the file finds the numbers aligned. */
#include "formats/safetensors.h"

#include "json/text.h"

#include <string.h>

enum { ALIGNMENT = 8 };

static const char *dtype_of(const struct safetensors_tensor *tensor)
{
    return tensor->dtype ? tensor->dtype : "F32";
}

bool safetensors_tensor_bytes(const struct safetensors_tensor *tensor, int64_t *bytes)
{
    *bytes = (int64_t)safetensors_dtype_bits(dtype_of(tensor)) / 8;
    for (int i = 0; i < tensor->rank; i++)
        if (__builtin_mul_overflow(*bytes, tensor->shape[i], bytes))
            return false;
    return true;
}

static void write_entry(struct text *text, const struct safetensors_tensor *tensor, int64_t begin,
                        int64_t end)
{
    text_key(text, tensor->name);
    text_raw(text, "{\"dtype\":");
    text_string(text, dtype_of(tensor));
    text_raw(text, ",\"shape\":[");
    for (int i = 0; i < tensor->rank; i++) {
        text_raw(text, i > 0 ? "," : "");
        text_integer(text, tensor->shape[i]);
    }
    text_raw(text, "],\"data_offsets\":[");
    text_integer(text, begin);
    text_raw(text, ",");
    text_integer(text, end);
    text_raw(text, "]}");
}

bool safetensors_write_head(struct text *text, const struct safetensors_tensor *tensors,
                            int64_t tensor_count, const struct safetensors_pair *metadata,
                            int64_t metadata_count, struct fault *fault)
{
    int64_t begin = 0, bytes, end;
    text_bytes(text, "\0\0\0\0\0\0\0\0", SAFETENSORS_LENGTH_BYTES);
    text_raw(text, "{\"__metadata__\":{");
    for (int64_t i = 0; i < metadata_count; i++) {
        text_raw(text, i > 0 ? "," : "");
        text_key(text, metadata[i].key);
        text_string(text, metadata[i].value);
    }
    text_raw(text, "}");
    for (int64_t i = 0; i < tensor_count; i++) {
        if (!safetensors_tensor_bytes(&tensors[i], &bytes)
            || __builtin_add_overflow(begin, bytes, &end))
            return fault_set(fault, FAULT_TOO_LARGE, "the tensors' sizes overflow");
        text_raw(text, ",");
        write_entry(text, &tensors[i], begin, end);
        begin = end;
    }
    text_raw(text, "}");
    text_bytes(text, "       ", (ALIGNMENT - text->used % ALIGNMENT) % ALIGNMENT);
    if (!text_finish(text, fault))
        return false;
    uint64_t header_size = text->used - SAFETENSORS_LENGTH_BYTES;
    for (int i = 0; i < SAFETENSORS_LENGTH_BYTES; i++, header_size >>= 8)
        text->data[i] = (char)(header_size & 0xFF);
    return true;
}

bool safetensors_write(void **bytes, size_t *size, const struct safetensors_tensor *tensors,
                       int64_t tensor_count, const char *metadata_key, const char *metadata_value,
                       struct fault *fault)
{
    const struct safetensors_pair metadata = { .key = metadata_key, .value = metadata_value };
    struct text text;
    text_init(&text, SIZE_MAX);
    bool good = safetensors_write_head(&text, tensors, tensor_count, &metadata, 1, fault);
    for (int64_t i = 0; good && i < tensor_count; i++) {
        int64_t tensor_size = 0;
        if (safetensors_tensor_bytes(&tensors[i], &tensor_size))
            text_bytes(&text, tensors[i].values, (size_t)tensor_size);
    }
    if (!good || !text_finish(&text, fault)) {
        text_free(&text);
        return false;
    }
    *bytes = text.data;
    *size = text.used;
    return true;
}
