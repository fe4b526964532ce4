/* SPDX-License-Identifier: Apache-2.0 */
/* test_npy.c - the reader and the writer of .npy files: the heads that numpy writes, and files that
 * break a rule of its specification. Every file ends at an unreadable page. */
#include "formats/npy.h"
#include "guard.h"
#include "npy_bytes.h"
#include "test.h"
#include "json/text.h"

#define V2             "\x93NUMPY\x02\0t\0\0\0"
#define V3             "\x93NUMPY\x03\0t\0\0\0"
#define ONE            "\0\0\x80?\0\0\0\0\0\0\0\0" /* 1, 0, 0 */
#define BYTES(s)       s, sizeof s - 1
#define SHORT(n, dict) "\x93NUMPY\x01\0" n "\0" dict

static bool read_guarded(struct npy_array *array, const char *bytes, size_t size,
                         struct fault *fault)
{
    struct guard_buffer guard = guard_alloc(size);
    memcpy(guard.data, bytes, size);
    const bool good = npy_read(array, (struct byte_slice){ guard.data, size }, fault);
    if (good) {
        volatile unsigned char sum = 0;
        for (size_t i = 0; i < array->size; i++)
            sum ^= ((const unsigned char *)array->data)[i];
    }
    guard_free(&guard);
    return good;
}

static const struct {
    const char *bytes;
    size_t size;
    enum attn_dtype dtype;
    int rank;
    int64_t shape[4];
} TAKEN[] = {
    { BYTES(NPY_HEAD("<f4", "(1, 3)") ONE), ATTN_F32, 2, { 1, 3 } },
    { BYTES(V2 NPY_DICT("<f4", "(1, 3)") NPY_BLANKS_50 "      \n" ONE), ATTN_F32, 2, { 1, 3 } },
    { BYTES(V3 NPY_DICT("<f4", "(1, 3)") NPY_BLANKS_50 "      \n" ONE), ATTN_F32, 2, { 1, 3 } },
    { BYTES(NPY_HEAD("<f2", "(1, 3)") "\0<\0\0\0\0"), ATTN_F16, 2, { 1, 3 } },
    { BYTES(NPY_HEAD_PADDED("<f8", "(1,)", "  ") "\0\0\0\0\0\0\xf8?"), ATTN_F64, 1, { 1 } },
    { BYTES(NPY_HEAD_PADDED("<f4", "()", "    ") "\0\0\0@"), ATTN_F32, 0, { 0 } },
    { BYTES(NPY_HEAD("<f4", "(0, 3)")), ATTN_F32, 2, { 0, 3 } },
    /* Other writers: any order, either quote, no commas at the end, no padding. */
    { BYTES(SHORT("8", "{\"shape\":(1,3),'fortran_order':False,'descr':'<f4'}    \n") ONE),
      ATTN_F32,
      2,
      { 1, 3 } },
};

TEST(taken)
{
    for (size_t i = 0; i < sizeof TAKEN / sizeof TAKEN[0]; i++) {
        struct npy_array array;
        struct fault fault = { .message = "" };
        if (!read_guarded(&array, TAKEN[i].bytes, TAKEN[i].size, &fault))
            fail_msg("file %zu: %s", i, fault.message);
        assert_int_equal(array.dtype, TAKEN[i].dtype);
        assert_int_equal(array.rank, TAKEN[i].rank);
        assert_memory_equal(array.shape, TAKEN[i].shape, sizeof TAKEN[i].shape);
        assert_int_equal(array.size, (size_t)array.count * attn_dtype_size(array.dtype));
    }
}

#define DICT "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }"
#define REST "'fortran_order': False, 'shape': (1,), }"

