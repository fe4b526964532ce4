/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_coding.c - any bytes as a packed body, and packed again.
 *
 * The first byte chooses the coding and the bound. Unpacked bytes must keep to the bound, and a
 * refusal must leave the body as it was. Bytes that are packed must come back the same. */
#include "formats/coding.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void check_unpack(enum coding coding, size_t bytes_max, const uint8_t *data, size_t size)
{
    enum { OFFSET = 3 };
    struct fault fault = { .code = FAULT_NONE };
    void *memory = malloc(OFFSET + size);
    require(memory != NULL);
    if (size > 0)
        memcpy((char *)memory + OFFSET, data, size);
    struct byte_slice body = { (char *)memory + OFFSET, size };
    const bool done = coding_unpack(coding, &body, &memory, bytes_max, NULL, &fault);
    require((const char *)body.data == (char *)memory + OFFSET);
    if (done) {
        require(size == 0 || body.size <= bytes_max);
    } else {
        require(fault.code == FAULT_CODING || fault.code == FAULT_TOO_LARGE);
        require(fault.message[0] != '\0' && body.size == size);
        require(memcmp(body.data, data, size) == 0);
    }
    free(memory);
}

static void check_there_and_back(enum coding coding, const uint8_t *data, size_t size)
{
    const struct byte_slice parts[] = { { data, size / 2 }, { data + size / 2, size - size / 2 } };
    struct fault fault = { .code = FAULT_NONE };
    size_t packed_size = 0;
    void *memory = coding_pack(coding, parts, 2, true, &packed_size);
    require(memory != NULL);
    struct byte_slice body = { memory, packed_size };
    require(coding_unpack(coding, &body, &memory, size, NULL, &fault));
    require(body.size == size && (size == 0 || memcmp(body.data, data, size) == 0));
    free(memory);
}

/* A header may hold any bytes, as a body may. */
static void check_headers(const uint8_t *data, size_t size)
{
    char header[256];
    struct fault fault = { .code = FAULT_NONE };
    enum coding coding;
    bool required;
    size = size < sizeof header ? size : sizeof header - 1;
    memcpy(header, data, size);
    header[size] = '\0';
    if (!coding_of_body(header, &coding, &fault))
        require(fault.code == FAULT_ENCODING);
    else
        require(coding < CODING_COUNT);
    require(coding_of_answer(header, &required) < CODING_COUNT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const enum coding coding = data[0] & 1 ? CODING_GZIP : CODING_DEFLATE;
    check_unpack(coding, data[0] & 2 ? 100000 : 64, data + 1, size - 1);
    check_there_and_back(coding, data + 1, size - 1);
    check_headers(data + 1, size - 1);
    return 0;
}
