/* oip_body.h - the small JSON bodies of /v2: an object, or nothing at all. */
#ifndef ATTND_OIP_BODY_H
#define ATTND_OIP_BODY_H

#include "http/http.h"
#include "text/json.h"

/* The most that is read on a connection's thread. */
enum { OIP_BODY_BYTES_MAX = 65536 };

/* Reads bytes as an object. root is NULL where there are none; json_free() either way. */
bool oip_body_read(struct json_document *document, struct byte_slice bytes, struct fault *fault);

/* Whether the Content-Type allows for it: bytes that nothing more is said of are JSON here, which
 * is what clients on aiohttp send. Else false, with a fault. */
bool oip_body_may_be_json(const struct exchange *exchange, struct fault *fault);

/* The same for an exchange's own body, which has to be JSON and short. */
bool oip_body_take(struct json_document *document, struct exchange *exchange, struct fault *fault);

/* A member that is true or false; absent leaves *value. name is the key and, with a '/' before it,
 * the pointer. */
bool oip_body_bool(const cJSON *object, const char *name, bool *value, struct fault *fault);

/* Sets the fault of a member that is not what it has to be. Returns false. */
bool oip_body_wrong(const cJSON *member, const char *expected, struct fault *fault);

#endif
