/* SPDX-License-Identifier: Apache-2.0 */
/* oip_body.h - the small JSON bodies under /v2: an object, or nothing at all. The model repository,
 * logging and shared memory take such bodies. */
#ifndef ATTND_OIP_BODY_H
#define ATTND_OIP_BODY_H

#include "http/http.h"
#include "json/json.h"

/* The largest body, because it is read on a connection's thread. */
enum { OIP_BODY_BYTES_MAX = 65536 };

/* Reads bytes as an object; root is NULL where there are no bytes. The caller calls json_free() in
 * either case. */
bool oip_body_read(struct json_document *document, struct byte_slice bytes, struct fault *fault);

/* Whether the Content-Type allows JSON; else false, with a fault. application/octet-stream allows
 * it too, because clients on aiohttp send it with JSON. */
bool oip_body_may_be_json(const struct exchange *exchange, struct fault *fault);

/* Takes the exchange's own body, unpacks it and reads it as above. False with a fault where it is
 * not JSON, or is longer than OIP_BODY_BYTES_MAX. */
bool oip_body_take(struct json_document *document, struct exchange *exchange, struct fault *fault);

/* Reads a member that is true or false; where it is absent *value stays as it is. name is the
 * member's key, and "/name" the pointer of a fault. */
bool oip_body_bool(const cJSON *object, const char *name, bool *value, struct fault *fault);

/* Sets the fault of a member of a wrong type. Returns false. */
bool oip_body_wrong(const cJSON *member, const char *expected, struct fault *fault);

#endif
