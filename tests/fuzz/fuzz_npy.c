/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_npy.c - any bytes as an .npy file. They end in a fault with a message, or in an array whose
 * numbers lie in the file, and whose shape and dtype a head written for them reads back. */
#include "formats/npy.h"
#include "json/text.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void write_again(const struct npy_array *array)
{
    struct text text;
    struct npy_array again;
    struct fault fault;
    text_init(&text, SIZE_MAX);
    npy_write_head(&text, array->dtype, array->rank, array->shape);
    require(text.used % 64 == 0);
    text_bytes(&text, array->data, array->size);
    require(text_finish(&text, &fault));
    require(npy_read(&again, (struct byte_slice){ text.data, text.used }, &fault));
    require(again.dtype == array->dtype && again.rank == array->rank && again.count == array->count
            && again.size == array->size
            && memcmp(again.shape, array->shape, sizeof again.shape) == 0
            && memcmp(again.data, array->data, array->size) == 0);
    text_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct npy_array array;
    struct fault fault = { .code = FAULT_NONE };
    if (!npy_read(&array, (struct byte_slice){ data, size }, &fault)) {
        require(fault.code == FAULT_BINARY || fault.code == FAULT_DTYPE
                || fault.code == FAULT_SHAPE);
        require(fault.message[0] != '\0');
        return 0;
    }
    require((const uint8_t *)array.data + array.size == data + size);
    require((size_t)array.count * attn_dtype_size(array.dtype) == array.size);
    write_again(&array);
    return 0;
}
