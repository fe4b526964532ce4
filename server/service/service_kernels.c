/* service_kernels.c - which table of kernels computes attention. */
#include "config/config_options.h"
#include "config/config_value.h"
#include "service/service.h"

#include <string.h>

bool service_choose_kernels(struct service *service, struct fault *fault)
{
    const struct attn_kernels *const *tables = attn_kernels_available();
    const char *wanted = service->config->kernels;
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
