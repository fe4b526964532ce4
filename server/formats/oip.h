/* SPDX-License-Identifier: Apache-2.0 */
/* oip.h - the Open Inference Protocol v2 as a format, with its extensions: tensors as bytes behind
 * the JSON, tensors in shared memory, raw bodies, classification.
 *
 * It knows no operation and no model: what tensors there are comes as a signature. A request is
 * read in two steps, because the names of its inputs may choose the signature: oip_open() reads the
 * JSON, format_oip.read() the tensors. Inputs become a message of tensors under their names, in
 * the request's order; parameters are an object for a table of fields. Messages follow Triton's
 * where it has one, because its users know them. */
#ifndef ATTND_FORMAT_OIP_H
#define ATTND_FORMAT_OIP_H

#include "formats/format.h"
#include "formats/regions.h"

/* ------------------------------------------------------------- datatypes -- */

enum oip_kind { OIP_FLOAT, OIP_BOOL, OIP_INTEGER, OIP_BYTES };

struct oip_datatype {
    const char *name;  /* "FP32" */
    const char *dtype; /* the same in files of safetensors: "F32"; NULL: they have none */
    enum oip_kind kind;
    size_t size; /* of one element; 0 for BYTES */
};

/* The datatype of this name, or NULL. */
const struct oip_datatype *oip_datatype_find(const char *name);

/* The datatype of a dtype of numbers or booleans. */
const struct oip_datatype *oip_datatype_of(enum attn_dtype dtype);

/* ----------------------------------------------------- inputs and outputs -- */

enum { OIP_TENSORS_MAX = 10, OIP_RANK_MAX = 4 };

/* One input or output of a model, with the shape of a batch. */
struct oip_tensor {
    const char *name;
    const char *datatype; /* in the metadata, "FP32"; all floating datatypes are accepted for it */
    bool optional;        /* of an input */
    int rank;
    int64_t shape[OIP_RANK_MAX]; /* -1: each call chooses this dimension */
    bool is_mask;                /* this input may be BOOL too; null in its JSON forbids a key */
};

/* What a model takes and gives. A tensor's index is its slot. */
struct oip_signature {
    const char *model;
    int64_t version;
    struct oip_tensor inputs[OIP_TENSORS_MAX];
    const struct oip_tensor *outputs;
    int input_count, output_count;
    int default_count; /* of the first outputs are answered where a request names none */
};

/* ------------------------------------------------------------- a request -- */

/* What the headers say. All may be NULL but the type, which may be "". */
struct oip_headers {
    const char *header_length, *content_type, *accept;
};

/* An output that the request asks for. */
struct oip_output {
    int slot;
    int index;             /* its place in the request's list, for pointers */
    struct region *region; /* where it goes in shared memory, held by the request; NULL: nowhere */
    uint64_t offset, size; /* there */
    bool binary;
    int64_t classification; /* how many of the largest of each row to answer; 0: all */
};

struct oip_request {
    /* Set before it is opened, and before it is read. */
    struct regions *regions; /* NULL: shared memory is not offered */
    struct regions_held *held;
    const struct access_key *key;
    size_t bytes_max; /* of a tensor in shared memory */
    const struct oip_signature *signature;

    /* From the headers. */
    bool is_bytes; /* the Content-Type is application/octet-stream */
    bool has_header_length, is_json_wanted;
    size_t header_length;

    /* From the body. */
    struct message root;                         /* its JSON */
    const struct message *parameters;            /* an object; none: empty */
    const char *id;                              /* NULL: none */
    bool binary_output;                          /* outputs that do not say so are binary */
    const struct value *inputs[OIP_TENSORS_MAX]; /* by slot; NULL: it did not come */
    int input_index[OIP_TENSORS_MAX];            /* its place in the request's list */
    struct oip_output *outputs;                  /* [asked_count] */
    int asked_count;
};

/* The request's, of what the headers say. */
bool oip_begin(struct oip_request *oip, const struct oip_headers *headers, struct fault *fault);

/* Reads the JSON of the body, for which body->oip is set. */
bool oip_open(struct format_body *body, struct fault *fault);

extern const struct format format_oip;

/* The bytes of a number in the answer, at most; 0: some are text. */
size_t oip_number_bytes(const struct oip_request *oip);

/* Sets a fault of an input: "input 'query' ...". Returns false. */
bool oip_input_fault(const struct oip_request *oip, int slot, struct fault *fault,
                     enum fault_code code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Sets the fault of an input's shape: what was expected, and what came. Returns false. */
bool oip_unexpected_shape(const struct oip_request *oip, int slot, const char *expected,
                          struct fault *fault);

/* Writes a shape: "[1,-1,3]". */
void oip_shape_text(char *out, size_t size, const int64_t *shape, int rank);

/* An operation says the arrays of the outputs asked for, in their order, and may say the string
 * "precision" before them. */
extern const struct writer_kind writer_oip;

#endif
