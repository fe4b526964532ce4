/* oip_datatype.h - the datatypes of the Open Inference Protocol. */
#ifndef ATTND_OIP_DATATYPE_H
#define ATTND_OIP_DATATYPE_H

#include "attn.h"

enum oip_kind { OIP_FLOAT, OIP_BOOL, OIP_INTEGER, OIP_BYTES };

struct oip_datatype {
    const char *name; /* "FP32" */
    enum oip_kind kind;
    size_t size;           /* of an element; of BYTES 0 */
    enum attn_dtype dtype; /* of OIP_FLOAT and OIP_BOOL */
    bool is_unsigned;      /* of OIP_INTEGER */
};

/* The one of this name, or NULL. */
const struct oip_datatype *oip_datatype_find(const char *name);

/* The name of a dtype: "FP32". */
const char *oip_datatype_name(enum attn_dtype dtype);

/* The integer at bytes, of any alignment; what is beyond INT64_MAX becomes that. */
int64_t oip_datatype_integer(const struct oip_datatype *datatype, const void *bytes);

#endif
