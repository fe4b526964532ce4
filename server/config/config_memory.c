/* config_memory.c - see config_memory.h. */
#include "config/config_memory.h"

#include "base/memory_budget.h"
#include "host/resources.h"

void config_memory_settle(struct config *config)
{
    const size_t granted = resources_memory_bytes();
    if (config->memory_bytes_max == 0)
        config->memory_bytes_max = granted / 2;
    if (config->trace_bytes_max == 0)
        config->trace_bytes_max = granted / 8;
    if (config->session_bytes_max == 0)
        config->session_bytes_max = granted / 4;
    memory_budget_limit(config->memory_bytes_max);
    if (config->body_bytes_max > memory_budget_body_bytes_max())
        config->body_bytes_max = memory_budget_body_bytes_max();
}
