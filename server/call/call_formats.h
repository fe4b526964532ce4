/* SPDX-License-Identifier: Apache-2.0 */
/* call_formats.h - which formats the body and the answer of a call have, by its headers. */
#ifndef ATTND_CALL_FORMATS_H
#define ATTND_CALL_FORMATS_H

#include "call/call.h"
#include "formats/format.h"
#include "http/http.h"

/* In begin of a call. formats, which NULL ends, are those of the path; JSON is the first. The body
 * has the format of Content-Type; the answer has one that Accept names, the last of formats that is
 * named, else that of the body. Where the format has no room for fields, body also takes those that
 * the table allows in the address. The fault of another Content-Type names the types of formats. */
bool call_formats_choose(const struct exchange *exchange, const struct format *const *formats,
                         const struct field_table *table, struct arena *arena,
                         struct format_body *body, const struct format **answer,
                         struct fault *fault);

/* Reads the body of a call as a message. Its arena, and what JSON may have, are set; without a
 * format it is JSON. */
bool call_formats_read(struct call *call, struct format_body *body, const struct field_table *table,
                       struct message *message, struct fault *fault);

#endif
