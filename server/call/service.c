/* SPDX-License-Identifier: Apache-2.0 */
/* service.c - checks that many handlers make; kernels by the flag, the CPU and what Linux permits;
 * the keys. */
#include "call/service.h"

#include "access/access_account.h"
#include "access/access_keys.h"
#include "base/clock.h"
#include "formats/regions.h"
#include "host/config.h"
#include "host/config_options.h"
#include "host/config_value.h"
#include "host/process_start.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

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

static bool may_change(const struct service *service, const char *what, const char *else_by,
                       struct fault *fault)
{
    return service->config->model_control == MODEL_CONTROL_EXPLICIT
           || fault_set(fault, FAULT_FORBIDDEN,
                        "%s not changed over HTTP without --model-control=explicit%s", what,
                        else_by);
}

bool service_may_change_models(struct service *service, struct fault *fault)
{
    const char *signal =
        service->config->models ? "; SIGHUP reads the models' directory again" : "";
    return service_accepts(service, fault) && may_change(service, "models are", signal, fault);
}

bool service_may_change_logging(const struct service *service, struct fault *fault)
{
    return may_change(service, "what is logged is", "", fault);
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

/* ---------------------------------------------------------------- kernels -- */

/* Takes the kernels on tiles if this CPU has them and Linux lets this process use them. False, with
 * a fault, if --kernels wants no others and Linux does not. */
static bool choose_tiles(struct service *service, struct fault *fault)
{
    const struct attn_kernels *amx = attn_kernels_amx();
    const char *wanted = service->config->kernels;
    if (!amx || (wanted && strcmp(attn_kernels_name(amx), wanted) != 0))
        return true;
    const char *reason = tiles_refused();
    if (!reason) {
        service->kernels = amx;
        return true;
    }
    if (wanted)
        return fault_set(fault, FAULT_OPTION, "--kernels is amx, and tiles may not be used: %s",
                         reason);
    log_line(LOG_WARNING, "tiles (AMX) are not used", LOG_STRING("reason", reason));
    return true;
}

static bool choose_table(struct service *service, struct fault *fault)
{
    const struct attn_kernels *const *tables = attn_kernels_available();
    const char *wanted = service->config->kernels;
    if (!choose_tiles(service, fault))
        return false;
    if (service->kernels)
        return true;
    service->kernels = tables[0];
    for (; *tables; tables++)
        if (!wanted || strcmp(attn_kernels_name(*tables), wanted) == 0) {
            service->kernels = *tables;
            return true;
        }
    const char *names = config_option_find("kernels", strlen("kernels"))->value;
    if (config_value_choice(wanted, names) < 0)
        return fault_set(fault, FAULT_OPTION, "there are no kernels '%.60s'; expected %s", wanted,
                         names);
    return fault_set(fault, FAULT_OPTION, "this CPU cannot run the kernels '%s'; its best are %s",
                     wanted, attn_kernels_name(service->kernels));
}

bool service_choose_kernels(struct service *service, struct fault *fault)
{
    if (!choose_table(service, fault))
        return false;
    service->kernels = blas_kernels(service->kernels, &service->blas_use);
    return true;
}

/* ------------------------------------------------------------------- keys -- */

bool service_open_keys(struct service *service, struct fault *fault)
{
    const char *path = service->config->keys;
    if (!path || access_keys_open(&service->keys, path, fault))
        return true;
    return fault_set(fault, fault->code, "--keys: %s", fault->message);
}

void service_log_keys(const struct service *service)
{
    if (service->keys)
        log_line(LOG_INFO, "keys", LOG_STRING("file", service->config->keys),
                 LOG_NUMBER("keys", access_keys_count(service->keys)));
}

/* Who asked is not known of a signal. */
static void audit_keys(const char *outcome)
{
    log_line(LOG_INFO, "audit", LOG_STRING("who", "SIGHUP"), LOG_STRING("what", "keys"),
             LOG_STRING("outcome", outcome));
}

void service_read_keys_again(struct service *service)
{
    struct access_keys_change change;
    struct fault fault;
    if (!service->keys)
        return;
    if (access_keys_reload(service->keys, &change, &fault)) {
        log_line(LOG_INFO, "keys read again", LOG_NUMBER("keys", change.count),
                 LOG_NUMBER("added", change.added), LOG_NUMBER("removed", change.removed));
        if (service->regions)
            regions_unregister_lost(service->regions, service->keys);
        audit_keys("done");
    } else {
        log_line(LOG_WARNING, "keys not read again, those of before stay",
                 LOG_STRING("reason", fault.message));
        audit_keys("refused");
    }
}
