/* wire_oip.h - inference in the Open Inference Protocol v2, with the binary tensor data extension.
 *
 * A request passes through these files: oip_envelope.c and oip_data.c read its inputs and which
 * outputs it asks for, oip_parameters.c its options; oip_attention.c makes items of the inputs for
 * a model with parameters, oip_sdpa.c for the one without; oip_answer.c writes the results.
 * oip_region.c is for tensors in shared memory, oip_sequence.c for requests whose keys and values
 * stay.
 *
 * Inputs under the names of exports to ONNX, such as input_ids, ask for the whole pass of a model.
 * When the names are read, the call becomes a trace, of which oip_trace.c makes items. */
#ifndef ATTND_WIRE_OIP_H
#define ATTND_WIRE_OIP_H

#include "forward/trace_job.h"
#include "wire/oip_sequence.h"
#include "wire/oip_trace_tensors.h"

extern const struct operation wire_oip;

/* What the path and the headers say. header_length and accept may be NULL; version and content_type
 * may be "". */
struct oip_headers {
    const char *model, *version, *header_length, *content_type, *accept;
};

/* Begins a call, with copies of what it needs of the headers. */
bool wire_oip_begin(struct infer_call *call, const struct oip_headers *headers,
                    struct fault *fault);

/* An input of the request. */
struct oip_input {
    bool given;
    int index; /* its place in the request's list, for pointers */
    const struct oip_datatype *datatype;
    struct array array;      /* of OIP_FLOAT and OIP_BOOL; of OIP_INTEGER the shape alone */
    const int64_t *integers; /* of OIP_INTEGER */
    int64_t count;
};

/* Where the bytes of a tensor are in shared memory. */
struct region;
struct oip_place {
    struct region *region; /* the call holds it; NULL: the tensor is in the body or the answer */
    uint64_t offset, size;
};

/* An output that the request asks for. */
struct oip_output {
    int slot;  /* in oip->outputs_known */
    int index; /* its place in the request's list, for pointers */
    struct oip_place place;
    bool binary;
    int64_t classification; /* how many of the largest of each row to answer; 0: all */
};

/* A tensor of the answer. */
struct oip_result {
    enum attn_dtype dtype;
    const void *data;
    int rank;
    int64_t shape[OIP_RANK_MAX];
    int64_t count;
};

/* What a call keeps from reading to writing; in the request's arena. */
struct oip {
    /* From the path and the headers. */
    const char *model_name;
    const char *version; /* "": none is named */
    bool is_bytes;       /* the Content-Type is application/octet-stream */
    bool has_header_length;
    size_t header_length;
    bool is_json_wanted; /* by Accept, of a raw request */

    const struct model *model; /* the request's */
    const struct oip_trace_tensors
        *trace; /* the request asks for a whole pass; NULL: for attention */
    struct oip_tensor inputs_known[OIP_TENSORS_MAX];
    const struct oip_tensor *outputs_known;
    int input_count, output_count, default_count; /* see oip_trace_tensors.h */

    /* From the body. */
    const char *id; /* NULL: none */
    const cJSON *parameters;
    bool binary_output;                       /* outputs that do not say so are binary */
    bool is_raw;                              /* the body is one tensor's bytes, without JSON */
    struct oip_input inputs[OIP_TENSORS_MAX]; /* by slot, see oip_tensors.h */
    struct oip_output *outputs;               /* [asked_count], of at most output_count */
    int asked_count;

    /* How the inputs were made into items. */
    int64_t batch; /* how many items the answer holds */
    bool is_batched;
    struct array present[2]; /* of sdpa: key and value, [batch, kv_heads, length, head_dim] */
    struct array y_shape, map_shape; /* of sdpa's other outputs; no data */
    enum attn_output map;            /* of sdpa: which output qk_matmul_output is */

    const char *precision; /* that the answer names; NULL: none */
    struct oip_sequence sequence;
};

/* -------------------------------------------------------------- oip_envelope.c -- */

/* Reads id, inputs and outputs of the document, and the bytes behind it. */
bool oip_read_envelope(struct infer_call *call, struct oip *oip, struct fault *fault);

/* Reads a body that is the bytes of the one input and nothing else. */
bool oip_read_raw(struct infer_call *call, struct oip *oip, struct fault *fault);

/* Whether all outputs are answered as the bytes of their numbers, in shared memory or not. */
bool oip_is_all_binary(const struct oip *oip);

/* ----------------------------------------------------------- oip_reader.c -- */

/* Sets a fault of an input: "input 'query' ...". Returns false. */
bool oip_input_fault(const struct oip *oip, int slot, struct fault *fault, enum fault_code code,
                     const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Sets the fault of an input's shape: what was expected, and what came. Returns false. */
bool oip_unexpected_shape(const struct oip *oip, int slot, const char *expected,
                          struct fault *fault);

/* Writes a shape: "[1,-1,3]". */
void oip_shape_text(char *out, size_t size, const int64_t *shape, int rank);

/* --------------------------------------------------------- oip_parameters.c -- */

/* Reads the request's parameters: those of the protocol, and the model's options into item. */
bool oip_read_parameters(struct infer_call *call, struct oip *oip, struct infer_item *item,
                         struct fault *fault);

/* The name of the parameter that set this field of the native API; NULL where none did. */
const char *oip_parameter_of(const struct oip *oip, const char *field);

/* --------------------------------------------------- oip_attention.c, oip_sdpa.c -- */

/* Make the request's items from the inputs; each item begins as a copy of shared. */
bool oip_attention_items(struct infer_call *call, struct oip *oip, const struct infer_item *shared,
                         struct fault *fault);
bool oip_sdpa_items(struct infer_call *call, struct oip *oip, const struct infer_item *shared,
                    struct fault *fault);

/* For a request of a sequence, once it is known how many keys are before its own: sets what hangs
 * on the number of all. */
bool oip_sdpa_settle(struct infer_call *call, struct oip *oip, int64_t past_len,
                     struct fault *fault);

/* Allocates count items, all zero. False, with a fault, where there is no memory or count is more
 * than a request may have. */
bool oip_make_items(struct infer_call *call, const struct oip *oip, int64_t count,
                    struct fault *fault);

/* Entry number b of an array whose first dimension is a batch. */
struct array oip_entry(const struct array *array, int64_t b);

/* The result of the items for the output in this slot. */
void oip_attention_result(const struct infer_call *call, const struct oip *oip, int slot,
                          struct oip_result *result);
void oip_sdpa_result(const struct infer_call *call, const struct oip *oip, int slot,
                     struct oip_result *result);

/* ------------------------------------------------------------- oip_answer.c -- */

bool oip_write(struct call *call, struct fault *fault);

/* The result of a call for the output in this slot. */
typedef void oip_result_of(const struct call *call, const struct oip *oip, int slot,
                           struct oip_result *result);

/* Writes an answer whose results a function gives, for whichever kind of call. */
bool oip_answer_write(struct call *call, struct arena *arena, const struct oip *oip,
                      oip_result_of *result, struct fault *fault);

/* -------------------------------------------------------------- oip_trace.c -- */

/* Whether the names of the document's inputs ask for a whole pass. */
bool oip_trace_is_asked(const struct json_document *document);

/* Sets the inputs and outputs of a whole pass; a fault where the model has none. */
bool oip_trace_begin(struct infer_call *call, struct oip *oip, struct fault *fault);

/* The operation of the call that the inference becomes. */
extern const struct operation oip_trace;

#endif
