/* service_kernels.c - which table of kernels computes attention. */
#include "config/config_options.h"
#include "config/config_value.h"
#include "host/process_start.h"
#include "service/service.h"
#include "watch/log.h"

#include <string.h>

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

bool service_choose_kernels(struct service *service, struct fault *fault)
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
