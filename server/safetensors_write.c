/* safetensors_write.c - the writer; see safetensors.h.
 *
 * The header is padded with spaces to a multiple of 8 bytes, as the format's own
 * writer does, so that a reader which maps the file finds the numbers aligned. */
#include "safetensors.h"

#include "text.h"

#include <string.h>

enum { LENGTH_BYTES = 8, ALIGNMENT = 8 };

/* The bytes of a tensor's values; false where they overflow. */
static bool tensor_bytes(const struct safetensors_tensor *tensor, int64_t *bytes)
{
    *bytes = sizeof(float);
    for (int i = 0; i < tensor->rank; i++)
        if (__builtin_mul_overflow(*bytes, tensor->shape[i], bytes))
            return false;
    return true;
}

static void write_entry(struct text *text, const struct safetensors_tensor *tensor, int64_t begin,
                        int64_t end)
{
    text_key(text, tensor->name);
    text_raw(text, "{\"dtype\":\"F32\",\"shape\":[");
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

/* Behind the 8 bytes that are kept free for the length. */
static bool write_header(struct text *text, const struct safetensors_tensor *tensors,
                         int64_t tensor_count, const char *metadata_key, const char *metadata_value,
                         struct fault *fault)
{
    int64_t begin = 0, bytes, end;
    text_bytes(text, "\0\0\0\0\0\0\0\0", LENGTH_BYTES);
    text_raw(text, "{\"__metadata__\":{");
    text_key(text, metadata_key);
    text_string(text, metadata_value);
    text_raw(text, "}");
    for (int64_t i = 0; i < tensor_count; i++) {
        if (!tensor_bytes(&tensors[i], &bytes) || __builtin_add_overflow(begin, bytes, &end))
            return fault_set(fault, FAULT_TOO_LARGE, "the tensors' sizes overflow");
        text_raw(text, ",");
        write_entry(text, &tensors[i], begin, end);
        begin = end;
    }
    text_raw(text, "}");
    text_bytes(text, "       ", (ALIGNMENT - text->used % ALIGNMENT) % ALIGNMENT);
    return true;
}

bool safetensors_write(void **bytes, size_t *size, const struct safetensors_tensor *tensors,
                       int64_t tensor_count, const char *metadata_key, const char *metadata_value,
                       struct fault *fault)
{
    struct text text;
    text_init(&text, SIZE_MAX);
    if (!write_header(&text, tensors, tensor_count, metadata_key, metadata_value, fault)) {
        text_free(&text);
        return false;
    }
    uint64_t header_size = text.used - LENGTH_BYTES;
    for (int64_t i = 0; i < tensor_count; i++) {
        int64_t tensor_size = 0;
        if (tensor_bytes(&tensors[i], &tensor_size))
            text_bytes(&text, (const char *)tensors[i].values, (size_t)tensor_size);
    }
    if (!text_finish(&text, fault)) {
        text_free(&text);
        return false;
    }
    for (int i = 0; i < LENGTH_BYTES; i++, header_size >>= 8)
        text.data[i] = (char)(header_size & 0xFF);
    *bytes = text.data;
    *size = text.used;
    return true;
}
