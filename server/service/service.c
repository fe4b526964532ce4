/* service.c - see service.h. */
#include "service/service.h"

#include "access/access_account.h"
#include "base/clock.h"
#include "watch/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool service_accepts(struct service *service, struct fault *fault)
{
    if (atomic_load(&service->state) == SERVICE_LOADING)
        return fault_set(fault, FAULT_LOADING, "the models are being loaded");
    return true;
}

static bool may_change(const struct service *service, const char *what, struct fault *fault)
{
    return service->config->model_control == MODEL_CONTROL_EXPLICIT
           || fault_set(fault, FAULT_FORBIDDEN,
                        "%s not changed over HTTP without --model-control=explicit", what);
}

bool service_may_change_models(struct service *service, struct fault *fault)
{
    return service_accepts(service, fault) && may_change(service, "models are", fault);
}

bool service_may_change_logging(const struct service *service, struct fault *fault)
{
    return may_change(service, "what is logged is", fault);
}

bool service_is_json(const struct exchange *exchange)
{
    const char *type = exchange_body_type(exchange);
    return !type[0] || strcasecmp(type, "application/json") == 0
           || strcasecmp(type, "application/x-www-form-urlencoded") == 0;
}

bool service_takes_json(const struct exchange *exchange, const char *types, struct fault *fault)
{
    if (service_is_json(exchange))
        return true;
    return fault_set(fault, FAULT_CONTENT_TYPE, "Content-Type is '%.60s'; expected %s",
                     exchange_body_type(exchange), types);
}

bool service_read_deadline(const struct service *service, const struct exchange *exchange,
                           int64_t *deadline_ns, struct fault *fault)
{
    int64_t timeout_ns = service->config->timeout_ns;
    const char *header = exchange_header(exchange, HTTP_HEADER_TIMEOUT_MS);
    if (header) {
        char *end;
        const double timeout_ms = strtod(header, &end);
        const bool is_decimal = strspn(header, "0123456789.eE+- \t") == strlen(header);
        if (end == header || end[strspn(end, " \t")] || !is_decimal || !(timeout_ms > 0)
            || !isfinite(timeout_ms))
            return fault_set(fault, FAULT_OPTION,
                             "X-Timeout-Ms is '%.40s'; expected a number above 0", header);
        if (timeout_ms * 1e6 < (double)timeout_ns)
            timeout_ns = (int64_t)(timeout_ms * 1e6);
    }
    *deadline_ns = exchange_started_ns(exchange) + timeout_ns;
    return true;
}

bool service_has_time(const struct exchange *exchange, struct fault *fault)
{
    struct access_quota *quota = exchange_quota(exchange);
    return !quota || access_quota_has_time(quota, clock_now_ns(), fault);
}

void service_check_outcome(enum job_outcome outcome, struct fault *fault)
{
    if (outcome == JOB_DEADLINE) {
        fault_set(fault, FAULT_DEADLINE, "the time that the request may take has passed");
        metrics_refused("deadline");
    } else if (outcome == JOB_LEFT) {
        fault_set(fault, FAULT_LEFT, "the client left");
    } else if (outcome == JOB_CANCELLED) {
        fault_set(fault, FAULT_DRAINING, "the daemon is stopping");
        metrics_refused("draining");
    }
}

bool service_refuse_overloaded(int retry_after_s, struct fault *fault)
{
    metrics_refused("overloaded");
    fault_set(fault, FAULT_OVERLOADED, "the queue is full; try again in %d s", retry_after_s);
    fault->retry_after_s = retry_after_s;
    return false;
}

/* Results take at most half of an answer's bytes (a float is 4 bytes, its text counts as 16);
 * projections may be wider than their inputs. */
size_t service_request_bytes_max(const struct config *config)
{
    const size_t bytes_max = 2 * config->answer_bytes_max + 16 * config->body_bytes_max;
    return bytes_max < memory_budget_request_bytes_max() ? bytes_max
                                                         : memory_budget_request_bytes_max();
}
