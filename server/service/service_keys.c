/* service_keys.c - see service_keys.h. */
#include "service/service_keys.h"

#include "access/access_keys.h"
#include "config/config.h"
#include "regions/regions.h"
#include "watch/log.h"

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
