/* oip_tensors.h - what a tensor is in the Open Inference Protocol v2: its datatypes, and the inputs
 * and outputs that each model's metadata lists and its inference takes. */
#ifndef ATTND_OIP_TENSORS_H
#define ATTND_OIP_TENSORS_H

#include "infer/infer.h"

/* ------------------------------------------------------------- datatypes -- */

enum oip_kind { OIP_FLOAT, OIP_BOOL, OIP_INTEGER, OIP_BYTES };

struct oip_datatype {
    const char *name; /* "FP32" */
    enum oip_kind kind;
    size_t size;           /* of one element; 0 for BYTES */
    enum attn_dtype dtype; /* of OIP_FLOAT and OIP_BOOL */
    bool is_unsigned;      /* of OIP_INTEGER */
};

/* The datatype of this name, or NULL. */
const struct oip_datatype *oip_datatype_find(const char *name);

/* The name of a dtype: "FP32". */
const char *oip_datatype_name(enum attn_dtype dtype);

/* The little-endian integer at bytes, of any alignment. One above INT64_MAX becomes INT64_MAX. */
int64_t oip_datatype_integer(const struct oip_datatype *datatype, const void *bytes);

/* ----------------------------------------------------- inputs and outputs -- */

enum { OIP_TENSORS_MAX = 9, OIP_RANK_MAX = 4 };

/* One input or output of a model, with the shape of a batch. A model with parameters also takes
 * tensors without the first dimension: those of one call. Q, K and V of sdpa may also be
 * [batch, length, heads * head_dim]. */
struct oip_tensor {
    const char *name;
    const char *datatype; /* in the metadata, "FP32"; all floating datatypes are accepted for it */
    bool optional;        /* of an input */
    int rank;
    int64_t shape[OIP_RANK_MAX]; /* -1: each call chooses this dimension */
    bool is_mask;                /* this input may be BOOL too; null in its JSON forbids a key */
};

/* The other datatypes that an input takes, for a message: ", FP16, BF16 or FP64". */
const char *oip_datatype_others(const struct oip_tensor *input);

/* Fill tensors with the model's inputs or outputs and return their number. A tensor's index is its
 * slot in struct oip (wire_oip.h). */
int oip_inputs(const struct model *model, struct oip_tensor tensors[OIP_TENSORS_MAX]);
int oip_outputs(const struct model *model, struct oip_tensor tensors[OIP_TENSORS_MAX]);

/* Writes the model's "platform", which the protocol spells <project>_<format>: "attnd_sdpa", or
 * "attnd_" and a name of model_names.h such as "attnd_scaled_dot_product". */
void oip_platform(const struct model *model, char *platform, size_t size);

#endif
