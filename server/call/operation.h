/* SPDX-License-Identifier: Apache-2.0 */
/* operation.h - an operation: how the body of a call becomes what is computed, and what its answer
 * says.
 *
 * begin runs on the connection thread, all else on a worker. A function that fails sets the fault.
 */
#ifndef ATTND_OPERATION_H
#define ATTND_OPERATION_H

#include "call/call.h"
#include "formats/format.h"
#include "formats/writer.h"

struct operation {
    const struct call_kind *kind; /* what it is computed by; NULL: read makes another operation of
                                     the call */
    const struct format *const *formats; /* of bodies and answers, JSON first and NULL last; NULL:
                                            begin reads the headers */
    const struct field_table *address;   /* whose fields an address may have (call_formats.h) */

    /* What the call needs of the exchange beside its body. NULL: nothing. */
    bool (*begin)(struct call *call, const struct exchange *exchange, struct fault *fault);

    /* Reads the body into the request, by call->form. Where it makes another operation of the call,
     * that one reads on, with the work of its kind. */
    bool (*read)(struct call *call, struct fault *fault);

    /* Puts the fault of a plan in the words of the body. NULL: they are the same. */
    void (*explain)(const struct call *call, struct fault *fault);

    /* Brings the results into the form that the answer has. NULL: they are in it. */
    bool (*finish)(struct call *call, struct fault *fault);

    /* Says the members of the answer. NULL: finish has written it. */
    void (*say)(const struct call *call, struct writer *writer);

    /* Frees what begin and read took; may be called twice. NULL: nothing to do. */
    void (*drop)(struct call *call);
};

/* In a handler: takes the body, and answers when all is computed. */
void operation_handle(struct exchange *exchange, const struct operation *operation);

/* Runs a request of this body, which is not freed, on the caller's thread. Drops the answer. */
bool operation_try(struct service *service, const struct operation *operation,
                   struct byte_slice body, struct fault *fault);

/* The parts of a call_kind that all operations share. The arena is the request's. */
bool operation_begin(struct call *call, struct arena *arena, const struct exchange *exchange,
                     struct fault *fault);
bool operation_read(struct call *call, struct fault *fault);
bool operation_write(struct call *call, struct fault *fault);
void operation_drop(struct call *call);

/* Drops it, and all memory of the call with it. */
void operation_free(struct call *call);

/* Reads the body into a struct of this table. */
bool operation_read_fields(struct call *call, const struct field_table *table, void *into,
                           struct fault *fault);

/* Reads the body into items, in the arena, by items->target.table and what items says besides. A
 * fault of an item of a list is its own; false for a fault of the whole body. The body must stay
 * until the request has been computed where its format keeps bytes, and is dropped elsewhere. */
bool operation_read_items(struct call *call, struct field_items *items, struct fault *fault);

/* What operations take: JSON; it and safetensors; these and .npy. */
extern const struct format *const operation_formats_json[], *const operation_formats_tensors[],
                                                                *const operation_formats_npy[];

/* The format of the answer. */
const struct format *operation_answer(const struct call *call);

#endif
