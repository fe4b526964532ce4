/* config_memory.h - the bounds of memory that flags leave to the daemon. */
#ifndef ATTND_CONFIG_MEMORY_H
#define ATTND_CONFIG_MEMORY_H

#include "config/config.h"

/* Sets what is not given from what the machine grants, and one budget for all requests
 * (memory_budget.h). Lowers the bound of one body so that it fits in. */
void config_memory_settle(struct config *config);

#endif
