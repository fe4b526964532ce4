/* config_replica.h - the name of this daemon among its replicas. */
#ifndef ATTND_CONFIG_REPLICA_H
#define ATTND_CONFIG_REPLICA_H

#include "base/fault.h"
#include "config/config.h"

/* Sets config->replica_name: --replica, or else the first label of the host's name, with "-" for
 * what a name may not have. False, with the fault: --replica is not a name. */
bool config_replica_settle(struct config *config, struct fault *fault);

#endif
