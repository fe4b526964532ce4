/* SPDX-License-Identifier: Apache-2.0 */
/* oip_body.c - see oip_body.h. */
#include "api/oip_body.h"

#include "call/service.h"
#include "formats/coding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool oip_body_read(struct json_document *document, struct byte_slice bytes, struct fault *fault)
{
    const struct json_options options = { .nonfinite_allowed = false };
    *document = (struct json_document){ .root = NULL };
    if (bytes.size == 0)
        return true;
    if (!json_read(document, bytes.data, bytes.size, &options, fault))
        return false;
    return cJSON_IsObject(document->root)
           || fault_set(fault, FAULT_TYPE, "the body is %s; expected an object",
                        json_kind(NULL, document->root));
}

bool oip_body_may_be_json(const struct exchange *exchange, struct fault *fault)
{
    return strcasecmp(exchange_body_type(exchange), "application/octet-stream") == 0
           || service_takes_json(exchange, "application/json or application/octet-stream", fault);
}

bool oip_body_take(struct json_document *document, struct exchange *exchange, struct fault *fault)
{
    struct byte_slice body = exchange_take_body(exchange);
    void *memory = (void *)body.data;
    *document = (struct json_document){ .root = NULL };
    bool good = oip_body_may_be_json(exchange, fault);
    if (good && body.size > OIP_BODY_BYTES_MAX)
        good = fault_set(fault, FAULT_TOO_LARGE, "the body is %zu bytes; at most %d are taken here",
                         body.size, OIP_BODY_BYTES_MAX);
    good = good
           && coding_unpack(exchange_body_coding(exchange), &body, &memory, OIP_BODY_BYTES_MAX,
                            exchange_memory(exchange), fault)
           && oip_body_read(document, body, fault);
    free(memory);
    return good;
}

bool oip_body_wrong(const cJSON *member, const char *expected, struct fault *fault)
{
    char pointer[FAULT_POINTER_MAX];
    snprintf(pointer, sizeof pointer, "/%s", member->string);
    return fault_set_at(fault, pointer, FAULT_TYPE, "%s is %s; expected %s", member->string,
                        json_kind(NULL, member), expected);
}

bool oip_body_bool(const cJSON *object, const char *name, bool *value, struct fault *fault)
{
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!member)
        return true;
    if (!cJSON_IsBool(member))
        return oip_body_wrong(member, "a boolean", fault);
    *value = cJSON_IsTrue(member);
    return true;
}
