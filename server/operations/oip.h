/* SPDX-License-Identifier: Apache-2.0 */
/* oip.h - inference of the Open Inference Protocol (formats/oip.h) as operations.
 *
 * oip_infer.c reads a request and chooses by the names of its inputs what goes on with it:
 * oip_attention for a model with parameters, oip_sdpa for the one without, oip_trace for the whole
 * pass of a model under the names of exports to ONNX, such as input_ids. Each makes items of the
 * inputs, an item of each entry of the batch. All items have one shape, so their results lie one
 * behind the other in memory and together are the output. */
#ifndef ATTND_OPERATION_OIP_H
#define ATTND_OPERATION_OIP_H

#include "operations/oip_tensors.h"
#include "operations/plan/trace_job.h"
#include "operations/session/session_store.h"

/* The operation that a call begins with; it chooses one of the others. */
extern const struct operation oip_infer;
extern const struct operation oip_attention, oip_sdpa, oip_trace;

/* Begins a call with the path and the headers. */
bool oip_infer_begin(struct call *call, const char *model, const char *version,
                     const struct oip_headers *headers, struct fault *fault);

/* An input of the request. */
struct oip_input {
    bool given;
    struct array array;      /* of integers the shape alone */
    const int64_t *integers; /* [count]; NULL: it has others */
    int64_t count;
};

/* A sequence: requests with the parameter sequence_id, whose keys and values stay between them in a
 * session (session.h) of the key's name.
 *
 * The session of sequence 7 of model m is called "m:7". sequence_start begins it, in place of one
 * of the same id that has not ended; sequence_end ends it when the request is answered. A request
 * that fails has appended nothing and leaves the sequence as it was, also where it starts one. */
struct oip_sequence {
    bool is_of, starts, ends;
    char name[SESSION_NAME_MAX + 1]; /* of its session */
    struct session *session;         /* held; of one that starts, from oip_sequence_take() on */
    bool is_begun;                   /* by this request, which has not succeeded yet */

    /* When it is known how many keys are before those of the request: sets what hangs on the number
     * of all. NULL: nothing does. */
    bool (*settle)(struct call *call, int64_t past_len, struct fault *fault);
};

/* What a call keeps from reading to writing: its state, in the request's arena. */
struct oip_call {
    const char *model_name, *version; /* version "": none is named */
    const struct model *model;        /* the request's */
    struct oip_request request;
    struct oip_signature signature;           /* of attention */
    const struct oip_trace_tensors *trace;    /* of a whole pass; NULL: none is asked for */
    struct oip_input inputs[OIP_TENSORS_MAX]; /* by slot */
    struct oip_sequence sequence;

    /* How the inputs were made into items. */
    int64_t batch; /* how many items the answer holds */
    bool is_batched;
    struct array present[2]; /* of sdpa: key and value, [batch, kv_heads, length, head_dim] */
    struct array y_shape, map_shape; /* of sdpa's other outputs; no data */
    enum attn_output map;            /* of sdpa: which output qk_matmul_output is */
};

static inline struct oip_call *oip_call_of(const struct call *call)
{
    return call->state;
}

/* --------------------------------------------------------- oip_items.c -- */

/* Reads the parameters: the protocol's own, and the fields of the table, into a struct of it. */
bool oip_read_parameters(struct call *call, const struct field_table *table, void *into,
                         struct fault *fault);

/* Entry number b of an array whose first dimension is a batch. */
struct array oip_entry(const struct array *array, int64_t b);

/* Allocates count items, all zero. False, with a fault, where there is no memory or count is more
 * than a request may have. */
bool oip_make_items(struct call *call, int64_t count, struct fault *fault);

/* A fault of the plan points to a field of attention, as "/query". Makes the pointer that of the
 * input or parameter. */
void oip_explain(const struct call *call, struct fault *fault);

/* Brings the results into the datatype that they have in the answer. */
bool oip_finish(struct call *call, struct fault *fault);

/* ------------------------------------------------------ oip_sequence.c -- */

/* Reads the parameters of the request, and finds the session of a sequence that goes on. */
bool oip_sequence_read(struct call *call, struct fault *fault);

/* When the request has its items, for one of a sequence: begins it where it starts, and makes the
 * call one over its session. */
bool oip_sequence_take(struct call *call, struct fault *fault);

/* For the operation's drop. */
void oip_sequence_drop(struct call *call);

#endif
