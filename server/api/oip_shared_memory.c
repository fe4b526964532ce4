/* SPDX-License-Identifier: Apache-2.0 */
/* oip_shared_memory.c - the shared memory extension: which regions there are, one more, one or all
 * less.
 *
 * Regions of CUDA are those of a server without GPUs: there are none to list or to take out, which
 * clients ask for before they begin, and none can be registered. Source: Triton Inference Server,
 * docs/protocol/extension_shared_memory.md, and src/http_server.cc for the words of faults. */
#include "api/oip_handlers.h"

#include "api/oip_body.h"
#include "call/service.h"
#include "formats/regions.h"
#include "json/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ----------------------------------------------------------------- answers -- */

struct listing {
    struct text text;
    const char *name; /* of the only region that is listed; NULL: all are */
    bool some;
};

static void write_region(void *context, const struct region *region)
{
    struct listing *listing = context;
    if (listing->name && strcmp(listing->name, region->name) != 0)
        return;
    text_raw(&listing->text, listing->some ? ",{\"name\":" : "{\"name\":");
    text_string(&listing->text, region->name);
    text_raw(&listing->text, ",\"key\":");
    text_string(&listing->text, region->key);
    text_format(&listing->text, ",\"offset\":%" PRIu64 ",\"byte_size\":%" PRIu64 "}",
                region->offset, region->size);
    listing->some = true;
}

/* Lists one region, or all where name is NULL. False where there is none of that name. */
static bool list(struct exchange *exchange, const char *name)
{
    const struct service *service = exchange_context(exchange);
    struct listing listing = { .name = name };
    text_init(&listing.text, service->config->answer_bytes_max);
    text_raw(&listing.text, "[");
    if (service->regions)
        regions_each(service->regions, exchange_key(exchange), write_region, &listing);
    text_raw(&listing.text, "]\n");
    if (name && !listing.some) {
        text_free(&listing.text);
        return false;
    }
    exchange_reply_text(exchange, 200, "application/json", &listing.text);
    return true;
}

static void reply_done(struct exchange *exchange, const char *name, const char *what)
{
    struct text text;
    text_init(&text, 4096);
    text_raw(&text, "{");
    if (name) {
        text_raw(&text, "\"name\":");
        text_string(&text, name);
        text_raw(&text, ",");
    }
    text_key(&text, what);
    text_raw(&text, "true}\n");
    exchange_reply_text(exchange, 200, "application/json", &text);
}

static void refuse_unknown(struct exchange *exchange, const char *kind)
{
    struct fault fault;
    fault_set(&fault, FAULT_NOT_FOUND, "Unable to find %s shared memory region: '%.128s'", kind,
              exchange_param(exchange, 0));
    exchange_fail(exchange, &fault);
}

/* ------------------------------------------------------------------ requests -- */

static bool is_on(struct service *service, struct fault *fault)
{
    return service->regions
           || fault_set(fault, FAULT_FORBIDDEN,
                        "Client shared memory is disabled; the operator allows it with "
                        "--shared-memory-prefix");
}

/* Takes the body of a request that has nothing to say in it. */
static bool take_empty(struct exchange *exchange, struct fault *fault)
{
    struct json_document document;
    const bool good = oip_body_take(&document, exchange, fault);
    json_free(&document);
    return good && is_on(exchange_context(exchange), fault);
}

/* One that is absent leaves *value. */
static bool read_bytes(const cJSON *object, const char *name, uint64_t *value, struct fault *fault)
{
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, name);
    char pointer[32];
    if (!member || json_whole(member, value))
        return true;
    if (!cJSON_IsNumber(member))
        return oip_body_wrong(member, "a number of bytes", fault);
    snprintf(pointer, sizeof pointer, "/%s", name);
    return fault_set_at(fault, pointer, FAULT_OPTION,
                        "%s is %.17g; expected an integer from 0 and below 2^53", name,
                        member->valuedouble);
}

static bool require(const cJSON *object, const char *name, struct fault *fault)
{
    char pointer[32];
    if (cJSON_GetObjectItemCaseSensitive(object, name))
        return true;
    snprintf(pointer, sizeof pointer, "/%s", name);
    return fault_set_at(fault, pointer, FAULT_FIELD,
                        "Shared memory register request has no '%s' field", name);
}

static bool register_region(struct exchange *exchange, const cJSON *request, struct fault *fault)
{
    const struct service *service = exchange_context(exchange);
    uint64_t offset = 0, size = 0;
    if (!require(request, "key", fault) || !require(request, "byte_size", fault))
        return false;
    const cJSON *key = cJSON_GetObjectItemCaseSensitive(request, "key");
    if (!cJSON_IsString(key))
        return oip_body_wrong(key, "a string", fault);
    return read_bytes(request, "offset", &offset, fault)
           && read_bytes(request, "byte_size", &size, fault)
           && regions_register(service->regions, exchange_key(exchange),
                               exchange_param(exchange, 0), key->valuestring, offset, size, fault);
}

void oip_shared_memory_register(struct exchange *exchange)
{
    struct json_document document;
    struct fault fault;
    const bool good = oip_body_take(&document, exchange, &fault)
                      && is_on(exchange_context(exchange), &fault)
                      && register_region(exchange, document.root, &fault);
    json_free(&document);
    if (good)
        reply_done(exchange, exchange_param(exchange, 0), "register");
    else
        exchange_fail(exchange, &fault);
}

void oip_shared_memory_unregister_one(struct exchange *exchange)
{
    const struct service *service = exchange_context(exchange);
    struct fault fault;
    if (!take_empty(exchange, &fault)) {
        exchange_fail(exchange, &fault);
        return;
    }
    regions_unregister(service->regions, exchange_key(exchange), exchange_param(exchange, 0));
    reply_done(exchange, exchange_param(exchange, 0), "unregister");
}

void oip_shared_memory_unregister(struct exchange *exchange)
{
    const struct service *service = exchange_context(exchange);
    struct fault fault;
    if (!take_empty(exchange, &fault)) {
        exchange_fail(exchange, &fault);
        return;
    }
    regions_unregister_all(service->regions, exchange_key(exchange));
    reply_done(exchange, NULL, "unregister");
}

void oip_shared_memory_status(struct exchange *exchange)
{
    list(exchange, NULL);
}

void oip_shared_memory_status_one(struct exchange *exchange)
{
    if (!list(exchange, exchange_param(exchange, 0)))
        refuse_unknown(exchange, "system");
}

/* -------------------------------------------------------------------- of CUDA -- */

void oip_cuda_memory_status(struct exchange *exchange)
{
    struct text text;
    text_init(&text, 64);
    text_raw(&text, "[]\n");
    exchange_reply_text(exchange, 200, "application/json", &text);
}

void oip_cuda_memory_status_one(struct exchange *exchange)
{
    refuse_unknown(exchange, "cuda");
}

void oip_cuda_memory_register(struct exchange *exchange)
{
    struct fault fault;
    if (take_empty(exchange, &fault))
        fault_set(&fault, FAULT_OPTION,
                  "failed to register CUDA shared memory region: '%.128s', GPUs not supported",
                  exchange_param(exchange, 0));
    exchange_fail(exchange, &fault);
}

void oip_cuda_memory_unregister(struct exchange *exchange)
{
    struct fault fault;
    const char *name = exchange_param(exchange, 0);
    if (take_empty(exchange, &fault))
        reply_done(exchange, name[0] ? name : NULL, "unregister");
    else
        exchange_fail(exchange, &fault);
}
