/* SPDX-License-Identifier: Apache-2.0 */
/* test_oip_datatype.c - the datatypes of the Open Inference Protocol. */
#include "base/dtype.h"
#include "formats/oip.h"
#include "test.h"

TEST(names)
{
    static const struct {
        const char *name;
        enum oip_kind kind;
        size_t size;
    } datatypes[] = {
        { "BOOL", OIP_BOOL, 1 },      { "INT8", OIP_INTEGER, 1 },   { "INT16", OIP_INTEGER, 2 },
        { "INT32", OIP_INTEGER, 4 },  { "INT64", OIP_INTEGER, 8 },  { "UINT8", OIP_INTEGER, 1 },
        { "UINT16", OIP_INTEGER, 2 }, { "UINT32", OIP_INTEGER, 4 }, { "UINT64", OIP_INTEGER, 8 },
        { "FP16", OIP_FLOAT, 2 },     { "BF16", OIP_FLOAT, 2 },     { "FP32", OIP_FLOAT, 4 },
        { "FP64", OIP_FLOAT, 8 },     { "BYTES", OIP_BYTES, 0 },
    };
    for (size_t i = 0; i < sizeof datatypes / sizeof datatypes[0]; i++) {
        const struct oip_datatype *found = oip_datatype_find(datatypes[i].name);
        assert_non_null(found);
        assert_int_equal(found->kind, datatypes[i].kind);
        assert_int_equal(found->size, datatypes[i].size);
        enum attn_dtype dtype;
        if (found->kind == OIP_FLOAT || found->kind == OIP_BOOL) {
            assert_true(dtype_find(found->dtype, &dtype));
            assert_ptr_equal(oip_datatype_of(dtype), found);
            assert_int_equal(attn_dtype_size(dtype), found->size);
        }
    }
    assert_null(oip_datatype_find("FP8"));
    assert_null(oip_datatype_find("fp32"));
    assert_null(oip_datatype_find(""));
}

/* Eight bytes of 0xFE, read at an odd address. */
TEST(integers)
{
    static const struct {
        const char *name;
        int64_t value;
    } wanted[] = {
        { "INT8", -2 },
        { "INT16", -258 },
        { "INT32", -16843010 },
        { "UINT8", 0xFE },
        { "UINT16", 0xFEFE },
        { "UINT32", 0xFEFEFEFE },
        { "INT64", -72340172838076674 },
        { "UINT64", INT64_MAX },
    };
    struct dtype_integer integer;
    char bytes[9];
    memset(bytes, 0xFE, sizeof bytes);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        assert_true(dtype_integer_find(oip_datatype_find(wanted[i].name)->dtype, &integer));
        assert_true(dtype_integer_read(bytes + 1, integer) == wanted[i].value);
    }
    memset(bytes, 0, sizeof bytes);
    bytes[1] = 7;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        assert_true(dtype_integer_find(oip_datatype_find(wanted[i].name)->dtype, &integer));
        assert_true(dtype_integer_read(bytes + 1, integer) == 7);
    }
}
