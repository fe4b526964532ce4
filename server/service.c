/* service.c - see service.h. */
#include "service.h"

#include <string.h>
#include <strings.h>

bool service_accepts(struct service *service, struct fault *fault)
{
    if (atomic_load(&service->state) == SERVICE_LOADING)
        return fault_set(fault, FAULT_LOADING, "the models are being loaded");
    return true;
}

bool service_takes_json(const struct exchange *exchange, struct fault *fault)
{
    const char *type = exchange_body_type(exchange);
    if (!type[0] || strcasecmp(type, "application/json") == 0
        || strcasecmp(type, "application/x-www-form-urlencoded") == 0)
        return true;
    return fault_set(fault, FAULT_CONTENT_TYPE,
                     "Content-Type is '%.60s'; expected application/json", type);
}

/* Results are half an answer's bytes at the most (a float is 4 bytes, its text
 * counts as 16); projections may be wider than what came in. */
size_t service_request_bytes_max(const struct config *config)
{
    return 2 * config->answer_bytes_max + 16 * config->body_bytes_max;
}
