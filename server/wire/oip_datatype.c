/* oip_datatype.c - see oip_datatype.h. */
#include "wire/oip_datatype.h"

#include <string.h>

static const struct oip_datatype DATATYPES[] = {
    { "FP32", OIP_FLOAT, 4, ATTN_F32, false },    { "FP16", OIP_FLOAT, 2, ATTN_F16, false },
    { "BF16", OIP_FLOAT, 2, ATTN_BF16, false },   { "FP64", OIP_FLOAT, 8, ATTN_F64, false },
    { "BOOL", OIP_BOOL, 1, ATTN_BOOL, false },    { "INT8", OIP_INTEGER, 1, ATTN_F32, false },
    { "INT16", OIP_INTEGER, 2, ATTN_F32, false }, { "INT32", OIP_INTEGER, 4, ATTN_F32, false },
    { "INT64", OIP_INTEGER, 8, ATTN_F32, false }, { "UINT8", OIP_INTEGER, 1, ATTN_F32, true },
    { "UINT16", OIP_INTEGER, 2, ATTN_F32, true }, { "UINT32", OIP_INTEGER, 4, ATTN_F32, true },
    { "UINT64", OIP_INTEGER, 8, ATTN_F32, true }, { "BYTES", OIP_BYTES, 0, ATTN_F32, false },
};

enum { DATATYPE_COUNT = sizeof DATATYPES / sizeof DATATYPES[0] };

const struct oip_datatype *oip_datatype_find(const char *name)
{
    for (int i = 0; i < DATATYPE_COUNT; i++)
        if (strcmp(DATATYPES[i].name, name) == 0)
            return &DATATYPES[i];
    return NULL;
}

const char *oip_datatype_name(enum attn_dtype dtype)
{
    int i = 0;
    while (DATATYPES[i].dtype != dtype)
        i++;
    return DATATYPES[i].name;
}

int64_t oip_datatype_integer(const struct oip_datatype *datatype, const void *bytes)
{
    uint64_t bits = 0;
    memcpy(&bits, bytes, datatype->size); /* little-endian, as everything here */
    const unsigned shift = 64 - 8 * (unsigned)datatype->size;
    if (datatype->is_unsigned)
        return bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
    return (int64_t)(bits << shift) >> shift;
}