static const struct {
    const char *header;
    enum fault_code code;
    const char *words;
} REFUSED[] = {
    { "", FAULT_BINARY, "a dict" },
    { "[]", FAULT_BINARY, "a dict" },
    { "{}", FAULT_BINARY, "'descr'" },
    { "{'descr': '<f4', 'shape': (1,)}", FAULT_BINARY, "before its end" },
    { "{'descr': '<f4', 'descr': '<f4', " REST, FAULT_BINARY, "each once" },
    { "{'descr': '<f4', 'more': 1, " REST, FAULT_BINARY, "each once" },
    { "{'descr' '<f4', " REST, FAULT_BINARY, "a colon" },
    { "{'descr': '<f4' " REST, FAULT_BINARY, "a comma" },
    { DICT "x", FAULT_BINARY, "nothing but blanks" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (1,", FAULT_BINARY, "a dimension" },
    { "{'descr': '<f4", FAULT_DTYPE, "no plain dtype" },
    { "{'descr': [('a', '<f4')], " REST, FAULT_DTYPE, "no plain dtype" },
    { "{'descr': '>f4', " REST, FAULT_DTYPE, "is '>f4'" },
    { "{'descr': '<i8', " REST, FAULT_DTYPE, "is '<i8'" },
    { "{'descr': '|O', " REST, FAULT_DTYPE, "is '|O'" },
    { "{'descr': '<V2', " REST, FAULT_DTYPE, "is '<V2'" },
    { "{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", FAULT_BINARY, "ascontiguous" },
    { "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,), }", FAULT_BINARY, "True or False" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': [1], }", FAULT_BINARY, "a tuple" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (1), }", FAULT_BINARY, "(3,)" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (1 1), }", FAULT_BINARY, "a comma" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", FAULT_BINARY, "a dimension" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (1L,), }", FAULT_BINARY, "a comma" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", FAULT_BINARY, "ask for 8" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (0,), }", FAULT_BINARY, "ask for 0" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (2147483648,), }", FAULT_SHAPE, "over" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", FAULT_SHAPE,
      "more than 8" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (2147483647,2147483647,2147483647), }",
      FAULT_BINARY, "more numbers" },
};

static void refused(const char *bytes, size_t size, enum fault_code code, const char *words)
{
    struct npy_array array;
    struct fault fault = { .message = "" };
    if (read_guarded(&array, bytes, size, &fault) || fault.code != code
        || !strstr(fault.message, words))
        fail_msg("expected %s, came '%s'", words, fault.message);
}

TEST(refused_headers)
{
    for (size_t i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; i++) {
        char file[256] = "\x93NUMPY\x01";
        const size_t length = strlen(REFUSED[i].header);
        file[8] = (char)length;
        memcpy(file + 10, REFUSED[i].header, length);
        memset(file + 10 + length, 0, 4);
        refused(file, 14 + length, REFUSED[i].code, REFUSED[i].words);
    }
}

/* Every file that is cut short is refused. */
TEST(refused_files)
{
    static const char whole[] = NPY_HEAD("<f4", "(1, 3)") ONE;
    struct npy_array array;
    struct fault fault;
    for (size_t size = 0; size < sizeof whole - 1; size++)
        assert_false(read_guarded(&array, whole, size, &fault));
    refused(BYTES("PK\3\4 an .npz file"), FAULT_BINARY, "numpy.save()");
    refused(BYTES("\x93NUMPY\x04\0\0\0\0\0"), FAULT_BINARY, "version 4.0");
    refused(BYTES("\x93NUMPY\x01\1\0\0"), FAULT_BINARY, "version 1.1");
    refused(BYTES("\x93NUMPY\x02\0\xff\xff\xff\xff{}"), FAULT_BINARY, "ends in its header");
    static char blanks[10100] = "\x93NUMPY\x02\0\x11\x27\0\0";
    memset(blanks + 12, ' ', 10001);
    refused(blanks, sizeof blanks, FAULT_BINARY, "10001 bytes");
}

TEST(written)
{
    static const char numpys[] = NPY_HEAD("<f4", "(1, 3)");
    static const int64_t shape[] = { 1,          3,          2147483647, 2147483647,
                                     2147483647, 2147483647, 2147483647, 2147483647 };
    struct text text;
    text_init(&text, SIZE_MAX);
    npy_write_head(&text, ATTN_F32, 2, shape);
    assert_int_equal(text.used, sizeof numpys - 1);
    assert_memory_equal(text.data, numpys, sizeof numpys - 1);
    text_free(&text);
    text_init(&text, SIZE_MAX);
    npy_write_head(&text, ATTN_F64, 8, shape);
    assert_int_equal(text.used % 64, 0);
    text_free(&text);
    for (int rank = 0; rank < 3; rank++) {
        struct npy_array array;
        struct fault fault;
        text_init(&text, SIZE_MAX);
        npy_write_head(&text, ATTN_F16, rank, shape);
        text_bytes(&text, "\0\0\0\0\0\0", rank < 2 ? 2 : 6);
        assert_true(read_guarded(&array, text.data, text.used, &fault));
        assert_int_equal(array.rank, rank);
        assert_memory_equal(array.shape, shape, (size_t)rank * sizeof *shape);
        text_free(&text);
    }
}
