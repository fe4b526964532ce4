/* SPDX-License-Identifier: Apache-2.0 */
/* format.h - formats: bytes to messages and results to bytes, for whatever operation.
 *
 * A format knows no operation and no model. It gets the table of fields as data, for what the bytes
 * do not say: which texts of a format without types are strings (__metadata__, the parameters of an
 * address), which list has tensors in its items, and which field a body without names is (.npy). */
#ifndef ATTND_FORMAT_H
#define ATTND_FORMAT_H

#include "fields/field.h"
#include "formats/safetensors.h"

struct writer_kind;

/* A body and what its message refers to. */
struct format_body {
    const struct format *format;
    struct byte_slice bytes;
    struct arena *arena;                    /* owns the message */
    struct memory_share *memory;            /* of the request, for documents; NULL: not counted */
    bool nonfinite_allowed;                 /* NaN and infinities in JSON */
    bool nul_is_kept;                       /* U+0000 in strings of JSON; else it is a fault */
    const struct safetensors_pair *address; /* [address_count]: parameters of the address, where the
                                               body has no room for fields */
    int address_count;
    struct oip_request *oip; /* of the protocol (oip.h); NULL: another format */

    /* Set by the format; format_body_free() frees it. */
    struct json_document *documents; /* [document_count], in the arena */
    int64_t document_count;
    struct safetensors *file; /* in the arena; NULL: none */
};

struct format {
    const char *content_type;
    bool keeps_bytes;      /* the message refers to the bytes of the body */
    bool reads_address;    /* the body has no room for fields: they are parameters of the address */
    const char *one_array; /* what holds no more than one array: "an .npy file"; NULL: no bound */
    bool lacks_bf16;
    size_t number_bytes; /* of a number in an answer, at most; 0: it is text */
    const struct writer_kind *writer;

    /* Makes a message of the body. False, with the fault. */
    bool (*read)(struct format_body *body, const struct field_table *table, struct message *message,
                 struct fault *fault);
};

extern const struct format format_json, format_safetensors, format_npy;

/* The members of an object of a document, as a message in the arena. */
bool format_json_message(const struct json_document *document, const cJSON *object,
                         struct arena *arena, struct message *message, struct fault *fault);

/* Reads texts without types, which came in a place such as "__metadata__", into values of the
 * message, which has room for them. Their documents stay as long as those that the body has.
 * "format" is ignored: libraries that write such files add it by themselves, and it means nothing
 * here. */
bool format_read_texts(struct format_body *body, const struct field_table *table, const char *place,
                       const struct safetensors_pair *pairs, int64_t count, struct message *message,
                       struct fault *fault);

void format_body_free(struct format_body *body);

#endif
