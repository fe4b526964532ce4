/* SPDX-License-Identifier: Apache-2.0 */
/* oip_server.c - the server as a whole: GET /v2, and the names of its models.
 *
 * Clients look extensions up in the list, so it holds the ones that work and nothing else. */
#include "api/oip_handlers.h"

#include "base/version.h"
#include "call/model_access.h"
#include "call/service.h"
#include "json/text.h"

static const char *const EXTENSIONS[] = {
    "model_repository",
    "model_repository(unload_dependents)",
    "model_configuration",
    "statistics",
    "logging",
    "binary_tensor_data",
    "parameters",
    "classification",
    "schedule_policy",
};

void oip_server_metadata(struct exchange *exchange)
{
    const struct service *service = exchange_context(exchange);
    struct text text;
    text_init(&text, 4096);
    text_raw(&text, "{\"name\":\"attnd\",\"version\":");
    text_string(&text, ATTND_VERSION);
    text_raw(&text, ",\"extensions\":[");
    for (size_t i = 0; i < sizeof EXTENSIONS / sizeof EXTENSIONS[0]; i++) {
        text_raw(&text, i > 0 ? "," : "");
        text_string(&text, EXTENSIONS[i]);
    }
    if (service->regions)
        text_raw(&text, ",\"system_shared_memory\"");
    text_raw(&text, "]}\n");
    exchange_reply_text(exchange, 200, "application/json", &text);
}

struct names {
    struct text text;
    bool some;
};

static void write_name(void *context, const struct model_listing *listing)
{
    struct names *names = context;
    if (!listing->model || !listing->is_default)
        return;
    text_raw(&names->text, names->some ? "," : "");
    text_string(&names->text, listing->name);
    names->some = true;
}

void oip_server_models(struct exchange *exchange)
{
    struct service *service = exchange_context(exchange);
    struct fault fault;
    struct names names = { .some = false };
    if (!service_accepts(service, &fault)) {
        exchange_fail(exchange, &fault);
        return;
    }
    text_init(&names.text, service->config->answer_bytes_max);
    text_raw(&names.text, "{\"models\":[");
    const struct model_view view = model_access_view(exchange_key(exchange));
    model_store_each(service->store, &view, write_name, &names);
    text_raw(&names.text, "]}\n");
    exchange_reply_text(exchange, 200, "application/json", &names.text);
}
