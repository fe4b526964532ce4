/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_gguf.c - any bytes as a GGUF file. They end in a fault that gguf.h names, or in pairs and
 * tensors that are found by their names; texts end with a NUL byte, and the tensors lie in the file
 * one behind the other, aligned, each as large as its shape says. */
#include "formats/gguf.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

/* Returns what was read, so that nothing of it is left out. */
static uint64_t check_value(const struct gguf_value *value, int depth)
{
    const char *text;
    size_t length;
    int64_t integer = 0;
    double number = 0;
    bool flag = false;
    require(gguf_type_name(value)[0] != '\0');
    if (value->type == GGUF_ARRAY) {
        uint64_t sum = 0;
        require(depth <= GGUF_ARRAY_DEPTH_MAX);
        for (int64_t i = 0; i < value->count; i++) {
            const struct gguf_value element = gguf_element(value, i);
            require(element.type == value->element_type);
            sum += check_value(&element, depth + 1);
        }
        return sum;
    }
    if (gguf_text(value, &text, &length)) {
        require(text[length] == '\0' && strlen(text) <= length);
        return length;
    }
    const bool is_integer = gguf_integer(value, &integer), is_number = gguf_number(value, &number);
    const bool is_flag = gguf_flag(value, &flag);
    require(is_number != is_flag && (!is_integer || is_number));
    require(!is_integer || (double)integer == number);
    return (uint64_t)integer + flag;
}

static void check_tensor(const struct gguf *file, const struct gguf_tensor *tensor)
{
    uint64_t blocks = 1;
    require(tensor->rank >= 1 && tensor->rank <= GGUF_RANK_MAX);
    require(strlen(tensor->name) == tensor->name_length);
    require(gguf_tensor_find(file, tensor->name) == tensor);
    for (int i = 0; i < tensor->rank; i++)
        blocks *= (uint64_t)tensor->shape[i];
    require(tensor->shape[tensor->rank - 1] % tensor->block_count == 0);
    require(blocks / (uint64_t)tensor->block_count * tensor->block_bytes == tensor->size);
}

static void check_file(const struct gguf *file, const uint8_t *data, size_t size)
{
    const uint8_t *end = data + file->header_size;
    volatile uint64_t sum = 0;
    for (int64_t i = 0; i < file->pair_count; i++) {
        const struct gguf_pair *pair = &file->pairs[i];
        require(strlen(pair->key) == pair->key_length);
        require(gguf_find(file, pair->key) == &pair->value);
        sum += check_value(&pair->value, 0);
    }
    for (int64_t i = 0; i < file->tensor_count; i++) {
        const struct gguf_tensor *tensor = &file->tensors[i];
        const uint8_t *begin = tensor->data;
        check_tensor(file, tensor);
        require(begin >= end && (size_t)(begin - end) < file->alignment);
        require((size_t)(begin - data) % file->alignment == 0);
        end = begin + tensor->size;
        require(end <= data + size);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gguf file;
    struct fault fault = { .code = FAULT_NONE };
    if (gguf_read(&file, data, size, &fault)) {
        check_file(&file, data, size);
        gguf_free(&file);
        return 0;
    }
    require(fault.code == FAULT_BINARY || fault.code == FAULT_DTYPE
            || fault.code == FAULT_DUPLICATE);
    require(fault.message[0] != '\0' && !file.pairs && !file.header);
    return 0;
}
